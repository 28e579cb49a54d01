"""One edit on many frames: ranges, pasted keys, interpolation, keys of whole shapes.

Standard library only. A change is a function from points to points, so every edit of one frame works on many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from rotopaint_ai.errors import DocumentError, list_names
from rotopaint_ai.shapes.edit import drop_stale_slopes, key_of, kind_at, merge_keys, points_of, replace_shape, shape_of
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Points, RotoDocument, RotoShape, Slopes

Change = Callable[[Points], Points]
Carry = Literal["relative", "absolute"]


class KeysKeptError(DocumentError):
    """Some shapes would lose all their keys, and keep them. `document` is without the other keys to delete."""

    def __init__(self, text: str, document: RotoDocument) -> None:
        super().__init__(text)
        self.document = document


def apply(document: RotoDocument, name: str, frames: Iterable[int], change: Change) -> RotoDocument:
    """The document with a shape changed at some frames; each becomes a human key of the whole shape.

    Raises DocumentError if the shape has no key, or if the change returns another number of points.
    """
    shape = shape_of(document, name)
    keys = {}
    for frame in frames:
        points = change(points_of(shape, frame))
        if len(points) != shape.n_points:
            raise DocumentError(
                f"shape '{name}': {len(points)} points for frame {frame}; its keys have {shape.n_points}"
            )
        keys[frame] = key_of(shape, frame, points, "human", kind_at(shape, frame))
    return replace_shape(document, name, merge_keys(shape, keys))


def carry(
    document: RotoDocument, name: str, frame: int, points: Points, *, frames: Collection[int], mode: Carry
) -> RotoDocument:
    """The document with a shape set at a frame, and the same edit made at every key inside `frames`.

    `relative` adds the change to each key; `absolute` puts the changed points at the same positions. Unchanged points
    and keys outside `frames` stay as they are; changed keys become human.
    """
    shape = shape_of(document, name)
    old = points_of(shape, frame)
    if len(points) != len(old):
        raise DocumentError(f"shape '{name}': {len(points)} points for frame {frame}; its keys have {len(old)}")
    changed = {index: (p, q) for index, (p, q) in enumerate(zip(old, points)) if p != q}
    moved = _add_changes if mode == "relative" else _replace_points
    keys = {
        other: key_of(shape, other, moved(key.points, changed), "human", key.interpolation)
        for other, key in shape.keys.items()
        if other in frames and other != frame
    }
    keys[frame] = key_of(shape, frame, tuple(points), "human", kind_at(shape, frame))
    return replace_shape(document, name, merge_keys(shape, keys))


def paste_keys(
    document: RotoDocument, name: str, points: Points, frames: Iterable[int], *, is_relative: bool = False
) -> RotoDocument:
    """The document with copied points as human keys of a shape at some frames.

    Absolute: at their original position. `is_relative`: centred on the shape's position at each frame.
    """
    return apply(document, name, frames, lambda there: _centre_points(points, there) if is_relative else points)


def set_interpolation(
    document: RotoDocument, name: str, frames: Collection[int], interpolation: Interpolation
) -> RotoDocument:
    """The document with another interpolation for the keys of a shape at some frames.

    The provenance of keys does not change. Raises DocumentError if there is no key at a frame.
    """
    shape = shape_of(document, name)
    _check_keyed(shape, frames)
    changed = {frame: replace(shape.keys[frame], interpolation=interpolation) for frame in frames}
    return replace_shape(document, name, merge_keys(shape, changed))


def set_keys(document: RotoDocument, names: Iterable[str], frames: Iterable[int]) -> RotoDocument:
    """The document with whole shapes keyed by hand at some frames; shapes without keys stay without.

    No shape moves, at any frame: where one eases or moves smoothly, its new keys are smooth and state their slopes.
    """
    for name in names:
        shape = shape_of(document, name)
        for frame in frames if shape.keys else ():
            shape = _key_in_motion(shape, frame)
        document = replace_shape(document, name, shape)
    return document


def _key_in_motion(shape: RotoShape, frame: int) -> RotoShape:
    """The shape with a human key of its position at a frame; motion around it goes on as before."""
    key = key_of(shape, frame, points_of(shape, frame), "human", kind_at(shape, frame))
    keyed = merge_keys(shape, {frame: key})
    if frame in shape.keys:
        return keyed
    keys, frames, old = dict(keyed.keys), keyed.frames, shape.frames
    place = frames.index(frame)
    for a, b in pairwise(frames[max(place - 2, 0) : place + 3]):  # slopes of neighbours may depend on this key, too
        left, right = max((f for f in old if f <= a), default=b), min((f for f in old if f >= b), default=a)
        kind = shape.keys[left].interpolation if left < right else "linear"
        if kind == "smooth" or (kind == "ease" and (a, b) != (left, right)):
            rows = (shape.slopes_within(left, right, at, is_feather) for is_feather in (False, True) for at in (a, b))
            keys[a] = replace(keys[a], interpolation="smooth", slopes=Slopes(*rows))
    return shape.with_keys(keys)


def delete_keys(document: RotoDocument, names: Iterable[str], frames: Collection[int]) -> RotoDocument:
    """The document without the keys of some shapes at some frames. Raises as `delete_keys_of` does."""
    return delete_keys_of(document, dict.fromkeys(names, frames))


def delete_keys_of(
    document: RotoDocument, frames_of: Mapping[str, Collection[int]], *, is_part: bool = False
) -> RotoDocument:
    """The document without the keys of each shape at its own frames.

    A shape that would lose all its keys keeps them. Raises KeysKeptError then, or DocumentError if no other key is
    deleted. `is_part`: the same step has deleted other keys already.
    """
    kept = []
    for name, frames in frames_of.items():
        shape = shape_of(document, name)
        if loses_all_keys(shape, frames):
            kept.append(shape)
            continue
        left = {frame: key for frame, key in shape.keys.items() if frame not in frames}
        is_part = is_part or len(left) < len(shape.keys)
        document = replace_shape(document, name, shape.with_keys(drop_stale_slopes(shape, left)))
    if kept and not is_part:
        raise DocumentError(f"shape '{kept[0].name}': would have no key left; delete the shape instead")
    if kept:
        which = "the last one" if all(len(shape.keys) == 1 for shape in kept) else "those"
        whose = list_names([f"shape '{shape.name}'" for shape in kept])
        raise KeysKeptError(f"Keys deleted, but not {which} of {whose}: a shape needs a key", document)
    return document


def loses_all_keys(shape: RotoShape, frames: Collection[int]) -> bool:
    """Whether a shape has keys, and all of them are at these frames."""
    return bool(shape.keys) and all(frame in frames for frame in shape.keys)


def keyed_frames_in(shape: RotoShape, first: int, last: int) -> tuple[int, ...]:
    """The keyed frames of a shape from first to last, both included."""
    return tuple(frame for frame in shape.frames if first <= frame <= last)


def middle(points: Points) -> tuple[float, float]:
    """Mean of the points' positions."""
    return sum(p.x for p in points) / len(points), sum(p.y for p in points) / len(points)


Changed = Mapping[int, tuple[ControlPoint, ControlPoint]]


def _add_changes(points: Points, changed: Changed) -> Points:
    out = list(points)
    for index, (old, new) in changed.items():
        out[index] = ControlPoint(*(value + b - a for value, a, b in zip(out[index], old, new)))
    return tuple(out)


def _replace_points(points: Points, changed: Changed) -> Points:
    out = list(points)
    for index, (_, new) in changed.items():
        out[index] = new
    return tuple(out)


def _centre_points(points: Points, there: Points) -> Points:
    (x0, y0), (x1, y1) = middle(points), middle(there)
    return tuple(p._replace(x=p.x + x1 - x0, y=p.y + y1 - y0) for p in points)


def _check_keyed(shape: RotoShape, frames: Collection[int]) -> None:
    stray = sorted(frame for frame in frames if frame not in shape.keys)
    if stray:
        raise DocumentError(f"shape '{shape.name}': has no key at frame {stray[0]}")
