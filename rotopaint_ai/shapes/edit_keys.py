"""Keys of several shapes as things in time: moved, spread, copied, taken away, and how they go on.

Standard library only. A key's place is the name of its shape and its frame. Keys that are moved or pasted are a
person's: no run takes them back. Raises DocumentError as `edit` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import edit_frames
from rotopaint_ai.shapes.edit import keyed, put, shape_of, without_stale_slopes
from rotopaint_ai.shapes.roto import Interpolation, Key, RotoDocument

KeyPlace = tuple[str, int]
Ways = Mapping[KeyPlace, int]  # the frame that each key goes to
CopiedKeys = Mapping[str, Mapping[int, Key]]  # by shape and frames after the first one


def shifted(places: Collection[KeyPlace], by: int, *, first: int, last: int) -> Ways:
    """Keys all `by` frames later, or as far as the outermost one comes inside `first` to `last`."""
    frames = [frame for _, frame in places]
    by = min(max(by, first - min(frames)), last - max(frames)) if frames else 0
    return {place: place[1] + by for place in places}


def stretched(places: Collection[KeyPlace], held: int, grip: int, to: int) -> Ways:
    """Keys drawn apart or together in time: the one at `held` stays, the one at `grip` goes to `to`, rounded."""
    factor = (to - held) / (grip - held)
    return {place: held + round((place[1] - held) * factor) for place in places}


def retime(document: RotoDocument, ways: Ways) -> RotoDocument:
    """The document with keys at other frames; those that stood there give way. Raises where two would meet."""
    for name in {name for name, _ in ways}:
        shape = shape_of(document, name)
        way = {frame: to for (each, frame), to in ways.items() if each == name}
        if len(set(way.values())) < len(way):
            raise DocumentError(f"shape '{name}': two keys would come to lie on one frame; leave more room")
        left = {frame: key for frame, key in shape.keys.items() if frame not in way}
        left |= {to: _made_by_hand(shape.keys[frame], is_moved=to != frame) for frame, to in way.items()}
        document = put(document, name, shape.with_keys(without_stale_slopes(shape, dict(sorted(left.items())))))
    return document


def remove_keys(document: RotoDocument, places: Iterable[KeyPlace]) -> RotoDocument:
    """The document without these keys; the last key of a shape stays, as `edit_frames.delete_keys` says."""
    for name, frames in frames_by_shape(places).items():
        document = edit_frames.delete_keys(document, (name,), frames)
    return document


def set_ways_on(document: RotoDocument, places: Iterable[KeyPlace], kind: Interpolation) -> RotoDocument:
    """The document with keys that hold, ease, run smoothly or go on in a straight line."""
    for name, frames in frames_by_shape(places).items():
        document = edit_frames.set_interpolation(document, name, frames, kind)
    return document


def copy_keys(document: RotoDocument, places: Collection[KeyPlace]) -> CopiedKeys:
    """Keys to be pasted, by shape and how many frames they stand after the first of them."""
    first = min((frame for _, frame in places), default=0)
    return {
        name: {frame - first: shape_of(document, name).keys[frame] for frame in frames}
        for name, frames in frames_by_shape(places).items()
    }


def paste_keys(document: RotoDocument, copied: CopiedKeys, frame: int, *, last: int) -> RotoDocument:
    """The document with copied keys from a frame on, as a person's; those after `last` are left out.

    Raises where a shape's number of control points is another one.
    """
    for name, keys in copied.items():
        shape = shape_of(document, name)
        if any(len(key.points) != shape.n_points for key in keys.values()):
            raise DocumentError(f"shape '{name}': has {shape.n_points} points, the copied keys have another number")
        new = {frame + at: _made_by_hand(key, is_moved=True) for at, key in keys.items() if frame + at <= last}
        document = put(document, name, keyed(shape, new))
    return document


def frames_by_shape(places: Iterable[KeyPlace]) -> dict[str, list[int]]:
    """The frames of keys in order, by shape."""
    found: dict[str, list[int]] = {}
    for name, frame in sorted(places):
        found.setdefault(name, []).append(frame)
    return found


def _made_by_hand(key: Key, *, is_moved: bool) -> Key:
    return replace(key, source="human", slopes=None) if is_moved else key
