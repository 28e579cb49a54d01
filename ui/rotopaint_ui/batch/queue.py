"""The queue of the batch window: frozen shots in order, with their status. No Qt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_text
from rotopaint_ai.project import Project

MOST_ATTEMPTS = 3


class QueueStatus(StrEnum):
    """The status of a shot."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FRAMES_FAILED = "some frames failed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class QueuedShot:
    """One plate to run, and its progress.

    `project` is a project file: people's edits in it are kept, and results are saved in it. `worst_px` is the largest
    expected error of the last run.
    """

    name: str
    plates: str
    out: str
    crops: tuple[str, ...] = ("auto",)
    model: str | None = None
    frames: str | None = None
    colourspace: str | None = None
    project: str | None = None
    face: str | None = None
    status: QueueStatus = QueueStatus.WAITING
    done: int = 0
    total: int = 0
    eta_s: float | None = None
    worst_px: float | None = None
    attempts: int = 0
    message: str = ""

    def words(self) -> list[str]:
        """The command line of its run."""
        words = ["run", self.plates, "--out", self.out, "--events", "--resume"]
        for crop in self.crops:
            words += ["--crop", crop]
        options = (
            ("--model", self.model),
            ("--frames", self.frames),
            ("--colourspace", self.colourspace),
            ("--project", self.project),
            ("--face", self.face),
        )
        return words + [word for name, value in options if value is not None for word in (name, value)]

    def took(self, facts: Mapping[str, Any]) -> QueuedShot:
        """The shot updated by an event of its run."""
        event = facts["event"]
        if event == "started":
            return replace(self, total=int(facts.get("total", 0)), done=int(facts.get("done", 0)))
        if event == "progress" and facts.get("task", "paint") != "paint":  # its numbers do not count painted frames
            return replace(self, eta_s=facts.get("eta_s"))
        if event == "progress" and "done" in facts:
            return replace(self, done=int(facts["done"]), total=int(facts["total"]), eta_s=facts.get("eta_s"))
        if event in ("warning", "error"):
            return replace(self, message=str(facts.get("message", "")))
        return self


@dataclass(frozen=True, slots=True)
class Queue:
    """Shots in the order in which they are run."""

    shots: tuple[QueuedShot, ...] = field(default_factory=tuple)

    def added(self, shots: Iterable[QueuedShot]) -> Queue:
        """The queue with shots added at the end; names are made unique, so that each output folder has one writer."""
        rows = list(self.shots)
        for shot in shots:
            if any(row.out == shot.out for row in rows):
                raise UsageError(f"{shot.name}: {shot.out} is written by another shot of the queue; choose another")
            taken = {row.name for row in rows}
            name, number = shot.name, 2
            while name in taken:
                name, number = f"{shot.name}_{number}", number + 1
            rows.append(replace(shot, name=name))
        return Queue(tuple(rows))

    def removed(self, names: Iterable[str]) -> Queue:
        """The queue without some shots; a running shot stays."""
        gone = set(names)
        return Queue(tuple(shot for shot in self.shots if shot.name not in gone or shot.status is QueueStatus.RUNNING))

    def moved(self, name: str, by: int) -> Queue:
        """The queue with a shot moved up or down."""
        rows = list(self.shots)
        at = self.index(name)
        row = rows.pop(at)
        rows.insert(min(max(at + by, 0), len(rows)), row)
        return Queue(tuple(rows))

    def index(self, name: str) -> int:
        """The index of a shot. Raises KeyError."""
        for index, shot in enumerate(self.shots):
            if shot.name == name:
                return index
        raise KeyError(name)

    def changed(self, name: str, change: Callable[[QueuedShot], QueuedShot]) -> Queue:
        """The queue with one shot replaced."""
        return Queue(tuple(change(shot) if shot.name == name else shot for shot in self.shots))

    def next(self) -> QueuedShot | None:
        """The shot to be run next: the first that waits, then failed ones that may be tried again."""
        waiting = [shot for shot in self.shots if shot.status is QueueStatus.WAITING]
        again = [shot for shot in self.shots if shot.status is QueueStatus.FAILED and shot.attempts < MOST_ATTEMPTS]
        return next(iter([*waiting, *again]), None)

    def ended(self, name: str, code_is_good: bool, message: str) -> Queue:
        """The queue after a run, whose last line tells whether it is done, incomplete, stopped or failed."""
        status = QueueStatus.FAILED
        if message.startswith("Stopped"):
            status = QueueStatus.STOPPED
        elif code_is_good:
            status = QueueStatus.DONE if message == "Done" else QueueStatus.FRAMES_FAILED
        text = "" if status is QueueStatus.DONE else message
        return self.changed(name, lambda shot: replace(shot, status=status, message=text, eta_s=None))

    def retried(self, names: Iterable[str] | None = None) -> Queue:
        """The queue with failed, incomplete and stopped shots waiting again; finished frames are kept."""
        wanted = None if names is None else set(names)
        again = (QueueStatus.FAILED, QueueStatus.FRAMES_FAILED, QueueStatus.STOPPED)

        def change(shot: QueuedShot) -> QueuedShot:
            if shot.status not in again or (wanted is not None and shot.name not in wanted):
                return shot
            return replace(shot, status=QueueStatus.WAITING, attempts=0, message="")

        return Queue(tuple(change(shot) for shot in self.shots))

    def summary(self) -> str:
        """One line on the whole queue."""
        counts = {status: sum(shot.status is status for shot in self.shots) for status in QueueStatus}
        counted = [f"{count} {status.value}" for status, count in counts.items() if count]
        return (
            f"{len(self.shots)} shot{'' if len(self.shots) == 1 else 's'}: {', '.join(counted)}"
            if counted
            else "No shots yet: drop plates here, or add them"
        )


FORMAT = "rotopaint-queue"


def write_queue(path: Path, queue: Queue) -> None:
    """Write the queue with its progress to a file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(shot) for shot in queue.shots]
    write_text(path, json.dumps({"format": FORMAT, "version": 1, "shots": rows}, indent=1) + "\n")


def read_queue(path: Path) -> Queue:
    """The queue in a file; a run that was in progress counts as stopped. Raises: UsageError, one line."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["format"] != FORMAT:
            raise ValueError(f"format is {value['format']!r}")
        return Queue(tuple(_queued_shot(row) for row in value["shots"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path.name}: the kept queue cannot be read ({error}); add the shots again") from error


def jobs_file(queue: Queue, out: str) -> str:
    """The queue as a jobs file for `rotopaint batch`, in JSON, which is valid YAML; `out` holds a folder per shot."""
    rows = []
    for shot in queue.shots:
        options = {name: getattr(shot, name) for name in _OPTIONS if getattr(shot, name) is not None}
        crops = {"crop": list(shot.crops)} if shot.crops else {}  # else those of the project
        rows.append({"name": shot.name, "plates": shot.plates, **crops, **options})
    return json.dumps({"out": out, "shots": rows}, indent=1) + "\n"


def shot_of(plates: str) -> QueuedShot:
    """A shot for a plate that was dropped: the model finds the face, results go beside the plate's folder."""
    path = Path(plates)
    folder = path if path.is_dir() else path.parent
    name = _BAD.sub("_", folder.name if path.is_dir() else path.name.split(".")[0] or folder.name)
    return QueuedShot(name, plates, str(folder.parent / f"{folder.name}_rotopaint" / name))


def shot_of_project(path: str) -> QueuedShot:
    """The shot of a project file: its plate, its folder, its crop boxes. Raises ProjectError, UsageError."""
    project = Project.open(Path(path), write=False)
    try:
        plate, out, crops = project.note("plate"), project.note("out"), project.load().state.crops
    finally:
        project.close()
    if plate is None:
        raise UsageError(f"{Path(path).name}: its plate was never noted; open it in the panel once")
    folder = Path(path).absolute().parent  # older projects may name theirs relative to some folder
    shot = shot_of(str(folder / plate["source"]))
    colourspace = plate.get("colourspace")
    out = str(folder / (out or ""))
    return replace(shot, out=out, crops=() if crops else ("auto",), project=path, colourspace=colourspace)


def shot_of_job(row: Mapping[str, Any]) -> QueuedShot:
    """A shot of a jobs file, from the engine's reply."""
    shot = QueuedShot(str(row["name"]), str(row["plates"]), str(row["out"]), tuple(map(str, row["crops"])))
    model, frames, colourspace, project, face = (row.get(name) for name in _OPTIONS)
    return replace(shot, model=model, frames=frames, colourspace=colourspace, project=project, face=face)


_OPTIONS = ("model", "frames", "colourspace", "project", "face")
_BAD = re.compile(r"[^A-Za-z0-9._-]")  # what a jobs file does not take in a name


def _queued_shot(row: Mapping[str, Any]) -> QueuedShot:
    status = QueueStatus(row["status"])
    known = {each.name: row[each.name] for each in fields(QueuedShot) if each.name in row}
    stopped = QueueStatus.STOPPED if status is QueueStatus.RUNNING else status
    return QueuedShot(**{**known, "status": stopped, "crops": tuple(map(str, row["crops"]))})
