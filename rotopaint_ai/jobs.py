"""Jobs, the input of the engine, and events, its output: plain values, written as one JSON object per line.

A job is checked when it is created. Events are the only output of running work: the command line, the panel, Nuke and
a farm read the same stream (`docs/events.md` lists every kind and field).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from rotopaint_ai import fills
from rotopaint_ai.errors import CancelledError, UsageError
from rotopaint_ai.frames import parse_frames
from rotopaint_ai.value_checks import check

EVENTS_VERSION = 1

Device = Literal["auto", "cpu", "cuda", "tensorrt", "directml", "coreml", "openvino", "migraphx"]
EventKind = Literal["started", "tracked", "frame", "progress", "note", "warning", "error", "finished", "cancelled"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, with its facts as JSON values."""

    kind: EventKind
    facts: Mapping[str, Any]

    def line(self) -> str:
        """The event as one line of JSON, without a line break."""
        return json.dumps({"event": self.kind, "version": EVENTS_VERSION, **self.facts}, allow_nan=False)


Sink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A sink that ignores all events."""


def warning(message: str, *, frame: int | None = None) -> Event:
    """A warning event; the work continues."""
    return Event("warning", {"message": message} if frame is None else {"message": message, "frame": frame})


def notice(message: str, *, is_warning: bool) -> Event:
    """A note event, which only informs, or a warning event, which a person should look into."""
    return warning(message) if is_warning else Event("note", {"message": message})


RESUMES = "the same command with --resume goes on from here"
BEGINS_ANEW = "the same command begins anew"


class Cancel:
    """A flag by which other code stops the work; safe to set from a signal handler. `hint`: how to go on afterwards.

    It is a plain value, because `threading.Event` deadlocks when a signal handler interrupts its own `set`.
    """

    def __init__(self, hint: str = RESUMES) -> None:
        self._requested, self._hint = False, hint

    def request(self) -> None:
        """Ask the work to stop once the frames in progress are written."""
        self._requested = True

    @property
    def is_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requested

    def check(self) -> None:
        """Raise CancelledError where a stop was requested."""
        if self.is_requested:
            raise CancelledError(f"stopped on request; {self._hint}")


MOST_THREADS = 256


@dataclass(frozen=True, slots=True)
class RunJob:
    """The whole pipeline on one plate: landmarks, shapes, mattes, clean plate, exchange files and report.

    `crops` are texts as on the command line (`X,Y,W,H`, `FRAME:X,Y,W,H` or `auto`); without any, the project's crops
    are used. `patch` also writes the paint as a separate layer. `threads` 0 uses every core. `key_tolerance_px` 0 keeps
    one key per frame; above 0 keys are reduced to that curve deviation. `project` is a project file: its human keys and
    seam settings are kept, and the results are saved in it unless `leave_project` is set. `overwrite` allows writing
    into a folder of another plate or job, and over files that this program did not write. `force` paints also where the
    landmark model doubts that there is a face, and takes other pictures in another folder as the project's shot. `face`
    selects a face of the project's shot; a new name adds a face.
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
            raise UsageError("--face: works only with a project; add --project FILE, without --leave-project")
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
        """The job from a decoded JSON object, checked. Raises UsageError, which names the wrong field."""
        return check(value, cls, error=UsageError)

    def to_json(self) -> dict[str, Any]:
        """The job as a JSON object; `from_json` reads it back to an equal job."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(asked: int) -> None:
    """Raise UsageError for a number of threads below 0, or so large that their stacks would fill the memory."""
    if not 0 <= asked <= MOST_THREADS:
        raise UsageError(f"--threads {asked}: wanted 0 (every core) or a number of threads up to {MOST_THREADS}")
