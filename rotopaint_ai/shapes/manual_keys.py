"""A person's edits in a document, and restoring them in a model's new result. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape

LandmarkRow = tuple[Landmark | None, ...]
SITS_PX = 0.5  # largest distance of a landmark on its control point, with rounding and snapping
# ... or as a share of the distance to the next control point, because solved seams leave their landmarks
_SITS_SHARE = 0.15


def manual_keys(shape: RotoShape) -> dict[int, Key]:
    """The keys of a shape that a person set, by frame."""
    return {frame: key for frame, key in shape.keys.items() if key.source == "human"}


def without_manual_edits(document: RotoDocument) -> RotoDocument:
    """The part of a document that no person edited: model keys, landmarks not placed by hand."""
    shapes = tuple(
        shape.with_keys({frame: key for frame, key in shape.keys.items() if key.source == "model"})
        if any(key.source != "model" for key in shape.keys.values())
        else shape
        for shape in document.shapes
    )
    marks = document.landmarks
    if marks.hand:
        rows = {
            frame: _drop_hand_landmarks(row, marks.names, marks.hand.get(frame, ()))
            for frame, row in marks.keys.items()
        }
        marks = replace(marks, keys=rows, hand={})
    return replace(document, shapes=shapes, landmarks=marks)


def _drop_hand_landmarks(row: LandmarkRow, names: Sequence[str], hand: Collection[str]) -> LandmarkRow:
    return tuple(None if name in hand else mark for name, mark in zip(names, row)) if hand else row


def with_manual_keys(document: RotoDocument, earlier: RotoDocument, aside: Collection[str] = ()) -> RotoDocument:
    """A new model result with every human key and hand-placed landmark of an earlier document restored.

    Shapes that the model no longer predicts stay as they were, and so do those `aside`, whoever set their keys. A shape
    with another number of control points also stays, rather than losing a person's edits. Hold-outs, feather lines and
    layers are kept.
    """
    layers = {shape.name: shape.layer for shape in earlier.shapes}
    kept = {shape.name: shape for shape in earlier.shapes if manual_keys(shape) or shape.name in aside}
    new = tuple(_keep_manual_keys(shape, kept.pop(shape.name, None)) for shape in document.shapes)
    landmarks = _with_hand(document.landmarks, earlier.landmarks)
    away = {shape.name for shape in earlier.shapes if shape.subtract}
    new = tuple(replace(shape, subtract=True) if shape.name in away else shape for shape in new)
    soft = {shape.name: shape for shape in earlier.shapes if shape.has_feather_line}
    new = tuple(with_feather_of(shape, soft[shape.name]) if shape.name in soft else shape for shape in new)
    new = tuple(replace(shape, layer=layers[shape.name]) if layers.get(shape.name) else shape for shape in new)
    return replace(document, shapes=(*new, *kept.values()), landmarks=landmarks)


def with_feather_of(shape: RotoShape, earlier: RotoShape) -> RotoShape:
    """A shape with the feather line of an earlier version, in keys that have none."""
    if not earlier.has_feather_line or (shape.n_points, shape.closed) != (earlier.n_points, earlier.closed):
        return shape
    return shape.with_keys(
        {f: key if key.feather else replace(key, feather=earlier.feather_at(f)) for f, key in shape.keys.items()}
    )


def _with_hand(new: LandmarkKeys, old: LandmarkKeys) -> LandmarkKeys:
    """The model's landmarks with those that a person placed restored, by name."""
    keys, hand = dict(new.keys), dict(new.hand)
    for frame, names in old.hand.items():
        placed = dict(zip(old.names, old.keys.get(frame, ())))
        row = keys.get(frame, (None,) * len(new.names))
        keys[frame] = tuple(placed.get(name) if name in names else at for name, at in zip(new.names, row))
        hand[frame] = hand.get(frame, frozenset()) | names & set(new.names)
    return replace(new, keys=dict(sorted(keys.items())), hand=hand) if old.hand else new


def _keep_manual_keys(shape: RotoShape, earlier: RotoShape | None) -> RotoShape:
    if earlier is None:
        return shape
    if shape.keys and (shape.n_points, shape.closed) != (earlier.n_points, earlier.closed):
        return earlier
    merged = {**shape.keys, **manual_keys(in_direction_of(shape, earlier))}
    return shape.with_keys({frame: merged[frame] for frame in sorted(merged)})


def in_direction_of(model: RotoShape, shape: RotoShape) -> RotoShape:
    """An open shape whose human keys run as the model's shape does; a reversed key draws the same curve.

    Models trained on other roto may draw a seam from its other end.
    """
    if shape.closed or not model.keys or model.n_points != shape.n_points:
        return shape
    turned = {
        frame: key.reversed() for frame, key in manual_keys(shape).items() if _is_reversed(key.points, model.at(frame))
    }
    return shape.with_keys({**shape.keys, **turned}) if turned else shape


def _is_reversed(points: Points, like: Points) -> bool:
    """Whether the ends of a curve are closer to the opposite ends of another."""
    ends, others = ((each[0], each[-1]) for each in (points, like))

    def apart(these: Sequence[ControlPoint]) -> float:
        return sum(math.dist(a[:2], b[:2]) for a, b in zip(ends, these))

    return apart(others[::-1]) < apart(others)


def hand_corrected_frames(predicted: RotoShape, shape: RotoShape, document: RotoDocument) -> list[int]:
    """Frames where a person edited a shape: human keys, and keys that followed a landmark placed by hand.

    `predicted`: the model's shape.
    """
    found = [frame for frame, key in shape.keys.items() if key.source == "human"]
    for frame in document.landmarks.hand:
        key = shape.keys.get(frame)
        before = predicted.keys.get(frame)
        if key is not None and key.source == "model" and (before is None or key.points != before.points):
            found.append(frame)
    return sorted(found)


def frames_corrected(predicted: RotoDocument | None, document: RotoDocument) -> dict[str, frozenset[int]]:
    """For every shape the `hand_corrected_frames`; without predictions, the frames of its human keys."""
    before = {} if predicted is None else {shape.name: shape for shape in predicted.shapes}
    return {
        each.name: frozenset(hand_corrected_frames(before.get(each.name, each), each, document))
        for each in document.shapes
    }


def frames_settled(predicted: RotoDocument | None, document: RotoDocument) -> dict[str, frozenset[int]]:
    """For every shape the frames that a person has confirmed: keyed, or moved by a landmark on the shape.

    A shape that moved only because it is predicted from a nearby landmark does not count.
    """
    shapes = {shape.name: shape for shape in document.shapes}
    return {
        name: frozenset(frame for frame in frames if _is_settled(shapes[name].keys[frame], frame, document.landmarks))
        for name, frames in frames_corrected(predicted, document).items()
    }


def _is_settled(key: Key, frame: int, marks: LandmarkKeys) -> bool:
    if key.source == "human":
        return True
    hand, row = marks.hand.get(frame, frozenset()), marks.keys.get(frame, ())
    placed = [mark for name, mark in zip(marks.names, row) if mark is not None and name in hand]
    return any(
        math.hypot(p.x - mark.x, p.y - mark.y) <= sits_within(key.points, index)
        for index, p in enumerate(key.points)
        for mark in placed
    )


def sits_within(points: Points, index: int) -> float:
    """Largest distance at which a landmark counts as lying on this control point, in plate pixels."""
    (x, y, *_), *beside = points[index], points[index - 1], points[(index + 1) % len(points)]
    return max(SITS_PX, _SITS_SHARE * min(math.hypot(p.x - x, p.y - y) for p in beside))


class CarriedCorrection(Protocol):
    """A correction made at `frame` and propagated from `first` to `last`, both included, by a method of
    `spreads.SPREADS`."""

    @property
    def way(self) -> str: ...
    @property
    def frame(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


Spread = TypeVar("Spread", bound=CarriedCorrection)


def to_carry_on(
    before: RotoDocument, spreads: Sequence[Spread], frames: Collection[int] | None, models: RotoDocument
) -> list[Spread | None]:
    """The propagations to repeat, in order, after a run of some frames (None: all).

    One that left no propagated key in those frames was undone, and is not repeated. None stands for a refit of the
    whole shot, if keys were propagated outside all ranges. Shapes that `models` lacks follow only their own track.
    """
    followed = {shape.name: _propagated_frames(shape, frames) for shape in before.shapes}
    anywhere = {frame for shape in models.shapes for frame in followed.get(shape.name, ())}
    seen = [each for each in spreads if anywhere & set(range(each.first, each.last + 1))]
    covered = {frame for each in seen for frame in range(each.first, each.last + 1)}
    refitted = {frame for name in _to_refit(models, frames) for frame in followed.get(name, ())}
    return [*([None] if refitted - covered else []), *seen]


def _propagated_frames(shape: RotoShape, frames: Collection[int] | None) -> set[int]:
    found = {frame for frame, key in shape.keys.items() if key.source == "propagated"}
    return found if frames is None else found & set(frames)


def _to_refit(models: RotoDocument, frames: Collection[int] | None) -> set[str]:
    """Shapes that a refit propagates after a run: a run of the whole shot propagates its open seams itself."""
    return {shape.name for shape in models.shapes if frames is not None or shape.closed or shape.role != "seam"}


def carried_keys(
    keys: Mapping[str, Mapping[int, Key]],
    by: CarriedCorrection | None,
    frames: Collection[int] | None,
    models: RotoDocument,
) -> Mapping[str, Mapping[int, Key]]:
    """The keys of one row of `to_carry_on` that belong to the frames of a run (None: all)."""
    names = keys.keys() if by is not None else keys.keys() & _to_refit(models, frames)
    return {
        name: {frame: key for frame, key in row.items() if frames is None or frame in frames}
        for name, row in keys.items()
        if name in names
    }


def with_model_keys(document: RotoDocument, keys: Mapping[str, Mapping[int, Key]]) -> RotoDocument:
    """The document with keys inserted, in frame order; human keys stay."""
    shapes = []
    for shape in document.shapes:
        human = manual_keys(shape)
        new = {frame: key for frame, key in keys.get(shape.name, {}).items() if frame not in human}
        merged = {**shape.keys, **new}
        shapes.append(shape.with_keys({frame: merged[frame] for frame in sorted(merged)}) if new else shape)
    return replace(document, shapes=tuple(shapes))


def drop_propagated(document: RotoDocument, frames: Mapping[str, Collection[int]]) -> RotoDocument:
    """The document without the propagated keys of some shapes on some frames."""
    shapes = []
    for shape in document.shapes:
        away = frames.get(shape.name, ())
        kept = {frame: key for frame, key in shape.keys.items() if frame not in away or key.source != "propagated"}
        shapes.append(shape.with_keys(kept) if len(kept) < len(shape.keys) else shape)
    return replace(document, shapes=tuple(shapes))
