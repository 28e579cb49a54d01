"""Blender masks: a script that builds them, animated, and a dump of a file's masks that another script writes.

Standard library only. A mask has a layer for each shape. Mask space is centred with the longer side as 1 and y up, y
shrunk by the scene's pixel aspect (found by rendering); handles are absolute. Keys hold all points of a layer and move
linearly. Feather is a distance on the outer side of each point. Outside is to the left of the curve's direction, so
shapes with the other direction are reversed. Blender cannot draw open curves: strokes are written as closed bands.
Tested in Blender 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import feather_edges, lossiness, parsing, stroke_outlines
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.linear_keys import linear_keys, switches
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.mask_scripts import MaskScript, read_data, read_opacity, read_rates, read_rows, read_size
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.exchange.plain_shapes import hold_outs_last
from rotopaint_ai.shapes.roto import ControlPoint, Points, RotoDocument, RotoShape

FORMAT: Final = "rotopaint-blender-masks"
KEEPS: Final[frozenset[Feature]] = frozenset(
    (
        "tangents",
        "points",
        "keys",
        "feather",
        "visibility",
        "order",
        "subtract",
        "names",
        "aspect",
        "fps",
        "range",
        "size",
    )
)
WORDS: Final[Mapping[Feature, str]] = {
    "keys": lossiness.HOLDS,
    "open": "{names}: Blender cannot draw open curves; a closed band as wide as the stroke is written",
    "width": "{names}: the width is in the band's outline",
    "taper": "{names}: the taper is in the band's outline",
    "feather": "{names}: feather is exact at the points only: it follows the taper, or the pixel aspect",
    "names": "{names}: the name is longer than Blender's limit of 63 bytes",
    "layers": "{names}: layers are not written; they stay a part of the name",
}
# `as_written` has closed the strokes already.
SETTLED: Final[frozenset[Feature]] = frozenset(("open", "width", "taper"))
_SCRIPT: Final = MaskScript("DATA = json.loads(r'''", "''')\n", FORMAT, "Blender")
_HOLDS_OUT: Final = "MERGE_SUBTRACT"  # a layer's blending: the matte below it times one minus the layer's own
_LONGEST_NAME: Final = 63  # bytes
_HOSTS: Final = Path(__file__).with_name("hosts")


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that Blender's masks cannot hold."""
    names = blender_names(document)
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={
            "names": lambda shape: names[shape.name] != shape.name,
            "keys": lossiness.holds,
            "roles": lambda shape: shape.role != parsing.role_of(shape.name, True),
            "feather": lambda shape: (
                (shape.feather_px > 0 or shape.has_feather_line) and (document.pixel_aspect != 1.0 or any(shape.taper))
            ),
        },
    )


def blender_names(document: RotoDocument) -> dict[str, str]:
    """The name of the layer of each shape."""
    taken = parsing.TakenNames()
    return {shape.name: _free_name(shape.name, taken) for shape in document.shapes if shape.keys}


def _free_name(name: str, taken: parsing.TakenNames) -> str:
    """The name cut to Blender's limit, with a number where that name is taken."""
    cut = name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    if cut in taken:
        cut = parsing.free_name(name.encode()[: _LONGEST_NAME - 6].decode(errors="ignore"), taken)
    taken.add(cut)
    return cut


def dump_script() -> str:
    """The script that writes the masks of a Blender file for this product to read."""
    return (_HOSTS / "blender_dump.py").read_text(encoding="utf-8")


# --- writing ----------------------------------------------------------------------------------------------------------


def as_blender_holds(document: RotoDocument) -> RotoDocument:
    """The document in the form that Blender can draw: strokes are closed bands, hold-outs come last."""
    return stroke_outlines.closed_strokes(hold_outs_last(document))


def dumps(document: RotoDocument) -> str:
    """A script for Blender that builds the masks. Raises DocumentError on numbers that are not finite."""
    names = blender_names(document)
    data = {
        "format": FORMAT,
        "version": 1,
        "name": "RotoPaint",
        "width": document.width,
        "height": document.height,
        "pixel_aspect": document.pixel_aspect,
        "fps": document.fps,
        "first_frame": document.first_frame,
        "last_frame": document.last_frame,
        "layers": [
            _layer_of_shape(shape, names[shape.name], document)
            for shape in hold_outs_last(document).shapes
            if shape.keys
        ],
    }
    script = (_HOSTS / "blender_build.py").read_text(encoding="utf-8")
    head, _, body = script.partition("import bpy\n")
    text = parsing.json_lines(data, depth=4).replace("'", "\\u0027")
    return f"{head}import bpy\n\n{_SCRIPT.begin}{text}{_SCRIPT.end}{body}"


def _layer_of_shape(shape: RotoShape, name: str, document: RotoDocument) -> dict[str, Any]:
    keys = linear_keys(shape)
    drawn = shape if shape.closed else stroke_outlines.stroke_outline(shape)
    poses = {frame: _closed_pose(shape, frame, points) for frame, points in keys.items()}
    turned = _runs_the_other_way([points for points, _ in poses.values()])
    span = (document.first_frame, document.last_frame)
    return {
        "name": name,
        "cyclic": drawn.closed,
        **({"blend": _HOLDS_OUT} if shape.subtract else {}),
        "reversed": turned,
        "keys": [[frame, _key_rows(*poses[frame], turned, shape.name, document)] for frame in sorted(poses)],
        "alpha": [[frame, float(shown)] for frame, shown in switches(shape, *span)],
    }


def _closed_pose(shape: RotoShape, frame: int, points: Points) -> tuple[Points, list[float]]:
    """The closed curve to draw, and the feather in pixels at each of its points."""
    if shape.has_feather_line:
        line = feather_edges.line_around(shape, frame, points)
        return points, [max(0.0, width) for width in feather_edges.widths(points, [(p.x, p.y) for p in line])]
    if shape.closed:
        return points, [shape.feather_px] * len(points)
    width = stroke_outlines.width_of(shape)
    shares = stroke_outlines.feather_shares(points, shape.taper)
    return stroke_outlines.widened_outline(points, width, shape.taper), [shape.feather_px * share for share in shares]


def _key_rows(
    points: Points, feathers: Sequence[float], turned: bool, name: str, document: RotoDocument
) -> list[list[float]]:
    if turned:
        points, feathers = feather_edges.reversed_points(points, True), [feathers[0], *feathers[:0:-1]]
    scales = _feather_scales(points, document.width, document.height, document.pixel_aspect)
    rows = []
    for p, feather, scale in zip(points, feathers, scales, strict=True):
        parsing.check_numbers(name, p)
        places = ((p.x, p.y), (p.x + p.in_dx, p.y + p.in_dy), (p.x + p.out_dx, p.y + p.out_dy))
        six = [v for x, y in places for v in _to_mask(x, y, document)]
        rows.append([round(v, 9) for v in (*six, feather / scale)])
    return rows


def _to_mask(x: float, y: float, document: RotoDocument) -> tuple[float, float]:
    longest = max(document.width, document.height)
    up = (document.height / 2 - y) / (longest * document.pixel_aspect)
    return (x - document.width / 2) / longest + 0.5, up + 0.5


def _to_plate(x: float, y: float, width: int, height: int, aspect: float) -> tuple[float, float]:
    longest = max(width, height)
    return (x - 0.5) * longest + width / 2, height / 2 - (y - 0.5) * longest * aspect


def _feather_scales(points: Points, width: int, height: int, aspect: float) -> list[float]:
    """Plate pixels per unit of feather at each point; Blender moves an edge along its normal in mask space."""
    return [max(width, height) * math.hypot(x, aspect * y) for x, y in feather_edges.normals(points)]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read a dump of Blender's masks, or a script that this product wrote. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "masks") -> ReadResult:
    """The document in the text of a script that this product wrote, or of a dump of Blender's masks."""
    data, warnings = read_data(text, _SCRIPT, where), list[str]()
    size = read_size(data, where, width, height)
    aspect, fps = read_rates({"pixel_aspect": 1.0, "fps": 24.0, **data}, where)
    frame = (*size, aspect)
    masks = read_rows(data, "masks", where)
    rows = [{"name": "Mask", **each} for each in read_rows(data, "layers", where)]
    rows += [row for mask in masks for row in _dumped_rows(mask, len(masks) > 1, where, warnings)]
    first, last = (parsing.parse_integer(f"{where}: {name}", data.get(name)) for name in ("first_frame", "last_frame"))
    first, last = parsing.frame_range(where, [first, last, *_frames_with_keys(rows, where)])
    taken = parsing.TakenNames()
    shapes = [
        _shape_of_spline(row, parsing.free_name(str(row["name"]), taken), frame, (first, last), where, warnings)
        for row in rows
    ]
    kept = tuple(shape for shape in shapes if shape is not None)
    return ReadResult(
        RotoDocument(*size, first, last, aspect, fps, shapes=kept),
        (*warnings, *parsing.hold_outs_above(kept)),
    )


def _dumped_rows(mask: Mapping[str, Any], several: bool, where: str, warnings: list[str]) -> list[dict[str, Any]]:
    """One row for each spline of a dumped mask."""
    note = mask.get("note") if isinstance(mask.get("note"), dict) else {}
    turned = note.get("reversed", []) if isinstance(note, dict) else []
    rows = []
    for layer in read_rows(mask, "layers", where):
        name = f"{mask.get('name')}/{layer.get('name')}" if several else str(layer.get("name"))
        _report_layer(layer, name, warnings)
        for spline in read_rows(layer, "splines", where):
            rows.append(
                {
                    **spline,
                    "name": name,
                    "alpha": layer.get("alpha", []),
                    "is_dumped": True,
                    "blend": layer.get("blend"),
                    "reversed": layer.get("name") in turned,
                }
            )
    return rows


def _report_layer(layer: Mapping[str, Any], name: str, warnings: list[str]) -> None:
    if layer.get("invert"):
        warnings.append(f"{name}: is inverted; the document does not hold that")
    if layer.get("hidden"):
        warnings.append(f"{name}: is hidden from rendering; the document shows it")
    if layer.get("blend") not in ("MERGE_ADD", "ADD", "LIGHTEN", _HOLDS_OUT, "SUBTRACT", None):
        warnings.append(f"{name}: is blended by {layer.get('blend')}; the document adds every shape")
    if layer.get("falloff", "LINEAR") != "LINEAR":
        warnings.append(f"{name}: its feather falls off {str(layer.get('falloff')).lower()}, the document's linearly")


def _frames_with_keys(rows: Sequence[Mapping[str, Any]], where: str) -> list[int]:
    return [frame for row in rows for frame, _ in _keys_of(row, where)]


def _keys_of(row: Mapping[str, Any], where: str) -> list[tuple[int, list[Any]]]:
    found = []
    for key in row.get("keys") or []:
        if not isinstance(key, list) or len(key) != 2 or not isinstance(key[1], list):
            raise DocumentError(f"{where}: '{row['name']}': a key is not [frame, points]; write the file again")
        found.append((parsing.parse_integer(f"{where}: '{row['name']}': a frame", key[0]), key[1]))
    return found


def _shape_of_spline(
    row: Mapping[str, Any],
    name: str,
    plate: tuple[int, int, float],
    span: tuple[int, int],
    where: str,
    warnings: list[str],
) -> RotoShape | None:
    closed = bool(row.get("cyclic"))
    read = {
        frame: _points_of_spline(points, plate, f"{where}: '{name}'", warnings)
        for frame, points in _keys_of(row, where)
    }
    keys = {frame: points for frame, (points, _) in read.items()}
    feathers = {frame: weights for frame, (_, weights) in read.items()}
    if not keys or not all(keys.values()):
        warnings.append(f"{name}: has no points and is left out")
        return None
    if row.get("reversed"):
        keys = {frame: feather_edges.reversed_points(points, closed) for frame, points in keys.items()}
        feathers = {frame: [each[0], *each[:0:-1]] for frame, each in feathers.items()}
    elif _runs_the_other_way(keys.values()) and closed and any(any(each) for each in feathers.values()):
        warnings.append(
            f"{name}: runs counter-clockwise, so Blender feathers inwards, which the document does not hold"
        )
        feathers = {}
    shape = parsing.foreign_shape(name, closed, parsing.same_count(name, keys))
    if closed and feathers:
        around = feather_edges.line_of_widths
        lines = {frame: around(key.points, feathers[frame]) for frame, key in shape.keys.items()}
        shape = feather_edges.with_lines(shape, lines)
    hidden = read_opacity(row, "alpha", 1.0, name, span, f"{where}: '{name}'", warnings)
    return replace(shape, visible=hidden, subtract=row.get("blend") in (_HOLDS_OUT, "SUBTRACT"))


def _runs_the_other_way(poses: Collection[Points]) -> bool:
    """Whether a shape runs counter-clockwise at most of its keys."""
    return sum(feather_edges.signed_area(points) < 0 for points in poses) * 2 > len(poses)


def _points_of_spline(
    rows: Sequence[Any], plate: tuple[int, int, float], where: str, warnings: list[str]
) -> tuple[Points, list[float]]:
    """A key's control points, and the feather in pixels at each of them."""
    found, weights = [], []
    for row in rows:
        if not isinstance(row, list) or len(row) < 7:
            raise DocumentError(f"{where}: a point is {str(row)[:30]}; wanted seven numbers")
        x, y, lx, ly, rx, ry, weight = (parsing.finite_number(where, value, limit=1e6) for value in row[:7])
        (px, py), (ix, iy), (ox, oy) = (_to_plate(u, v, *plate) for u, v in ((x, y), (lx, ly), (rx, ry)))
        found.append(ControlPoint(px, py, ix - px, iy - py, ox - px, oy - py))
        weights.append(weight)
        if len(row) > 7:
            warnings.append(
                f"{where.split(': ')[-1]}: feather points between control points are not held by the document"
            )
    scales = _feather_scales(tuple(found), *plate)
    return tuple(found), [weight * scale for weight, scale in zip(weights, scales, strict=True)]
