"""Moves landmarks with the control points that they lie on, where a correction was propagated. Standard library only.

A landmark belongs to the control point on which it lies in most frames. If a spread or a refit moved that point, the
landmark moves by the same offset; landmarks placed by a person stay.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import median_low

from rotopaint_ai.shapes.manual_keys import sits_within
from rotopaint_ai.shapes.roto import Landmark, Points, RotoDocument, RotoShape

N_LOOKED_AT = 9  # frames that decide which point a landmark lies on
Anchor = tuple[str, int]  # shape, control point


def with_landmarks(before: RotoDocument, after: RotoDocument) -> RotoDocument:
    """`after` with landmarks moved along with their control points, at the frames whose keys differ from `before`."""
    old = {shape.name: shape for shape in before.shapes}
    moved = {shape.name: _moved_frames(old[shape.name], shape) for shape in after.shapes if shape.name in old}
    anchors = _anchors(before, [name for name, frames in moved.items() if frames])
    marks = after.landmarks
    rows = dict(marks.keys)
    for frame in sorted(set().union(*moved.values())):
        row, hand = rows.get(frame), marks.hand.get(frame, frozenset())
        if row is None:
            continue
        points = {
            name: (old[name].at(frame), after.shape(name).at(frame))
            for name in {name for name, _ in anchors.values()}
            if frame in moved[name]
        }
        rows[frame] = tuple(
            mark if mark is None or marks.names[k] in hand else _follow_anchor(mark, anchors.get(k), points)
            for k, mark in enumerate(row)
        )
    return replace(after, landmarks=replace(marks, keys=rows))


def _moved_frames(old: RotoShape, new: RotoShape) -> frozenset[int]:
    return frozenset(
        frame
        for frame, key in new.keys.items()
        if frame in old.keys and old.keys[frame] is not key and old.keys[frame].points != key.points
    )


def _anchors(document: RotoDocument, shapes: Collection[str]) -> dict[int, Anchor]:
    """The control point of these shapes on which each landmark lies, by the landmark's index."""
    frames = sorted(document.landmarks.keys)
    step = max(len(frames) // N_LOOKED_AT, 1)
    # gap, and the largest gap that counts as lying on the point
    gaps: dict[int, dict[Anchor, list[tuple[float, float]]]] = {}
    for frame in frames[::step]:
        places = [
            ((shape.name, index), point, sits_within(shape.keys[frame].points, index))
            for shape in document.shapes
            if shape.name in shapes and frame in shape.keys
            for index, point in enumerate(shape.keys[frame].points)
        ]
        for k, mark in enumerate(document.landmarks.keys[frame]):
            if mark is not None:
                for anchor, point, near in places:
                    gap = math.hypot(point.x - mark.x, point.y - mark.y)
                    gaps.setdefault(k, {}).setdefault(anchor, []).append((gap, near))
    found: dict[int, Anchor] = {}
    for k, by_anchor in gaps.items():
        (gap, near), anchor = min((median_low(each), anchor) for anchor, each in by_anchor.items())
        if gap <= near:
            found[k] = anchor
    return found


def _follow_anchor(mark: Landmark, anchor: Anchor | None, points: Mapping[str, tuple[Points, Points]]) -> Landmark:
    if anchor is None or anchor[0] not in points:
        return mark
    was, now = (side[anchor[1]] for side in points[anchor[0]])
    return mark._replace(x=mark.x + now.x - was.x, y=mark.y + now.y - was.y)
