"""Edits of tangents: smooth, cusp, align, mirror, drag. From points to points.

Standard library only. `edit_frames.apply` applies a change to frames.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Literal

from rotopaint_ai.shapes.roto import ControlPoint, Points

Side = Literal["in", "out"]
Mode = Literal["turn", "alone", "mirror"]

_THIRD = 1.0 / 3.0
_SMOOTH_COSINE = -0.995  # tangents less than about 6 degrees off a straight line count as smooth


def is_smooth(point: ControlPoint) -> bool:
    """Whether the two tangents are collinear, so that the curve has no corner there."""
    lengths = math.hypot(point.in_dx, point.in_dy) * math.hypot(point.out_dx, point.out_dy)
    along = point.in_dx * point.out_dx + point.in_dy * point.out_dy
    return lengths > 0 and along / lengths < _SMOOTH_COSINE


def smooth(points: Points, indices: Collection[int], closed: bool) -> Points:
    """The points with tangents parallel to the chord of their neighbours, a third of the distance to each.

    The ends of an open curve point at their only neighbour. Source: Catmull-Rom in Bezier form, with lengths by the
    distance to each neighbour, so that uneven spacing makes no bulge.
    """
    return tuple(_smooth_point(points, i, closed) if i in indices else point for i, point in enumerate(points))


def cusp(points: Points, indices: Collection[int]) -> Points:
    """The points as corners: no tangents."""
    return tuple(ControlPoint(p.x, p.y) if i in indices else p for i, p in enumerate(points))


def join(points: Points, indices: Collection[int]) -> Points:
    """The points with collinear tangents, half way between their directions; lengths stay."""
    return tuple(_align_handles(p) if i in indices else p for i, p in enumerate(points))


def mirror_tangents(points: Points, indices: Collection[int]) -> Points:
    """The points with collinear tangents of equal length, the mean of the two."""
    return tuple(_mirror_handles(_align_handles(p)) if i in indices else p for i, p in enumerate(points))


def drag(points: Points, index: int, side: Side, to: tuple[float, float], mode: Mode) -> Points:
    """The points with one tangent set to an offset.

    The other tangent: with `turn` it rotates and keeps its length; with `mirror` it also takes the same length; with
    `alone` it stays.
    """
    p = points[index]
    other = (p.out_dx, p.out_dy) if side == "in" else (p.in_dx, p.in_dy)
    length = math.hypot(*to)
    if mode == "mirror":
        other = (-to[0], -to[1])
    elif mode == "turn" and length > 0:
        share = math.hypot(*other) / length
        other = (-to[0] * share, -to[1] * share)
    moved = ControlPoint(p.x, p.y, *to, *other) if side == "in" else ControlPoint(p.x, p.y, *other, *to)
    return (*points[:index], moved, *points[index + 1 :])


def _smooth_point(points: Points, index: int, closed: bool) -> ControlPoint:
    p, last = points[index], len(points) - 1
    before = points[index - 1] if index > 0 or closed else p
    after = points[(index + 1) % len(points)] if index < last or closed else p
    dx, dy = after.x - before.x, after.y - before.y
    chord = math.hypot(dx, dy)
    if chord == 0:
        return ControlPoint(p.x, p.y)
    back = math.hypot(p.x - before.x, p.y - before.y) * _THIRD / chord
    forth = math.hypot(after.x - p.x, after.y - p.y) * _THIRD / chord
    return ControlPoint(p.x, p.y, -dx * back, -dy * back, dx * forth, dy * forth)


def _align_handles(p: ControlPoint) -> ControlPoint:
    come, go = math.hypot(p.in_dx, p.in_dy), math.hypot(p.out_dx, p.out_dy)
    if come == 0 or go == 0:
        return p
    dx, dy = p.out_dx / go - p.in_dx / come, p.out_dy / go - p.in_dy / come
    length = math.hypot(dx, dy)
    if length < 1e-9:  # folded back on itself: use the normal of the incoming one
        dx, dy, length = -p.in_dy / come, p.in_dx / come, 1.0
    dx, dy = dx / length, dy / length
    return ControlPoint(p.x, p.y, -dx * come, -dy * come, dx * go, dy * go)


def _mirror_handles(p: ControlPoint) -> ControlPoint:
    come, go = math.hypot(p.in_dx, p.in_dy), math.hypot(p.out_dx, p.out_dy)
    if come == 0 and go == 0:
        return p
    mean = (come + go) / 2
    dx, dy = (p.out_dx / go, p.out_dy / go) if go > 0 else (-p.in_dx / come, -p.in_dy / come)
    return ControlPoint(p.x, p.y, -dx * mean, -dy * mean, dx * mean, dy * mean)
