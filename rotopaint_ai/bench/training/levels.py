"""When a training reached which held-out error, and by how much one was later there than another.

An error counts from the evaluation that first saw it or less; between two evaluations its time is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

N_LEVELS = 6


@dataclass(frozen=True, slots=True)
class ErrorLevel:
    """One evaluation: training's processor and wall seconds and images up to it; the mean error of visible landmarks,
    percent of the face's longest side and pixels of the plate."""

    cpu_s: float
    wall_s: float
    images: int
    percent: float
    px: float


Curve = Sequence[ErrorLevel]


def best_of(curve: Curve) -> float:
    """The least error seen, percent."""
    return min((seen.percent for seen in curve), default=float("inf"))


def reached(curve: Curve, percent: float) -> ErrorLevel | None:
    """Where a curve first came down to an error; None where it never did."""
    before: ErrorLevel | None = None
    for seen in curve:
        if seen.percent <= percent:
            return seen if before is None else _level_between(before, seen, percent)
        before = seen if before is None or seen.percent < before.percent else _later(before, seen)
    return None


def _later(best: ErrorLevel, now: ErrorLevel) -> ErrorLevel:
    """The best error so far at the time of a worse one."""
    return ErrorLevel(now.cpu_s, now.wall_s, now.images, best.percent, best.px)


def _level_between(before: ErrorLevel, after: ErrorLevel, percent: float) -> ErrorLevel:
    share = (before.percent - percent) / max(before.percent - after.percent, 1e-12)

    def mixed(one: float, two: float) -> float:
        return one + share * (two - one)

    times = mixed(before.cpu_s, after.cpu_s), mixed(before.wall_s, after.wall_s)
    return ErrorLevel(*times, round(mixed(before.images, after.images)), percent, mixed(before.px, after.px))


def levels_of(ours: Curve, other: Curve) -> list[float]:
    """Errors to ask both for: ours' best, the other's best, and steps of equal ratio from where ours started down.

    What ours knew before its first step is no level: it took no time.
    """
    if len(ours) < 2:
        return []
    low, high, theirs = best_of(ours), ours[0].percent, best_of(other)
    steps = np.geomspace(high, low, N_LEVELS + 1)[1:-1].round(4).tolist() if low < high else []
    asked = {low, *(step for step in steps if step > low), *([theirs] if low < theirs < high else [])}
    return sorted(asked, reverse=True)


def compare(ours: Curve, other: Curve, percent: float, limit_s: float) -> dict[str, Any]:
    """One level: seconds of both, their ratio, and the ratio's parts; a lower bound where the other never got there.

    The time's ratio is the product of the images' ratio (what a better start and schedule save) and that of images per
    processor second (what faster steps and loading save).
    """
    mine, theirs = reached(ours, percent), reached(other, percent)
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


def mean_images_per_s(curve: Curve) -> float | None:
    """Images per processor second over the whole curve."""
    last = curve[-1] if curve else None
    return None if last is None or last.cpu_s <= 0 else round(last.images / last.cpu_s, 2)


def describe_level(row: Mapping[str, Any]) -> str:
    """A level in words."""
    if row.get("ratio") is not None:
        return f"{row['percent']:.2f} %: {row['ratio']:.1f} times as long"
    if row.get("more_than") is not None:
        return f"{row['percent']:.2f} %: not within {row['more_than']:.1f} times as long"
    return f"{row['percent']:.2f} %: not reached"
