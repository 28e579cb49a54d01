"""Strokes as closed outlines, for formats that cannot draw open curves.

Standard library only. A band consists of two sides and round ends, and includes the taper. It has the same number of
points at every key. First every segment is split into PIECES; then the sides are offset from the curve's points and
handles (Tiller and Hanson's offset of a Bezier curve: handles are scaled with the chord).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from rotopaint_ai.shapes.edit_points import point_between
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, ControlPoint, Key, Points, RotoDocument, RotoShape

PIECES: Final = 4
_ARC: Final = 4.0 / 3.0 * (math.sqrt(2.0) - 1.0)  # handle of a quarter circle of radius 1
_TINY: Final = 1e-9

Vector = tuple[float, float]


def closed_strokes(document: RotoDocument) -> RotoDocument:
    """The document with every open shape of two points or more as a closed band of its width and taper."""
    shapes = tuple(shape if shape.closed or not shape.keys else stroke_outline(shape) for shape in document.shapes)
    return replace(document, shapes=shapes)


def stroke_outline(shape: RotoShape) -> RotoShape:
    """An open shape's matte as a closed shape of the same name, keys and feather."""
    width = width_of(shape)
    keys = {
        frame: Key(widened_outline(key.points, width, shape.taper), key.source, key.interpolation)
        for frame, key in shape.keys.items()
    }
    return replace(shape, closed=True, keys=keys, width_px=None, taper=(0.0, 0.0))


def width_of(shape: RotoShape) -> float:
    """The width in pixels with which an open shape is drawn."""
    return DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px


@lru_cache(maxsize=4096)  # cached: a written file is compared with the same outlines
def widened_outline(points: Points, width_px: float, taper: tuple[float, float] = (0.0, 0.0)) -> Points:
    """The closed outline of a stroke along an open curve."""
    fine = _split_segments(points)
    halves = [share * width_px / 2 for share in _width_shares(fine, taper)]
    ways = [_way(fine, i) for i in range(len(fine))]
    left = _side_of_curve(fine, [(y * h, -x * h) for (x, y), h in zip(ways, halves, strict=True)])
    right = _side_of_curve(fine, [(-y * h, x * h) for (x, y), h in zip(ways, halves, strict=True)])
    back = [ControlPoint(p.x, p.y, p.out_dx, p.out_dy, p.in_dx, p.in_dy) for p in reversed(right)]
    end = _tip(fine[-1], ways[-1], halves[-1])
    start = _tip(fine[0], (-ways[0][0], -ways[0][1]), halves[0])
    left[-1] = _with_out(left[-1], ways[-1], halves[-1])
    back[0] = _with_in(back[0], ways[-1], halves[-1])
    back[-1] = _with_out(back[-1], (-ways[0][0], -ways[0][1]), halves[0])
    left[0] = _with_in(left[0], (-ways[0][0], -ways[0][1]), halves[0])
    return (*left, end, *back, start)


def feather_shares(points: Points, taper: tuple[float, float]) -> list[float]:
    """Share of the full feather at each point of an outline; the feather narrows with the stroke."""
    shares = _width_shares(_split_segments(points), taper)
    return [*shares, shares[-1], *reversed(shares), shares[0]]


def _split_segments(points: Points) -> list[ControlPoint]:
    """The same curve with every segment in equal parameter pieces."""
    if len(points) < 2:
        return list(points)
    fine = [points[0]]
    for b in points[1:]:
        rest, last = fine.pop(), b
        for piece in range(PIECES, 1, -1):
            first, middle, last_in = _halve(rest, last, 1.0 / piece)
            fine.append(first)
            rest, last = middle, last_in
        fine += [rest, last]
    return fine


def _halve(a: ControlPoint, b: ControlPoint, t: float) -> tuple[ControlPoint, ControlPoint, ControlPoint]:
    """A segment split at t: its start, the new point and its end, with the handles of the two pieces."""
    p = [(a.x, a.y), (a.x + a.out_dx, a.y + a.out_dy), (b.x + b.in_dx, b.y + b.in_dy), (b.x, b.y)]
    q = [point_between(p[i], p[i + 1], t) for i in range(3)]
    r = [point_between(q[i], q[i + 1], t) for i in range(2)]
    x, y = point_between(r[0], r[1], t)
    begin = a._replace(out_dx=q[0][0] - a.x, out_dy=q[0][1] - a.y)
    middle = ControlPoint(x, y, r[0][0] - x, r[0][1] - y, r[1][0] - x, r[1][1] - y)
    return begin, middle, b._replace(in_dx=q[2][0] - b.x, in_dy=q[2][1] - b.y)


def _width_shares(points: list[ControlPoint], taper: tuple[float, float]) -> list[float]:
    """Share of the full width at each point, from the length of the curve up to the point."""
    if not any(taper):
        return [1.0] * len(points)
    steps = [_length(a, b) for a, b in pairwise(points)]
    total = sum(steps)
    if total < _TINY:
        return [1.0] * len(points)
    found, at = [], 0.0
    for step in (0.0, *steps):
        at += step
        begin = at / (taper[0] * total) if taper[0] > 0 else 1.0
        end = (total - at) / (taper[1] * total) if taper[1] > 0 else 1.0
        found.append(max(0.0, min(1.0, begin, end)))
    return found


def _length(a: ControlPoint, b: ControlPoint) -> float:
    """Length of a segment, approximated by the chords of eight pieces."""
    x, y, total = a.x, a.y, 0.0
    for i in range(1, 9):
        t, u = i / 8, 1 - i / 8
        weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
        xs = (a.x, a.x + a.out_dx, b.x + b.in_dx, b.x)
        ys = (a.y, a.y + a.out_dy, b.y + b.in_dy, b.y)
        nx, ny = (sum(w * v for w, v in zip(weights, vs, strict=True)) for vs in (xs, ys))
        total, x, y = total + math.hypot(nx - x, ny - y), nx, ny
    return total


def _way(points: list[ControlPoint], i: int) -> Vector:
    """Unit direction of the curve at a point; at a corner the mean direction."""
    p = points[i]
    ways = []
    if i > 0:
        a = points[i - 1]
        ways.append(
            _unit_vector((-p.in_dx, -p.in_dy), (p.x - a.x - a.out_dx, p.y - a.y - a.out_dy), (p.x - a.x, p.y - a.y))
        )
    if i + 1 < len(points):
        b = points[i + 1]
        ways.append(
            _unit_vector((p.out_dx, p.out_dy), (b.x + b.in_dx - p.x, b.y + b.in_dy - p.y), (b.x - p.x, b.y - p.y))
        )
    return _unit_vector((sum(x for x, _ in ways), sum(y for _, y in ways)), *ways, (1.0, 0.0))


def _unit_vector(*vectors: Vector) -> Vector:
    for x, y in vectors:
        length = math.hypot(x, y)
        if length > _TINY:
            return x / length, y / length
    return 0.0, 0.0


def _side_of_curve(points: list[ControlPoint], shifts: list[Vector]) -> list[ControlPoint]:
    """The curve moved by a vector at each point, with handles scaled by the ratio of the chords."""
    moved = [ControlPoint(p.x + dx, p.y + dy) for p, (dx, dy) in zip(points, shifts, strict=True)]
    grown = [1.0, *(_chord_ratio(points, moved, i) for i in range(len(points) - 1)), 1.0]
    return [
        ControlPoint(m.x, m.y, p.in_dx * a, p.in_dy * a, p.out_dx * b, p.out_dy * b)
        for p, m, a, b in zip(points, moved, grown, grown[1:])
    ]


def _chord_ratio(points: list[ControlPoint], moved: list[ControlPoint], i: int) -> float:
    before = math.hypot(points[i + 1].x - points[i].x, points[i + 1].y - points[i].y)
    after = math.hypot(moved[i + 1].x - moved[i].x, moved[i + 1].y - moved[i].y)
    return min(after / before, 4.0) if before > _TINY else 1.0


def _tip(p: ControlPoint, way: Vector, half: float) -> ControlPoint:
    """The outermost point of a round end; the outline crosses it from left to right of the curve's direction."""
    x, y = p.x + way[0] * half, p.y + way[1] * half
    dx, dy = -way[1] * half * _ARC, way[0] * half * _ARC
    return ControlPoint(x, y, -dx, -dy, dx, dy)


def _with_out(p: ControlPoint, way: Vector, half: float) -> ControlPoint:
    return p._replace(out_dx=way[0] * half * _ARC, out_dy=way[1] * half * _ARC)


def _with_in(p: ControlPoint, way: Vector, half: float) -> ControlPoint:
    return p._replace(in_dx=way[0] * half * _ARC, in_dy=way[1] * half * _ARC)
