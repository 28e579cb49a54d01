"""Edits of feather lines, point by point.

Standard library only. Offsets are plate pixels, from a control point to its point on the feather line.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from rotopaint_ai.shapes.edit import kind_at, merge_keys, replace_shape, shape_of
from rotopaint_ai.shapes.roto import Key, Points, RotoDocument, RotoShape

Offsets = Mapping[int, tuple[float, float]]


def pull_feather(document: RotoDocument, name: str, frames: Collection[int], offsets: Offsets) -> RotoDocument:
    """The document with points of a closed shape's feather line moved by (dx, dy), from where they are at each frame.

    The first feather line of a shape goes into every key, so that it stays in all frames, without changing provenance.
    A later change is an edit of these frames, which become human keys.
    """
    shape = shape_of(document, name)
    if not shape.has_feather_line:
        return replace_shape(
            document, name, shape.with_keys({f: _move_feather(shape, f, offsets) for f in shape.frames})
        )
    changed = {frame: replace(_move_feather(shape, frame, offsets), source="human") for frame in frames}
    return replace_shape(document, name, merge_keys(shape, changed))


def clear_feather(
    document: RotoDocument, name: str, frames: Collection[int], indices: Collection[int] | None = None
) -> RotoDocument:
    """The document with points of a feather line back on the edge at some frames; without `indices` no feather line."""
    shape = shape_of(document, name)
    if indices is None:
        keys = {frame: replace(key, feather=()) for frame, key in shape.keys.items()}
        return replace_shape(document, name, replace(shape, keys=keys, feather_px=0.0))
    if not shape.has_feather_line:
        return document
    for frame in frames:
        rows = shape.feather_at(frame)
        document = pull_feather(document, name, (frame,), {i: (-rows[i].x, -rows[i].y) for i in indices})
    return document


def outward_offset(points: Points, index: int, by_px: float) -> tuple[float, float]:
    """The offset of `by_px` pixels out of a closed shape at a control point, perpendicular to its neighbours' chord."""
    before, after = points[index - 1], points[(index + 1) % len(points)]
    dx, dy = after.x - before.x, after.y - before.y
    length = math.hypot(dx, dy)
    if length == 0.0:
        return 0.0, 0.0
    side = math.copysign(by_px / length, _signed_area_twice(points))
    return dy * side, -dx * side


def _signed_area_twice(points: Points) -> float:
    """Twice the signed area of the control polygon: positive if it runs clockwise on the screen (y down)."""
    return sum(a.x * b.y - a.y * b.x for a, b in zip(points, (*points[1:], points[0])))


def _move_feather(shape: RotoShape, frame: int, offsets: Offsets) -> Key:
    """A key of the shape at a frame, with its feather line moved."""
    points = shape.at(frame)
    rows = list(shape.feather_at(frame) or (p._replace(x=0.0, y=0.0) for p in points))
    for index, (dx, dy) in offsets.items():
        rows[index] = rows[index]._replace(x=rows[index].x + dx, y=rows[index].y + dy)
    known = shape.keys.get(frame) or Key(points, "human", kind_at(shape, frame))
    slopes = known.slopes and replace(known.slopes, feather_leaving=(), feather_arriving=())
    return replace(known, feather=tuple(rows), slopes=slopes)
