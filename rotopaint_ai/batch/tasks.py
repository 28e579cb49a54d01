"""A shot's tasks and their order: track, then ranges of frames in parallel, then gather."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from rotopaint_ai import __version__
from rotopaint_ai.batch.jobs_file import JobShot
from rotopaint_ai.crops import CropKeys
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.inference.pack import Pack, load_pack
from rotopaint_ai.pipeline.export import check_exports
from rotopaint_ai.pipeline.overrides import inputs_for
from rotopaint_ai.pipeline.plan import choose_frames, code_digest
from rotopaint_ai.plates.plate import Plate, open_plate

TaskKind = Literal["track", "paint", "gather"]
# Fields of a job that the fingerprint leaves out; paths count as written in the jobs file.
_NOT_DECIDING = ("out", "threads", "resume")


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A part of a shot. `needs` are the keys of tasks that must be done first; a task can safely be done twice."""

    shot: JobShot
    kind: TaskKind
    frames: FrameRange | None = None
    needs: tuple[str, ...] = ()
    work: str = ""  # digest of people's work on the shot, from its project
    given: str = ""  # digest of its plates and its pack on disk
    build: str = ""  # digest of the program; empty for a finished shot, which stays finished after an update

    @property
    def key(self) -> str:
        """The task's name, which is also the name of its notes."""
        return f"{self.shot.name}/{self.kind}" + (f".{self.frames}" if self.frames is not None else "")

    @property
    def fingerprint(self) -> str:
        """A hash of all inputs of the task, people's edits included: a task done under another hash is not done.

        It is the same on every machine, whatever the path to the jobs file.
        """
        settings = {name: value for name, value in self.shot.job.to_json().items() if name not in _NOT_DECIDING}
        if settings["face"] is None:
            del settings["face"]  # tasks from versions without faces stay done
        facts = [{**settings, **self.shot.places}, str(self.frames), self.work, self.given, self.build]
        return _facts_digest(facts)


def tasks_of(shot: JobShot, open_pack: Callable[[str | None], Pack] = load_pack) -> tuple[BatchTask, ...]:
    """The tasks of a shot, in an order in which they can be done.

    Raises: RotopaintError for errors that every attempt would meet, in its plates, pack, project, crop or formats.
    """
    job = shot.job
    check_exports(job.exports)
    work = inputs_for(job).work.fingerprint()
    with open_plate(job.plates, colourspace=job.colourspace) as plate:
        frames, _ = choose_frames(plate, job.frames)
        CropKeys.parse(job.crops, first_frame=frames[0])
        given = _facts_digest(
            [summarise(frames), _plate_fingerprint(plate, frames), dict(open_pack(job.model).card["files"])]
        )
    build = build_digest()
    track = BatchTask(shot, "track", given=given, build=build)
    paint = tuple(
        BatchTask(shot, "paint", piece, (track.key,), work, given, build) for piece in chunks(frames, shot.chunk)
    )
    return (track, *paint, BatchTask(shot, "gather", None, tuple(task.key for task in paint), work, given))


@cache
def build_digest() -> str:
    """A hash that changes with the program."""
    return _facts_digest([__version__, code_digest()])


def _plate_fingerprint(plate: Plate, frames: Sequence[int]) -> str:
    """A hash that changes when plates are rendered again; times in whole seconds, because disks differ in precision."""
    facts = [path.stat() for path in dict.fromkeys(map(plate.path_of, frames))]
    return _facts_digest([(fact.st_size, int(fact.st_mtime)) for fact in facts])


def _facts_digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def select_tasks(tasks: Sequence[BatchTask], shot: str, kind: str, frames: FrameRange | None) -> list[BatchTask] | None:
    """The tasks that a farm requests; None where the shot has no such task.

    A farm may divide frames in any way: a range selects the paint tasks that begin in it. So ranges that together cover
    all frames select every task once. A range may select no task.
    """
    same = [task for task in tasks if task.shot.name == shot and task.kind == kind]
    if kind != "paint":
        return same if same and frames is None else None
    pieces = [task.frames for task in same if task.frames is not None]
    if frames is None or not pieces or frames.first < pieces[0].first or frames.last > pieces[-1].last:
        return None
    return [task for task in same if task.frames is not None and task.frames.first in frames]


def chunks(frames: Sequence[int], size: int) -> list[FrameRange]:
    """Ranges that cover all frames; each holds at most `size` frames on disk."""
    return [FrameRange(part[0], part[-1]) for part in (frames[i : i + size] for i in range(0, len(frames), size))]
