"""Insert and delete control points in all keys at once, and find the nearest point on a curve.

Standard library only. Inserting a point changes no curve; after deleting one, its neighbours' tangents are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import between
from rotopaint_ai.shapes.edit import replace_shape, shape_of
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Key,
    Points,
    RotoDocument,
    RotoShape,
    Slopes,
    StrokeWidth,
    Widths,
    feather_line,
    feather_rows,
)

Place = tuple[float, float]
Cubic = tuple[Place, Place, Place, Place]

_SEARCH_STEPS = 16  # samples of each cubic before the best one is refined
_GOLDEN = (math.sqrt(5) - 1) / 2
_FIT_STEPS = 24  # samples of each cubic that the fit after a deletion must follow
_FIT_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CurveLocation:
    """A point on a curve: segment, parameter, position, and distance from the query."""

    segment: int
    t: float
    x: float
    y: float
    distance: float


def find_nearest(points: Points, closed: bool, x: float, y: float) -> CurveLocation | None:
    """The point of a curve nearest to (x, y), to a thousandth of a pixel; None without segments."""
    cubics = cubics_of(points, closed)
    steps = [step / _SEARCH_STEPS for step in range(_SEARCH_STEPS + 1)]
    rough = sorted((*min((_distance_squared(cubic, t, x, y), t) for t in steps), n) for n, cubic in enumerate(cubics))
    near = [_on_curve(cubics[n], n, start, x, y) for _, start, n in rough[:3]]
    return min(near, key=lambda each: each.distance, default=None)


def add_point(document: RotoDocument, name: str, segment: int, t: float) -> RotoDocument:
    """The document with one more control point in a shape, on its curve, in every key.

    No curve changes, at the keys or between them: de Casteljau's algorithm at a fixed t is linear in the control
    points, and so is interpolation.
    """
    shape = shape_of(document, name)
    last = shape.n_points - (1 if shape.closed else 2)
    if not 0 <= segment <= last or not 0.0 < t < 1.0:
        raise DocumentError(f"shape '{name}': no point at segment {segment}, t {t:g}; segments run from 0 to {last}")
    split = partial(_split_at, segment=segment, t=t)
    changed = _every_key(shape, split, lambda widths: _widths_split(widths, segment, t), is_linear=True)
    return replace_shape(document, name, changed)


def delete_points(document: RotoDocument, name: str, indices: Collection[int]) -> RotoDocument:
    """The document without some control points of a shape, in every key; their neighbours' tangents follow the curve.

    Tangent directions at the neighbours stay, so that smooth points stay smooth; lengths are fitted by least squares. A
    closed shape keeps at least 3 points, an open one 2. Polygons stay polygons.
    """
    shape = shape_of(document, name)
    stray = sorted(index for index in indices if not 0 <= index < shape.n_points)
    if stray:
        raise DocumentError(f"shape '{name}': no control point {stray[0]}; it has {shape.n_points}, from 0")
    least = 3 if shape.closed else 2
    kept = [index for index in range(shape.n_points) if index not in set(indices)]
    if len(kept) < least:
        raise DocumentError(f"shape '{name}': needs {least} of its {shape.n_points} points; delete the shape instead")
    without = partial(_without_points, kept=kept, closed=shape.closed)
    return replace_shape(
        document, name, _every_key(shape, without, lambda widths: tuple(widths[index] for index in kept))
    )


# --- cubics -----------------------------------------------------------------------------------------------------------


def cubics_of(points: Points, closed: bool) -> list[Cubic]:
    """The cubics between control points, with absolute handles."""
    pairs = list(pairwise(points))
    if closed and len(points) > 1:
        pairs.append((points[-1], points[0]))
    return [_segment_cubic(a, b) for a, b in pairs]


def at(cubic: Cubic, t: float) -> Place:
    """A cubic's point at t."""
    u = 1.0 - t
    a, b, c, d = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = cubic
    return a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3


def _segment_cubic(a: ControlPoint, b: ControlPoint) -> Cubic:
    return (a.x, a.y), (a.x + a.out_dx, a.y + a.out_dy), (b.x + b.in_dx, b.y + b.in_dy), (b.x, b.y)


def _cubic_slope(cubic: Cubic, t: float) -> Place:
    u = 1.0 - t
    a, b, c = 3 * u * u, 6 * u * t, 3 * t * t
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = cubic
    return a * (x1 - x0) + b * (x2 - x1) + c * (x3 - x2), a * (y1 - y0) + b * (y2 - y1) + c * (y3 - y2)


def _distance_squared(cubic: Cubic, t: float, x: float, y: float) -> float:
    px, py = at(cubic, t)
    return (px - x) ** 2 + (py - y) ** 2


def _on_curve(cubic: Cubic, segment: int, start: float, x: float, y: float) -> CurveLocation:
    """The nearest point within one search step of `start`, by golden-section search."""
    low, high = max(start - 1 / _SEARCH_STEPS, 0.0), min(start + 1 / _SEARCH_STEPS, 1.0)
    for _ in range(30):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (
            (low, right)
            if _distance_squared(cubic, left, x, y) < _distance_squared(cubic, right, x, y)
            else (left, high)
        )
    t = (low + high) / 2
    px, py = at(cubic, t)
    return CurveLocation(segment, t, px, py, math.hypot(px - x, py - y))


def _every_key(
    shape: RotoShape,
    change: Callable[[Points], Points],
    of_widths: Callable[[Widths], Widths],
    *,
    is_linear: bool = False,
) -> RotoShape:
    """The shape with all its keys changed, feather lines included. Slopes are dropped unless the change is linear."""

    def both(points: Points, feather: Points) -> tuple[Points, Points]:
        made = change(points)
        return made, feather_rows(made, change(feather_line(points, feather))) if feather else ()

    def of_slopes(old: Slopes) -> Slopes:
        leaving, feather_leaving = both(old.leaving, old.feather_leaving)
        arriving, feather_arriving = both(old.arriving, old.feather_arriving)
        return Slopes(leaving, arriving, feather_leaving, feather_arriving)

    def changed(key: Key) -> Key:
        points, feather = both(key.points, key.feather)
        slopes = of_slopes(key.slopes) if is_linear and key.slopes else None
        return replace(key, points=points, feather=feather, widths=key.widths and of_widths(key.widths), slopes=slopes)

    return shape.with_keys({frame: changed(key) for frame, key in shape.keys.items()})


def _widths_split(widths: Widths, segment: int, t: float) -> Widths:
    after = widths[(segment + 1) % len(widths)]
    (new,) = between.interpolate_linear([widths[segment]], [after], t)
    return (*widths[: segment + 1], StrokeWidth(*new), *widths[segment + 1 :])


def _split_at(points: Points, segment: int, t: float) -> Points:
    """Insert a control point at t of a segment by de Casteljau's algorithm."""
    after = (segment + 1) % len(points)
    p0, p1, p2, p3 = _segment_cubic(points[segment], points[after])
    ab, bc, cd = point_between(p0, p1, t), point_between(p1, p2, t), point_between(p2, p3, t)
    abc, bcd = point_between(ab, bc, t), point_between(bc, cd, t)
    x, y = point_between(abc, bcd, t)
    out = list(points)
    out[segment] = out[segment]._replace(out_dx=ab[0] - p0[0], out_dy=ab[1] - p0[1])
    out[after] = out[after]._replace(in_dx=cd[0] - p3[0], in_dy=cd[1] - p3[1])
    out.insert(segment + 1, ControlPoint(x, y, abc[0] - x, abc[1] - y, bcd[0] - x, bcd[1] - y))
    return tuple(out)


def point_between(a: Place, b: Place, t: float) -> Place:
    """The point at share `t` of the way from a to b."""
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t


# --- a point less -----------------------------------------------------------------------------------------------------


def _without_points(points: Points, kept: Sequence[int], closed: bool) -> Points:
    cubics = cubics_of(points, closed)
    out = {index: points[index] for index in kept}
    pairs = list(pairwise(kept))
    if closed:
        pairs.append((kept[-1], kept[0]))
    for a, b in pairs:
        n = (b - a) % len(points)
        if n > 1:
            run = [cubics[(a + step) % len(points)] for step in range(n)]
            start_tangent, end_tangent = _fit_tangents(run)
            out[a] = out[a]._replace(out_dx=start_tangent[0], out_dy=start_tangent[1])
            out[b] = out[b]._replace(in_dx=end_tangent[0], in_dy=end_tangent[1])
    return tuple(out[index] for index in kept)


def _fit_tangents(run: Sequence[Cubic]) -> tuple[Place, Place]:
    """The tangents of the single cubic that follows a run of cubics, with the same end directions.

    Source: Schneider, "An Algorithm for Automatically Fitting Digitized Curves", Graphics Gems (1990): least squares
    for the two lengths, parameters by arc length, then a Newton step on each parameter. Negative or undetermined
    lengths become a third of the chord.
    """
    if all(c[0] == c[1] and c[2] == c[3] for c in run):
        return (0.0, 0.0), (0.0, 0.0)
    samples = [at(cubic, step / _FIT_STEPS) for cubic in run for step in range(_FIT_STEPS)] + [run[-1][3]]
    start_tangent, end_tangent = _start_direction(run[0]), _start_direction(_reverse_cubic(run[-1]))
    ts = _arc_shares(samples)
    cubic = _fit_handles(samples, ts, start_tangent, end_tangent)
    for _ in range(_FIT_ROUNDS):
        ts = [_newton(cubic, sample, t) for sample, t in zip(samples, ts)]
        cubic = _fit_handles(samples, ts, start_tangent, end_tangent)
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = cubic
    return (x1 - x0, y1 - y0), (x2 - x3, y2 - y3)


def _fit_handles(samples: Sequence[Place], ts: Sequence[float], start_tangent: Place, end_tangent: Place) -> Cubic:
    """Schneider's two equations for the lengths of the end tangents, whose directions are given.

    `fit.fit_segments` solves another problem: with numpy, and with directions that are free too.
    """
    (x0, y0), (x3, y3) = samples[0], samples[-1]
    (sx, sy), (ex, ey) = start_tangent, end_tangent
    c00 = c01 = c11 = r0 = r1 = 0.0
    dot = sx * ex + sy * ey
    for (x, y), t in zip(samples, ts):
        u = 1.0 - t
        b0, b1, b2, b3 = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
        rx, ry = x - (b0 + b1) * x0 - (b2 + b3) * x3, y - (b0 + b1) * y0 - (b2 + b3) * y3
        c00, c01, c11 = c00 + b1 * b1, c01 + b1 * b2 * dot, c11 + b2 * b2
        r0, r1 = r0 + b1 * (sx * rx + sy * ry), r1 + b2 * (ex * rx + ey * ry)
    determinant = c00 * c11 - c01 * c01
    chord = math.hypot(x3 - x0, y3 - y0)
    alpha = beta = chord / 3
    if abs(determinant) > 1e-9:
        alpha, beta = (r0 * c11 - r1 * c01) / determinant, (c00 * r1 - c01 * r0) / determinant
    if min(alpha, beta) < 1e-6 * chord:
        alpha = beta = chord / 3
    return (x0, y0), (x0 + alpha * sx, y0 + alpha * sy), (x3 + beta * ex, y3 + beta * ey), (x3, y3)


def _newton(cubic: Cubic, sample: Place, t: float) -> float:
    (px, py), (dx, dy) = at(cubic, t), _cubic_slope(cubic, t)
    squared = dx * dx + dy * dy
    if squared < 1e-12:
        return t
    return min(max(t - ((px - sample[0]) * dx + (py - sample[1]) * dy) / squared, 0.0), 1.0)


def _start_direction(cubic: Cubic) -> Place:
    """Unit vector in which a cubic leaves its start."""
    x0, y0 = cubic[0]
    for x, y in cubic[1:]:
        length = math.hypot(x - x0, y - y0)
        if length > 1e-9:
            return (x - x0) / length, (y - y0) / length
    return 1.0, 0.0


def _reverse_cubic(cubic: Cubic) -> Cubic:
    return cubic[3], cubic[2], cubic[1], cubic[0]


def _arc_shares(line: Sequence[Place]) -> list[float]:
    lengths = [0.0]
    for (ax, ay), (bx, by) in pairwise(line):
        lengths.append(lengths[-1] + math.hypot(bx - ax, by - ay))
    total = lengths[-1] or 1.0
    return [length / total for length in lengths]
