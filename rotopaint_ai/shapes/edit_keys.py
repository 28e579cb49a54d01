"""Edits in time of keys of several shapes and groups: move, stretch, copy, delete, set interpolation.

Standard library only. A key is identified by the name of its shape, or `group_place` of a group, and its frame. Moved
and pasted keys become human, so no run overwrites them. If keys of a group's transform move, keys of its shapes on the
same frames move too. Raises DocumentError as `edit` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import edit_frames, edit_layers
from rotopaint_ai.shapes.edit import drop_stale_slopes, merge_keys, replace_shape, shape_of
from rotopaint_ai.shapes.layers import LayerPose
from rotopaint_ai.shapes.roto import Interpolation, Key, RotoDocument

KeyPlace = tuple[str, int]
Ways = Mapping[KeyPlace, int]  # the new frame of each key
# Keys by shape or group, and by frame relative to the first copied frame.
CopiedKeys = Mapping[str, Mapping[int, Key | LayerPose]]
T = TypeVar("T")
_GROUP = "\0"  # no shape name contains it


def group_place(name: str) -> str:
    """The identifier of a group in key places."""
    return _GROUP + name


def group_of(place: str) -> str | None:
    """The group that a place refers to; None if it refers to a shape."""
    return place[len(_GROUP) :] if place.startswith(_GROUP) else None


def shift_keys(places: Collection[KeyPlace], by: int, *, first: int, last: int) -> Ways:
    """Shift all keys by `by` frames, limited so that all stay inside `first` to `last`."""
    frames = [frame for _, frame in places]
    by = min(max(by, first - min(frames)), last - max(frames)) if frames else 0
    return {place: place[1] + by for place in places}


def stretch_keys(places: Collection[KeyPlace], held: int, grip: int, to: int) -> Ways:
    """Stretch keys in time: the one at `held` stays, the one at `grip` moves to `to`, rounded."""
    factor = (to - held) / (grip - held)
    return {place: held + round((place[1] - held) * factor) for place in places}


def retime(document: RotoDocument, ways: Ways) -> RotoDocument:
    """The document with keys at other frames, replacing keys there. Raises DocumentError if two keys would coincide."""
    moved = _frames_to(ways)
    groups = {name: way for place, way in moved.items() if (name := group_of(place)) is not None}
    layers = [edit_layers.layer_of(document, name) for name in groups]
    for layer in layers:  # remove the groups' poses, move keys, and apply the poses again
        document = edit_layers.move_layer(document, replace(layer, poses={}))
    for name, way in moved.items():
        if group_of(name) is None:
            shape = shape_of(document, name)
            own = {frame: _as_human_key(shape.keys[frame], is_moved=to != frame) for frame, to in way.items()}
            left = _retime_rows(f"shape '{name}'", {**shape.keys, **own}, way)
            document = replace_shape(document, name, shape.with_keys(drop_stale_slopes(shape, left)))
    for layer in layers:
        poses = _retime_rows(f"group '{layer.name}'", layer.poses, groups[layer.name])
        document = edit_layers.move_layer(document, replace(edit_layers.layer_of(document, layer.name), poses=poses))
    return document


def _frames_to(ways: Ways) -> dict[str, dict[int, int]]:
    """The new frame of each key, by shape or group."""
    found: dict[str, dict[int, int]] = {}
    for (name, frame), to in ways.items():
        found.setdefault(name, {})[frame] = to
    return found


def _retime_rows(what: str, keys: Mapping[int, T], way: Mapping[int, int]) -> dict[int, T]:
    if len(set(way.values())) < len(way):
        raise DocumentError(f"{what}: two keys would be on one frame; leave more room")
    left = {frame: key for frame, key in keys.items() if frame not in way}
    left |= {to: keys[frame] for frame, to in way.items()}
    return {frame: left[frame] for frame in sorted(left)}


def remove_keys(document: RotoDocument, places: Iterable[KeyPlace]) -> RotoDocument:
    """The document without these keys; a shape's last key cannot be removed, see `edit_frames.delete_keys_of`."""
    own, has_groups = {}, False
    for name, frames in frames_by_shape(places).items():
        group = group_of(name)
        if group is None:
            own[name] = frames
        else:
            document, has_groups = edit_layers.delete_poses(document, group, frames), True
    return edit_frames.delete_keys_of(document, own, is_part=has_groups)


def set_ways_on(document: RotoDocument, places: Iterable[KeyPlace], kind: Interpolation) -> RotoDocument:
    """The document with another interpolation for these keys; groups are always linear."""
    for name, frames in frames_by_shape(places).items():
        if group_of(name) is None:
            document = edit_frames.set_interpolation(document, name, frames, kind)
    return document


def copy_keys(document: RotoDocument, places: Collection[KeyPlace]) -> CopiedKeys:
    """Keys to paste, by shape or group and by frame relative to the first of them."""
    first = min((frame for _, frame in places), default=0)
    found: dict[str, dict[int, Key | LayerPose]] = {}
    for name, frames in frames_by_shape(places).items():
        group = group_of(name)
        keys = shape_of(document, name).keys if group is None else edit_layers.layer_of(document, group).poses
        found[name] = {frame - first: keys[frame] for frame in frames}
    return found


def paste_keys(document: RotoDocument, copied: CopiedKeys, frame: int, *, last: int) -> RotoDocument:
    """The document with copied keys from a frame on, as human keys; those after `last` are left out.

    Raises DocumentError if a shape has another number of control points.
    """
    for name, keys in copied.items():
        there = {frame + at: key for at, key in keys.items() if frame + at <= last}
        group = group_of(name)
        for to, pose in there.items() if group is not None else ():
            assert isinstance(pose, LayerPose)
            document = edit_layers.set_pose(document, group or "", [to], pose)
        if group is None:
            document = _paste_shape_keys(document, name, {f: key for f, key in there.items() if isinstance(key, Key)})
    return document


def _paste_shape_keys(document: RotoDocument, name: str, keys: Mapping[int, Key]) -> RotoDocument:
    shape = shape_of(document, name)
    if any(len(key.points) != shape.n_points for key in keys.values()):
        raise DocumentError(f"shape '{name}': has {shape.n_points} points, the copied keys have another number")
    return replace_shape(
        document, name, merge_keys(shape, {f: _as_human_key(key, is_moved=True) for f, key in keys.items()})
    )


def frames_by_shape(places: Iterable[KeyPlace]) -> dict[str, list[int]]:
    """The frames of keys in order, by shape."""
    found: dict[str, list[int]] = {}
    for name, frame in sorted(places):
        found.setdefault(name, []).append(frame)
    return found


def _as_human_key(key: Key, *, is_moved: bool) -> Key:
    return replace(key, source="human", slopes=None) if is_moved else key
