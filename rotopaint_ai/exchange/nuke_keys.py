"""Keys of a shape from Nuke's curves: one set of keys for all points and the feather; linear, eased, and holds.

Standard library only. B-splines become Bezier shapes. Nuke's cubics stay cubics. Other motion (a layer that moves, keys
that step in some numbers only, handles of other lengths) becomes linear keys within 0.1 px of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import FAR_PX
from rotopaint_ai.exchange.nuke_motion import Motion, apply_motion
from rotopaint_ai.exchange.nuke_tree import OPEN, RELATIVE, NukeCurve, NukeShape, as_float32
from rotopaint_ai.shapes.bake import TOLERANCE_PX, turning_frames
from rotopaint_ai.shapes.layers import Matrix
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points, Slopes, feather_line

STRAIGHT_PX = 0.001  # a cubic that deviates less from its chord counts as linear
_MAX_SAMPLES = 4000  # frames sampled between two keys

Six = tuple[float, float, float, float, float, float]
Components = Sequence[tuple[NukeCurve, ...]]


class DrawnPose(NamedTuple):
    """A shape at a frame, or its change per frame: control points and feather rows, as in `Key`."""

    points: Points
    feather: Points

    @property
    def all_points(self) -> Points:
        """All points that are drawn: the control points and the feather line."""
        return (*self.points, *feather_line(self.points, self.feather)) if self.feather else self.points


PoseAt = Callable[[float], DrawnPose]


def nuke_keys_of(
    curves: Components,
    feather: Components | None,
    moved: Motion,
    shape: NukeShape,
    height: int,
    report: Callable[[str], None],
    *,
    lift: int = 0,
) -> dict[int | None, Key]:
    """Keys by frame in plate space; a shape without animation has one key, under None.

    `curves` are six components for each control point (two for a B-spline's), `feather` those of the feather curve.
    `report` is called with each change that was needed. `lift`: height of the plate minus the height for which the node
    was drawn, pixels.
    """
    if not curves:
        return {}
    every = [*curves, *(feather or ())]
    times = sorted({key.time for row in every for curve in row for key in curve.keys}.union(moved.times))
    placer = _Placer(curves, feather, moved, shape, height, lift)
    place = placer.at
    if not times:
        return {None: Key(place(0.0).points, "human", feather=place(0.0).feather)}
    frames = sorted({whole for time in times for whole in (math.floor(time), math.ceil(time))})
    if any(time != int(time) for time in times):
        report("keys between frames were moved to the neighbouring frames")
    keys = {frame: Key(place(frame).points, "human", feather=place(frame).feather) for frame in frames}
    extra = 0
    for begin, end in pairwise(frames):
        kind, between = _segment(every, moved, place, begin, end)
        slopes = placer.slopes(begin, end) if kind == "smooth" else None
        keys[begin] = replace(keys[begin], interpolation="ease" if _is_still(slopes) else kind, slopes=slopes)
        extra += len(between)
        for frame in between:
            keys[frame] = Key(place(frame).points, "human", feather=place(frame).feather)
    if extra:
        report(f"moves that are not cubic got {extra} additional linear keys, within {TOLERANCE_PX} px")
    if len(frames) > 1 and keys[frames[-2]].interpolation == "hold" and _all_step(every, frames[-1]):
        keys[frames[-1]] = replace(keys[frames[-1]], interpolation="hold")
    held = _held_twice(keys)
    found = {
        frame: replace(keys[frame], interpolation="hold") if frame in held else keys[frame]
        for frame in sorted(keys)
        if frame - 1 not in held
    }
    return {frame: replace(key, slopes=None) if key.interpolation != "smooth" else key for frame, key in found.items()}


def _is_still(slopes: Slopes | None) -> bool:
    """Whether every number has slope 0 at both ends."""
    if slopes is None:
        return False
    rows = (*slopes.leaving, *slopes.arriving, *slopes.feather_leaving, *slopes.feather_arriving)
    return not any(value for row in rows for value in row)


def _held_twice(keys: Mapping[int, Key]) -> set[int]:
    """The keys with each pair "end of a move, then a frame later a hold of the same points" joined to one hold.

    The writer needs two keys for a move into a hold. Pairs that the writer never makes stay two keys.
    """
    frames = sorted(keys)
    return {
        here
        for before, here, after in zip(frames, frames[1:], frames[2:])
        if after == here + 1
        and here > before + 1
        and keys[before].interpolation != "hold"
        and keys[here].interpolation == "linear"
        and _drawn_pose(keys[before]) != _drawn_pose(keys[here])
        and keys[after].interpolation == "hold"
        and _drawn_pose(keys[after]) == _drawn_pose(keys[here])
        and after != frames[-1]
    }


def _drawn_pose(key: Key) -> DrawnPose:
    return DrawnPose(key.points, key.feather)


def _all_step(curves: Components, frame: int) -> bool:
    """Whether all keys of the curves at a frame are steps; False where there is no key."""
    found = False
    for row in curves:
        for curve in row:
            place = bisect_left(curve.keys, float(frame), key=lambda key: key.time)
            if place < len(curve.keys) and curve.keys[place].time == frame:
                found = True
                if not curve.keys[place].step:
                    return False
    return found


class _Placer:
    """Computes control points and feather in plate space at a frame, and caches each frame.

    Numbers are rounded to 32-bit floats in Nuke's space, so that writing the document to a `.nk` and reading it again
    changes nothing.
    """

    def __init__(
        self, curves: Components, feather: Components | None, moved: Motion, shape: NukeShape, height: int, lift: int
    ) -> None:
        self._curves, self._feather, self._moved, self._shape = curves, feather, moved, shape
        self._height, self._lift = height, lift
        self._known: dict[float, DrawnPose] = {}

    def at(self, frame: float) -> DrawnPose:
        """The shape at a frame."""
        if frame not in self._known:
            matrix = None if self._moved.is_identity else self._moved.at(frame)
            rows, ends = self._sixes(lambda curve: curve.at(frame))
            ends = [_transform_feather(matrix, six, end) if matrix else end for six, end in zip(rows, ends)]
            rows = [_transform_six(matrix, six) if matrix else six for six in rows]
            if self._lift:
                rows = [(*six[:3], six[3] + self._lift, *six[4:]) for six in rows]
            self._known[frame] = DrawnPose(
                tuple(self._key_point(six, self._height) for six in rows), tuple(map(self._offset, ends))
            )
        return self._known[frame]

    def slopes(self, begin: int, end: int) -> Slopes:
        """The slopes with which the shape leaves one frame and arrives at another, along cubics between them."""
        matrix = None if self._moved.is_identity else _linear_part(self._moved.at(begin))

        def moving(frame: int, is_leaving: bool) -> tuple[Points, Points]:
            rows, ends = self._sixes(lambda curve: curve.slope(frame, is_leaving))
            if matrix:
                rows, ends = ([_transform_six(matrix, six) for six in each] for each in (rows, ends))
            return tuple(map(self._offset, rows)), tuple(map(self._offset, ends))

        (leaving, feather_leaving), (arriving, feather_arriving) = moving(begin, True), moving(end, False)
        return Slopes(leaving, arriving, feather_leaving, feather_arriving)

    def _sixes(self, value: Callable[[NukeCurve], float]) -> tuple[list[Six], list[Six]]:
        """Six numbers for each control point in Nuke's space, and for each entry of the feather."""
        rows = [tuple(map(value, row)) for row in self._curves]
        ends = [tuple(map(value, row)) for row in self._feather or ()]
        outline = self._shape.outline
        if self._shape.kind == "bspline":
            closed = not outline.flags & OPEN
            return _bspline(rows, closed), _bspline(ends, closed)
        relative = self._shape.feather is None or bool(self._shape.feather.flags & RELATIVE)
        return (
            [_relative_handles(row, bool(outline.flags & RELATIVE)) for row in rows],
            [_relative_handles(row, relative) for row in ends],
        )

    def _key_point(self, six: Six, height: float) -> ControlPoint:
        left_x, left_y, x, y, right_x, right_y = _floats_32(six, self._shape.name)
        return ControlPoint(x, height - y, left_x, -left_y, right_x, -right_y)

    def _offset(self, six: Six) -> ControlPoint:
        return self._key_point(six, 0.0)


def _floats_32(six: Six, name: str) -> Iterator[float]:
    """A point's numbers as 32-bit floats. Raises DocumentError where one lies beyond the drawing limit."""
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


def _transform_six(m: Matrix, six: Six) -> Six:
    left_x, left_y, x, y, right_x, right_y = six
    px, py = apply_motion(m, x, y)
    lx, ly = apply_motion(m, x + left_x, y + left_y)
    rx, ry = apply_motion(m, x + right_x, y + right_y)
    return lx - px, ly - py, px, py, rx - px, ry - py


def _transform_feather(m: Matrix, six: Six, end: Six) -> Six:
    """An entry of the feather, which is an offset from its point, under a matrix."""
    moved = _transform_six(m, (*end[:2], six[2] + end[2], six[3] + end[3], *end[4:]))
    x, y = apply_motion(m, six[2], six[3])
    return (*moved[:2], moved[2] - x, moved[3] - y, *moved[4:])


def _linear_part(m: Matrix) -> Matrix:
    return (m[0], m[1], 0.0, m[3], m[4], 0.0, 0.0, 0.0, m[8])


def _bspline(rows: Sequence[Sequence[float]], closed: bool) -> list[Six]:
    """Uniform cubic B-spline control points as Bezier control points: (a + 4 b + c) / 6, tangents (c - a) / 6.

    The ends of an open curve are extended by reflection, so that it starts and ends on its first and last point.
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


def _segment(curves: Components, moved: Motion, place: PoseAt, begin: int, end: int) -> tuple[Interpolation, list[int]]:
    """A shape's interpolation between two key frames, and the frames that need a key where it is not cubic."""
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
    if known and not jumps and (end == begin + 1 or drift * 2 * math.sqrt(2) < STRAIGHT_PX):
        return "linear", []
    if known and not jumps and not moved.is_projective:
        return "smooth", []
    return _sampled_motion(place, begin, end)


def _span_motion(curve: NukeCurve, begin: int, end: int) -> tuple[bool, bool, float] | None:
    """For a curve without keys inside a span: whether it steps, whether it changes, its deviation from the chord.

    A cubic deviates from its chord by at most 4/27 of the span for each unit of slope beyond the chord's, at each end.
    None where there are keys inside the span, or where the curve is not a cubic of time there.
    """
    keys = curve.keys
    place = bisect_right(keys, float(begin), key=lambda key: key.time)
    if place == 0 and keys[0].time >= end:
        return False, False, 0.0
    if place == 0 or (place < len(keys) and keys[place].time < end):
        return None
    left = keys[place - 1]
    if place == len(keys):
        return left.step and left.time == begin, False, 0.0
    right = keys[place]
    if left.step:
        return True, right.time == end and left.value != right.value, 0.0
    if left.is_straight:
        return False, left.value != right.value, 0.0
    if left.right_weight != 1.0 or right.left_weight != 1.0:
        return None
    if left.time == begin and right.time == end:
        chord = (right.value - left.value) / (end - begin)
        stray = abs(left.right_slope - chord) + abs(right.left_slope - chord)
    else:
        chord = (curve.at(end) - curve.at(begin)) / (end - begin)
        stray = abs(curve.slope(begin, True) - chord) + abs(curve.slope(end, False) - chord)
    return False, left.value != right.value, stray * (end - begin) * 4 / 27


def _sampled_motion(place: PoseAt, begin: int, end: int) -> tuple[Interpolation, list[int]]:
    """As `_span_motion`, measured at every frame of the span."""
    stride = max(1, (end - begin) // _MAX_SAMPLES)
    frames = [*range(begin, end, stride), end]
    rows = [place(frame).all_points for frame in frames]
    if len(frames) > 2 and rows[-1] != rows[0] and all(row == rows[0] for row in rows[:-1]):
        return "hold", []
    return "linear", turning_frames(frames, rows)
