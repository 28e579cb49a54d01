"""Cost of the whole job relative to only reading and writing the same plates, measured alternately.

The plain job decodes every frame and encodes it again in the plate's own compression with OpenImageIO, on as many
threads as the whole job has. The two jobs alternate, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import OpenImageIO

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Event, RunJob, n_cores
from rotopaint_ai.pipeline.finalise import Outcome
from rotopaint_ai.pipeline.plan import choose_frames
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.plate import open_plate

Result = TypeVar("Result")

LIMIT, LIMIT_WITH_EXPORTS = 1.1, 1.4  # goal P1; the second limit is with ten exports


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one round: wall seconds, and processor seconds of all cores."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class JobCosts:
    """The cost of every round: of the whole job, and of only decoding and encoding."""

    n_frames: int
    whole: tuple[Cost, ...]
    plain: tuple[Cost, ...]
    run: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """The result as JSON values. `ratio` is by wall time; `cpu_ratio` is more reliable on a busy machine."""
        timing = self.run["timing"]
        return {
            "benchmark": "run",
            "threads": timing["threads"],
            "plate": self.run["plate"],
            "pack": self.run["pack"]["name"],
            "device": self.run["device"]["note"],
            "frames": self.n_frames,
            "whole_ms_per_frame": self._ms([cost.wall_s for cost in self.whole]),
            "plain_ms_per_frame": self._ms([cost.wall_s for cost in self.plain]),
            "whole_cpu_ms_per_frame": self._ms([cost.cpu_s for cost in self.whole]),
            "plain_cpu_ms_per_frame": self._ms([cost.cpu_s for cost in self.plain]),
            "ratio": round(median(a.wall_s / b.wall_s for a, b in zip(self.whole, self.plain)), 3),
            "ratios": [round(a.wall_s / b.wall_s, 3) for a, b in zip(self.whole, self.plain)],
            "cpu_ratio": self._cpu_ratio(),
            "wanted": LIMIT_WITH_EXPORTS if len(self.run["exports"]) > 1 else LIMIT,  # one of them is the document
            "stages_ms": {name: stage["mean_ms"] for name, stage in timing["stages"].items()},
            "peak_memory_mb": timing["peak_memory_mb"],
        }

    def _cpu_ratio(self) -> float | None:
        """The ratio of processor times; None where decoding and encoding took less than the clock can resolve."""
        ratios = [a.cpu_s / b.cpu_s for a, b in zip(self.whole, self.plain) if b.cpu_s > 0]
        return round(median(ratios), 3) if ratios else None

    def _ms(self, seconds: Sequence[float]) -> float:
        return round(1000 * median(seconds) / self.n_frames, 2)


def measure(job: RunJob, *, rounds: int = 3) -> JobCosts:
    """Run a job and the plain job alternately after one warm-up of each; `job.out` is only used for scratch files.

    Raises: UsageError where frames fail or lose the face, and the errors of the job.
    """
    whole: list[Cost] = []
    plain: list[Cost] = []
    content: dict[str, Any] = {}
    n_frames = 0
    Path(job.out).mkdir(parents=True, exist_ok=True)
    for round_ in range(rounds + 1):
        with tempfile.TemporaryDirectory(dir=job.out) as scratch:
            costs, n_frames, content = _round(job, Path(scratch))
        if round_:
            whole.append(costs[0])
            plain.append(costs[1])
    return JobCosts(n_frames, tuple(whole), tuple(plain), content)


def _round(job: RunJob, scratch: Path) -> tuple[tuple[Cost, Cost], int, dict[str, Any]]:
    once = replace(job, out=str(scratch / "run"), resume=False)
    whole, outcome = _measured_work(lambda: run(once, _nobody, Cancel()))
    if not outcome.is_whole or outcome.lost:
        raise UsageError(f"bench: frames failed or lost the face ({_first_reason(outcome)}); measure a good shot")
    plain, n_frames = _measured_work(lambda: decode_and_encode(job, scratch / "plain"))
    content = json.loads((scratch / "run" / "run.json").read_text(encoding="utf-8"))
    return (whole, plain), n_frames, content


def _measured_work(work: Callable[[], Result]) -> tuple[Cost, Result]:
    wall, cpu = time.perf_counter(), _cpu_s()
    result = work()
    return Cost(time.perf_counter() - wall, _cpu_s() - cpu), result


def _cpu_s() -> float:
    """Processor seconds of this process and of its finished child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _nobody(event: Event) -> None:
    """Ignore an event of the job."""


def _first_reason(outcome: Outcome) -> str:
    return next(iter(outcome.failed.values()), None) or summarise([*outcome.missing, *outcome.lost])


def decode_and_encode(job: RunJob, out: Path) -> int:
    """Read every frame of a job's plate and write it again with OpenImageIO alone; returns the number of frames."""
    out.mkdir(parents=True)
    with open_plate(job.plates) as plate:
        frames, _ = choose_frames(plate, job.frames)
        paths = [plate.path_of(frame) for frame in frames]
    with ThreadPoolExecutor(job.threads or n_cores()) as pool:
        for _ in pool.map(lambda path: _copy_plate(path, out / path.name), paths):
            pass
    return len(paths)


def _copy_plate(source: Path, target: Path) -> None:
    opened = OpenImageIO.ImageInput.open(str(source))
    pixels = None if opened is None else opened.read_image(opened.spec().format)
    if opened is None or pixels is None:
        raise PlateError(f"{source.name}: the plain job cannot read it; measure with plates that OpenImageIO reads")
    spec = opened.spec()
    opened.close()
    oiio.save(target, spec, pixels)
