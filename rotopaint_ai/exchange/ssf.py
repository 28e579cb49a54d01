"""Shake shape files, `.ssf`, as Mocha, Silhouette and Fusion read and write them.

Standard library only. All numbers are absolute pixels with y up from the bottom. Each vertex has the point, its
incoming and its outgoing handle, and the same three for the edge at which the feather ends. Keys are linear. Key times
count from 0 at the shot's first frame, as Mocha writes them. Source: Apple, "Shake 4 User Manual"; a file saved by
Mocha Pro 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import feather_edges, lossiness, parsing
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.linear_keys import linear_keys
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes.roto import ControlPoint, Points, RotoDocument, RotoShape

HEAD: Final = "shake_shape_data"
KEEPS: Final[frozenset[Feature]] = frozenset(("tangents", "points", "open", "keys", "feather", "names", "order"))
WORDS: Final[Mapping[Feature, str]] = {
    "keys": lossiness.HOLDS,
    "width": "{names}: an open shape has no width in a Shake file; --bands writes strokes as closed outlines",
    "feather": "{names}: an open shape has no feather in a Shake file",
    "visibility": "{names}: hidden frames are not written: a Shake shape is either always or never shown",
    "names": "{names}: blanks in names became '_'",
    "range": "frames are counted from 0 at the shot's first: give --offset {document.first_frame} to read it back",
}
_PER_VERTEX: Final = 12


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that a Shake file cannot hold."""
    return lossiness.list_losses(
        document,
        keeps=KEEPS,
        words=WORDS,
        shapes={
            "feather": lambda shape: not shape.closed and shape.feather_px > 0,
            "names": lambda shape: _one_word(shape.name) != shape.name,
            "keys": lossiness.holds,
        },
        always=frozenset({"range"}) if document.first_frame else frozenset(),
    )


def ssf_names(document: RotoDocument) -> dict[str, str]:
    """The name of each shape in the file."""
    return parsing.names_of(document, _one_word)


def _one_word(name: str) -> str:
    """A name as one word: other readers split lines at blanks."""
    return re.sub(r"\s+", "_", name.strip())


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(document: RotoDocument) -> str:
    """The document as a Shake file. Raises DocumentError on numbers that are not finite."""
    names = ssf_names(document)
    shapes = [shape for shape in document.shapes if shape.keys]
    lines = [f"{HEAD} 4.0", "motion_blur 0", "shutter_timing 0", "shutter_offset 0.0", f"num_shapes {len(shapes)}"]
    for shape in shapes:
        lines += _shape_lines(shape, names[shape.name], document)
    return "\n".join(lines) + "\n"


def _shape_lines(shape: RotoShape, name: str, document: RotoDocument) -> list[str]:
    shown = any(shape.is_visible(frame) for frame in range(document.first_frame, document.last_frame + 1))
    keys = linear_keys(shape)
    lines = [
        f"shape_name {name}",
        "parent_name",
        f"closed {int(shape.closed)}",
        f"visible {int(shown)}",
        "locked 0",
        "tangents 1",
        "edge_shape 1",
        f"num_vertices {shape.n_points}",
        f"num_key_times {len(keys)}",
    ]
    for frame in sorted(keys):
        outer = feather_edges.line_around(shape, frame, keys[frame])
        lines += _key_lines(frame - document.first_frame, keys[frame], outer, shape.name, document.height)
    return lines


def _key_lines(time: int, points: Points, outer: Points, name: str, height: int) -> list[str]:
    xs, ys = [p.x for p in points], [height - p.y for p in points]
    numbers = [v for p, q in zip(points, outer, strict=True) for v in (*_six(p, height), *_six(q, height))]
    return [
        f"key_time {time}",
        f"center_x {_decimal((min(xs) + max(xs)) / 2, name)}",
        f"center_y {_decimal((min(ys) + max(ys)) / 2, name)}",
        *(f"color_{channel} 1.0" for channel in "rgba"),
        "vertex_data " + " ".join(_decimal(value, name) for value in numbers),
    ]


def _six(p: ControlPoint, height: int) -> tuple[float, ...]:
    return (p.x, height - p.y, p.x + p.in_dx, height - p.y - p.in_dy, p.x + p.out_dx, height - p.y - p.out_dy)


def _decimal(value: float, name: str) -> str:
    """A number without exponent, to a millionth of a pixel."""
    text = format(parsing.finite_number(f"shape '{name}': a control point", value), ".6f").rstrip("0")
    return text + "0" if text.endswith(".") else text


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Shape:
    """A shape as in the file; keys are lists of numbers, twelve for each vertex."""

    name: str
    line: int
    words: dict[str, str] = field(default_factory=dict)
    keys: dict[float, list[float]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)


def read_report(path: Path | str, *, width: int | None = None, height: int | None = None) -> ReadResult:
    """Read an `.ssf`. The plate's size must be given, because the file does not state it. Raises DocumentError."""
    path = Path(path)
    return loads(parsing.text_of(path), width=width, height=height, where=path.name)


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "shapes") -> ReadResult:
    """The document in the text of a Shake file. Frames are its key times. Raises DocumentError."""
    head, found = _parse_ssf(text, where)
    size = parsing.plate_size(where, None, width, height)
    warnings: list[str] = []
    if head.get("motion_blur", "0") not in ("", "0", "0.0"):
        warnings.append("motion blur is not held by the document")
    taken = parsing.TakenNames()
    shapes = tuple(_shape_of_ssf(each, parsing.free_name(each.name, taken), size[1], where, warnings) for each in found)
    first, last = parsing.frame_range(where, (frame for shape in shapes for frame in shape.frames))
    hidden = {each.name for each in found if each.words.get("visible", "1") == "0"}
    warnings += [f"'{name}' is hidden in the file; the document shows it" for name in sorted(hidden)]
    return ReadResult(RotoDocument(*size, first, last, shapes=shapes), tuple(warnings))


def _parse_ssf(text: str, where: str) -> tuple[dict[str, str], list[_Shape]]:
    lines = _logical_lines(text)
    first = next(lines, (1, "", ""))
    if first[1] != HEAD:
        raise DocumentError(f"{where}: does not begin with '{HEAD}'; export it as a Shake shape file")
    head: dict[str, str] = {}
    found: list[_Shape] = []
    for line, word, rest in lines:
        if word == "shape_name":
            found.append(_Shape(rest or f"shape_{len(found) + 1}", line))
        elif not found:
            head[word] = rest
        elif word == "key_time":
            found[-1].times.append(parsing.finite_number(f"{where}: line {line}: key_time", rest))
        elif word == "vertex_data":
            _take_vertices(found[-1], rest, f"{where}: line {line}: '{found[-1].name[:60]}'")
        else:
            found[-1].words[word] = rest
    wanted = head.get("num_shapes", str(len(found)))
    if wanted != str(len(found)):
        raise DocumentError(
            f"{where}: holds {len(found)} shapes, but states {wanted[:20]}; it may be cut short, export it again"
        )
    return head, found


def _logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, first word and the rest of each line; a line that begins with a number continues the one before."""
    number, word, rest = 0, "", []
    for place, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped:
            continue
        if stripped[0] in "+-.0123456789" and word:
            rest.append(stripped)
            continue
        if word:
            yield number, word, " ".join(rest)
        head, *tail = stripped.split(maxsplit=1)
        number, word, rest = place, head, tail
    if word:
        yield number, word, " ".join(rest)


def _take_vertices(shape: _Shape, rest: str, where: str) -> None:
    if len(shape.keys) >= len(shape.times):
        raise DocumentError(f"{where}: points without a key_time; the file is damaged, export it again")
    numbers = [parsing.finite_number(where, word) for word in rest.split()]
    wanted = _PER_VERTEX * parsing.parse_integer(f"{where}: num_vertices", shape.words.get("num_vertices", "-1"))
    if len(numbers) != wanted or not wanted:
        raise DocumentError(f"{where}: {len(numbers)} numbers, wanted {wanted} (12 for each vertex); export it again")
    shape.keys[shape.times[-1]] = numbers


def _shape_of_ssf(found: _Shape, name: str, height: int, where: str, warnings: list[str]) -> RotoShape:
    here = f"{where}: '{found.name[:60]}'"
    closed = found.words.get("closed", "1") != "0"
    wanted = found.words.get("num_key_times", str(len(found.keys)))
    if not found.keys or wanted != str(len(found.keys)):
        raise DocumentError(
            f"{here}: {len(found.keys)} keys, but states {wanted[:20]}; it may be cut short, export again"
        )
    keys, lines = {}, {}
    for time, numbers in found.keys.items():
        frame = round(time)
        keys[frame] = _curve_of(numbers, 0, height)
        lines[frame] = _curve_of(numbers, 6, height) if closed and _has_edge(numbers) else keys[frame]
    _report_ssf(found, name, warnings)
    return feather_edges.with_lines(parsing.foreign_shape(name, closed, keys), lines)


def _curve_of(numbers: list[float], at: int, height: int) -> Points:
    """The curve of the six numbers that begin at index `at` of each vertex's twelve."""
    return tuple(_point_of_six(numbers[i + at : i + at + 6], height) for i in range(0, len(numbers), _PER_VERTEX))


def _has_edge(numbers: list[float]) -> bool:
    """Whether a key has a feather edge; an edge of zeros only does not count."""
    return any(any(islice(numbers, i + 6, i + 12)) for i in range(0, len(numbers), _PER_VERTEX))


def _point_of_six(six: list[float], height: int) -> ControlPoint:
    x, y, lx, ly, rx, ry = six
    return ControlPoint(x, height - y, lx - x, y - ly, rx - x, y - ry)


def _report_ssf(found: _Shape, name: str, warnings: list[str]) -> None:
    if found.words.get("parent_name"):
        warnings.append(f"{name}: is parented to '{found.words['parent_name']}'; its points keep their positions")
    if any(time != round(time) for time in found.keys):
        warnings.append(f"{name}: keys between frames were moved to the nearest frame")
    if not re.fullmatch(r"1(\.0*)?|0(\.0*)?", found.words.get("color_a", "1.0")):
        warnings.append(f"{name}: is partly transparent; the document draws it opaque")
