"""Eases as cubics in time, as in Lottie and CSS: from (0, 0) to (1, 1), x is time and y the share of the move.

Standard library only. Our `ease`, 3 u^2 - 2 u^3, is such a cubic. Its handles are at one third and two thirds of the
time, so that time is linear in the parameter.
"""

from __future__ import annotations

from typing import Final

from rotopaint_ai.shapes import between
from rotopaint_ai.shapes.bake import turning_frames
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points

Timing = tuple[tuple[float, float], tuple[float, float]]  # the handles that leave (0, 0) and arrive at (1, 1)

LINEAR: Final[Timing] = ((1 / 3, 1 / 3), (2 / 3, 2 / 3))
EASE: Final[Timing] = ((1 / 3, 0.0), (2 / 3, 1.0))
_MOST_SAMPLES: Final = 4_000  # number of frames sampled between two keys
_SAME: Final = 2e-3  # other programs write three digits


def known_kind(timing: Timing) -> Interpolation | None:
    """The document's interpolation that equals a timing; None without one."""
    (ox, oy), (ix, iy) = timing
    if abs(ox - oy) < _SAME and abs(ix - iy) < _SAME:
        return "linear"
    near = all(abs(u - v) < _SAME for a, b in zip(timing, EASE, strict=True) for u, v in zip(a, b, strict=True))
    return "ease" if near else None


def share_of_way(timing: Timing, time: float) -> float:
    """The finished share of the move at a share of the time."""
    (ox, oy), (ix, iy) = timing
    ox, ix = min(max(ox, 0.0), 1.0), min(max(ix, 0.0), 1.0)
    low, high = 0.0, 1.0
    for _ in range(40):  # time increases with the parameter, so bisection finds it
        middle = (low + high) / 2
        low, high = (middle, high) if _unit_cubic(ox, ix, middle) < time else (low, middle)
    return _unit_cubic(oy, iy, (low + high) / 2)


def _unit_cubic(a: float, b: float, t: float) -> float:
    return 3 * (1 - t) ** 2 * t * a + 3 * (1 - t) * t * t * b + t**3


def linear_keys_along(begin: Key, end: Key, first: int, last: int, timing: Timing) -> dict[int, Key]:
    """Linear keys between two keys that keep an eased move within `bake.TOLERANCE_PX`."""
    frames = [*range(first, last, max(1, (last - first) // _MOST_SAMPLES)), last]
    shares = {frame: share_of_way(timing, (frame - first) / (last - first)) for frame in frames}
    rows = {frame: _points_between(begin, end, share) for frame, share in shares.items()}
    return {frame: Key(rows[frame], begin.source) for frame in turning_frames(frames, list(rows.values()))}


def _points_between(begin: Key, end: Key, share: float) -> Points:
    return tuple(ControlPoint(*row) for row in between.interpolate_linear(begin.points, end.points, share))
