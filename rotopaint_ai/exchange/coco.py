"""COCO annotations: a polygon for each shape in each picture, and landmarks as keypoints.

Standard library only. Pixels with y down from the top left, as in our document. The number in a picture's name is its
frame. Curves become polygons; a seam becomes the outline of its stroke. Source: the data format page of
cocodataset.org.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import lossiness, parsing, polygons
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.exchange.polygons import FramePolygon
from rotopaint_ai.shapes.roto import ControlPoint, Landmark, LandmarkKeys, Points, RotoDocument

KEEPS: Final[frozenset[Feature]] = frozenset(("visibility", "names", "order", "landmarks", "range", "size"))
WORDS: Final[Mapping[Feature, str]] = {
    "tangents": f"{{names}}: curves became polygons, within {polygons.FLAT_PX} px",
    "points": "{names}: control points were replaced by the polygon's points",
    "keys": "{names}: every frame is a picture of its own with a key",
    "holds": "{names}: every frame is a picture of its own with a key",
    "open": "{names}: a polygon is an area: the outline of the stroke is written",
    "width": "{names}: the width is in the stroke's outline",
    "taper": "{names}: the taper is in the stroke's outline",
    "landmarks": "expected errors of landmarks and who placed them are not written",
    "layers": "{names}: layers are not written; they stay a part of the name",
}
_KEYPOINTS: Final = "landmarks"


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that a COCO file cannot hold."""
    marks = document.landmarks
    inexact = bool(marks.hand) or any(m and m.expected_error_px for row in marks.keys.values() for m in row)
    always: frozenset[Feature] = frozenset({"landmarks"}) if inexact else frozenset()
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={"roles": lambda shape: shape.role != parsing.role_of(shape.name, True)},
        always=always,
    )


def as_coco_holds(document: RotoDocument) -> RotoDocument:
    """The document as separate pictures: polygons with a key at every frame, strokes as their outlines."""
    return polygons.to_polygons(document, open_lines=False)


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as COCO annotations. Raises DocumentError on numbers that are not finite."""
    flat = as_coco_holds(document)
    frames = list(range(document.first_frame, document.last_frame + 1))
    ids = {frame: place for place, frame in enumerate(frames, 1)}
    images = [
        {"id": ids[f], "file_name": f"frame.{f}.png", "width": document.width, "height": document.height, "frame": f}
        for f in frames
    ]
    categories: list[dict[str, Any]] = [
        {"id": place, "name": shape.name, "supercategory": shape.role} for place, shape in enumerate(flat.shapes, 1)
    ]
    marks = document.landmarks
    if marks.names:
        last = {"id": len(categories) + 1, "name": _KEYPOINTS, "supercategory": "face"}
        categories.append({**last, "keypoints": list(marks.names), "skeleton": []})
    annotations = [
        _polygon(s.name, k.points, ids[f], i) for i, s in enumerate(flat.shapes, 1) for f, k in s.keys.items()
    ]
    annotations += [_keypoints(marks.keys[f], ids[f], len(categories)) for f in frames if f in marks.keys]
    rows = [{"id": place, **each} for place, each in enumerate(annotations, 1)]
    data = {"info": {"description": "RotoPaint AI"}, "licenses": [], "images": images}
    return parsing.json_lines({**data, "annotations": rows, "categories": categories}, depth=2) + "\n"


def _polygon(name: str, points: Points, image: int, category: int) -> dict[str, Any]:
    parsing.check_numbers(name, (v for p in points for v in (p.x, p.y)))
    flat = [round(v, 4) for p in points for v in (p.x, p.y)]
    return {
        "image_id": image,
        "category_id": category,
        "segmentation": [flat],
        "area": round(polygons.polygon_area(points), 4),
        "bbox": _bounding_box([(p.x, p.y) for p in points]),
        "iscrowd": 0,
    }


def _keypoints(row: Sequence[Landmark | None], image: int, category: int) -> dict[str, Any]:
    seen = [(mark.x, mark.y) for mark in row if mark is not None]
    box = _bounding_box(seen) if seen else [0.0, 0.0, 0.0, 0.0]
    return {
        "image_id": image,
        "category_id": category,
        "keypoints": [v for m in row for v in ((m.x, m.y, 2) if m is not None else (0, 0, 0))],
        "num_keypoints": len(seen),
        "bbox": box,
        "area": round(box[2] * box[3], 4),
        "iscrowd": 0,
    }


def _bounding_box(places: Sequence[tuple[float, float]]) -> list[float]:
    xs, ys = [x for x, _ in places], [y for _, y in places]
    return [round(v, 4) for v in (min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read the polygons and keypoints of a COCO file. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "annotations") -> ReadResult:
    """The document in a COCO text. Only pictures of one size are read: the given size, else the first picture's."""
    data = parsing.json_of(text, where, wanted="COCO annotations")
    if not isinstance(data, dict) or not all(isinstance(data.get(name), list) for name in ("images", "annotations")):
        raise DocumentError(f"{where}: has no images and annotations; wanted a COCO file")
    warnings: list[str] = []
    size, frames = _images_by_id(data["images"], width, height, where, warnings)
    listed = data.get("categories")
    categories = {
        each["id"]: each
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and isinstance(each.get("id"), (int, str))
    }
    known = _annotations(data["annotations"], frames, where)
    rows = [row for frame, each in known for row in _annotation_polygons(frame, each, categories, where, warnings)]
    shapes = polygons.assemble(rows, sorted(frames.values()), where)
    marks = _landmarks_of_category(known, categories, where, warnings)
    first, last = parsing.frame_range(where, frames.values())
    document = RotoDocument(*size, first, last, landmarks=marks, shapes=shapes)
    return ReadResult(document, tuple(_counted_lines(warnings)))


def _counted_lines(warnings: Sequence[str]) -> list[str]:
    """Each line once, with the number of times it occurred."""
    return [
        line if warnings.count(line) == 1 else f"{line} ({warnings.count(line)} times)"
        for line in dict.fromkeys(warnings)
    ]


def _images_by_id(
    images: Sequence[Any], width: int | None, height: int | None, where: str, warnings: list[str]
) -> tuple[tuple[int, int], dict[Any, int]]:
    """The size of the pictures that are read, and their frames by id."""
    if len(images) > polygons.MOST_PICTURES:
        raise DocumentError(
            f"{where}: holds {len(images):,} pictures, at most {polygons.MOST_PICTURES:,} are read; split it"
        )
    sizes: dict[Any, tuple[int, int]] = {}
    named: dict[Any, int] = {}
    for place, image in enumerate(images, 1):
        if not isinstance(image, dict) or not isinstance(image.get("id"), (int, str)):
            raise DocumentError(f"{where}: image {place} has no id; write the file again")
        here = f"{where}: image {image['id']}"
        sizes[image["id"]] = (
            parsing.parse_integer(f"{here}: width", image.get("width")),
            parsing.parse_integer(f"{here}: height", image.get("height")),
        )
        stated = image.get("frame", polygons.frame_of(str(image.get("file_name", "")), place))
        named[image["id"]] = parsing.parse_integer(f"{here}: frame", stated)
    asked = (width, height) if width is not None and height is not None else next(iter(sizes.values()), None)
    size = parsing.plate_size(
        where, asked if asked in sizes.values() else next(iter(sizes.values()), None), width, height
    )
    kept = [each for each in sizes if sizes[each] == size]
    if len(kept) < len(sizes):
        gone = len(sizes) - len(kept)
        warnings.append(
            f"{gone} of {len(sizes)} pictures are not {size[0]} x {size[1]} and are left out; give their size"
        )
    frames = {each: named[each] for each in kept}
    if len(set(frames.values())) < len(frames):
        warnings.append("pictures share numbers in their names; they are frames in the order of the file")
        frames = {each: place for place, each in enumerate(kept, 1)}
    return size, frames


def _annotations(rows: Sequence[Any], frames: Mapping[Any, int], where: str) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for each in rows:
        if not isinstance(each, dict) or not isinstance(each.get("image_id"), (int, str)):
            raise DocumentError(f"{where}: an annotation has no image_id; write the file again")
        if each["image_id"] in frames:
            found.append((frames[each["image_id"]], each))
    return found


def _annotation_polygons(
    frame: int, annotation: Mapping[str, Any], categories: Mapping[Any, Any], where: str, warnings: list[str]
) -> list[FramePolygon]:
    """The polygons of an annotation; each of several parts becomes a shape of its own."""
    parts = annotation.get("segmentation") or []
    if isinstance(parts, dict):
        warnings.append("a mask as run lengths is not read; export polygons")
        return []
    if not isinstance(parts, list):
        raise DocumentError(f"{where}: a segmentation is not a list of polygons; write the file again")
    name = str(_category(annotation, categories).get("name", "shape"))
    name = name if name.strip() else "shape"
    rows = []
    for part in parts:
        if not isinstance(part, list) or len(part) % 2 or len(part) < 2:
            raise DocumentError(f"{where}: '{name}': a polygon is not a flat list of x and y; write the file again")
        flat = [parsing.finite_number(f"{where}: '{name}'", value) for value in part]
        points = tuple(ControlPoint(x, y) for x, y in zip(flat[::2], flat[1::2], strict=True))
        rows.append(FramePolygon(frame, name, True, points))
    if len(parts) > 1:
        warnings.append(f"'{name}' has {len(parts)} parts; each became a shape")
    return rows


def _category(annotation: Mapping[str, Any], categories: Mapping[Any, Any]) -> Mapping[str, Any]:
    key = annotation.get("category_id")
    found = categories.get(key) if isinstance(key, (int, str)) else None
    return found if isinstance(found, dict) else {}


def _landmarks_of_category(
    rows: Sequence[tuple[int, dict[str, Any]]], categories: Mapping[Any, Any], where: str, warnings: list[str]
) -> LandmarkKeys:
    """The keypoints of the first category that has them; one face per picture."""
    names: tuple[str, ...] = ()
    keys: dict[int, tuple[Landmark | None, ...]] = {}
    for frame, each in rows:
        flat = each.get("keypoints")
        listed = _category(each, categories).get("keypoints")
        if not isinstance(flat, list) or not isinstance(listed, list) or not flat:
            continue
        here = tuple(str(name) for name in listed)
        if frame in keys or (names and here != names):
            warnings.append("a picture has more than one face, or faces of several categories: the first is read")
            continue
        if len(flat) != 3 * len(here) or len(set(here)) != len(here):
            raise DocumentError(f"{where}: {len(flat)} keypoint numbers for {len(here)} names; wanted three for each")
        names = here
        numbers = [parsing.finite_number(f"{where}: a keypoint", value) for value in flat]
        threes = [numbers[i : i + 3] for i in range(0, len(numbers), 3)]
        keys[frame] = tuple(Landmark(x, y) if seen else None for x, y, seen in threes)
    return replace(LandmarkKeys(), names=names, keys=dict(sorted(keys.items())))
