"""Time to the same validation error: the shipped recipe against a stock recipe on the same data.

Each side is a process of its own with one thread. The sides train alternately in slices, so that other load on the
machine affects all of them. The measure is the processor time of training: decoding and augmentation are included,
evaluation is not.

    ours   the recipe as `rotopaint train` runs it: from the shipped pack, bf16, channels-last, allocator settings,
           pictures decoded once, small crops first, its optimiser, schedule and averaged weights
    cold   the same recipe without a start pack
    stock  the same network, losses, augmentation and batch by PyTorch's defaults: from nothing, float32, NCHW, full
           size from the start, Adam at 1e-3, a DataLoader that decodes every sample each time
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from rotopaint_ai.bench.training import levels
from rotopaint_ai.bench.training.levels import ErrorLevel
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.trainer.launch import SETTINGS

MODULE = "rotopaint_ai.bench.training.racer"
WANTED = 10.0  # goal P2: stock's time over ours to the same error
_TURNS = 40


@dataclass(frozen=True, slots=True)
class Course:
    """The settings of a race.

    They are data sets, recipe, start pack, processor seconds of our side, how many times as long the other sides may
    take, seconds between evaluations (None: a twelfth of our time), processes of the stock side's DataLoader."""

    datasets: tuple[str, ...]
    recipe: str | None = None
    overrides: tuple[str, ...] = ()
    init: str | None = None
    seconds: float = 75.0
    times: Mapping[str, float] = field(default_factory=lambda: {"stock": 12.0})
    every_s: float | None = None
    workers: int = 0

    def limit_s(self, side: str) -> float:
        """Limit of a side's processor seconds."""
        return self.seconds * self.times.get(side, 1.0)


@dataclass(slots=True)
class RaceSide:
    """A side's process, and the evaluations that it has reported."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[str]
    curve: list[ErrorLevel] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    is_over: bool = False

    def turn(self, seconds: float) -> None:
        """Let the side train for some processor seconds, and read its reports. Raises TrainingError when it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its standard error tells more
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "seen":
                self.curve.append(ErrorLevel(**{name: event[name] for name in ErrorLevel.__slots__}))
            elif event["event"] == "ready":
                self.facts = event["facts"]
            elif event["event"] in ("paused", "over"):
                self.is_over = event["event"] == "over"
                return
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines() or ["it ended without a message"]
        raise TrainingError(f"bench train: {self.name}: {lines[-1][-300:]}")


Report = Callable[[str], None]


def run(course: Course, tell: Report = lambda text: None) -> dict[str, Any]:
    """Run all sides and return curves, levels and ratios as JSON values; an interrupt ends the race early.

    Raises TrainingError.
    """
    names, is_whole = ["ours", *course.times], True
    with tempfile.TemporaryDirectory(prefix="rotopaint-race-") as scratch:
        sides = [_start_side(name, course, Path(scratch)) for name in names]
        try:
            _take_turns(course, sides, tell)
        except KeyboardInterrupt:
            is_whole = False
        finally:
            with _ignore_interrupts():
                for side in sides:
                    side.process.kill()
                    side.process.communicate()
                    side.errors.close()
    return {**_content(course, sides), "is_whole": is_whole}


@contextlib.contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore a second interrupt, which some programs send at once: the result of the race must still be written."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets interrupts
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _take_turns(course: Course, sides: Sequence[RaceSide], tell: Report) -> None:
    for at in range(_TURNS + 1):  # the first turn loads the data and evaluates the network before its first step
        for side in sides:
            if not side.is_over:
                side.turn(0.0 if at == 0 else _slice(course, side))
        tell(_progress(at, sides))
    for side in sides:
        while not side.is_over:
            side.turn(_slice(course, side))


def _slice(course: Course, side: RaceSide) -> float:
    return course.limit_s(side.name) / _TURNS


def _start_side(name: str, course: Course, scratch: Path) -> RaceSide:
    order = {**asdict(course), "folder": str(scratch / name), "limit_s": course.limit_s(name)}
    order["every_s"] = course.every_s or course.seconds / 12
    (scratch / f"{name}.json").write_text(json.dumps(order), encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **({} if name == "stock" else SETTINGS)}
    errors = (scratch / f"{name}.err").open("w+", encoding="utf-8")
    words = [sys.executable, "-m", MODULE, name, str(scratch / f"{name}.json")]
    pipe = subprocess.PIPE
    return RaceSide(
        name, subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True), errors
    )


def _progress(at: int, sides: Sequence[RaceSide]) -> str:
    last = ((side.name, side.curve[-1]) for side in sides if side.curve)
    seen = (f"{name} {seen.percent:.2f} % after {seen.cpu_s:.1f} s and {seen.images} images" for name, seen in last)
    return f"turn {at}/{_TURNS}: " + ", ".join(seen)


def _content(course: Course, sides: Sequence[RaceSide]) -> dict[str, Any]:
    ours, *others = sides
    return {
        "settings": {**asdict(course), "turns": _TURNS},
        **ours.facts,
        "sides": {side.name: _side(course, side) for side in sides},
        "against": {side.name: compare_sides(ours.curve, side.curve, course.limit_s(side.name)) for side in others},
        "wanted": {"stock": WANTED},
    }


def _side(course: Course, side: RaceSide) -> dict[str, Any]:
    return {
        "limit_cpu_s": course.limit_s(side.name),
        "images_per_cpu_s": levels.mean_images_per_s(side.curve),
        "best_percent": round(levels.best_of(side.curve), 4),
        "curve": [asdict(seen) for seen in side.curve],
    }


def compare_sides(ours: Sequence[ErrorLevel], other: Sequence[ErrorLevel], limit_s: float) -> dict[str, Any]:
    """All levels of our side against another side, the lowest last, and a summary of the two best levels."""

    rows = [levels.compare(ours, other, percent, limit_s) for percent in levels.levels_of(ours, other)]
    both = [row for row in rows if row.get("ratio") is not None]
    return {
        "levels": rows,
        "at_our_best": levels.describe_level(rows[-1]) if rows else None,
        "at_the_lowest_both_reached": levels.describe_level(both[-1]) if both else None,
    }
