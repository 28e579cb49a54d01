"""Baking: eases and layer motion as linear keys within a tolerance at every integer frame.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import Interpolation, Key, Points, RotoShape, feather_line

TOLERANCE_PX: Final = 0.1  # largest deviation of the linear keys from the original motion
_MOST_SAMPLES = 4000  # most frames tested between two keys


def moves(layer: Layer | None) -> bool:
    """Whether a layer or one of its parents moves over time."""
    return any(len(each.track) > 1 or len(set(each.poses.values())) > 1 for each in (layer.chain if layer else ()))


def bake_layer(shape: RotoShape, first: int, last: int, *, is_whole: bool = False) -> RotoShape:
    """The shape without layer, with linear keys that follow the same motion; `is_whole`: a key at every frame."""
    if not moves(shape.layer) or not shape.keys:
        return replace(shape, layer=None)
    own = [(a, b if shape.keys[a].interpolation != "hold" else max(b - 1, a)) for a, b in pairwise(shape.frames)]
    ends = [(first, shape.frames[0]), *own, (shape.frames[-1], last)]
    spans = [(begin, end) for begin, end in ends if begin < end]
    frames = {frame for begin, end in spans for frame in (begin, *_needed_frames(shape, begin, end), end)}
    frames = {*range(min(first, *shape.frames), max(last, *shape.frames) + 1)} if is_whole else frames
    keys = {frame: _key_at(shape, frame) for frame in sorted(frames.union(shape.frames))}
    return replace(shape, keys=keys, layer=None)


def line_at(shape: RotoShape, frame: float) -> Points:
    """The feather line of a shape at a frame; the edge itself without one."""
    points = shape.at(frame)
    return feather_line(points, shape.feather_at(frame) or tuple(p._replace(x=0.0, y=0.0) for p in points))


def _key_at(shape: RotoShape, frame: int) -> Key:
    """A linear key of the shape at a frame, with the provenance of the key at or before it."""
    earlier = [f for f in shape.frames if f <= frame] or [shape.frames[0]]
    source = shape.keys[earlier[-1]].source
    return Key(shape.at(frame), source, "linear", shape.feather_at(frame), shape.widths_at(frame))


def bake_eases(shape: RotoShape, kinds: Collection[Interpolation] = frozenset(("ease", "smooth"))) -> dict[int, Key]:
    """The keys without interpolations of these kinds: linear keys within TOLERANCE_PX at every integer frame."""
    keys: dict[int, Key] = {}
    for frame, after in pairwise((*shape.frames, *shape.frames[-1:])):
        key = shape.keys[frame]
        is_eased = key.interpolation in kinds
        keys[frame] = replace(key, interpolation="linear", slopes=None) if is_eased else key
        for between in _needed_frames(shape, frame, after) if is_eased else ():
            keys[between] = Key(
                shape.at(between), key.source, "linear", shape.feather_at(between), shape.widths_at(between)
            )
    return {frame: keys[frame] for frame in sorted(keys)}


def _needed_frames(shape: RotoShape, begin: int, end: int) -> list[int]:
    """Frames between two keys that need a key."""
    frames = [*range(begin, end, max(1, (end - begin) // _MOST_SAMPLES)), end]
    return turning_frames(
        frames, [(*shape.at(f), *line_at(shape, f)) if shape.has_feather_line else shape.at(f) for f in frames]
    )


def turning_frames(frames: Sequence[int], rows: Sequence[Points]) -> list[int]:
    """Frames of a span that need a key so that linear interpolation stays within TOLERANCE_PX of the rows.

    The row with the largest deviation is kept, then both sides recursively (Ramer 1972; Douglas, Peucker 1973).
    """
    kept: list[int] = []
    todo = [(0, len(frames) - 1)]
    while todo:
        a, b = todo.pop()
        worst, at = _farthest_between(frames, rows, a, b)
        if worst > TOLERANCE_PX * 0.9:
            kept.append(frames[at])
            todo += [(a, at), (at, b)]
    return sorted(kept)


def _farthest_between(frames: Sequence[int], rows: Sequence[Points], a: int, b: int) -> tuple[float, int]:
    """The largest deviation in pixels from linear interpolation between rows a and b, and its row."""
    worst, at = 0.0, a
    for i in range(a + 1, b):
        w = (frames[i] - frames[a]) / (frames[b] - frames[a])
        for p, q, r in zip(rows[a], rows[b], rows[i], strict=True):
            dx, dy, ix, iy, ox, oy = (u + (v - u) * w - m for u, v, m in zip(p, q, r, strict=True))
            stray = max(math.hypot(dx, dy), math.hypot(dx + ix, dy + iy), math.hypot(dx + ox, dy + oy))
            if stray > worst:
                worst, at = stray, i
    return worst, at
