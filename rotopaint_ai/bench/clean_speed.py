"""Time of each fill against OpenCV's Telea on the same crop and matte, measured alternately on one thread (goal P3)."""

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
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.ribbon import WideCurve

Array = NDArray[Any]

SIZES = {"960x540": 540, "1920x1080": 1080, "3840x2160": 2160}
MOST = 4  # cases


@dataclass(frozen=True, slots=True)
class _Job:
    plate: Array  # 8-bit
    light: Array
    hole: Array
    curves: tuple[WideCurve, ...]


def speed(cases: Sequence[Case], methods: Sequence[str], *, repeats: int, model: str | None) -> list[dict[str, Any]]:
    """Processor milliseconds of each method at each size, and Telea's time divided by it.

    Each is the mean over the cases' middle frames, enlarged to that size; for a case and method the median round
    counts. `telea_over_it` is the ratio of the means, `least` the ratio of the worst case. A frame is taken to be 540
    lines high, whatever the height of the shot. Only the first MOST cases are used.
    """
    network = model_of(model)
    rows = []
    for name, height in SIZES.items():
        rounds = repeats if height <= 1080 else max(1, repeats // 2)
        found = [_times_in_turns(_resized_job(case, height / 540), methods, network, rounds) for case in cases[:MOST]]
        mean = {m: statistics.fmean(times[m] for times in found) for m in ("telea", *methods)}
        ours = {
            m: {
                "ms": round(mean[m], 2),
                "telea_over_it": round(mean["telea"] / mean[m], 2),
                "least": round(min(times["telea"] / times[m] for times in found), 2),
            }
            for m in methods
        }
        rows.append({"size": name, "cases": len(found), "telea_ms": round(mean["telea"], 2), "methods": ours})
    return rows


def _times_in_turns(job: _Job, able: Sequence[str], network: LearnedFill | None, rounds: int) -> dict[str, float]:
    ways: dict[str, Callable[[], object]] = {"telea": lambda: _telea_frame(job)}
    ways |= {m: _fill_call(job, m, network) for m in able}
    return time_in_turns(ways, rounds)


def _fill_call(job: _Job, method: str, network: LearnedFill | None) -> Callable[[], object]:
    matte = _matte(job)
    return lambda: fill(job.light, matte, job.curves, method, network)


def time_in_turns(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median processor milliseconds of several functions, called alternately; the first round is a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, work in ways.items():
            start = time.process_time()
            work()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def _telea_frame(job: _Job) -> Array:
    return np.asarray(cv2.inpaint(job.plate, job.hole, RADIUS, cv2.INPAINT_TELEA))


def _matte(job: _Job) -> Array:
    return job.hole.astype(np.float32)


def _resized_job(case: Case, size: float) -> _Job:
    sight = case.sights[len(case.sights) // 2]
    light, hole = (cv2.resize(v, None, fx=size, fy=size) for v in (sight.plate, sight.hole))
    curves = tuple((np.asarray(line) * size, half * size) for line, half in sight.curves)
    return _Job(codes(light), np.ascontiguousarray(light, np.float32), (hole > 0).astype(np.uint8), curves)
