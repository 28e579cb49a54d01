"""The time at which a training reached a validation error, and the ratio of the times of two trainings.

A training reaches an error at the first evaluation with that error or less. Between two evaluations the time is
interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

N_LEVELS = 6


@dataclass(frozen=True, slots=True)
class ErrorLevel:
    """One evaluation: the training's processor seconds, wall seconds and images so far, and the validation error.

    The error is the mean over visible landmarks, in percent of the face's longest side and in pixels of the plate."""

    cpu_s: float
    wall_s: float
    images: int
    percent: float
    px: float


LearningCurve = Sequence[ErrorLevel]


def best_of(curve: LearningCurve) -> float:
    """The lowest error of a curve, percent."""
    return min((seen.percent for seen in curve), default=float("inf"))


def find_first_below(curve: LearningCurve, percent: float) -> ErrorLevel | None:
    """The point where a curve first reaches an error; None where it never does."""
    before: ErrorLevel | None = None
    for seen in curve:
        if seen.percent <= percent:
            return seen if before is None else _level_between(before, seen, percent)
        before = seen if before is None or seen.percent < before.percent else _later(before, seen)
    return None


def _later(best: ErrorLevel, now: ErrorLevel) -> ErrorLevel:
    """An evaluation with its error replaced by the best error so far, where that is lower."""
    return ErrorLevel(now.cpu_s, now.wall_s, now.images, best.percent, best.px)


def _level_between(before: ErrorLevel, after: ErrorLevel, percent: float) -> ErrorLevel:
    share = (before.percent - percent) / max(before.percent - after.percent, 1e-12)

    def mix(one: float, two: float) -> float:
        return one + share * (two - one)

    times = mix(before.cpu_s, after.cpu_s), mix(before.wall_s, after.wall_s)
    return ErrorLevel(*times, round(mix(before.images, after.images)), percent, mix(before.px, after.px))


def levels_of(ours: LearningCurve, other: LearningCurve) -> list[float]:
    """Errors at which both are compared: the best of each, and geometric steps down from our first error.

    Our first error itself is left out: our side has it before the first step, at no cost of time.
    """
    if len(ours) < 2:
        return []
    low, high, theirs = best_of(ours), ours[0].percent, best_of(other)
    steps = np.geomspace(high, low, N_LEVELS + 1)[1:-1].round(4).tolist() if low < high else []
    asked = {low, *(step for step in steps if step > low), *([theirs] if low < theirs < high else [])}
    return sorted(asked, reverse=True)


def compare(ours: LearningCurve, other: LearningCurve, percent: float, limit_s: float) -> dict[str, Any]:
    """One level: the seconds of both sides and their ratio; a lower bound where the other side never reached it.

    The ratio of times is a product of two: the ratio of images (the gain from a better start and schedule) and the
    ratio of images per processor second (the gain from faster steps and loading).
    """
    mine, theirs = find_first_below(ours, percent), find_first_below(other, percent)
    row: dict[str, Any] = {"percent": round(percent, 4)}
    if mine is None:
        return row
    row |= {"px": round(mine.px, 3), "ours_cpu_s": round(mine.cpu_s, 1), "ours_wall_s": round(mine.wall_s, 1)}
    if theirs is None:
        within = limit_s / max(mine.cpu_s, 1e-9)
        return row | {"other_cpu_s": None, "ratio": None, "more_than": round(within, 1)}
    ratio = theirs.cpu_s / max(mine.cpu_s, 1e-9)
    images = theirs.images / max(mine.images, 1)
    return row | {
        "other_cpu_s": round(theirs.cpu_s, 1),
        "other_wall_s": round(theirs.wall_s, 1),
        "ratio": round(ratio, 2),
        "ratio_wall": round(theirs.wall_s / max(mine.wall_s, 1e-9), 2),
        "of_which_images": round(images, 2),
        "of_which_images_per_s": round(ratio / max(images, 1e-9), 2),
    }


def mean_images_per_s(curve: LearningCurve) -> float | None:
    """Images per processor second over the whole curve."""
    last = curve[-1] if curve else None
    return None if last is None or last.cpu_s <= 0 else round(last.images / last.cpu_s, 2)


def describe_level(row: Mapping[str, Any]) -> str:
    """A level as a phrase for the summary."""
    if row.get("ratio") is not None:
        return f"{row['percent']:.2f} %: {row['ratio']:.1f} times as long"
    if row.get("more_than") is not None:
        return f"{row['percent']:.2f} %: not within {row['more_than']:.1f} times as long"
    return f"{row['percent']:.2f} %: not reached"
