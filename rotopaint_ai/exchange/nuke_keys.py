"""Keys of a shape out of Nuke's curves: one set for all points, straight moves and holds.

Standard library only. B-splines become Bezier shapes, eased moves linear keys that stay within 0.1 px of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import FAR_PX
from rotopaint_ai.exchange.nuke_motion import Matrix, Motion, apply_motion
from rotopaint_ai.exchange.nuke_tree import OPEN, RELATIVE, NukeCurve, NukeShape, as_float32
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points

TOLERANCE_PX = 0.1  # linear keys against an eased move
_MAX_SAMPLES = 4000  # frames looked at between two keys

Six = tuple[float, float, float, float, float, float]


def nuke_keys_of(
    curves: Sequence[tuple[NukeCurve, ...]],
    moved: Motion,
    shape: NukeShape,
    height: int,
    report: Callable[[str], None],
    *,
    lift: int = 0,
) -> dict[int | None, Key]:
    """Keys by frame in plate space; a shape without animation has one, under None.

    `curves` are six components for each control point, two for a B-spline's; `report` hears what had to change.
    `lift` is how much higher the plate of `height` is than the one that the node was drawn for.
    """
    times = sorted({key.time for row in curves for curve in row for key in curve.keys}.union(moved.times))
    if not curves:
        return {}
    place = _placer(curves, moved, shape, height, lift)
    if not times:
        return {None: Key(place(0.0), "human")}
    frames = sorted({whole for time in times for whole in (math.floor(time), math.ceil(time))})
    if any(time != int(time) for time in times):
        report("keys between frames were moved to the frames on either side")
    keys: dict[int, Key] = {frame: Key(place(frame), "human") for frame in frames}
    extra = 0
    for begin, end in pairwise(frames):
        kind, between = _segment(curves, moved, place, begin, end)
        keys[begin] = Key(keys[begin].points, "human", kind)
        extra += len(between)
        for frame in between:
            keys[frame] = Key(place(frame), "human")
    if extra:
        report(f"eased moves were given {extra} linear keys more, within {TOLERANCE_PX} px")
    if len(frames) > 1 and keys[frames[-2]].interpolation == "hold" and _all_step(curves, frames[-1]):
        keys[frames[-1]] = Key(keys[frames[-1]].points, "human", "hold")
    held = _held_twice(keys)
    return {
        frame: Key(keys[frame].points, "human", "hold" if frame in held else keys[frame].interpolation)
        for frame in sorted(keys)
        if frame - 1 not in held
    }


def _held_twice(keys: Mapping[int, Key]) -> set[int]:
    """Keys at the end of a move that are followed a frame later by a hold of the same points: they are holds.

    This is how the writer has to put a move into a hold; pairs that it never writes stay two keys.
    """
    frames = sorted(keys)
    return {
        here
        for before, here, after in zip(frames, frames[1:], frames[2:])
        if after == here + 1
        and here > before + 1
        and keys[before].interpolation == keys[here].interpolation == "linear"
        and keys[before].points != keys[here].points
        and keys[after].interpolation == "hold"
        and keys[after].points == keys[here].points
        and after != frames[-1]
    }


def _all_step(curves: Sequence[tuple[NukeCurve, ...]], frame: int) -> bool:
    """Whether every key that the curves have at a frame steps; False where they have none there."""
    found = False
    for row in curves:
        for curve in row:
            place = bisect_left(curve.keys, float(frame), key=lambda key: key.time)
            if place < len(curve.keys) and curve.keys[place].time == frame:
                found = True
                if not curve.keys[place].step:
                    return False
    return found


def _placer(
    curves: Sequence[tuple[NukeCurve, ...]], moved: Motion, shape: NukeShape, height: int, lift: int
) -> Callable[[float], Points]:
    """A function that gives the control points in plate space at a frame, each frame worked out once.

    Numbers are rounded to 32-bit floats in Nuke's space, so that writing the document to a `.nk` and reading it again
    changes nothing.
    """
    known: dict[float, Points] = {}
    relative = bool(shape.outline.flags & RELATIVE)
    closed = not shape.outline.flags & OPEN

    def place(frame: float) -> Points:
        if frame not in known:
            rows = [tuple(curve.at(frame) for curve in row) for row in curves]
            sixes = (
                _bspline(rows, closed)
                if shape.kind == "bspline"
                else [_relative_handles(row, relative) for row in rows]
            )
            if not moved.is_identity:
                matrix = moved.at(frame)
                sixes = [_transformed(matrix, six) for six in sixes]
            if lift:
                sixes = [(*six[:3], six[3] + lift, *six[4:]) for six in sixes]
            known[frame] = tuple(
                ControlPoint(x, height - y, left_x, -left_y, right_x, -right_y)
                for left_x, left_y, x, y, right_x, right_y in (_floats_32(six, shape.name) for six in sixes)
            )
        return known[frame]

    return place


def _floats_32(six: Six, name: str) -> Iterator[float]:
    """A point's numbers as 32-bit floats. Raises DocumentError where one is farther out than anything is drawn."""
    if not all(abs(value) <= FAR_PX for value in six):
        raise DocumentError(
            f"shape {name[:60]}: a point or handle lies beyond {FAR_PX:,.0f} px; delete the shape in Nuke"
        )
    return map(as_float32, six)


def _relative_handles(row: Sequence[float], relative: bool) -> Six:
    left_x, left_y, x, y, right_x, right_y = row
    if relative:
        return left_x, left_y, x, y, right_x, right_y
    return left_x - x, left_y - y, x, y, right_x - x, right_y - y


def _transformed(m: Matrix, six: Six) -> Six:
    left_x, left_y, x, y, right_x, right_y = six
    px, py = apply_motion(m, x, y)
    lx, ly = apply_motion(m, x + left_x, y + left_y)
    rx, ry = apply_motion(m, x + right_x, y + right_y)
    return lx - px, ly - py, px, py, rx - px, ry - py


def _bspline(rows: Sequence[Sequence[float]], closed: bool) -> list[Six]:
    """Uniform cubic B-spline control points as Bezier control points: (a + 4 b + c) / 6, tangents (c - a) / 6.

    The ends of an open one are doubled by reflection, so that it starts and ends on its first and last point.
    """
    n = len(rows)
    if n < 2:
        return [(0.0, 0.0, row[0], row[1], 0.0, 0.0) for row in rows]
    points: list[Six] = []
    for i, (bx, by) in enumerate(rows):
        ax, ay = rows[i - 1] if closed or i > 0 else (2 * bx - rows[1][0], 2 * by - rows[1][1])
        cx, cy = rows[(i + 1) % n] if closed or i + 1 < n else (2 * bx - rows[-2][0], 2 * by - rows[-2][1])
        dx, dy = (cx - ax) / 6, (cy - ay) / 6
        points.append((-dx, -dy, (ax + 4 * bx + cx) / 6, (ay + 4 * by + cy) / 6, dx, dy))
    return points


def _segment(
    curves: Sequence[tuple[NukeCurve, ...]], moved: Motion, place: Callable[[float], Points], begin: int, end: int
) -> tuple[Interpolation, list[int]]:
    """How a shape goes from one key frame to the next: hold, or linear with the frames that need a key between."""
    jumps, drift, steps = False, 0.0, True
    known = not moved.is_animated
    for row in curves:
        for curve in row:
            if not curve.keys or not known:
                continue
            verdict = _span_motion(curve, begin, end)
            if verdict is None:
                known = False
                continue
            step, change, deviation = verdict
            jumps = jumps or (step and change)
            steps = steps and (step or not (change or deviation))
            drift = max(drift, deviation)
    if known and steps and (jumps or _all_step(curves, begin)):
        return "hold", []
    if known and not jumps and drift * 2 * math.sqrt(2) < TOLERANCE_PX:
        return "linear", []
    return _sampled_motion(place, begin, end)


def _span_motion(curve: NukeCurve, begin: int, end: int) -> tuple[bool, bool, float] | None:
    """For a curve with keys exactly at both ends or none inside: whether it steps, changes, strays from the chord.

    A cubic strays from its chord by at most 4/27 of the span for each unit of slope beyond the chord's, at each end.
    None where the keys lie otherwise.
    """
    keys = curve.keys
    place = bisect_left(keys, float(begin), key=lambda key: key.time)
    if place == len(keys):
        return False, False, 0.0
    left = keys[place]
    if left.time != begin:
        if place == 0 and left.time >= end:
            return False, False, 0.0
        return None
    if place + 1 == len(keys):
        return left.step, False, 0.0
    right = keys[place + 1]
    if right.time != end:
        return None
    if left.step:
        return True, left.value != right.value, 0.0
    if left.is_straight:
        return False, left.value != right.value, 0.0
    if left.right_weight != 1.0 or right.left_weight != 1.0:
        return None
    span = right.time - left.time
    chord = (right.value - left.value) / span
    stray = abs(left.right_slope - chord) + abs(right.left_slope - chord)
    return False, left.value != right.value, stray * span * 4 / 27


def _sampled_motion(place: Callable[[float], Points], begin: int, end: int) -> tuple[Interpolation, list[int]]:
    """The same by looking at every frame between."""
    stride = max(1, (end - begin) // _MAX_SAMPLES)
    frames = [*range(begin, end, stride), end]
    rows = [place(frame) for frame in frames]
    if len(frames) > 2 and rows[-1] != rows[0] and all(row == rows[0] for row in rows[:-1]):
        return "hold", []
    kept: list[int] = []
    todo = [(0, len(frames) - 1)]
    while todo:
        a, b = todo.pop()
        worst, at = _worst_row(frames, rows, a, b)
        if worst > TOLERANCE_PX * 0.9:
            kept.append(frames[at])
            todo += [(a, at), (at, b)]
    return "linear", sorted(kept)


def _worst_row(frames: Sequence[int], rows: Sequence[Points], a: int, b: int) -> tuple[float, int]:
    """The frame between rows a and b where the straight line between them strays furthest, and how far."""
    worst, at = 0.0, a
    for i in range(a + 1, b):
        w = (frames[i] - frames[a]) / (frames[b] - frames[a])
        for p, q, r in zip(rows[a], rows[b], rows[i], strict=True):
            dx, dy, ix, iy, ox, oy = (u + (v - u) * w - m for u, v, m in zip(p, q, r, strict=True))
            stray = max(math.hypot(dx, dy), math.hypot(dx + ix, dy + iy), math.hypot(dx + ox, dy + oy))
            if stray > worst:
                worst, at = stray, i
    return worst, at
