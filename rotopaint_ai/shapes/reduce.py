"""Fewer keys for the same motion, jointly over a shape's points, within a curve deviation in pixels.

Convention: F frames (rows, first to last key), M curve samples, D = 6 P numbers of a key.
A held run (frames with exactly equal points) stays exactly equal, and human keys stay exactly as they are. Motion
between them is approximated by linear segments whose keys are fitted, not taken from a frame (`knots`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import bezier, knots, samples
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.edit_layers import place_in_layer, to_layer_space
from rotopaint_ai.shapes.knots import Stretch
from rotopaint_ai.shapes.roto import Interpolation, Key, RotoDocument, RotoShape, Source, feather_line

_PER_SEGMENT = 6  # samples per cubic during the search; the deviation of linear motion is smooth along it
_LONGEST = 240  # longest stretch of rows in one fit


@dataclass(frozen=True, slots=True)
class _Motion:
    """A shape at every frame: key numbers, curve samples, rows equal to the previous row, rows to keep."""

    frames: NDArray[np.intp]
    rows_FD: Array
    samples_FMC: Array
    is_tied: NDArray[np.bool_]  # equal to the row before
    is_fixed: NDArray[np.bool_]  # keyed by a person


@dataclass(frozen=True, slots=True)
class _ReducedKey:
    """A key of the result: its row, its numbers (D,), and whether it holds until the next."""

    row: int
    numbers: Array
    holds: bool


def reduce_document(document: RotoDocument, tolerance_px: float) -> RotoDocument:
    """Every shape of a document with fewer keys; see `reduce_keys`."""
    return replace(document, shapes=tuple(reduce_keys(shape, tolerance_px) for shape in document.shapes))


def reduce_keys(shape: RotoShape, tolerance_px: float) -> RotoShape:
    """The shape with as few keys as keep its curve, feather line and width profile within `tolerance_px` at all frames.

    Human keys and held runs do not change. Other keys may lie between original poses, within the tolerance. Deviation
    is measured on the plate between points of equal parameter, which bounds the distance of the curves.
    """
    if len(shape.keys) < 2 or tolerance_px <= 0:
        return shape
    inside = to_layer_space(shape)
    motion = _motion_of(inside)
    aim = tolerance_px
    while True:
        reduced = _reduce_shape(inside, motion, aim)
        if shape.layer is not None:
            reduced = place_in_layer(reduced, shape.layer)
        strays = deviation(shape, reduced)
        if strays <= tolerance_px:
            return _with_edges_of(shape, reduced, tolerance_px)
        aim *= 0.995 * tolerance_px / strays  # the search uses fewer samples than this check


def deviation(a: RotoShape, b: RotoShape) -> float:
    """Largest distance in pixels between two shapes' curve points of equal parameter over all frames of both."""
    frames = sorted({*a.frames, *b.frames})
    return float(samples.distances(a, b, range(frames[0], frames[-1] + 1)).max())


def _with_edges_of(shape: RotoShape, reduced: RotoShape, tolerance_px: float) -> RotoShape:
    """A reduced shape with further keys where its feather line or width profile would stray from the shape's.

    The keys added between two others lie on the motion between these.
    """
    while shape.has_feather_line or shape.has_widths:
        keys = dict(reduced.keys)
        for left, right in pairwise((*reduced.frames, shape.frames[-1] + 1)):
            strays = {frame: _edges_apart(shape, reduced, frame) for frame in range(left + 1, right)}
            worst = max(strays, key=strays.__getitem__, default=left)
            if strays.get(worst, 0.0) > tolerance_px:
                source: Source = shape.keys[worst].source if worst in shape.keys else "model"
                kind, profiles = keys[left].interpolation, (shape.feather_at(worst), shape.widths_at(worst))
                keys[worst] = Key(reduced.at(worst), source, kind, *profiles)
                keys[left] = replace(keys[left], interpolation="linear")  # a hold's points are equal there
        if len(keys) == len(reduced.keys):
            break
        reduced = reduced.with_keys({frame: keys[frame] for frame in sorted(keys)})
    return reduced


def _edges_apart(a: RotoShape, b: RotoShape, frame: int) -> float:
    """The largest distance in pixels at a frame between two shapes' feather lines, handles included, and widths."""
    feathers = [(each.at(frame), each.feather_at(frame)) for each in (a, b)]
    lines = [feather_line(points, feather) if feather else () for points, feather in feathers]
    rows = np.array(lines[0]).reshape(-1, 3, 2) - np.array(lines[1]).reshape(-1, 3, 2)
    rows[:, 1:] += rows[:, :1]
    widths = np.array(a.widths_at(frame)).reshape(-1) - np.array(b.widths_at(frame)).reshape(-1)
    return float(max(np.hypot(rows[..., 0], rows[..., 1]).max(initial=0.0), np.abs(widths).max(initial=0.0)))


def _reduce_shape(shape: RotoShape, motion: _Motion, tolerance_px: float) -> RotoShape:
    keys: dict[int, Key] = {}
    for kept in _reduce_to_keys(motion, tolerance_px):
        frame = int(motion.frames[kept.row])
        old = shape.keys.get(frame)
        points = bezier.as_points(kept.numbers)
        if old is not None and np.array_equal(motion.rows_FD[kept.row], kept.numbers):
            points = old.points
        kind: Interpolation = "hold" if kept.holds else "linear"
        source: Source = "model" if old is None else old.source
        keys[frame] = Key(points, source, kind, shape.feather_at(frame), shape.widths_at(frame))
    return shape.with_keys(keys)


def _motion_of(shape: RotoShape) -> _Motion:
    first, last = shape.frames[0], shape.frames[-1]
    frames = np.arange(first, last + 1)
    rows = samples.rows(shape, frames)
    tied = np.concatenate(([False], (rows[1:] == rows[:-1]).all(axis=1)))
    fixed = np.zeros(len(frames), dtype=bool)
    for frame, key in shape.keys.items():
        fixed[frame - first] = key.source == "human"
    return _Motion(frames, rows, samples.curve_samples(rows, shape.closed, _PER_SEGMENT), tied, fixed)


# --- what stands still ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Still:
    """Rows without motion: the first and last one, the row of the pose, and rows keyed by a person."""

    begin: int
    end: int
    pose: int
    fixed: tuple[int, ...]


def _reduce_to_keys(motion: _Motion, tolerance_px: float) -> Iterator[_ReducedKey]:
    """The keys of the result in order: still parts become holds, moving parts are fitted."""
    stills = _merge_stills(motion, list(_stills(motion)), tolerance_px)
    after = 0
    for still in stills:
        if after < still.begin:
            yield from _moving_keys(motion, after, still, tolerance_px)
        for row in (still.begin, *(row for row in still.fixed if row != still.begin)):
            yield _ReducedKey(row, motion.rows_FD[still.pose], True)
        after = still.end + 1
    if after < len(motion.frames):
        yield from _moving_keys(motion, after, None, tolerance_px)


def _stills(motion: _Motion) -> Iterator[_Still]:
    """Every run of two or more equal rows."""
    starts = np.flatnonzero(~motion.is_tied)
    ends = np.append(starts[1:], len(motion.frames)) - 1
    for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end > begin:
            yield _Still(begin, end, begin, tuple((begin + np.flatnonzero(motion.is_fixed[begin : end + 1])).tolist()))


def _merge_stills(motion: _Motion, stills: Sequence[_Still], tolerance_px: float) -> list[_Still]:
    """Merge neighbouring runs if one of their poses is within the tolerance of all; never with a human key."""
    found: list[_Still] = []
    members: list[_Still] = []
    for still in stills:
        together = [*members, still]
        joins = bool(members) and members[-1].end + 1 == still.begin and not any(each.fixed for each in together)
        pose = _middle_row(motion, [each.pose for each in together], tolerance_px) if joins else None
        if pose is None:
            members = [still]
            found.append(still)
        else:
            members = together
            found[-1] = _Still(found[-1].begin, still.end, pose, ())
    return found


def _middle_row(motion: _Motion, rows: Sequence[int], tolerance_px: float) -> int | None:
    """The row whose curve is closest to those of all rows; None if it is beyond the tolerance."""
    curves = motion.samples_FMC[list(rows)]
    away = [float(samples.pick_farthest(curves - curve).max()) for curve in curves]
    best = int(np.argmin(away))
    return rows[best] if away[best] <= tolerance_px else None


# --- what moves -------------------------------------------------------------------------------------------------------


def _moving_keys(motion: _Motion, first: int, into: _Still | None, tolerance_px: float) -> Iterator[_ReducedKey]:
    """Keys from row `first` to the next still part (without its own key), or to the last row."""
    last = len(motion.frames) - 1 if into is None else into.begin
    table = np.concatenate((motion.rows_FD, motion.samples_FMC.reshape(len(motion.frames), -1)), axis=1)[
        first : last + 1
    ].copy()
    if into is not None:
        table[-1, : motion.rows_FD.shape[1]] = motion.rows_FD[into.pose]
        table[-1, motion.rows_FD.shape[1] :] = motion.samples_FMC[into.pose].reshape(-1)
    fixed = [row for row in (first + np.flatnonzero(motion.is_fixed[first : last + 1])).tolist() if first < row < last]
    ends = [first, *fixed, last]
    kept: list[_ReducedKey] = []
    for begin, end in pairwise(ends) if last > first else ():
        pins = (bool(kept) or bool(motion.is_fixed[begin]), end < last or into is not None or motion.is_fixed[end])
        part = _fit_keys(table[begin - first : end - first + 1], motion.rows_FD.shape[1], pins, tolerance_px)
        kept += [_ReducedKey(begin + row, numbers, False) for row, numbers in part[1 if kept else 0 :]]
    if last == first:
        kept = [_ReducedKey(first, motion.rows_FD[first], False)]
    yield from kept[:-1] if into is not None else kept


def _fit_keys(
    table: Array, n_numbers: int, pins: tuple[bool, bool], tolerance_px: float
) -> list[tuple[int, NDArray[np.float64]]]:
    """Rows and numbers of the keys of a stretch, fitted part by part."""
    found: list[tuple[int, Array]] = []
    begin, first_pinned = 0, pins[0]
    while True:
        end = min(begin + _LONGEST, len(table) - 1)
        is_last = end == len(table) - 1
        part = knots.fit_fewest_keys(
            Stretch(table[begin : end + 1], n_numbers, (first_pinned, is_last and pins[1])), tolerance_px
        )
        n = len(part.rows) if is_last else max(2, len(part.rows) - 1)  # the last key of a part has no successor yet
        found = found[: -1 if begin else None]
        found += [(begin + part.rows[i], part.values[i, :n_numbers]) for i in range(n)]
        if is_last:
            return found
        begin, first_pinned = begin + part.rows[n - 1], True
        table[begin] = part.values[n - 1]
