"""Fusion and Resolve masks, `.setting` and `.comp`: nodes as Lua tables that can be pasted into the flow.

Standard library only. Each shape is a polygon mask and the spline that animates it. Points are shares of width and
height from the centre, with y up; handles are offsets. Keys are at absolute frames and move linearly. The feather
outside the edge is the second polyline. Source: a setting saved by Fusion, and files of public generators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rotopaint_ai.exchange import feather_edges, lossiness, lua, parsing
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.fusion_reader import loads, read_report
from rotopaint_ai.exchange.linear_keys import linear_keys, switches
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, ControlPoint, Points, RotoDocument, RotoShape

__all__ = ["dumps", "fusion_names", "loads", "losses_of", "read_report"]
KEEPS: Final[frozenset[Feature]] = frozenset(
    ("tangents", "points", "open", "keys", "width", "visibility", "order", "aspect", "size")
)
WORDS: Final[Mapping[Feature, str]] = {
    "keys": lossiness.HOLDS,
    "feather": "{names}: an open shape's feather is not written; use the mask's Soft Edge",
    "names": "{names}: blanks and signs in names became '_', or a name in use got a number",
    "layers": "{names}: Fusion has no layers of masks; the layer's name precedes the shape's",
}
_SPLINES: Final = ("Polyline", "Polyline2", "Level")  # names of a mask's splines, after its own
_SPREAD: Final = 110  # distance between nodes in the flow


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that Fusion's masks cannot hold."""
    names = fusion_names(document)
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={
            "feather": lambda shape: not shape.closed and shape.feather_px > 0,
            "names": lambda shape: names[shape.name] != shape.name,
            "keys": lossiness.holds,
        },
    )


def fusion_names(document: RotoDocument) -> dict[str, str]:
    """The name of the node of each shape. Names of splines are nobody else's, because they are nodes, too."""
    taken = parsing.TakenNames()
    names: dict[str, str] = {}
    for shape in document.shapes:
        if shape.keys:
            names[shape.name] = _free_tool_name(_tool_name(shape.name), taken)
            taken.update(names[shape.name] + spline for spline in _SPLINES)
    return names


def _free_tool_name(name: str, taken: parsing.TakenNames) -> str:
    free = parsing.free_name(name, taken)
    while any(free + spline in taken for spline in _SPLINES):
        free = parsing.free_name(name, taken)
    return free


def _tool_name(name: str) -> str:
    kept = re.sub(r"[^A-Za-z0-9_]+", "_", name.strip())
    return kept if re.match(r"[A-Za-z_]", kept) and not lua.RESERVED.fullmatch(kept) else f"Shape_{kept}"


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as nodes to paste into Fusion. Raises DocumentError on numbers that are not finite."""
    names = fusion_names(document)
    shapes = [shape for shape in document.shapes if shape.keys]
    nodes = [node for i, shape in enumerate(shapes) for node in _nodes(shape, names[shape.name], document, i)]
    return "{\n\tTools = ordered() {\n" + ",\n".join(nodes) + "\n\t}\n}\n"


def _nodes(shape: RotoShape, name: str, document: RotoDocument, place: int) -> list[str]:
    """A shape's mask node and the splines that animate it."""
    keys = linear_keys(shape)
    changes = switches(shape, document.first_frame, document.last_frame)
    is_soft = shape.closed and (shape.feather_px > 0 or shape.has_feather_line)
    nodes = [_mask_tool(shape, name, document, place, is_soft=is_soft, blinks=bool(changes))]
    nodes.append(_spline_tool(f"{name}Polyline", keys, shape, document))
    if is_soft:
        outer = {frame: feather_edges.line_around(shape, frame, points) for frame, points in keys.items()}
        nodes.append(_spline_tool(f"{name}Polyline2", outer, shape, document))
    if changes:
        nodes.append(_level(f"{name}Level", changes, document.last_frame))
    return nodes


def _mask_tool(shape: RotoShape, name: str, document: RotoDocument, place: int, *, is_soft: bool, blinks: bool) -> str:
    stroke = []
    if not shape.closed:
        width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        stroke = [
            "Solid = Input { Value = 0, },",
            f"BorderWidth = Input {{ Value = {_number_text(width / document.width)}, }},",
        ]
    second = "Polyline2 = Input {\n\t\t\t\t\tValue = Polyline {\n\t\t\t\t\t},\n\t\t\t\t\tDisabled = true,\n\t\t\t\t}"
    inputs = [
        *([_driven_input("Level", f"{name}Level") + ","] if blinks else []),
        'OutputSize = Input { Value = FuID { "Custom" }, },',
        f"MaskWidth = Input {{ Value = {document.width}, }},",
        f"MaskHeight = Input {{ Value = {document.height}, }},",
        f"PixelAspect = Input {{ Value = {{ {_number_text(document.pixel_aspect)}, 1 }}, }},",
        'ClippingMode = Input { Value = FuID { "None" }, },',
        *stroke,
        _driven_input("Polyline", f"{name}Polyline") + ",",
        _driven_input("Polyline2", f"{name}Polyline2") if is_soft else second,
    ]
    body = "".join(f"\t\t\t\t{each}\n" for each in inputs)
    return (
        f'\t\t{name} = PolylineMask {{\n\t\t\tDrawMode = "InsertAndModify",\n\t\t\tDrawMode2 = "InsertAndModify",\n'
        f"\t\t\tInputs = {{\n{body}\t\t\t}},\n"
        f"\t\t\tViewInfo = OperatorInfo {{ Pos = {{ {place * _SPREAD}, 0 }} }},\n\t\t}}"
    )


def _driven_input(name: str, source: str) -> str:
    return f'{name} = Input {{\n\t\t\t\t\tSourceOp = {lua.quote(source)},\n\t\t\t\t\tSource = "Value",\n\t\t\t\t}}'


def _spline_tool(name: str, keys: Mapping[int, Points], shape: RotoShape, document: RotoDocument) -> str:
    rows = [_key_entry(place, frame, keys[frame], shape, document) for place, frame in enumerate(sorted(keys))]
    return _bezier_spline(name, "Red = 173, Green = 255, Blue = 47", rows)


def _bezier_spline(name: str, colour: str, rows: Sequence[str]) -> str:
    body = ",\n".join(f"\t\t\t\t{row}" for row in rows)
    return (
        f"\t\t{name} = BezierSpline {{\n\t\t\tSplineColor = {{ {colour} }},\n\t\t\tNameSet = true,\n"
        f"\t\t\tKeyFrames = {{\n{body}\n\t\t\t}}\n\t\t}}"
    )


def _key_entry(place: int, frame: int, points: Points, shape: RotoShape, document: RotoDocument) -> str:
    rows = ",\n".join("\t\t\t\t\t\t\t" + _point_entry(p, shape.name, document) for p in points)
    closed = "\n\t\t\t\t\t\tClosed = true," if shape.closed else ""
    return (
        f"[{frame}] = {{ {place}, Flags = {{ Linear = true, LockedY = true }}, Value = Polyline {{{closed}\n"
        f"\t\t\t\t\t\tPoints = {{\n{rows}\n\t\t\t\t\t\t}}\n\t\t\t\t\t}} }}"
    )


def _point_entry(p: ControlPoint, name: str, document: RotoDocument) -> str:
    width, height = document.width, document.height
    parsing.check_numbers(name, p)
    x, y = p.x / width - 0.5, 0.5 - p.y / height
    numbers = (x, y, p.in_dx / width, -p.in_dy / height, p.out_dx / width, -p.out_dy / height)
    labels = ("X", "Y", "LX", "LY", "RX", "RY")
    return "{ " + ", ".join(f"{label} = {_number_text(v)}" for label, v in zip(labels, numbers, strict=True)) + " }"


def _level(name: str, changes: Sequence[tuple[int, bool]], last: int) -> str:
    """A spline of 0 and 1 that jumps within the frame before each change."""
    values: dict[int, int] = {}
    for (frame, shown), (_, before) in zip(changes, [changes[0], *changes]):
        if frame - 1 >= changes[0][0]:
            values.setdefault(frame - 1, int(before))
        values[frame] = int(shown)
    values[last] = int(changes[-1][1])
    rows = [f"[{frame}] = {{ {value}, Flags = {{ Linear = true }} }}" for frame, value in sorted(values.items())]
    return _bezier_spline(name, "Red = 200, Green = 200, Blue = 200", rows)


def _number_text(value: float) -> str:
    return format(value + 0.0, ".15g")
