"""After Effects: a script that builds masks, and a dump of a composition's masks that another script writes.

Standard library only, except that eased moves are reduced to few keys with numpy. Mask points are pixels of the layer
with y down and handles as offsets, as in our document. Keys are linear or hold; their times are seconds, so that the
composition's frame rate decides. A mask's feather lies half inside and half outside its edge. It is written with our
width and an expansion of half that width, which puts it outside. A feather that varies along the shape becomes feather
points, one at each vertex (After Effects Scripting Guide, "Shape object"). Scripts use match names, which are the same
in every language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import DocumentError, list_names
from rotopaint_ai.exchange import feather_edges, lossiness, parsing
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.limits import MOST_WIDTH_PX
from rotopaint_ai.exchange.linear_keys import switches
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.mask_scripts import MaskScript, read_data, read_opacity, read_rates, read_rows, read_size
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.exchange.plain_shapes import hold_outs_last
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points, RotoDocument, RotoShape

FORMAT: Final = "rotopaint-after-effects-masks"
KEEPS: Final[frozenset[Feature]] = frozenset(
    (
        "tangents",
        "points",
        "open",
        "keys",
        "holds",
        "feather",
        "visibility",
        "names",
        "order",
        "subtract",
        "aspect",
        "fps",
        "range",
        "size",
    )
)
WORDS: Final[Mapping[Feature, str]] = {
    "width": "{names}: an open mask has no width: give it the Stroke effect, or --bands for closed outlines",
    "feather": "{names}: an open mask's feather is not written",
    "layers": "{names}: masks have no groups; the layer's name stays a part of the mask's name",
    "subtract": "{names}: an open mask cannot subtract; its hold-out is not written",
}
EASED_PX: Final = 0.1
_HOLDS_OUT: Final = "SUBTRACT"  # a mask's mode: it subtracts from the masks above it
_SCRIPT: Final = MaskScript("var ROTOPAINT = ", ";\n// end of the data\n", FORMAT, "After Effects")
_HOSTS: Final = Path(__file__).with_name("hosts")


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that After Effects' masks cannot hold."""
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={
            "feather": lambda shape: not shape.closed and shape.feather_px > 0,
            "subtract": lambda shape: not shape.closed and shape.subtract,
        },
    )


def dump_script() -> str:
    """The script that writes the masks of an open composition for this product to read."""
    return (_HOSTS / "after_effects_dump.jsx").read_text(encoding="utf-8")


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """A script for After Effects that builds the masks. Raises DocumentError on numbers that are not finite."""
    data = {
        "format": FORMAT,
        "version": 1,
        "width": document.width,
        "height": document.height,
        "pixel_aspect": document.pixel_aspect,
        "fps": document.fps,
        "first_frame": document.first_frame,
        "last_frame": document.last_frame,
        "masks": [_mask_of_shape(shape, document) for shape in hold_outs_last(document).shapes if shape.keys],
    }
    script = (_HOSTS / "after_effects_build.jsx").read_text(encoding="utf-8")
    return f"{_SCRIPT.begin}{parsing.json_lines(data, depth=2)}{_SCRIPT.end}\n{script}"


def _mask_of_shape(shape: RotoShape, document: RotoDocument) -> dict[str, Any]:
    changes = switches(shape, document.first_frame, document.last_frame)
    return {
        "name": shape.name,
        "closed": shape.closed,
        **({"mode": _HOLDS_OUT} if shape.subtract and shape.closed else {}),
        "feather": shape.feather_px if shape.closed else 0.0,
        "keys": [_key_row(frame, shape) for frame in shape.frames],
        "opacity": [[frame, 100 if shown else 0] for frame, shown in changes],
    }


def _key_row(frame: int, shape: RotoShape) -> list[Any]:
    key = shape.keys[frame]
    parsing.check_numbers(shape.name, (v for point in key.points for v in point))
    rows = [[round(value, 9) for value in point] for point in key.points]
    head = [frame, key.interpolation == "hold", rows]
    if not shape.has_feather_line:
        return head
    line = feather_edges.line_around(shape, frame, key.points)
    found = feather_edges.widths(key.points, [(p.x, p.y) for p in line])
    return [*head, shape.closed, len(found), [[i, 0, round(width, 9)] for i, width in enumerate(found)]]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read a dump of a composition's masks, or a script that this product wrote. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "masks") -> ReadResult:
    """The document in the text of a script that this product wrote, or of a dump of a composition's masks."""
    data, warnings = read_data(text, _SCRIPT, where), list[str]()
    size = read_size(data, where, width, height)
    masks = [*read_rows(data, "masks", where), *_dumped_masks(data, size, where, warnings)]
    first = parsing.parse_integer(f"{where}: first_frame", data.get("first_frame"))
    last = data.get("last_frame", first + parsing.parse_integer(f"{where}: n_frames", data.get("n_frames", 1)) - 1)
    first, last = parsing.frame_range(where, [first, parsing.parse_integer(f"{where}: last_frame", last)])
    taken = parsing.TakenNames()
    shapes = [
        _shape_of_mask(mask, parsing.free_name(str(mask.get("name")), taken), (first, last), where, warnings)
        for mask in masks
    ]
    kept = tuple(shape for shape in shapes if shape is not None)
    warnings += parsing.hold_outs_above(kept)
    frames = [frame for shape in kept for frame in shape.frames]
    first, last = parsing.frame_range(where, [first, last, *frames])
    aspect, fps = read_rates(data, where)
    return ReadResult(
        RotoDocument(*size, first, last, aspect, round(fps, 5), shapes=kept), tuple(dict.fromkeys(warnings))
    )


def _dumped_masks(
    data: Mapping[str, Any], size: tuple[int, int], where: str, warnings: list[str]
) -> list[dict[str, Any]]:
    """The masks of every layer of a dump, named after both where there are several layers."""
    layers = read_rows(data, "layers", where)
    found = []
    for layer in layers:
        name = str(layer.get("name"))
        if layer.get("moved"):
            warnings.append(f"layer '{name}' is moved, scaled or rotated; its masks are read without that transform")
        if (layer.get("width"), layer.get("height")) != size:
            warnings.append(
                f"layer '{name}' is {layer.get('width')} x {layer.get('height')}, the composition {size[0]} x "
                f"{size[1]}: its masks are left out; precompose it at the plate's size"
            )
            continue
        for mask in read_rows(layer, "masks", where):
            row = {**mask, "name": f"{name}/{mask.get('name')}" if len(layers) > 1 else str(mask.get("name"))}
            found.append({**row, "feather": _outside(row, where, warnings), "is_dumped": True})
            _report_mask(row, warnings)
    return found


def _outside(mask: Mapping[str, Any], where: str, warnings: list[str]) -> float:
    """Feather outside the edge in pixels: half of After Effects' feather, and the expansion."""
    pair = mask.get("feather") or [0.0, 0.0]
    both = pair if isinstance(pair, list) and len(pair) == 2 else [pair, pair]
    x, y = (parsing.finite_number(f"{where}: '{mask['name']}': feather", value) for value in both)
    grown = parsing.finite_number(f"{where}: '{mask['name']}': expansion", mask.get("expansion", 0.0))
    reach = (x + y) / 4 + grown
    if abs(x - y) > 1e-3:
        warnings.append(f"{mask['name']}: feather of {x:g} by {y:g} px became its mean; the document holds one width")
    if abs(grown - (x + y) / 4) > 1e-3:
        warnings.append(
            f"{mask['name']}: feather {(x + y) / 2:g} px with expansion {grown:g} px became {max(reach, 0.0):g} px "
            "outside the edge, as the document's feather is outside"
        )
    return max(0.0, reach)


def _report_mask(mask: Mapping[str, Any], warnings: list[str]) -> None:
    name = mask["name"]
    if mask.get("inverted"):
        warnings.append(f"{name}: is inverted; the document does not hold that")
    if mask.get("mode", "ADD") not in ("ADD", "LIGHTEN", "NONE", _HOLDS_OUT):
        warnings.append(f"{name}: is in mode {str(mask['mode']).lower()}; the document adds every shape")
    if mask.get("animated"):
        warnings.append(f"{name}: its feather or expansion is animated; the first value is kept")
    if mask.get("linear") is False and any(mask.get("feather") or []):
        warnings.append(f"{name}: its feather falls off smoothly, the document's linearly")


def _shape_of_mask(
    mask: Mapping[str, Any], name: str, span: tuple[int, int], where: str, warnings: list[str]
) -> RotoShape | None:
    here = f"{where}: '{name}'"
    rows = mask.get("keys")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) >= 3 for row in rows):
        raise DocumentError(f"{here}: keys are not a list of [frame, kind, points]; write the file again")
    closed = bool(mask.get("closed", rows[0][3] if rows and len(rows[0]) > 3 else True))
    keys: dict[int, Key] = {}
    for row in rows:
        frame = span[0] if row[0] is None else parsing.whole_frame(f"{here}: a key's frame", row[0], name, warnings)
        keys[frame] = Key(
            _points_of_rows(row[2], here), "model" if row[1] == "eased" else "human", _interpolation_of(row[1])
        )
    kept = parsing.same_count(here, {frame: key.points for frame, key in keys.items()})
    if not kept:
        warnings.append(f"{name}: has no key and is left out")
        return None
    if len(kept) < len(keys):
        gone = sorted(set(keys) - set(kept))
        warnings.append(f"{name}: its points change in number; keys at {list_names(gone)} are left out")
    base = parsing.foreign_shape(
        name, closed, kept, parsing.finite_number(f"{here}: feather", mask.get("feather", 0.0))
    )
    points = {span[0] if row[0] is None else round(row[0]): row[5] for row in rows if len(row) > 5 and row[5]}
    keyed = base.with_keys({frame: keys[frame] for frame in base.frames})
    if points and closed:
        keyed = _with_feather_points(keyed, points, here, warnings)
    elif any(len(row) > 4 and row[4] for row in rows):
        warnings.append(f"{name}: feather points along the mask are not held by the document")
    shape = _with_linear_moves(keyed, warnings)
    hidden = read_opacity(mask, "opacity", 100.0, name, span, here, warnings)
    return replace(shape, visible=hidden, subtract=closed and mask.get("mode") == _HOLDS_OUT)


def _with_feather_points(shape: RotoShape, points: Mapping[int, object], where: str, warnings: list[str]) -> RotoShape:
    """The shape with the feather of a mask's feather points, if they lie at its vertices."""
    lines = {}
    for frame, key in shape.keys.items():
        radii = _radii_at_vertices(points.get(frame, []), len(key.points), where)
        if radii is None:
            warnings.append(f"{shape.name}: feather points between vertices are not held by the document")
            return shape
        lines[frame] = feather_edges.line_of_widths(key.points, [radius + shape.feather_px for radius in radii])
    return feather_edges.with_lines(shape, lines)


def _radii_at_vertices(rows: object, count: int, where: str) -> list[float] | None:
    """The feather's width at each vertex; None where a feather point lies between vertices."""
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise DocumentError(f"{where}: feather points are not rows of three numbers; write the file again")
    found = [0.0] * count
    for segment, share, radius in rows:
        at = parsing.finite_number(f"{where}: a feather point", segment) + parsing.finite_number(
            f"{where}: its place", share
        )
        if abs(at - round(at)) > 1e-3:
            return None
        found[round(at) % count] = parsing.finite_number(f"{where}: a feather radius", radius, limit=MOST_WIDTH_PX)
    return found


def _with_linear_moves(shape: RotoShape, warnings: list[str]) -> RotoShape:
    """The shape with the frames between eased keys reduced to the linear keys that are needed."""
    if all(key.source == "human" for key in shape.keys.values()):
        return shape
    from rotopaint_ai.shapes.reduce import reduce_keys

    thin = reduce_keys(shape, EASED_PX)
    extra = sum(key.source != "human" for key in thin.keys.values())
    warnings.append(f"{shape.name}: eased moves got {extra} additional linear keys, within {EASED_PX} px")
    return thin.with_keys({frame: replace(key, source="human") for frame, key in thin.keys.items()})


def _interpolation_of(value: object) -> Interpolation:
    return "hold" if value in (True, "hold") else "linear"


def _points_of_rows(rows: object, where: str) -> Points:
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 6 for row in rows):
        raise DocumentError(f"{where}: points are not rows of six numbers; write the file again")
    return tuple(ControlPoint(*(parsing.finite_number(f"{where}: a point", value) for value in row)) for row in rows)
