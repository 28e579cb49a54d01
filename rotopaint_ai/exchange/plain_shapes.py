"""A document as a format can hold it: eases as linear keys, one feather and one width for each shape.

Standard library only. What is given up is reported with its number, a line for each shape. Some formats hold a part:
moves that leave and arrive at rest (`ease`), or a feather line's width at each control point (`feather widths`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal, get_args

from rotopaint_ai.exchange.feather_edges import along_normals, mean_px, span_px
from rotopaint_ai.exchange.linear_keys import line_at
from rotopaint_ai.shapes.roto import Interpolation, Key, Points, RotoDocument, RotoShape, Slopes

Extra = Literal["eases", "feather line", "widths"]
Held = Extra | Literal["ease", "feather widths"]

ALL: Final[frozenset[Extra]] = frozenset(get_args(Extra))
_EASED: Final[frozenset[Interpolation]] = frozenset(("ease", "smooth"))
TOLERANCE_PX: Final = 0.1  # linear keys against an eased move
_MOST_SAMPLES = 4000  # frames looked at between two keys


def reduced_to(document: RotoDocument, holds: Collection[Held]) -> tuple[RotoDocument, tuple[str, ...]]:
    """The document without the extras that a format does not hold, and what that costs."""
    lines: list[str] = []
    shapes = tuple(_reduced(shape, holds, lines) for shape in document.shapes)
    return (replace(document, shapes=shapes), tuple(lines)) if lines else (document, ())


def _reduced(shape: RotoShape, holds: Collection[Held], lines: list[str]) -> RotoShape:
    given_up: frozenset[Interpolation] = frozenset(("smooth",)) if "ease" in holds else _EASED
    if "eases" not in holds and any(key.interpolation in given_up for key in shape.keys.values()):
        keys = straightened(shape, given_up)
        lines.append(
            f"{shape.name}: eases became {len(keys) - len(shape.keys)} linear keys more, within {TOLERANCE_PX} px"
        )
        shape = shape.with_keys(keys)
    if "feather widths" in holds and shape.has_feather_line:
        shape, off, cut = along_normals(shape)
        inside = f", and that of up to {cut:.1f} px inside the edge is left out" if cut > TOLERANCE_PX else ""
        if off > TOLERANCE_PX or inside:
            kept = f"the feather keeps its width at each point, its line is up to {off:.1f} px off"
            lines.append(f"{shape.name}: {kept}{inside}")
    elif "feather line" not in holds and shape.has_feather_line:
        low, high = span_px(shape)
        lines.append(f"{shape.name}: feather of {low:.1f} to {high:.1f} px became its mean, {mean_px(shape):.1f} px")
        shape = replace(shape, feather_px=mean_px(shape)).with_keys(_without_feather(shape))
    if "widths" not in holds and shape.has_widths:
        reach = [left + right for key in shape.keys.values() for left, right, _ in key.widths]
        soft = [feather for key in shape.keys.values() for _, _, feather in key.widths]
        width, feather = sum(reach) / len(reach), sum(soft) / len(soft)
        lines.append(
            f"{shape.name}: widths of {min(reach):.1f} to {max(reach):.1f} px became their mean, {width:.1f} px"
        )
        keys = {frame: replace(key, widths=()) for frame, key in shape.keys.items()}
        shape = replace(shape, width_px=width, feather_px=feather).with_keys(keys)
    return shape


def _without_feather(shape: RotoShape) -> dict[int, Key]:
    return {frame: replace(key, feather=(), slopes=_bare(key.slopes)) for frame, key in shape.keys.items()}


def _bare(slopes: Slopes | None) -> Slopes | None:
    return slopes and replace(slopes, feather_leaving=(), feather_arriving=())


def straightened(shape: RotoShape, kinds: Collection[Interpolation] = frozenset(("ease", "smooth"))) -> dict[int, Key]:
    """The keys without those kinds: linear ones that stay within TOLERANCE_PX of a shape at every whole frame."""
    keys: dict[int, Key] = {}
    for frame, after in pairwise((*shape.frames, *shape.frames[-1:])):
        key = shape.keys[frame]
        is_eased = key.interpolation in kinds
        keys[frame] = replace(key, interpolation="linear", slopes=None) if is_eased else key
        for between in _needed(shape, frame, after) if is_eased else ():
            keys[between] = Key(
                shape.at(between), key.source, "linear", shape.feather_at(between), shape.widths_at(between)
            )
    return {frame: keys[frame] for frame in sorted(keys)}


def _needed(shape: RotoShape, begin: int, end: int) -> list[int]:
    """Frames between two keys that need a key of their own."""
    frames = [*range(begin, end, max(1, (end - begin) // _MOST_SAMPLES)), end]
    return turning_frames(
        frames, [(*shape.at(f), *line_at(shape, f)) if shape.has_feather_line else shape.at(f) for f in frames]
    )


def turning_frames(frames: Sequence[int], rows: Sequence[Points]) -> list[int]:
    """Frames inside a span that need a key, so that straight lines between keys stay within TOLERANCE_PX of the rows.

    The row that strays furthest is taken, then the same on either side of it (Ramer 1972; Douglas, Peucker 1973).
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
    """The row between rows a and b where the straight line between them strays furthest, and how far in pixels."""
    worst, at = 0.0, a
    for i in range(a + 1, b):
        w = (frames[i] - frames[a]) / (frames[b] - frames[a])
        for p, q, r in zip(rows[a], rows[b], rows[i], strict=True):
            dx, dy, ix, iy, ox, oy = (u + (v - u) * w - m for u, v, m in zip(p, q, r, strict=True))
            stray = max(math.hypot(dx, dy), math.hypot(dx + ix, dy + iy), math.hypot(dx + ox, dy + oy))
            if stray > worst:
                worst, at = stray, i
    return worst, at


def hold_outs_last(document: RotoDocument) -> RotoDocument:
    """The document with its hold-outs after all others, for programs that take them away from what stands before."""
    return replace(document, shapes=tuple(sorted(document.shapes, key=lambda shape: shape.subtract)))
