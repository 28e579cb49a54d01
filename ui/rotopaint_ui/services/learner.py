"""Training in the background, from a show: mine its projects, train a pack, and compare it with the previous one.

It can also train on one shot: a pack is trained on the corrected poses, and then reads the shot again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ui.engine.engine_process import EngineProcess
from rotopaint_ui.host import Engine

PATIENCE_MS = 20_000  # from the request to stop a training until it is killed; it saves a checkpoint first
MISSING = "Training is not installed beside the panel's engine: pip install 'rotopaint-ai[train]'"
PROBE, KEEPING = "Looking for PyTorch", "Keeping the head"  # steps
HEAD_ALONE = "; it has the head alone, because training is not installed: pip install 'rotopaint-ai[train]'"
ALONE = "one shot holds nothing back to compare on; learn from two or more"
_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
_OK, _FRAMES_FAILED, _WORSE = 0, 3, 4
_ABSENT = (1, 2)  # how the probe ends without PyTorch; 2 in the bundle, whose program runs no Python of others
_MINING_MIN, _GATE_MIN, _SHOT_MIN, _HEAD_MIN = 1.0, 0.5, 2.0, 0.3  # about how long these take, for the progress


@dataclass(frozen=True, slots=True)
class Lesson:
    """The projects to train on, the name of the new pack, and the name or folder of its start pack."""

    projects: tuple[Path, ...]
    name: str
    packs: Path
    work: Path
    start: str
    minutes: float = 5.0

    @property
    def pack(self) -> Path:
        """The folder of the new pack."""
        return self.packs / self.name

    @property
    def verdict(self) -> Path:
        """Where the gate writes its figures."""
        return self.work / "gate.json"

    def steps(self) -> list[LessonStep]:
        """The steps: make a data set, train a pack, evaluate both packs on validation frames."""
        data, pack, sources = str(self.work / "dataset"), str(self.pack), map(str, self.projects)
        how = ["--init", self.start, "--set", f"minutes={self.minutes:g}", "--events"]
        gate = ["--against", self.start, "--split", "val", "--json", str(self.verdict)]
        return [
            _probe_step(),
            LessonStep(
                "Mining", _MINING_MIN, _engine_command("mine", *sources, "--out", data, "--overwrite", "--events")
            ),
            LessonStep("Training", self.minutes, _engine_command("train", data, "--out", pack, *how)),
            LessonStep("Comparing", _GATE_MIN, _engine_command("evaluate", pack, data, *gate)),
        ]

    def steps_without_training(self) -> list[LessonStep]:
        """None: mining and networks need it."""
        return []

    def outcome(self, code: int, complaint: str) -> str:
        """One line on the pack, however its comparison ended."""
        if code in (_OK, _WORSE):
            return verdict_line(self.name, _read_verdict(self.verdict))
        why = complaint if _holds_out(self.work / "dataset") else ALONE
        return f"{self.name} is trained, and not compared: {why}"


@dataclass(frozen=True, slots=True)
class LessonOfShot:
    """A project with corrected poses to train on, the folder of the new pack, and its start pack."""

    project: Path
    pack: Path
    start: str

    def steps(self) -> list[LessonStep]:
        """The step that trains a pack on the shot."""
        how = ["--recipe", "shot", "--out", str(self.pack), "--init", self.start, "--events"]
        return [_probe_step(), LessonStep("Learning", _SHOT_MIN, _engine_command("train", str(self.project), *how))]

    def steps_without_training(self) -> list[LessonStep]:
        """The step that keeps the head alone, with the start pack's networks."""
        how = ["--head", str(self.project), "--to", str(self.pack.parent), "--name", self.pack.name, "--events"]
        return [LessonStep(KEEPING, _HEAD_MIN, _engine_command("publish", self.start, *how))]

    def outcome(self, code: int, complaint: str) -> str | None:
        """The end of training, with the new pack or None."""
        return "" if code == _OK else None


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One process of the engine: its name, its approximate minutes, and its arguments."""

    name: str
    minutes: float
    words: tuple[str, ...]


def _probe_step() -> LessonStep:
    return LessonStep(PROBE, 0.0, ("-c", _PROBE))


class TrainingProbe(QObject):
    """Whether the engine's Python has training installed; asks once and never blocks."""

    answered = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process = EngineProcess(self)
        self._process.ended.connect(lambda code, has_crashed: self._take_probe(code == _OK))
        self._process.unstartable.connect(lambda text: self._take_probe(False))
        self._is_there: bool | None = None

    def ask(self, engine: Callable[[], Engine]) -> bool:
        """Whether training is known to be installed; the first call starts the check and returns False."""
        if self._is_there is None and not self._process.is_running:
            try:
                self._process.start(engine(), _probe_step().words)
            except RotopaintError:
                self._is_there = False
        return bool(self._is_there)

    def shut_down(self) -> None:
        """End the check at once."""
        self._process.shut_down("kill")

    def _take_probe(self, is_there: bool) -> None:
        self._is_there = is_there
        self.answered.emit()


class Learner(QObject):
    """One lesson at a time."""

    progressed = Signal(str, float)  # the current step, and the finished share of the whole
    ended = Signal(bool, str)  # whether there is a new pack, and one line

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process = EngineProcess(self)
        self._process.received.connect(self._take_progress)
        self._process.ended.connect(self._end_step)
        self._process.unstartable.connect(lambda text: self._end_all(False, text))
        self._lesson: Lesson | LessonOfShot | None = None
        self._engine: Engine | None = None
        self._steps: list[LessonStep] = []
        self._at = 0
        self._is_stopped = False

    @property
    def is_running(self) -> bool:
        """Whether a lesson is under way."""
        return self._lesson is not None

    def start(self, engine: Engine, lesson: Lesson | LessonOfShot) -> None:
        """Begin a lesson; does nothing while another is under way."""
        if self.is_running:
            return
        self._lesson, self._engine, self._steps = lesson, engine, lesson.steps()
        self._at, self._is_stopped = 0, False
        self._begin_step()

    def stop(self) -> None:
        """Stop the current process; there is then no new pack."""
        if self.is_running:
            self._is_stopped = True
            self._process.stop(PATIENCE_MS)

    def shut_down(self) -> None:
        """End the training process at once and wait for it; the panel is closing."""
        self._lesson = None
        self._process.shut_down("terminate")

    def _begin_step(self) -> None:
        assert self._engine is not None
        step = self._steps[self._at]
        self._tell_share(0.0)
        self._process.start(self._engine, step.words)

    def _tell_share(self, share: float, doing: str = "") -> None:
        whole = sum(step.minutes for step in self._steps)
        before = sum(step.minutes for step in self._steps[: self._at])
        step = self._steps[self._at]
        self.progressed.emit(f"{step.name}{doing}", (before + share * step.minutes) / whole)

    def _take_progress(self, event: dict[str, Any], payload: bytes) -> None:
        if event.get("event") == "progress" and "share" in event and self.is_running:
            error = event.get("held_out_px")
            doing = f": {error:.2f} px on held-out frames" if isinstance(error, float) else ""
            self._tell_share(float(event["share"]), doing)

    def _end_step(self, code: int, has_crashed: bool) -> None:
        assert self._lesson is not None
        name, complaint, is_last = (
            self._steps[self._at].name,
            self._process.last_complaint,
            self._steps[self._at + 1 :] == [],
        )
        outcome = self._lesson.outcome(code, complaint) if is_last else None
        if self._is_stopped:
            self._end_all(False, "Stopped: no pack was made")
        elif outcome is not None:
            self._end_all(True, HEAD_ALONE if name == KEEPING else outcome)
        elif name == PROBE and code in _ABSENT:
            self._steps = self._lesson.steps_without_training()
            if self._steps:
                self._begin_step()
            else:
                self._end_all(False, MISSING)
        elif has_crashed or is_last or code not in (_OK, _FRAMES_FAILED):
            self._end_all(False, f"{name} failed: {complaint or f'it ended with code {code}'}")
        else:
            self._at += 1
            self._begin_step()

    def _end_all(self, is_made: bool, text: str) -> None:
        self._lesson = None
        self.ended.emit(is_made, text)


def verdict_line(name: str, gate: Sequence[Mapping[str, Any]] | None) -> str:
    """A line about a new pack from the rows of the gate: the figures that are worse, or that none is."""
    if gate is None:
        return f"{name} is trained; its comparison could not be read"
    worse = [f"{row['where']}, {row['figure']} {_gate_number(row['old'])} -> {_gate_number(row['new'])}"
             for row in gate if row["is_worse"]]  # fmt: skip
    if worse:
        more = f"; and {len(worse) - 2} more" if len(worse) > 2 else ""
        return f"The gate is red: {name} is worse in {len(worse)} of {len(gate)} figures ({'; '.join(worse[:2])}{more})"
    return f"The gate is green: {name} is not worse than the pack before in any of {len(gate)} figures"


def _gate_number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _read_verdict(path: Path) -> Sequence[Mapping[str, Any]] | None:
    try:
        gate = json.loads(path.read_text(encoding="utf-8"))["gate"]
    except (OSError, ValueError, KeyError):
        return None
    return gate if isinstance(gate, list) else None


def _engine_command(*words: str) -> tuple[str, ...]:
    return ("-m", "rotopaint_ai", *words)


def _holds_out(dataset: Path) -> bool:
    """Whether a data set has validation frames. True where it cannot be read: another step reports that."""
    try:
        lines = (dataset / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        return any(json.loads(line)["split"] == "val" for line in lines)
    except (OSError, ValueError, KeyError, TypeError):
        return True
