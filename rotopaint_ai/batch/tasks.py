"""A shot's tasks and what each waits for: track, then ranges of frames side by side, then gather."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rotopaint_ai.batch.jobs_file import Shot
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.pipeline.artist import work_for
from rotopaint_ai.pipeline.plan import choose_frames
from rotopaint_ai.plates.plate import open_plate

Kind = Literal["track", "paint", "gather"]


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a shot that one process does at a time. `needs` are the keys of tasks that must be done before."""

    shot: Shot
    kind: Kind
    frames: FrameRange | None = None
    needs: tuple[str, ...] = ()
    work: str = ""  # what people have done on the shot, where its project says so

    @property
    def key(self) -> str:
        """The task's name in the ledger."""
        return f"{self.shot.name}/{self.kind}" + (f".{self.frames}" if self.frames is not None else "")

    @property
    def fingerprint(self) -> str:
        """Changes with all that decides the task, by people too: done under another fingerprint is not done."""
        facts = [self.shot.job.to_json(), str(self.frames), *([self.work] if self.work else [])]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def tasks_of(shot: Shot) -> tuple[Task, ...]:
    """The tasks of a shot, in an order in which they can be done.

    Raises: PlateError or UsageError for its plates, ProjectError.
    """
    work = work_for(shot.job).fingerprint()
    with open_plate(shot.job.plates, colourspace=shot.job.colourspace) as plate:
        frames, _ = choose_frames(plate, shot.job.frames)
    track = Task(shot, "track")
    paint = tuple(Task(shot, "paint", piece, (track.key,), work) for piece in chunks(frames, shot.chunk))
    return (track, *paint, Task(shot, "gather", None, tuple(task.key for task in paint), work))


def asked_for(tasks: Sequence[Task], shot: str, kind: str, frames: FrameRange | None) -> list[Task] | None:
    """The tasks that a farm asks for; None where the shot has none such.

    A farm may divide frames as it likes: a range stands for the paint tasks that begin in it, so that ranges that are
    all frames together are all tasks together, each once. It may be none.
    """
    same = [task for task in tasks if task.shot.name == shot and task.kind == kind]
    if kind != "paint":
        return same if same and frames is None else None
    pieces = [task.frames for task in same if task.frames is not None]
    if frames is None or not pieces or frames.first < pieces[0].first or frames.last > pieces[-1].last:
        return None
    return [task for task in same if task.frames is not None and task.frames.first in frames]


def chunks(frames: Sequence[int], size: int) -> list[FrameRange]:
    """Ranges that hold all frames, each at most `size` of those on disk."""
    return [FrameRange(part[0], part[-1]) for part in (frames[i : i + size] for i in range(0, len(frames), size))]
