"""Edits of layers: group shapes, move groups with keys, take shapes out of a group.

Standard library only. An edit of a layer's transform also moves the keys of its shapes, without changing their
provenance; `group_moves` does the same to predictions. A shape that enters or leaves a moved layer keeps its position
on the plate, and its model keys become human. Raises DocumentError for an unknown layer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes.bake import bake_layer, moves
from rotopaint_ai.shapes.layers import (
    IDENTITY,
    Layer,
    LayerPose,
    Matrix,
    leaves_alone,
    linear_part,
    product,
    transform_row,
    way_back,
)
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, Slopes

Row = TypeVar("Row")


def layer_of(document: RotoDocument, name: str) -> Layer:
    """The layer with that name."""
    for layer in document.layers:
        if layer.name == name:
            return layer
    raise DocumentError(f"layer '{name}' is not in this document")


def members(document: RotoDocument, name: str) -> tuple[RotoShape, ...]:
    """The shapes that a layer moves, those of nested layers included."""
    return tuple(shape for shape in document.shapes if shape.layer and any(e.name == name for e in shape.layer.chain))


def group(document: RotoDocument, names: Collection[str], layer: str) -> RotoDocument:
    """The document with shapes in a new layer, inside the layer that all of them share. Keys do not change."""
    if not layer.strip() or any(each.name == layer for each in document.layers):
        raise DocumentError(f"layer '{layer}': the name is taken or empty; choose another")
    inside = [shape.layer for shape in _shapes_named(document, names)]
    is_one = all(each == inside[0] for each in inside)
    return put_into(document, names, Layer(layer, parent=inside[0] if is_one else None))


def put_into(document: RotoDocument, names: Collection[str], layer: Layer | None) -> RotoDocument:
    """The document with shapes in a layer, or in none. Shapes taken out of a moving layer get extra keys to keep their
    path."""
    chosen = {shape.name for shape in _shapes_named(document, names)}
    return replace(
        document,
        shapes=tuple(
            replace(_take_out(shape, layer, document), layer=layer) if shape.name in chosen else shape
            for shape in document.shapes
        ),
    )


def ungroup(document: RotoDocument, name: str) -> RotoDocument:
    """The document without a layer; its content moves to the parent and keeps its place on the plate."""
    gone = layer_of(document, name)
    shapes = []
    for shape in document.shapes:
        if shape.layer is not None and gone in shape.layer.chain:
            left = _replace_in_chain(shape.layer, name, gone.parent)
            shape = replace(_take_out(shape, left, document), layer=left)
        shapes.append(shape)
    return replace(document, shapes=tuple(shapes))


def rename_layer(document: RotoDocument, name: str, new_name: str) -> RotoDocument:
    """The document with a layer of another name, which must be new."""
    if not new_name.strip() or any(each.name == new_name for each in document.layers):
        raise DocumentError(f"layer '{name}': cannot be called '{new_name}'; choose a name that is free")
    return _with_layer(document, name, replace(layer_of(document, name), name=new_name))


def set_pose(document: RotoDocument, name: str, frames: Iterable[int], pose: LayerPose) -> RotoDocument:
    """The document with a layer's transform keyed at some frames; its shapes move too."""
    layer = layer_of(document, name)
    return move_layer(document, replace(layer, poses=_in_time({**layer.poses, **dict.fromkeys(frames, pose)})))


def delete_poses(document: RotoDocument, name: str, frames: Collection[int]) -> RotoDocument:
    """The document without keys of a layer's transform at some frames; its shapes move too."""
    layer = layer_of(document, name)
    left = {frame: pose for frame, pose in layer.poses.items() if frame not in frames}
    if len(left) == len(layer.poses):
        raise DocumentError(f"layer '{name}': has no key at frame {min(frames, default=0)}")
    return move_layer(document, replace(layer, poses=left))


def set_pivot(document: RotoDocument, name: str, x: float, y: float) -> RotoDocument:
    """The document with a layer's pivot at a point of the plate in every key; nothing moves at the keys."""
    layer = layer_of(document, name)
    poses = {frame: _pose_about(pose, x, y) for frame, pose in layer.poses.items()}
    return move_layer(document, replace(layer, poses=poses))


def move_layer(document: RotoDocument, layer: Layer) -> RotoDocument:
    """The document with another transform of the layer of that name; the keys of its shapes move too."""
    old = {shape.name: shape for shape in members(document, layer.name)}
    moved = _with_layer(document, layer.name, layer)
    shapes = (_change_layer(shape, old[shape.name].layer) if shape.name in old else shape for shape in moved.shapes)
    return replace(moved, shapes=tuple(shapes))


def track_layer(document: RotoDocument, name: str, start: int, track: Mapping[int, Matrix]) -> RotoDocument:
    """The document with a layer that follows a tracked plane from a frame on; keys of its shapes do not change.

    A layer without keys gets one at the start frame, so that corrections elsewhere leave it unchanged. In a moving
    parent layer the track is converted into that layer's space.
    """
    layer, frames = layer_of(document, name), sorted(track)
    around = {f: layer.parent.matrix_at(f) if layer.parent else IDENTITY for f in frames}
    rows = {f: product(way_back(around[f]), product(track[f], around[start])) for f in frames}
    x, y = middle_of(document, name, start)
    poses = layer.poses or {start: LayerPose(pivot_x=x, pivot_y=y)}
    return _with_layer(document, name, replace(layer, track=rows, poses=poses))


def middle_of(document: RotoDocument, name: str, frame: int) -> tuple[float, float]:
    """The centre of a layer's content, the default pivot of its transform."""
    points = [p for shape in members(document, name) for p in shape.at(frame)]
    n = max(len(points), 1)
    return sum(p.x for p in points) / n, sum(p.y for p in points) / n


def to_layer_space(shape: RotoShape) -> RotoShape:
    """The shape with its keys in layer space, and without layer."""
    ways = {f: shape.layer.matrix_at(f) for f in shape.frames} if shape.layer else {}
    slopes = {frame: way_back(linear_part(way)) for frame, way in ways.items()}  # as `RotoShape` interprets them
    return _transform_keys(shape, {frame: way_back(way) for frame, way in ways.items()}, None, slopes)


def place_in_layer(shape: RotoShape, layer: Layer) -> RotoShape:
    """A shape in layer space converted to plate space, in that layer."""
    return _transform_keys(shape, {frame: layer.matrix_at(frame) for frame in shape.frames}, layer)


# --- parts ------------------------------------------------------------------------------------------------------------


def _shapes_named(document: RotoDocument, names: Collection[str]) -> tuple[RotoShape, ...]:
    found = tuple(shape for shape in document.shapes if shape.name in names)
    if len(found) != len(set(names)) or not found:
        raise DocumentError(f"layers: {sorted(set(names) - {shape.name for shape in found})} are no shapes here")
    return found


def _in_time(rows: Mapping[int, Row]) -> dict[int, Row]:
    return {frame: rows[frame] for frame in sorted(rows)}


def _take_out(shape: RotoShape, to: Layer | None, document: RotoDocument) -> RotoShape:
    """The shape with the keys it needs to keep its path in another layer, or in none."""
    theirs = {f for f in ways_between(shape.layer, to, shape.frames) if shape.keys[f].source == "model"}
    shape = shape.with_keys({f: replace(k, source="human") if f in theirs else k for f, k in shape.keys.items()})
    stays = () if to is None else to.chain
    left = [each for each in (shape.layer.chain if shape.layer else ()) if each not in stays]
    if not any(moves(replace(each, parent=None)) for each in left):
        return shape
    return bake_layer(shape, document.first_frame, document.last_frame, is_whole=moves(to))


def _replace_in_chain(layer: Layer | None, name: str, new: Layer | None) -> Layer | None:
    """A layer with the one of that name in its chain replaced."""
    if layer is None or layer.name == name:
        return layer and new
    parent = _replace_in_chain(layer.parent, name, new)
    return layer if parent is layer.parent else replace(layer, parent=parent)


def _with_layer(document: RotoDocument, name: str, layer: Layer) -> RotoDocument:
    """The document with the layer of that name replaced; keys stay."""
    known: dict[str, Layer | None] = {}  # one object per layer, as before

    def swapped(old: Layer) -> Layer | None:
        if old.name not in known:
            known[old.name] = _replace_in_chain(old, name, layer)
        return known[old.name]

    return replace(
        document,
        shapes=tuple(replace(each, layer=swapped(each.layer)) if each.layer else each for each in document.shapes),
    )


def ways_between(old: Layer | None, new: Layer | None, frames: Iterable[int]) -> dict[int, Matrix]:
    """The transforms from a shape's position under its old layers to that under its new ones, at frames where they
    differ."""
    if old is new:
        return {}
    found = {f: product(_placement(new, f), way_back(_placement(old, f))) for f in frames}
    return {frame: way for frame, way in found.items() if not leaves_alone(way)}


def _placement(layer: Layer | None, frame: int) -> Matrix:
    return IDENTITY if layer is None else layer.placement_at(frame)


def _change_layer(shape: RotoShape, old: Layer | None) -> RotoShape:
    """A shape's keys moved from where its old layer places them to where its present one does."""
    return _transform_keys(shape, ways_between(old, shape.layer, shape.frames), shape.layer)


def _transform_keys(
    shape: RotoShape, ways: Mapping[int, Matrix], layer: Layer | None, slopes: Mapping[int, Matrix] | None = None
) -> RotoShape:
    """A shape with keys transformed; `slopes` are the transforms of slopes, by default the linear parts."""
    turned = {frame: linear_part(way) for frame, way in ways.items()} if slopes is None else slopes
    keys = {frame: key_under(ways[frame], key) if frame in ways else key for frame, key in shape.keys.items()}
    frames = shape.frames
    after = dict(pairwise(frames))
    for frame, key in keys.items():
        if key.slopes is not None and frame in after:
            new = _slopes_under(turned.get(frame), turned.get(after[frame]), key.slopes)
            keys[frame] = replace(key, slopes=new)
    return replace(shape, keys=keys, layer=layer)


def key_under(m: Matrix, key: Key) -> Key:
    """A key transformed by a matrix, feather included."""
    points = tuple(ControlPoint(*transform_row(m, p)) for p in key.points)
    feather = tuple(ControlPoint(*transform_row(m, f, (p.x, p.y))) for f, p in zip(key.feather, key.points))
    return replace(key, points=points, feather=feather)


def _slopes_under(leaving: Matrix | None, arriving: Matrix | None, slopes: Slopes) -> Slopes:
    def turned(m: Matrix | None, rows: Points) -> Points:
        return rows if m is None else tuple(ControlPoint(*transform_row(m, row)) for row in rows)

    return Slopes(
        turned(leaving, slopes.leaving),
        turned(arriving, slopes.arriving),
        turned(leaving, slopes.feather_leaving),
        turned(arriving, slopes.feather_arriving),
    )


def _pose_about(pose: LayerPose, x: float, y: float) -> LayerPose:
    """The same transform about another pivot, given in plate space before the transform."""
    m = pose.matrix
    there = m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]
    return pose._replace(x=there[0] - x, y=there[1] - y, pivot_x=x, pivot_y=y)
