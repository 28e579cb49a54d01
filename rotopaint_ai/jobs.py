"""Jobs and events: what goes into the engine and what comes out of it, as plain values and one JSON object per line.

A job is checked at the door. Events are the only channel from running work to whoever watches it: the command line,
the panel, Nuke and a farm read the same stream (`docs/events.md` lists every kind and field).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from rotopaint_ai import fills
from rotopaint_ai.checked import check
from rotopaint_ai.errors import CancelledError, UsageError
from rotopaint_ai.frames import parse_frames

EVENTS_VERSION = 1

Device = Literal["auto", "cpu", "cuda", "tensorrt", "directml", "coreml", "openvino", "migraphx"]
EventKind = Literal["started", "tracked", "frame", "progress", "note", "warning", "error", "finished", "cancelled"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, with its facts as JSON values."""

    kind: EventKind
    facts: Mapping[str, Any]

    def line(self) -> str:
        """The event as one line of JSON, without the line's end."""
        return json.dumps({"event": self.kind, "version": EVENTS_VERSION, **self.facts}, allow_nan=False)


Sink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The sink of a job that nobody watches."""


def warning(message: str, *, frame: int | None = None) -> Event:
    """A warning event; work goes on."""
    return Event("warning", {"message": message} if frame is None else {"message": message, "frame": frame})


def notice(message: str, *, is_warning: bool) -> Event:
    """A note event, which only says what was done; a warning event where a person ought to look."""
    return warning(message) if is_warning else Event("note", {"message": message})


RESUMES = "the same command with --resume goes on from here"
BEGINS_ANEW = "the same command begins anew"


class Cancel:
    """A flag that somebody else may raise to stop work; safe to raise from a signal handler. `hint`: how to go on.

    A plain value: `threading.Event` waits for itself when a handler interrupts it while it is set.
    """

    def __init__(self, hint: str = RESUMES) -> None:
        self._requested, self._hint = False, hint

    def request(self) -> None:
        """Ask the work to stop after the frames that it is just writing."""
        self._requested = True

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._requested

    def check(self) -> None:
        """Raises CancelledError when somebody asked."""
        if self.requested:
            raise CancelledError(f"stopped because somebody asked; {self._hint}")


MOST_THREADS = 256


@dataclass(frozen=True, slots=True)
class RunJob:
    """The whole line on one plate: landmarks, shapes, mattes, clean plate, exchange files and report.

    `crops` are texts as typed on the command line (`X,Y,W,H`, `FRAME:X,Y,W,H` or `auto`); none: those of `project`.
    `patch` also writes the paint as a layer of its own. `threads` 0 uses every core. `key_tolerance_px` 0 keeps one key
    per frame; above 0 keys are reduced to that curve deviation. `project` is a project file whose human keys and seam
    settings stand, and that takes the results, unless it is only read (`leave_project`). `overwrite` takes over a
    folder of another plate or job, and files in it that we did not write. `force` paints what the landmark model doubts
    to be a face. `face` is the one of the project's shot that is taken in hand; a new name is another face.
    """

    plates: str
    out: str
    crops: tuple[str, ...]
    model: str | None = None
    frames: str | None = None
    exports: tuple[str, ...] = ("nuke",)
    clean: bool = True
    method: str = fills.DEFAULT
    patch: bool = False
    device: Device = "auto"
    threads: int = 0
    colourspace: str | None = None
    key_tolerance_px: float = 0.0
    resume: bool = False
    project: str | None = None
    leave_project: bool = False
    overwrite: bool = False
    force: bool = False
    face: str | None = None

    def __post_init__(self) -> None:
        if self.face is not None and (self.project is None or self.leave_project):
            raise UsageError("--face: is taken in hand in a project; add --project FILE, without --leave-project")
        if not self.crops and self.project is None:
            raise UsageError("--crop is missing: give the face's box as X,Y,W,H in plate pixels, or 'auto'")
        check_threads(self.threads)
        if not 0 <= self.key_tolerance_px < float("inf"):
            raise UsageError(f"--reduce-keys {self.key_tolerance_px}: wanted 0 or more pixels of curve deviation")
        for name, given, choices in (
            ("method", fills.current(self.method), fills.names()),
            ("device", self.device, get_args(Device)),
        ):
            if given not in choices:
                raise UsageError(f"--{name} {given}: wanted one of {', '.join(choices)}")
        if self.frames is not None:
            parse_frames(self.frames)

    @classmethod
    def from_json(cls, value: Any) -> RunJob:
        """Check a decoded JSON object at the door. Raises UsageError naming the field."""
        return check(value, cls, error=UsageError)

    def to_json(self) -> dict[str, Any]:
        """The job as a JSON object that `from_json` reads back to an equal job."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(asked: int) -> None:
    """Raises UsageError for a number of threads below 0, or so large that their stacks alone would fill the memory."""
    if not 0 <= asked <= MOST_THREADS:
        raise UsageError(f"--threads {asked}: wanted 0 (every core) or a number of threads up to {MOST_THREADS}")
