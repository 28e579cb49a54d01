"""labelme annotations: one file per picture, with polygons, lines and points.

Standard library only. Pixels with y down from the top left, as in our document. Seams stay open lines; landmarks are
points. A shot is a sequence of files, `shapes.1001.labelme.json` and so on; the pattern `shapes.####.labelme.json`
reads them all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import lossiness, parsing, polygons
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.format_spec import FormatSpec, WrittenFile
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.exchange.polygons import FramePolygon
from rotopaint_ai.files import write_text
from rotopaint_ai.shapes.roto import ControlPoint, Landmark, LandmarkKeys, Points, RotoDocument

if TYPE_CHECKING:
    from rotopaint_ai.exchange.round_trip import Proof

SUFFIX: Final = ".labelme.json"
KEEPS: Final[frozenset[Feature]] = frozenset(("open", "visibility", "names", "order", "landmarks", "range", "size"))
WORDS: Final[Mapping[Feature, str]] = {
    "tangents": f"{{names}}: curves became lines, within {polygons.FLAT_PX} px",
    "points": "{names}: control points became the polygon's",
    "keys": "{names}: every frame is a file of its own with a key",
    "holds": "{names}: every frame is a file of its own with a key",
    "order": "shapes come back in the order in which they first appear",
    "landmarks": "expected errors of landmarks and who placed them are not written",
    "layers": "{names}: layers are not written; they stay a part of the name",
}
_VERSION: Final = "5.7.0"
_ARC: Final = 4.0 / 3.0 * (math.sqrt(2.0) - 1.0)


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that labelme's files cannot hold."""
    marks = document.landmarks
    inexact = bool(marks.hand) or any(m and m.expected_error_px for row in marks.keys.values() for m in row)
    always: frozenset[Feature] = frozenset({"landmarks"}) if inexact else frozenset()
    every = range(document.first_frame, document.last_frame + 1)
    appear = [next((f for f in every if s.is_visible(f)), every.stop) for s in document.shapes if s.keys]
    always |= frozenset({"order"}) if appear != sorted(appear) else frozenset()
    return lossiness.list_losses(document, keeps=KEEPS, words=WORDS, always=always)


def as_written(document: RotoDocument) -> RotoDocument:
    """The document as separate pictures: lines with a key at every frame."""
    return polygons.to_polygons(document, open_lines=True)


# --- writing ----------------------------------------------------------------------------------------------------------


def write(path: Path, document: RotoDocument) -> Path:
    """Write one file per frame, `NAME.1001.labelme.json` for `NAME.labelme.json`; returns their pattern."""
    flat = as_written(document)
    pattern = _frame_pattern(path)
    for frame in range(document.first_frame, document.last_frame + 1):
        write_text(parsing.frame_file(pattern, frame), dumps_frame(flat, frame))
    return pattern


def _frame_pattern(path: Path) -> Path:
    return parsing.frame_pattern(path, SUFFIX)


def dumps_frame(flat: RotoDocument, frame: int) -> str:
    """The file of one frame of a document of lines. Raises DocumentError on numbers that are not finite."""
    rows = []
    for shape in flat.shapes:
        if frame in shape.keys and shape.is_visible(frame):
            places = [(p.x, p.y) for p in shape.keys[frame].points]
            parsing.check_numbers(shape.name, (v for place in places for v in place))
            rows.append(_shape_row(shape.name, "polygon" if shape.closed else "linestrip", places))
    marks = flat.landmarks
    seen = zip(marks.names, marks.keys.get(frame, ()), strict=False)
    rows += [_shape_row(name, "point", [(mark.x, mark.y)]) for name, mark in seen if mark is not None]
    data: dict[str, Any] = {
        "version": _VERSION,
        "flags": {},
        "shapes": rows,
        "imagePath": f"frame.{frame}.png",
        "imageData": None,
    }
    return parsing.json_lines({**data, "imageHeight": flat.height, "imageWidth": flat.width}, depth=2) + "\n"


def _shape_row(label: str, kind: str, points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    places = [[round(x, 6), round(y, 6)] for x, y in points]
    row: dict[str, Any] = {"label": label, "points": places, "group_id": None, "description": ""}
    return {**row, "shape_type": kind, "flags": {}, "mask": None}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read one file, or every file of a pattern with `####`. Raises DocumentError."""
    path = Path(path)
    files = _frame_files(path)
    texts = [(_frame_in_name(file), parsing.text_of(file), file.name) for file in files]
    return loads_all(texts, width=width, height=height, where=path.name)


def _frame_files(path: Path) -> list[Path]:
    if "#" not in path.name:
        return [path]
    found = sorted(parsing.frame_files(path), key=lambda each: _frame_in_name(each) or 0)
    if not found:
        raise DocumentError(f"{path.name}: no file has a name of this pattern; check the path")
    if len(found) > polygons.MOST_PICTURES:
        raise DocumentError(
            f"{path.name}: {len(found):,} files, at most {polygons.MOST_PICTURES:,} are read; split them"
        )
    return found


def _frame_in_name(file: Path) -> int | None:
    """The frame in a name such as `shapes.1001.labelme.json`."""
    found = re.search(r"\.(-?\d{1,9})\.", file.name)
    return int(found[1]) if found else None


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "labelme") -> ReadResult:
    """The document in the text of one file."""
    return loads_all([(None, text, where)], width=width, height=height, where=where)


def loads_all(
    texts: Sequence[tuple[int | None, str, str]],
    *,
    width: int | None = None,
    height: int | None = None,
    where: str = "labelme",
) -> ReadResult:
    """The document in the texts of several files, one per frame, each with its frame and its name for errors."""
    warnings: list[str] = []
    rows: list[FramePolygon] = []
    marks: dict[int, dict[str, Landmark]] = {}
    size: tuple[int, int] | None = None
    for place, (stated, text, name) in enumerate(texts, 1):
        data = parsing.json_of(text, name, wanted="a labelme file")
        if not isinstance(data, dict) or not isinstance(data.get("shapes"), list):
            raise DocumentError(f"{name}: has no list of shapes; wanted a labelme file")
        here = _image_size(data, name)
        if size is not None and here is not None and here != size:
            raise DocumentError(f"{name}: is {here[0]} x {here[1]}, others {size[0]} x {size[1]}; read them apart")
        size = size or here
        frame = stated if stated is not None else polygons.frame_of(str(data.get("imagePath") or ""), place)
        marks[frame] = {}
        rows += _drawn_polygons(data["shapes"], frame, marks[frame], name, warnings)
    found = parsing.plate_size(where, size, width, height)
    first, last = parsing.frame_range(where, marks)
    shapes = polygons.assemble(rows, sorted(marks), where)
    document = RotoDocument(*found, first, last, landmarks=_landmark_keys(marks), shapes=shapes)
    return ReadResult(document, tuple(dict.fromkeys(warnings)))


def _image_size(data: Mapping[str, Any], where: str) -> tuple[int, int] | None:
    stated = data.get("imageWidth"), data.get("imageHeight")
    if None in stated:
        return None
    width, height = stated
    return parsing.parse_integer(f"{where}: imageWidth", width), parsing.parse_integer(f"{where}: imageHeight", height)


def _drawn_polygons(
    shapes: Sequence[Any], frame: int, marks: dict[str, Landmark], where: str, warnings: list[str]
) -> Iterator[FramePolygon]:
    for place, row in enumerate(shapes, 1):
        if not isinstance(row, dict) or not isinstance(row.get("points"), list):
            raise DocumentError(f"{where}: shape {place} has no points; write the file again")
        label = str(row.get("label") or "shape")
        label = label if label.strip() else "shape"
        here = f"{where}: '{label}'"
        places = [_read_place(each, here) for each in row["points"]]
        kind = str(row.get("shape_type") or "polygon")
        if kind in ("point", "points"):
            marks.update({name: Landmark(x, y) for name, (x, y) in zip(_mark_names(label, places, marks), places)})
            continue
        curve = _curve_of_kind(kind, places)
        if curve is None:
            warnings.append(f"'{label}' is a {kind}, which is not read; draw it as a polygon")
        elif not curve[1]:
            warnings.append(f"'{label}' has no points and is left out")
        else:
            yield FramePolygon(frame, label, *curve)


def _read_place(value: object, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise DocumentError(f"{where}: a point is {str(value)[:30]}; wanted [x, y]")
    return parsing.finite_number(where, value[0]), parsing.finite_number(where, value[1])


def _mark_names(label: str, places: Sequence[object], taken: Mapping[str, Landmark]) -> list[str]:
    known = parsing.TakenNames()
    known.update(taken)
    return [parsing.free_name(label, known) for _ in places]


def _curve_of_kind(kind: str, places: Sequence[tuple[float, float]]) -> tuple[bool, Points] | None:
    """Whether a labelme shape is closed, and its control points; None for kinds that are not curves."""
    if kind in ("polygon", "line", "linestrip", "oriented_rectangle"):
        return kind in ("polygon", "oriented_rectangle"), tuple(ControlPoint(x, y) for x, y in places)
    if kind == "rectangle" and len(places) == 2:
        (a, b), (c, d) = places
        return True, tuple(ControlPoint(x, y) for x, y in ((a, b), (c, b), (c, d), (a, d)))
    if kind == "rectangle" and len(places) == 4:
        return True, tuple(ControlPoint(x, y) for x, y in places)
    if kind == "circle" and len(places) == 2:
        return True, _circle(*places)
    return None


def _circle(centre: tuple[float, float], rim: tuple[float, float]) -> Points:
    radius = math.hypot(rim[0] - centre[0], rim[1] - centre[1])
    arm = radius * _ARC
    return tuple(
        ControlPoint(centre[0] + radius * c, centre[1] + radius * s, arm * s, -arm * c, -arm * s, arm * c)
        for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))
    )


def _landmark_keys(marks: Mapping[int, Mapping[str, Landmark]]) -> LandmarkKeys:
    names = tuple(dict.fromkeys(name for row in marks.values() for name in row))
    if not names:
        return LandmarkKeys()
    return LandmarkKeys(names, {f: tuple(row.get(n) for n in names) for f, row in sorted(marks.items()) if row})


# --- as a row of the table --------------------------------------------------------------------------------------------


def _read_with_losses(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    found = read_report(path, width=width, height=height)
    return found.document, found.losses


def _write_checked(path: Path, meant: RotoDocument) -> WrittenFile:
    write(path, meant)
    proof = _prove(path, meant).require(path.name)
    return WrittenFile(proof.max_distance_px, lossiness.texts(losses_of(meant)), proof)


def _prove(path: Path, meant: RotoDocument) -> Proof:
    from rotopaint_ai.exchange.round_trip import compare

    files = [
        (frame, parsing.frame_file(_frame_pattern(path), frame))
        for frame in range(meant.first_frame, meant.last_frame + 1)
    ]
    texts = [(frame, parsing.text_of(file), file.name) for frame, file in files]
    found = loads_all(texts, width=meant.width, height=meant.height, where=path.name).document
    lost = lossiness.features(losses_of(meant)) - polygons.SETTLED
    return compare(as_written(meant), found, loses=lost, whole=meant)


FORMAT: Final = FormatSpec(
    "labelme",
    (SUFFIX,),
    "polygons, lines and points, one file per frame",
    _read_with_losses,
    _write_checked,
    prove=_prove,
    pattern=_frame_pattern,
    losses=losses_of,
    states_aspect=False,
    states_fps=False,
    holds=frozenset(("eases",)),
)
