"""What a hand does to a roto document, over the frames that it means. Each edit returns a new document. No Qt.

`rotopaint_ai.shapes.edit` changes one frame; here an edit reaches every frame that holds the same drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, RotoDocument, RotoShape

Handle = Literal["point", "in", "out"]

_SMOOTH_COSINE = -0.995  # tangents less than about 6 degrees off a straight line turn together


def move_points(
    document: RotoDocument, shape: str, frames: Iterable[int], indices: Iterable[int], dx: float, dy: float
) -> RotoDocument:
    """Move control points, tangents with them, by (dx, dy) plate pixels at these frames; each becomes a human key."""
    offsets = dict.fromkeys(indices, (dx, dy))
    for frame in frames:
        document = edit.move_points(document, shape, frame, offsets)
    return document


def move_tangent(
    document: RotoDocument,
    shape: str,
    frames: Iterable[int],
    index: int,
    *,
    handle: Handle,
    dx: float,
    dy: float,
    alone: bool,
) -> RotoDocument:
    """Move the end of a tangent by (dx, dy) at these frames.

    The opposite one turns with it and keeps its length, unless it was a corner before or the tangent is moved `alone`.
    """
    for frame in frames:
        point = document.shape(shape).at(frame)[index]
        x, y = (point.in_dx, point.in_dy) if handle == "in" else (point.out_dx, point.out_dy)
        broken = alone or not is_smooth(point)
        document = edit.move_tangent(document, shape, frame, index, handle, (x + dx, y + dy), broken=broken)
    return document


def is_smooth(point: ControlPoint) -> bool:
    """Whether the two tangents lie in one line, so that the curve has no corner there."""
    lengths = math.hypot(point.in_dx, point.in_dy) * math.hypot(point.out_dx, point.out_dy)
    along = point.in_dx * point.out_dx + point.in_dy * point.out_dy
    return lengths > 0 and along / lengths < _SMOOTH_COSINE


def human_keys(shape: RotoShape) -> dict[int, Key]:
    """The keys of a shape that a person made, by frame."""
    return {frame: key for frame, key in shape.keys.items() if key.source == "human"}


def model_keys(document: RotoDocument) -> RotoDocument:
    """What a document says that no person has touched: keys of the model alone, landmarks not placed by hand."""
    shapes = tuple(
        shape.with_keys({frame: key for frame, key in shape.keys.items() if key.source == "model"})
        if any(key.source != "model" for key in shape.keys.values())
        else shape
        for shape in document.shapes
    )
    marks = document.landmarks
    if marks.hand:
        rows = {frame: row for frame, row in marks.keys.items() if not marks.hand.get(frame)}
        marks = replace(marks, keys=rows, hand={})
    return replace(document, shapes=shapes, landmarks=marks)


def with_human_keys(document: RotoDocument, earlier: RotoDocument) -> RotoDocument:
    """A new result of the model with every human key and hand landmark of an earlier document put back.

    A shape that the model no longer makes stays as it was. One whose number of control points has changed cannot take
    the keys: it, too, stays as it was, rather than lose a person's work.
    """
    kept = {shape.name: shape for shape in earlier.shapes if human_keys(shape)}
    new = tuple(_guarded(shape, kept.pop(shape.name, None)) for shape in document.shapes)
    landmarks = _with_hand(document.landmarks, earlier.landmarks)
    return replace(document, shapes=(*new, *kept.values()), landmarks=landmarks)


def _with_hand(new: LandmarkKeys, old: LandmarkKeys) -> LandmarkKeys:
    """Landmarks of the model with those that a person placed put back, by name."""
    keys, hand = dict(new.keys), dict(new.hand)
    for frame, names in old.hand.items():
        placed = dict(zip(old.names, old.keys.get(frame, ())))
        row = keys.get(frame, (None,) * len(new.names))
        keys[frame] = tuple(placed.get(name) if name in names else at for name, at in zip(new.names, row))
        hand[frame] = hand.get(frame, frozenset()) | names & set(new.names)
    return replace(new, keys=dict(sorted(keys.items())), hand=hand) if old.hand else new


def _guarded(shape: RotoShape, earlier: RotoShape | None) -> RotoShape:
    if earlier is None:
        return shape
    if shape.keys and (shape.n_points, shape.closed) != (earlier.n_points, earlier.closed):
        return earlier
    merged = {**shape.keys, **human_keys(earlier)}
    return shape.with_keys({frame: merged[frame] for frame in sorted(merged)})
