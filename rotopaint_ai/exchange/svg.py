"""SVG pictures of shapes: one group per frame in plate space (x right, y down). Simple SVG files can also be read.

Standard library only. Every group but the first is hidden, so that a viewer shows one frame. A written path holds
everything of its shape at that frame; interpolation between frames, provenance of keys and landmarks are lost.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.limits import FAR_PX, MOST_WIDTH_PX, check_file, check_range, check_size
from rotopaint_ai.exchange.parsing import ReadResult, SizeConflictError
from rotopaint_ai.files import write_text
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, ControlPoint, Key, Points, RotoDocument, RotoShape

LOSSES: Final = (
    "every frame is a drawing of its own: keys and holds between frames are not written",
    "landmarks, sources of keys and frame rate are not written",
)
SAID: Final[frozenset[Feature]] = frozenset(("keys", "holds", "sources", "landmarks", "fps", "range"))  # by LOSSES
NOT_KEPT: Final[frozenset[Feature]] = frozenset(
    ("keys", "holds", "taper", "subtract", "sources", "landmarks", "aspect", "fps", "range")
)
_NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TOKEN = re.compile(r"[A-Za-z]|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LENGTH = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:px)?\s*")
_STROKE = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(px|pt|pc|mm|cm|in)?")
_UNITS_PX = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "mm": 96 / 25.4, "cm": 96 / 2.54, "in": 96.0}  # CSS: 96 px an inch
_FRAME = re.compile(r"-?\d{1,9}")
_COUNTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "Z": 0}
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_DRAWS_NOTHING = frozenset(
    (
        *("defs", "title", "desc", "metadata", "style", "script", "view"),
        *("clipPath", "mask", "symbol", "marker", "pattern", "filter", "linearGradient", "radialGradient"),
    )
)


@dataclass(frozen=True, slots=True)
class _Look:
    """What an element inherits from the groups around it: its frame, the width of its stroke, whether it is hidden."""

    frame: int = 1
    stroke_width: str = ""
    hidden: bool = False


def write(path: Path | str, document: RotoDocument, *, frames: Sequence[int] | None = None) -> None:
    """Write the shapes at the given frames; at every frame of the document where no frames are given."""
    write_text(Path(path), dumps(document, frames=frames))


def dumps(document: RotoDocument, *, frames: Sequence[int] | None = None) -> str:
    """The shapes as SVG text, one group per frame. Raises DocumentError for a name that XML cannot hold."""
    for shape in document.shapes:
        if _NO_XML.search(shape.name):
            raise DocumentError(f"shape '{shape.name}': its name holds a character that SVG cannot; rename it")
    chosen = list(frames) if frames is not None else list(range(document.first_frame, document.last_frame + 1))
    size = f'width="{document.width}" height="{document.height}" viewBox="0 0 {document.width} {document.height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>']
    for place, frame in enumerate(chosen):
        hidden = ' display="none"' if place else ""
        lines.append(f' <g id="frame.{frame}" data-frame="{frame}"{hidden}>')
        lines += [_path_element(s, frame) for s in document.shapes if s.keys and s.is_visible(frame)]
        lines.append(" </g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _path_element(shape: RotoShape, frame: int) -> str:
    width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
    if shape.closed:
        style = 'fill="#ffffff" fill-opacity="0.5" stroke="none"'
    else:
        round_ends = 'stroke-linecap="round" stroke-linejoin="round"'
        style = f'fill="none" stroke="#ffffff" stroke-opacity="0.5" stroke-width="{width!r}" {round_ends}'
    extra = f' data-feather="{shape.feather_px!r}"' if shape.feather_px else ""
    return f'  <path data-name={quoteattr(shape.name)} data-role="{shape.role}"{extra} {style} d="{_d(shape, frame)}"/>'


def _d(shape: RotoShape, frame: int) -> str:
    points = shape.at(frame)
    words = [f"M{_coordinates(points[0].x, points[0].y)}"]
    pairs = list(pairwise(points)) + ([(points[-1], points[0])] if shape.closed else [])
    for a, b in pairs:
        words.append(
            f"C{_coordinates(a.x + a.out_dx, a.y + a.out_dy)} {_coordinates(b.x + b.in_dx, b.y + b.in_dy)} "
            f"{_coordinates(b.x, b.y)}"
        )
    return " ".join(words) + (" Z" if shape.closed else "")


def _coordinates(x: float, y: float) -> str:
    return f"{x!r},{y!r}"


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path | str, *, width: int | None = None, height: int | None = None) -> RotoDocument:
    """Read paths, polygons and lines of an SVG; see `read_report`."""
    return read_report(path, width=width, height=height).document


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read an SVG of paths, polygons, polylines and lines without transforms. Raises DocumentError.

    Groups with `data-frame` state their frames; everything else is at frame 1. A shape that a group lacks, or that is
    `display: none` there, is hidden at its frame. Arcs, transforms and scaled view boxes are refused, because a shape
    that is only nearly right is worse than no shape.
    """
    path = Path(path)
    try:
        check_file(path)
        text = path.read_text(encoding="utf-8")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise DocumentError(f"{path.name}: holds a document type; save it as plain SVG")
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise DocumentError(f"{path.name}: cannot be read ({error.strerror}); check the path") from error
    except (UnicodeDecodeError, ElementTree.ParseError) as error:
        raise DocumentError(f"{path.name}: is not SVG ({error}); save it again as plain SVG") from error
    check_size(width, height, path.name)
    size = _picture_size(root, path.name, width, height)
    check_size(*size, path.name)
    found: dict[str, dict[int, tuple[bool, Points]]] = {}
    looks: dict[str, tuple[ElementTree.Element, _Look]] = {}
    counts: dict[tuple[str, int], int] = {}  # the highest number used for a name at a frame
    skipped = hidden = 0
    for element, look in _drawing_elements(root, _look_of(root, _Look()), path.name):
        tag, frame = element.tag.removeprefix(_NAMESPACE), look.frame
        base = element.get("data-name") or element.get("id") or tag
        if look.hidden:  # its name stays its own
            hidden += 1
            counts[base, frame] = 1 + _number_free(base, frame, counts, found)
            continue
        curves = _curves(tag, element, path.name)
        if curves is None:
            skipped += 1
            continue
        for closed, points in curves:
            counts[base, frame] = count = _number_free(base, frame, counts, found)
            name = _numbered_name(base, count)
            found.setdefault(name, {})[frame] = (closed, points)
            looks.setdefault(name, (element, look))
    groups = {
        int(group.get("data-frame", "")) for group in root.iter() if _FRAME.fullmatch(group.get("data-frame", ""))
    }
    frames = groups.union(*found.values()) or {1}
    check_range(min(frames), max(frames), path.name)
    shapes = tuple(_shape_of_paths(name, keys, groups, *looks[name], path.name) for name, keys in found.items())
    losses = [f"{skipped} elements that are not paths, polygons or lines were left out"] if skipped else []
    losses += [f"{hidden} hidden elements were left out"] if hidden else []
    return ReadResult(RotoDocument(*size, min(frames), max(frames), shapes=shapes), tuple(losses))


def _numbered_name(base: str, number: int) -> str:
    return base if number == 1 else f"{base}_{number}"


def _number_free(
    base: str, frame: int, counts: Mapping[tuple[str, int], int], found: Mapping[str, Mapping[int, object]]
) -> int:
    """The number of the next element of a name at a frame."""
    number = counts.get((base, frame), 1)
    while frame in found.get(_numbered_name(base, number), {}):
        number += 1
    return number


def _picture_size(root: ElementTree.Element, where: str, width: int | None, height: int | None) -> tuple[int, int]:
    lengths = [_LENGTH.fullmatch(root.get(name, "")) for name in ("width", "height")]
    stated = [_finite_length(found[1], where) for found in lengths if found]
    box = [_finite_length(word, where) for word in re.split(r"[\s,]+", root.get("viewBox", "").strip()) if word]
    if len(box) == 4:
        if box[:2] != [0.0, 0.0] or (len(stated) == 2 and any(abs(a - b) > 1e-6 for a, b in zip(stated, box[2:]))):
            raise DocumentError(f"{where}: its view box scales or moves the picture; export it at one unit per pixel")
        stated = box[2:]
    if len(stated) == 2 and width is not None and height is not None and (width, height) != tuple(stated):
        raise SizeConflictError(where, (stated[0], stated[1]), (width, height))
    if len(stated) != 2:
        if width is None or height is None:
            raise DocumentError(f"{where}: does not state its size in pixels; give --width and --height")
        return width, height
    return round(stated[0]), round(stated[1])


def _drawing_elements(
    element: ElementTree.Element, above: _Look, where: str
) -> Iterator[tuple[ElementTree.Element, _Look]]:
    """Every element that draws, with its look; elements of other name spaces are notes of the program that wrote."""
    for child in element:
        tag = child.tag.removeprefix(_NAMESPACE) if isinstance(child.tag, str) else "{comment}"
        if tag.startswith("{") or tag in _DRAWS_NOTHING:
            continue
        look = _look_of(child, above)
        if child.get("transform") and not look.hidden:
            raise DocumentError(f"{where}: <{tag}> has a transform; flatten it and save again")
        if tag in ("g", "svg", "a"):
            yield from _drawing_elements(child, look, where)
        else:
            yield child, look


def _look_of(element: ElementTree.Element, above: _Look) -> _Look:
    """An element's look. Groups of frames count as shown: all but one of ours are hidden in a viewer."""
    number = element.get("data-frame", "")
    is_frame = _FRAME.fullmatch(number) is not None
    return _Look(
        int(number) if is_frame else above.frame,
        _style_of(element, "stroke-width") or above.stroke_width,
        above.hidden or (not is_frame and _style_of(element, "display") == "none"),
    )


def _style_of(element: ElementTree.Element, name: str) -> str:
    """A property in an element's `style`, else the attribute of that name; the empty text without both."""
    found = re.search(rf"(?:^|;)\s*{name}\s*:([^;]*)", element.get("style", ""))
    return (found[1] if found else element.get(name, "")).replace("!important", "").strip().lower()


def _curves(tag: str, element: ElementTree.Element, where: str) -> list[tuple[bool, Points]] | None:
    if tag == "path":
        return list(_subpaths(element.get("d", ""), where))
    if tag in ("polygon", "polyline"):
        numbers = [_finite_length(word, where) for word in _TOKEN.findall(element.get("points", ""))]
        points = tuple(ControlPoint(x, y) for x, y in zip(numbers[::2], numbers[1::2]))
        return [(tag == "polygon", points)] if points else []
    if tag == "line":
        x1, y1, x2, y2 = (_finite_length(element.get(name, "0"), where) for name in ("x1", "y1", "x2", "y2"))
        return [(False, (ControlPoint(x1, y1), ControlPoint(x2, y2)))]
    return None


def _subpaths(d: str, where: str) -> Iterator[tuple[bool, Points]]:
    """Each subpath of a path as control points."""
    points: list[ControlPoint] = []
    alone = True
    for command, numbers in _commands(d, where):
        if command == "M":
            if len(points) > 1:
                alone = False
                yield False, tuple(points)
            points = [ControlPoint(*numbers)]
        elif command == "Z":
            alone = False
            yield True, _without_double_end(points)
            points = [ControlPoint(points[0].x, points[0].y)] if points else []
        else:
            x1, y1, x2, y2, x, y = numbers
            if not points:
                raise DocumentError(f"{where}: a path does not begin with M")
            last = points[-1]
            points[-1] = last._replace(out_dx=x1 - last.x, out_dy=y1 - last.y)
            points.append(ControlPoint(x, y, x2 - x, y2 - y))
    if len(points) > 1 or (points and alone):
        yield False, tuple(points)


def _without_double_end(points: list[ControlPoint]) -> Points:
    """Points of a closed subpath; a last point equal to the first is merged with it."""
    first, last = points[0], points[-1]
    if len(points) > 1 and math.hypot(first.x - last.x, first.y - last.y) < 1e-6:
        return (first._replace(in_dx=last.in_dx, in_dy=last.in_dy), *points[1:-1])
    return tuple(points)


def _commands(d: str, where: str) -> Iterator[tuple[str, list[float]]]:
    """Path commands in absolute form: M x y, C with six numbers, Z; other commands are converted to these."""
    tokens = _TOKEN.findall(d)
    at, command = 0, ""
    x = y = start_x = start_y = 0.0
    control: tuple[str, float, float] = ("", 0.0, 0.0)
    while at < len(tokens):
        if tokens[at].isalpha():
            command, at = tokens[at], at + 1
        kind = command.upper()
        if kind not in _COUNTS:
            raise DocumentError(f"{where}: path command '{command or tokens[at]}' is not read; convert arcs to curves")
        count = _COUNTS[kind]
        words = tokens[at : at + count]
        if len(words) < count or any(word.isalpha() for word in words):
            raise DocumentError(f"{where}: path command '{command}' needs {count} numbers")
        at += count
        n = [_finite_length(word, where) for word in words]
        if command.islower():
            n = [v + (x if kind == "H" or (kind != "V" and i % 2 == 0) else y) for i, v in enumerate(n)]
        if kind == "Z":
            x, y = start_x, start_y
            yield "Z", []
            command = "?" if at < len(tokens) and not tokens[at].isalpha() else command
            continue
        if kind == "M":
            x, y = start_x, start_y = n
            yield "M", n
            command = "l" if command == "m" else "L"
            continue
        six, control = _command_cubic(kind, n, x, y, control)
        x, y = six[4:]
        yield "C", six


def _command_cubic(
    kind: str, n: list[float], x: float, y: float, control: tuple[str, float, float]
) -> tuple[list[float], tuple[str, float, float]]:
    """One drawing command as a cubic from (x, y), and the control point that a following smooth command mirrors."""
    if kind in ("L", "H", "V"):
        to = n if kind == "L" else ([n[0], y] if kind == "H" else [x, n[0]])
        return [x, y, *to, *to], ("", 0.0, 0.0)
    if kind == "C":
        return n, ("C", n[2], n[3])
    if kind == "S":
        first = [2 * x - control[1], 2 * y - control[2]] if control[0] == "C" else [x, y]
        return [*first, *n], ("C", n[0], n[1])
    if kind == "T":
        middle = [2 * x - control[1], 2 * y - control[2]] if control[0] == "Q" else [x, y]
        n = [*middle, *n]
    qx, qy, tx, ty = n
    six = [x + (qx - x) * 2 / 3, y + (qy - y) * 2 / 3, tx + (qx - tx) * 2 / 3, ty + (qy - ty) * 2 / 3, tx, ty]
    return six, ("Q", qx, qy)


def _finite_length(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not abs(value) <= FAR_PX:
        raise DocumentError(f"{where}: holds {word[:40]!r}; wanted a number of pixels below {FAR_PX:,.0f}")
    return value


def _stroke_width(word: str, where: str, unit: str | None = None) -> float:
    value = _finite_length(word, where) * _UNITS_PX[unit or "px"]
    if value > MOST_WIDTH_PX:
        raise DocumentError(f"{where}: a stroke or feather of {value:g} px; wanted at most {MOST_WIDTH_PX:,.0f} px")
    return value


def _shape_of_paths(
    name: str,
    keys: dict[int, tuple[bool, Points]],
    groups: AbstractSet[int],
    element: ElementTree.Element,
    look: _Look,
    where: str,
) -> RotoShape:
    """A shape; hidden at the frames of `groups` that do not draw it."""
    kinds = {closed for closed, _ in keys.values()}
    counts = {len(points) for _, points in keys.values()}
    if len(kinds) > 1 or len(counts) > 1:
        raise DocumentError(f"{where}: '{name}' changes its number of points or closes over time; wanted one curve")
    closed = kinds.pop()
    width = _STROKE.fullmatch(look.stroke_width)
    feather = _LENGTH.fullmatch(element.get("data-feather", ""))
    is_seam = element.get("data-role") == "seam" or (element.get("data-role") is None and not closed)
    return RotoShape(
        name=name,
        closed=closed,
        role="seam" if is_seam else "matte",
        keys={frame: Key(keys[frame][1], "human") for frame in sorted(keys)},
        width_px=_stroke_width(width[1], where, width[2]) if width and not closed else None,
        feather_px=_stroke_width(feather[1], where) if feather else 0.0,
        visible=dict.fromkeys(sorted(groups - keys.keys()), False),
    )
