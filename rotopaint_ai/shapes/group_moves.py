"""Predictions of shapes in groups: moved by the groups' poses, and back.

Standard library only. A person's group transforms apply on top of predictions: in a project both the document and the
stored predictions are moved by the poses of their layers. New predictions have to be moved too. Tracks do not apply:
they only interpolate between keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from rotopaint_ai.shapes.edit_layers import key_under, ways_between
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape

KeysByFrame = Mapping[int, Key]


def apply_groups(
    document: RotoDocument, groups: RotoDocument | None, kept: Mapping[str, Collection[int]] | None = None
) -> RotoDocument:
    """Predictions, moved by the groups of another document; keys of the frames `kept` by shape stay.

    Shapes that already have a layer stay.
    """
    layers, kept = moved_groups(groups), kept or {}
    layers = {each.name: layers[each.name] for each in document.shapes if each.layer is None and each.name in layers}
    return _with_keys_of(
        document, {n: _transform_between(s.keys, None, layers[n], kept.get(n, ())) for n, s in _in(document, layers)}
    )


def remove_groups(document: RotoDocument, groups: RotoDocument | None) -> RotoDocument:
    """The document with the transforms of the groups of `groups` taken out of its shapes' keys."""
    layers = moved_groups(groups)
    return _with_keys_of(
        document, {name: _transform_between(s.keys, layers[name], None) for name, s in _in(document, layers)}
    )


def apply_groups_to_keys(keys: Mapping[str, KeysByFrame], groups: RotoDocument | None) -> dict[str, KeysByFrame]:
    """Predicted keys by shape, moved by the groups of a document."""
    layers = moved_groups(groups)
    return {name: _transform_between(row, None, layers[name]) if name in layers else row for name, row in keys.items()}


def move_with_groups(predicted: RotoDocument | None, before: RotoDocument, after: RotoDocument) -> RotoDocument | None:
    """Predictions, moved as the groups moved between two documents.

    Keys equal to those of the first document get exactly the points of the second.
    """
    old, new = ({shape.name: shape for shape in each.shapes} for each in (before, after))
    if predicted is None:
        return None
    moved = {
        shape.name: _follow_groups(shape, old[shape.name], new[shape.name])
        for shape in predicted.shapes
        if shape.name in old and shape.name in new and old[shape.name].layer != new[shape.name].layer
    }
    return _with_keys_of(predicted, moved)


def _follow_groups(predicted: RotoShape, old: RotoShape, new: RotoShape) -> KeysByFrame:
    keys = _transform_between(predicted.keys, old.layer, new.layer)
    for frame, key in predicted.keys.items():
        was, now = old.keys.get(frame), new.keys.get(frame)
        if was is not None and now is not None and was.points == key.points != now.points:
            keys[frame] = replace(key, points=now.points, feather=keys[frame].feather)
    return keys


def _transform_between(
    keys: KeysByFrame, old: Layer | None, new: Layer | None, kept: Collection[int] = ()
) -> dict[int, Key]:
    ways = ways_between(old, new, keys)
    return {f: key_under(ways[f], key) if f in ways and f not in kept else key for f, key in keys.items()}


def moved_groups(groups: RotoDocument | None) -> dict[str, Layer]:
    """The layers with poses of a document's shapes, by shape name."""
    shapes = () if groups is None else groups.shapes
    return {s.name: s.layer for s in shapes if s.layer is not None and any(each.poses for each in s.layer.chain)}


def _in(document: RotoDocument, layers: Mapping[str, Layer]) -> list[tuple[str, RotoShape]]:
    return [(shape.name, shape) for shape in document.shapes if shape.name in layers]


def _with_keys_of(document: RotoDocument, keys: Mapping[str, KeysByFrame]) -> RotoDocument:
    """The document with other keys of these shapes; the same object if there are none."""
    if not keys:
        return document
    return replace(document, shapes=tuple(s.with_keys(keys[s.name]) if s.name in keys else s for s in document.shapes))
