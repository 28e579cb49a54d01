"""How much the whole job costs over reading and writing the same plates alone, measured side by side.

The plain job decodes every frame and encodes it again in the plate's own compression with OpenImageIO, on as many
threads as the whole job gets. The two take turns, so that a busy machine disturbs both.
"""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import OpenImageIO

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, RunJob, n_cores
from rotopaint_ai.pipeline.plan import choose_frames
from rotopaint_ai.pipeline.run import Outcome, run
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.plate import open_plate

LIMIT = 1.5  # goal P1


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of every round: the whole job, and decode and encode alone."""

    n_frames: int
    whole_s: tuple[float, ...]
    plain_s: tuple[float, ...]
    run: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """The result as JSON values."""
        whole, plain = median(self.whole_s), median(self.plain_s)
        timing = self.run["timing"]
        return {
            "benchmark": "run",
            "machine": platform.processor() or platform.machine(),
            "threads": timing["threads"],
            "plate": self.run["plate"],
            "pack": self.run["pack"]["name"],
            "device": self.run["device"]["note"],
            "frames": self.n_frames,
            "whole_ms_per_frame": round(1000 * whole / self.n_frames, 2),
            "plain_ms_per_frame": round(1000 * plain / self.n_frames, 2),
            "ratio": round(whole / plain, 3),
            "ratios": [round(a / b, 3) for a, b in zip(self.whole_s, self.plain_s)],
            "wanted": LIMIT,
            "stages_ms": {name: stage["mean_ms"] for name, stage in timing["stages"].items()},
            "peak_memory_mb": timing["peak_memory_mb"],
        }


def measure(job: RunJob, *, rounds: int = 3) -> Measured:
    """Do a job and its plain twin in turns after one warm-up of each; `job.out` is only a place for scratch files.

    Raises: whatever the job raises.
    """
    with tempfile.TemporaryDirectory(dir=_existing(Path(job.out))) as scratch:
        whole: list[float] = []
        plain: list[float] = []
        content: dict[str, Any] = {}
        for round_ in range(rounds + 1):
            out = Path(scratch) / f"run{round_}"
            start = time.perf_counter()
            outcome = run(replace(job, out=str(out), resume=False), lambda event: None, Cancel())
            if not outcome.is_whole or outcome.lost:
                raise UsageError(
                    f"bench: frames failed or lost the face ({_first_reason(outcome)}); measure a good shot"
                )
            middle = time.perf_counter()
            n_frames = decode_and_encode(job, Path(scratch) / f"plain{round_}")
            end = time.perf_counter()
            content = _read_content(out)
            shutil.rmtree(scratch + f"/run{round_}")
            shutil.rmtree(scratch + f"/plain{round_}")
            if round_:
                whole.append(middle - start)
                plain.append(end - middle)
    return Measured(n_frames, tuple(whole), tuple(plain), content)


def _first_reason(outcome: Outcome) -> str:
    return next(iter(outcome.failed.values()), None) or summarise([*outcome.missing, *outcome.lost])


def decode_and_encode(job: RunJob, out: Path) -> int:
    """Read every frame of a job's plate and write it again with OpenImageIO alone; returns the number of frames."""
    out.mkdir(parents=True)
    with open_plate(job.plates) as plate:
        frames, _ = choose_frames(plate, job.frames)
        paths = [plate.path_of(frame) for frame in frames]
    with ThreadPoolExecutor(job.threads or n_cores()) as pool:
        for _ in pool.map(lambda path: _copy(path, out / path.name), paths):
            pass
    return len(paths)


def _copy(source: Path, target: Path) -> None:
    opened = OpenImageIO.ImageInput.open(str(source))
    pixels = None if opened is None else opened.read_image(opened.spec().format)
    if opened is None or pixels is None:
        raise PlateError(f"{source.name}: the plain job cannot read it; measure with plates that OpenImageIO reads")
    spec = opened.spec()
    opened.close()
    oiio.save(target, spec, pixels)


def _existing(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _read_content(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return content
