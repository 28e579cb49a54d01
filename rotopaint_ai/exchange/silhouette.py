"""Silhouette shapes, `.fxs`: experimental, because no file saved by Silhouette was available for tests.

Standard library only. The format is XML. Coordinates are relative to the centre, y down, in units of the picture's
height; x is multiplied by the pixel aspect. A point is its position, its incoming and its outgoing handle, all
absolute. Keys are linear or hold; their frames count from the session's start. Numbers have no exponent. Source: the
files of M. Borgo's NukeFXSExporter, in use since 2013. Its error of mirrored handles at corners is not repeated here.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError, list_names
from rotopaint_ai.exchange import lossiness, parsing
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.linear_keys import switches, visible_between
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

EXPERIMENTAL: Final = (
    "experimental: not tested with files saved by Silhouette; check the shapes there, or use its Nuke or Shake import"
)
KEEPS: Final[frozenset[Feature]] = frozenset(
    ("tangents", "points", "open", "keys", "holds", "visibility", "layers", "names", "order", "range", "size")
)
WORDS: Final[Mapping[Feature, str]] = {
    "feather": "{names}: feather is not written: how Silhouette stores it is not known",
    "points": "{names}: Silhouette refuses shapes of one point; left out",
    "order": "layers keep their shapes together, so the order of shapes changes",
    "aspect": "pixel aspect {document.pixel_aspect:g} is applied to the coordinates, but the file does not state it",
}
_POINT: Final = re.compile(r"\(\s*([^,()]+)\s*,\s*([^,()]+)\s*\)")


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that a Silhouette file cannot hold."""
    names = silhouette_names(document)
    order = [name for name, _ in _shapes(_root(document), (), "shapes", [])]
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={
            "points": lambda shape: shape.n_points < 2,
            "names": lambda shape: names.get(shape.name, shape.name) != shape.name,
        },
        always=frozenset({"order"}) if order != list(names.values()) else frozenset(),
    )


def silhouette_names(document: RotoDocument) -> dict[str, str]:
    """The name of each shape in the file, layers before it."""
    taken = parsing.TakenNames()
    drawn = [shape.name for shape in document.shapes if shape.keys and shape.n_points > 1]
    return {name: parsing.free_name("/".join(_layer_parts(name)), taken) for name in drawn}


def _layer_parts(name: str) -> list[str]:
    kept = [_xml_label(part) for part in name.split("/") if part.strip()]
    return kept or ["Shape"]


def _xml_label(text: str) -> str:
    """A label without characters that XML 1.0 cannot hold."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "_", text.strip()) or "_"


def as_silhouette_holds(document: RotoDocument) -> RotoDocument:
    """The document without the shapes that Silhouette refuses."""
    return replace(document, shapes=tuple(shape for shape in document.shapes if shape.n_points != 1))


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as a Silhouette shape file. Raises DocumentError on numbers that are not finite."""
    root = _root(document)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _root(document: RotoDocument) -> ElementTree.Element:
    names = silhouette_names(document)
    root = ElementTree.Element(
        "Silhouette",
        {
            "width": str(document.width),
            "height": str(document.height),
            "workRangeStart": "0",
            "workRangeEnd": str(document.last_frame - document.first_frame),
            "sessionStartFrame": str(document.first_frame),
        },
    )
    places: dict[tuple[str, ...], ElementTree.Element] = {}
    for shape in document.shapes:
        if shape.name in names:
            parts = names[shape.name].split("/")
            _add_shape(_objects_of_layer(root, tuple(parts[:-1]), places), parts[-1], shape, document)
    return root


def _objects_of_layer(
    root: ElementTree.Element, path: tuple[str, ...], places: dict[tuple[str, ...], ElementTree.Element]
) -> ElementTree.Element:
    """The `objects` property for the shapes of a layer; shapes without a layer go into one called RotoPaint.

    A layer of that name stands inside it, so that the two stay apart.
    """
    if path in places:
        return places[path]
    is_top = not path or (len(path) == 1 and path[0] != _NO_LAYER)
    parent = root if is_top else _objects_of_layer(root, path[:-1], places)
    tag, label = ("Layer" if is_top else "Object"), (path[-1] if path else _NO_LAYER)
    layer = ElementTree.SubElement(parent, tag, {"type": "Layer", "label": label, "expanded": "True"})
    properties = ElementTree.SubElement(layer, "Properties")
    _constant(properties, "color", "(1.000000,1.000000,1.000000)")
    _constant(properties, "invert", "false")
    _constant(properties, "mode", "Add")
    places[path] = ElementTree.SubElement(
        properties, "Property", {"id": "objects", "constant": "True", "expanded": "True"}
    )
    return places[path]


_NO_LAYER: Final = "RotoPaint"


def _constant(properties: ElementTree.Element, name: str, value: str) -> None:
    element = ElementTree.SubElement(properties, "Property", {"constant": "True", "id": name})
    ElementTree.SubElement(element, "Value").text = value


def _add_shape(into: ElementTree.Element, label: str, shape: RotoShape, document: RotoDocument) -> None:
    attributes = {"type": "Shape", "label": label, "shape_type": "Bezier", "hidden": "False", "locked": "False"}
    properties = ElementTree.SubElement(ElementTree.SubElement(into, "Object", attributes), "Properties")
    changes = switches(shape, document.first_frame, document.last_frame)
    if changes:
        opacity = ElementTree.SubElement(properties, "Property", {"id": "opacity"})
        for frame, shown in changes:
            key = {"frame": str(frame - document.first_frame), "interp": "hold"}
            ElementTree.SubElement(opacity, "Key", key).text = "100.0" if shown else "0.0"
    else:
        _constant(properties, "opacity", "100.0")
    _constant(properties, "motionBlur", "false")
    _constant(properties, "outlineColor", "(1.0,0.0,0.0)")
    _constant(properties, "mode", "Add")
    _constant(properties, "invert", "false")
    path = ElementTree.SubElement(properties, "Property", {"id": "path"})
    for frame in shape.frames:
        _add_path_key(path, frame, shape, document)


def _add_path_key(path: ElementTree.Element, frame: int, shape: RotoShape, document: RotoDocument) -> None:
    key = shape.keys[frame]
    attributes = {"frame": str(frame - document.first_frame), "interp": key.interpolation}
    element = ElementTree.SubElement(path, "Key", attributes)
    curve = ElementTree.SubElement(element, "Path", {"closed": str(shape.closed), "type": "Bezier"})
    for p in key.points:
        parsing.check_numbers(shape.name, p)
        places = ((p.x, p.y), (p.x + p.in_dx, p.y + p.in_dy), (p.x + p.out_dx, p.y + p.out_dy))
        ElementTree.SubElement(curve, "Point").text = ",".join(_point_pair(x, y, document) for x, y in places)


def _point_pair(x: float, y: float, document: RotoDocument) -> str:
    u = (x - document.width / 2) / document.height * document.pixel_aspect
    v = (y - document.height / 2) / document.height
    return f"({u:.9f},{v:.9f})"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_report(
    path: Path | str, *, width: int | None = None, height: int | None = None, pixel_aspect: float = 1.0
) -> ReadResult:
    """Read an `.fxs` of Bezier shapes whose layers do not move. Raises DocumentError."""
    path = Path(path)
    text = parsing.text_of(path)
    return loads(text, width=width, height=height, pixel_aspect=pixel_aspect, where=path.name)


def loads(
    text: str,
    *,
    width: int | None = None,
    height: int | None = None,
    pixel_aspect: float = 1.0,
    where: str = "shapes",
) -> ReadResult:
    """The document in the text of a Silhouette file, which does not state its pixel aspect; frames as on disk."""
    root = parsing.xml_of(text, where)
    if root.tag != "Silhouette":
        raise DocumentError(
            f"{where}: is not a Silhouette shape file (its root is {root.tag[:30]}); export shapes there"
        )
    warnings = [EXPERIMENTAL]
    stated = [root.get(name, "") for name in ("width", "height")]
    size = parsing.plate_size(where, _session_size(stated, where), width, height)
    start = parsing.parse_integer(f"{where}: sessionStartFrame", root.get("sessionStartFrame", "0"))
    end = start + parsing.parse_integer(f"{where}: workRangeEnd", root.get("workRangeEnd", "0"))
    found = list(_shapes(root, (), where, warnings))
    rows = [(name, element, _path_keys(element, name, start, size, pixel_aspect, where)) for name, element in found]
    first, last = parsing.frame_range(where, [start, max(start, end), *(f for *_, keys in rows for f in keys)])
    taken = parsing.TakenNames()
    shapes = [
        _shape_of_object(parsing.free_name(n, taken), e, keys, start, (first, last), where, warnings)
        for n, e, keys in rows
    ]
    return ReadResult(
        RotoDocument(*size, first, last, pixel_aspect, shapes=tuple(shapes)), tuple(dict.fromkeys(warnings))
    )


def _session_size(stated: list[str], where: str) -> tuple[int, int] | None:
    if not all(stated):
        return None
    return parsing.parse_integer(f"{where}: width", stated[0]), parsing.parse_integer(f"{where}: height", stated[1])


def _shapes(
    element: ElementTree.Element, above: tuple[str, ...], where: str, warnings: list[str]
) -> Iterator[tuple[str, ElementTree.Element]]:
    """Every shape, named with the names of its layers before its own."""
    for child in element:
        label = child.get("label", child.tag)
        if child.tag in ("Layer", "Object") and child.get("type") == "Layer":
            if _property(child, "transform.matrix") is not None:
                warnings.append(f"layer '{label}' moves its shapes, which is not followed; bake it in Silhouette")
            inner = above if child.tag == "Layer" and label == _NO_LAYER else (*above, label)
            holder = _property(child, "objects")
            yield from _shapes(child if holder is None else holder, inner, where, warnings)
        elif child.tag == "Object" and child.get("type") == "Shape":
            if child.get("shape_type", "Bezier") != "Bezier":
                warnings.append(f"'{label}' is a {child.get('shape_type')}, which is not read; convert it to Bezier")
            else:
                yield "/".join((*above, label)), child


def _property(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((each for each in element.findall("Properties/Property") if each.get("id") == name), None)


def _path_keys(
    element: ElementTree.Element, name: str, start: int, size: tuple[int, int], aspect: float, where: str
) -> dict[int, tuple[bool, Key]]:
    """Keys by frame, each with whether its path is closed."""
    path = _property(element, "path")
    found: dict[int, tuple[bool, Key]] = {}
    for key in path.findall("Key") if path is not None else ():
        here = f"{where}: '{name}': frame {key.get('frame')}"
        curve = key.find("Path")
        if curve is None:
            raise DocumentError(f"{here}: a key without a path; the file is damaged, export it again")
        points = tuple(_point_of_text(point.text or "", size, aspect, here) for point in curve.findall("Point"))
        frame = start + round(parsing.finite_number(here, key.get("frame", "")))
        kind = key.get("interp", "linear")
        found[frame] = (curve.get("closed") != "False", Key(points, "human", "hold" if kind == "hold" else "linear"))
    if not found:
        raise DocumentError(f"{where}: '{name}' has no keyed path; the file is damaged, export it again")
    return found


def _point_of_text(text: str, size: tuple[int, int], aspect: float, where: str) -> ControlPoint:
    pairs = _POINT.findall(text)
    if len(pairs) != 3:
        raise DocumentError(f"{where}: a point is '{text[:40]}'; wanted (x,y),(x,y),(x,y)")
    (x, y), (ix, iy), (ox, oy) = (
        (
            parsing.finite_number(where, u, limit=1e6) * size[1] / aspect + size[0] / 2,
            parsing.finite_number(where, v, limit=1e6) * size[1] + size[1] / 2,
        )
        for u, v in pairs
    )
    return ControlPoint(x, y, ix - x, iy - y, ox - x, oy - y)


def _shape_of_object(
    name: str,
    element: ElementTree.Element,
    keys: Mapping[int, tuple[bool, Key]],
    start: int,
    span: tuple[int, int],
    where: str,
    warnings: list[str],
) -> RotoShape:
    points: dict[int, Points] = {frame: key.points for frame, (_, key) in keys.items()}
    kept = parsing.same_count(f"{where}: '{name}'", points)
    if len(kept) < len(points):
        gone = sorted(set(points) - set(kept))
        warnings.append(f"{name}: its points change in number; keys at {list_names(gone)} are left out")
    closed = next(iter(keys.values()))[0]
    shape = parsing.foreign_shape(name, closed, kept)
    shape = shape.with_keys({frame: keys[frame][1] for frame in shape.frames})
    return RotoShape(name, closed, shape.role, shape.keys, visible=_hidden_of_object(element, start, span, where))


def _hidden_of_object(element: ElementTree.Element, start: int, span: tuple[int, int], where: str) -> dict[int, bool]:
    opacity = _property(element, "opacity")
    changes = []
    for key in opacity.findall("Key") if opacity is not None else ():
        frame = start + round(parsing.finite_number(f"{where}: opacity", key.get("frame", "")))
        changes.append((frame, parsing.finite_number(f"{where}: opacity", key.text or "") > 0.0))
    return visible_between(sorted(changes), *span)
