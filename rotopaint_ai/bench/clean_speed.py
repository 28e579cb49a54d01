"""How long a fill takes, beside OpenCV's Telea on the same crop and matte, in turns on one thread (goal P3)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.bench.clean_cases import Case, codes
from rotopaint_ai.bench.clean_ours import model_of
from rotopaint_ai.bench.clean_peers import RADIUS
from rotopaint_ai.seams.cleanplate import fill
from rotopaint_ai.seams.ribbon import Curve

Array = NDArray[Any]

SIZES = {"960x540": 540, "1920x1080": 1080, "3840x2160": 2160}


@dataclass(frozen=True, slots=True)
class _Job:
    plate: Array  # 8-bit
    light: Array
    hole: Array
    curves: tuple[Curve, ...]


def speed(case: Case, methods: Sequence[str], *, repeats: int, model: str | None) -> list[dict[str, Any]]:
    """Median process milliseconds at each size, and Telea's over ours; the middle frame enlarged to the size.

    A crop's frame counts as 540 lines high, whatever the shot's height is.
    """
    network = model_of(model)
    able = [name for name in methods if name != "temporal" and (name != "learned" or network is not None)]
    rows = []
    for name, height in SIZES.items():
        job = _enlarged(case, height / 540)
        ways: dict[str, Callable[[], object]] = {"telea": lambda job=job: _telea(job)}  # type: ignore[misc]
        ways |= {m: lambda job=job, m=m: fill(job.light, _matte(job), job.curves, m, network) for m in able}  # type: ignore[misc]
        times = in_turns(ways, repeats if height <= 1080 else max(1, repeats // 2))
        ours = {m: {"ms": round(times[m], 2), "telea_over_it": round(times["telea"] / times[m], 2)} for m in able}
        rows.append({"size": name, "telea_ms": round(times["telea"], 2), "methods": ours})
    return rows


def in_turns(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median process milliseconds of several works, done in turns; the first turn does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, work in ways.items():
            start = time.process_time()
            work()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def _telea(job: _Job) -> Array:
    return np.asarray(cv2.inpaint(job.plate, job.hole, RADIUS, cv2.INPAINT_TELEA))


def _matte(job: _Job) -> Array:
    return job.hole.astype(np.float32)


def _enlarged(case: Case, size: float) -> _Job:
    sight = case.sights[len(case.sights) // 2]
    light, hole = (cv2.resize(v, None, fx=size, fy=size) for v in (sight.plate, sight.hole))
    curves = tuple((np.asarray(line) * size, half * size) for line, half in sight.curves)
    return _Job(codes(light), np.ascontiguousarray(light, np.float32), (hole > 0).astype(np.uint8), curves)
