"""Edits of a roto document: each returns a new document and leaves the old one unchanged for undo.

Standard library only. Control points are identified by index. A change at a frame without a key makes one there from
the interpolated shape. Unknown shape names raise DocumentError.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Interpolation,
    Key,
    Landmark,
    Points,
    RotoDocument,
    RotoShape,
    Source,
)

_SLOPES = attrgetter("slopes")

# --- the list of shapes -----------------------------------------------------------------------------------------------


def add_shape(document: RotoDocument, shape: RotoShape) -> RotoDocument:
    """The document with one more shape, last in the list. Its name must be new."""
    if any(each.name == shape.name for each in document.shapes):
        raise DocumentError(f"shape '{shape.name}': the name is taken; choose another")
    return replace(document, shapes=(*document.shapes, shape))


def remove_shape(document: RotoDocument, name: str) -> RotoDocument:
    """The document without a shape."""
    shape_of(document, name)
    return replace(document, shapes=tuple(each for each in document.shapes if each.name != name))


def set_feather(document: RotoDocument, name: str, feather_px: float) -> RotoDocument:
    """The document with another feather of a shape. Raises DocumentError for one below 0."""
    shape = shape_of(document, name)
    if feather_px < 0:
        raise DocumentError(f"shape '{name}': feather {feather_px:g} px; it cannot be negative")
    return replace_shape(document, name, replace(shape, feather_px=feather_px))


def set_visible(document: RotoDocument, name: str, frames: Collection[int], shown: bool) -> RotoDocument:
    """The document with a shape shown or hidden at some frames."""
    shape = shape_of(document, name)
    visible = {frame: value for frame, value in shape.visible.items() if frame not in frames}
    if not shown:
        visible |= dict.fromkeys(sorted(frames), False)
    return replace_shape(document, name, replace(shape, visible=visible))


def lifetime(document: RotoDocument, name: str) -> tuple[int, int] | None:
    """The first and last frame of the shot at which a shape is visible; None if it is hidden throughout."""
    shape = shape_of(document, name)
    seen = [frame for frame in range(document.first_frame, document.last_frame + 1) if shape.is_visible(frame)]
    return (seen[0], seen[-1]) if seen else None


def set_lifetime(document: RotoDocument, name: str, first: int, last: int) -> RotoDocument:
    """The document with a shape visible from first to last, both included, and hidden before and after.

    Frames inside its earlier lifetime at which it was hidden stay hidden. Raises DocumentError if last is before first.
    """
    if last < first:
        raise DocumentError(f"shape '{name}': would be visible from {first} to {last}; the first frame must come first")
    old = lifetime(document, name)
    frames = range(document.first_frame, document.last_frame + 1)
    dark = [frame for frame in frames if old is None or not old[0] <= frame <= old[1]]
    document = set_visible(document, name, dark, shown=True)
    return set_visible(document, name, [f for f in frames if not first <= f <= last], shown=False)


# --- keys -------------------------------------------------------------------------------------------------------------


def set_key(
    document: RotoDocument,
    name: str,
    frame: int,
    points: Points | None = None,
    *,
    source: Source = "human",
) -> RotoDocument:
    """The document with a key at a frame: with these points, or with the interpolated shape.

    A new key inside a hold is a hold too.
    """
    shape = shape_of(document, name)
    if points is not None and shape.keys and len(points) != shape.n_points:
        raise DocumentError(f"shape '{name}': {len(points)} points for frame {frame}; its keys have {shape.n_points}")
    points = shape.at(frame) if points is None else points
    if not points:
        raise DocumentError(f"shape '{name}': has no key yet; give the points of its first one")
    kind = kind_at(shape, frame)
    return replace_shape(document, name, merge_keys(shape, {frame: key_of(shape, frame, tuple(points), source, kind)}))


def shift_frames(document: RotoDocument, by: int) -> RotoDocument:
    """The whole document shifted by `by` frames."""
    landmarks = replace(
        document.landmarks,
        keys={frame + by: row for frame, row in document.landmarks.keys.items()},
        hand={frame + by: names for frame, names in document.landmarks.hand.items()},
    )
    later = {layer.name: layer for layer in document.layers}
    for name, layer in later.items():  # parents come first
        poses = {frame + by: pose for frame, pose in layer.poses.items()}
        track = {frame + by: row for frame, row in layer.track.items()}
        later[name] = Layer(name, poses, track, layer.parent and later[layer.parent.name])
    shapes = tuple(
        replace(
            shape,
            layer=shape.layer and later[shape.layer.name],
            keys={frame + by: key for frame, key in shape.keys.items()},
            visible={frame + by: shown for frame, shown in shape.visible.items()},
        )
        for shape in document.shapes
    )
    return replace(
        document,
        first_frame=document.first_frame + by,
        last_frame=document.last_frame + by,
        landmarks=landmarks,
        shapes=shapes,
    )


# --- control points and landmarks -------------------------------------------------------------------------------------


def move_points(
    document: RotoDocument,
    name: str,
    frame: int,
    offsets: Mapping[int, tuple[float, float]],
    *,
    source: Source = "human",
) -> RotoDocument:
    """The document with control points of a shape moved by (dx, dy) at a frame, tangents included."""
    shape = shape_of(document, name)
    points = list(points_of(shape, frame))
    for index, (dx, dy) in offsets.items():
        points[index] = _offset_point(points[_index(shape, index)], dx, dy)
    return set_key(document, name, frame, tuple(points), source=source)


def place_landmark(document: RotoDocument, frame: int, landmark: str, x: float, y: float) -> RotoDocument:
    """The document with a landmark placed by hand at a frame: without expected error, and never moved by a model."""
    marks = document.landmarks
    if landmark not in marks.names:
        raise DocumentError(f"landmark '{landmark}' is not one of this document's {len(marks.names)}")
    row = list(marks.keys.get(frame, (None,) * len(marks.names)))
    row[marks.names.index(landmark)] = Landmark(x, y, 0.0)
    hand = {**marks.hand, frame: marks.hand.get(frame, frozenset()) | {landmark}}
    return replace(document, landmarks=replace(marks, keys={**marks.keys, frame: tuple(row)}, hand=hand))


# --- parts ------------------------------------------------------------------------------------------------------------


def shape_of(document: RotoDocument, name: str) -> RotoShape:
    """The shape of that name. Raises DocumentError."""
    try:
        return document.shape(name)
    except KeyError as error:
        raise DocumentError(f"shape '{name}' is not in this document") from error


def replace_shape(document: RotoDocument, name: str, shape: RotoShape) -> RotoDocument:
    """The document with a shape of that name replaced."""
    return replace(document, shapes=tuple(shape if each.name == name else each for each in document.shapes))


def merge_keys(shape: RotoShape, keys: Mapping[int, Key]) -> RotoShape:
    """The shape with these keys added or replaced, in frame order."""
    merged = {**shape.keys, **keys}
    if len(merged) > len(shape.keys):  # fast path: a drag changes the same key again and again
        merged = {frame: merged[frame] for frame in sorted(merged)}
    return shape.with_keys(drop_stale_slopes(shape, merged))


def key_of(shape: RotoShape, frame: int, points: Points, source: Source, kind: Interpolation) -> Key:
    """A key with these points at a frame, with the feather line and widths of the shape there.

    An existing key keeps its own. The function is fast because a drag calls it on every mouse move.
    """
    old = shape.keys.get(frame)
    if old is not None:
        return Key(points, source, kind, old.feather, old.widths, old.slopes if old.points == points else None)
    return Key(points, source, kind, shape.feather_at(frame), shape.widths_at(frame))


def drop_stale_slopes(before: RotoShape, keys: Mapping[int, Key]) -> dict[int, Key]:
    """The keys without slopes that lead to another pose or frame than before."""
    if not any(map(_SLOPES, keys.values())):
        return dict(keys)
    frames, old = sorted(keys), before.frames
    then = dict(pairwise(old))
    now = dict(pairwise(frames))

    def leads_elsewhere(frame: int) -> bool:
        after = now.get(frame)
        if after is None or then.get(frame) != after:
            return True
        return keys[after].points != before.keys[after].points

    return {f: replace(key, slopes=None) if key.slopes and leads_elsewhere(f) else key for f, key in keys.items()}


def points_of(shape: RotoShape, frame: int) -> Points:
    """The shape's points at a frame. Raises DocumentError if it has no key yet."""
    points = shape.at(frame)
    if not points:
        raise DocumentError(f"shape '{shape.name}': has no key yet; give the points of its first one")
    return points


def _index(shape: RotoShape, index: int) -> int:
    if not 0 <= index < shape.n_points:
        raise DocumentError(f"shape '{shape.name}': no control point {index}; it has {shape.n_points}, from 0")
    return index


def kind_at(shape: RotoShape, frame: int) -> Interpolation:
    """The interpolation of the shape at a frame: that of the last key at or before it."""
    if frame in shape.keys:
        return shape.keys[frame].interpolation
    earlier = [f for f in shape.keys if f <= frame]
    return shape.keys[max(earlier)].interpolation if earlier else "linear"


def _offset_point(point: ControlPoint, dx: float, dy: float) -> ControlPoint:
    return point._replace(x=point.x + dx, y=point.y + dy)
