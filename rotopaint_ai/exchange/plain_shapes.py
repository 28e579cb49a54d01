"""A document reduced to what a format can hold: eases as linear keys, one feather and one width for each shape.

Standard library only. Every reduction is reported with its error, one line per shape. Some formats can hold a part:
moves that start and end at rest (`ease`), or a feather line's width at each control point (`feather widths`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, Literal, get_args

from rotopaint_ai.exchange.feather_edges import along_normals, mean_px, span_px
from rotopaint_ai.shapes.bake import TOLERANCE_PX, bake_eases, bake_layer, moves
from rotopaint_ai.shapes.roto import Interpolation, Key, RotoDocument, RotoShape, Slopes

Extra = Literal["eases", "feather line", "widths", "moving layers"]
Held = Extra | Literal["ease", "feather widths"]

ALL: Final[frozenset[Extra]] = frozenset(get_args(Extra))
_EASED: Final[frozenset[Interpolation]] = frozenset(("ease", "smooth"))


def reduced_to(document: RotoDocument, holds: Collection[Held]) -> tuple[RotoDocument, tuple[str, ...]]:
    """The document without the features that a format cannot hold, and a line with the error of each reduction."""
    lines: list[str] = []
    if "moving layers" not in holds and document.layers:
        document = _without_layers(document, lines)
    shapes = tuple(_reduce_to_format(shape, holds, lines) for shape in document.shapes)
    return (replace(document, shapes=shapes), tuple(lines)) if lines else (document, ())


def _without_layers(document: RotoDocument, lines: list[str]) -> RotoDocument:
    shapes = tuple(bake_layer(shape, document.first_frame, document.last_frame) for shape in document.shapes)
    more = sum(len(shape.keys) for shape in shapes) - sum(len(shape.keys) for shape in document.shapes)
    names = ", ".join(layer.name for layer in document.layers)
    way = f"{more} additional linear keys, within {TOLERANCE_PX} px" if any(map(moves, document.layers)) else "left out"
    lines.append(f"layers {names}: their transforms became {way}" if more else f"layers {names}: {way}")
    return replace(document, shapes=shapes)


def _reduce_to_format(shape: RotoShape, holds: Collection[Held], lines: list[str]) -> RotoShape:
    given_up: frozenset[Interpolation] = frozenset(("smooth",)) if "ease" in holds else _EASED
    if "eases" not in holds and any(key.interpolation in given_up for key in shape.keys.values()):
        keys = bake_eases(shape, given_up)
        lines.append(
            f"{shape.name}: eases became {len(keys) - len(shape.keys)} additional linear keys, within {TOLERANCE_PX} px"
        )
        shape = shape.with_keys(keys)
    if "feather widths" in holds and shape.has_feather_line:
        shape, off, cut = along_normals(shape)
        inside = f", and feather of up to {cut:.1f} px inside the edge is left out" if cut > TOLERANCE_PX else ""
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


def hold_outs_last(document: RotoDocument) -> RotoDocument:
    """The document with its hold-outs last, for programs that subtract a shape from the shapes before it."""
    return replace(document, shapes=tuple(sorted(document.shapes, key=lambda shape: shape.subtract)))
