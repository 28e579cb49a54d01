"""Functions shared by all readers of shape formats: the text of a file, the plate's size, names and roles.

Standard library only.
"""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import FAR_PX, check_file, check_size
from rotopaint_ai.frames import MOST_FRAMES
from rotopaint_ai.shapes.roto import Key, Points, Role, RotoDocument, RotoShape


class SizeConflictError(DocumentError):
    """A file is made for another plate size than the given one."""

    def __init__(self, where: str, stated: tuple[float, float], asked: tuple[int, int]) -> None:
        self.stated, self.asked = stated, asked
        super().__init__(
            f"{where}: is made for {stated[0]:g} x {stated[1]:g}, given {asked[0]} x {asked[1]}; take the shapes "
            "of this plate, leave the size out, or override it with --width and --height"
        )


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The content of a file: the document, and its losses, one line each."""

    document: RotoDocument
    losses: tuple[str, ...] = ()


def text_of(path: Path) -> str:
    """A file's text, UTF-8 with or without a byte order mark. Raises DocumentError."""
    try:
        check_file(path)
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise DocumentError(f"{path.name}: is not text ({where}); export it again") from error
    except OSError as error:
        raise DocumentError(f"{path.name}: cannot be read ({error.strerror}); check the path") from error


def json_of(text: str, where: str, *, wanted: str) -> Any:
    """The value of a JSON text without NaN or infinity. Raises DocumentError."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{where}: is not JSON ({str(error)[:80]}); wanted {wanted}") from error


def json_lines(value: object, *, depth: int) -> str:
    """JSON text with a line for each list item down to that depth.

    Raises ValueError on NaN and infinity.
    """
    if depth and isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(name)}: {json_lines(v, depth=depth - 1)}" for name, v in value.items()) + "}"
        )
    if depth and isinstance(value, list):
        return "[" + ",\n".join(json_lines(each, depth=depth - 1) for each in value) + "]"
    return json.dumps(value, allow_nan=False)


def xml_of(text: str, where: str) -> ElementTree.Element:
    """The root of an XML text without a document type, which could make a small file huge. Raises DocumentError."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DocumentError(f"{where}: holds a document type; export it again as plain XML")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise DocumentError(f"{where}: is not XML ({str(error)[:80]}); export it again") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"holds {name}")


def plate_size(
    where: str, stated: tuple[int, int] | None, width: int | None, height: int | None, *, example: str = ""
) -> tuple[int, int]:
    """The plate's size: as stated by the file, else as given by the caller.

    Raises DocumentError where both are missing, or where they differ, because a wrong height moves every shape.
    """
    asked = None if width is None or height is None else (width, height)
    if stated is None and asked is None:
        raise DocumentError(f"{where}: does not state the size of its plate; give --width and --height{example}")
    if stated is not None and asked is not None and stated != asked:
        raise SizeConflictError(where, stated, asked)
    size: tuple[int, int] = stated or asked or (0, 0)
    check_size(*size, where)
    return size


def finite_number(where: str, value: object, *, limit: float = FAR_PX) -> float:
    """A finite number no larger than `limit`. Raises DocumentError."""
    if type(value) is float and -limit <= value <= limit:
        return value  # the common case
    if isinstance(value, str):
        return finite_number(where, _parse_float(where, value), limit=limit)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DocumentError(f"{where}: is {str(value)[:40]!r}; wanted a number")
    if not math.isfinite(value) or abs(value) > limit:
        raise DocumentError(f"{where}: holds {value:.3g}; wanted a finite number below {limit:g}")
    return float(value)


def check_numbers(name: str, numbers: Iterable[float]) -> None:
    """Refuse numbers of a shape's control points that are not finite, or beyond FAR_PX. Raises DocumentError."""
    for number in numbers:
        if not -FAR_PX <= number <= FAR_PX:  # of NaN, too
            finite_number(f"shape '{name}': a control point", number)


def _parse_float(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DocumentError(f"{where}: '{text[:40]}' is not a number") from None


def parse_integer(where: str, value: object, *, limit: float = FAR_PX) -> int:
    """A whole number. Raises DocumentError."""
    found = finite_number(where, value, limit=limit)
    if found != int(found):
        raise DocumentError(f"{where}: is {found:g}; wanted a whole number")
    return int(found)


def whole_frame(where: str, value: object, name: str, warnings: list[str]) -> int:
    """The frame of a key of the shape `name`. Raises DocumentError.

    Times are sums of frame durations, so only rounding separates them from whole frames; others are reported.
    """
    exact = finite_number(where, value)
    if abs(exact - round(exact)) > 0.01:
        warnings.append(f"{name}: keys between frames were moved to the nearest frame")
    return round(exact)


def frame_pattern(path: Path, suffix: str) -> Path:
    """The pattern `NAME.####SUFFIX` of the files of a shot, for `NAMESUFFIX` or a pattern with any number of #."""
    if "#" in path.name:
        return path.with_name(re.sub(r"#+", "####", path.name))
    return path.with_name(path.name[: -len(suffix)] + ".####" + suffix)


def frame_file(pattern: Path, frame: int) -> Path:
    """The file of a frame of a `frame_pattern`."""
    return pattern.with_name(pattern.name.replace("####", f"{frame:04d}"))


def frame_files(pattern: Path) -> list[Path]:
    """The files on disk that a pattern with `####` names, in any order."""
    wanted = re.compile(re.sub(r"(\\?#)+", r"-?\\d+", re.escape(pattern.name)))
    folder = pattern.parent if pattern.parent.is_dir() else Path(".")
    return [each for each in folder.iterdir() if wanted.fullmatch(each.name)]


def names_of(document: RotoDocument, word: Callable[[str], str]) -> dict[str, str]:
    """The unique name of each shape with keys, in a format that changes names by `word`."""
    taken = TakenNames()
    return {shape.name: free_name(word(shape.name), taken) for shape in document.shapes if shape.keys}


def role_of(name: str, closed: bool) -> Role:
    """The role of a shape from a format without roles: open shapes, and shapes with "seam" in their name, are seams."""
    return "matte" if closed and "seam" not in name.lower() else "seam"


class TakenNames(set[str]):
    """Names in use, with the highest number of each, so that numbering many equal names takes linear time."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}


def free_name(name: str, taken: TakenNames) -> str:
    """The name, with a number where it is taken; it is added to `taken`."""
    count = taken.counts.get(name, 1)
    free = name if count == 1 else f"{name}_{count}"
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    taken.counts[name] = count
    taken.add(free)
    return free


def frame_range(where: str, frames: Iterable[int]) -> tuple[int, int]:
    """First and last of some frames; 1 and 1 without frames. Raises DocumentError on an absurd range."""
    found = list(frames) or [1]
    first, last = min(found), max(found)
    if last - first >= MOST_FRAMES:
        raise DocumentError(f"{where}: keys from {first} to {last} span more than {MOST_FRAMES:,} frames; correct them")
    return first, last


def foreign_shape(name: str, closed: bool, keys: dict[int, Points], feather_px: float = 0.0) -> RotoShape:
    """A shape from another program's file: linear keys that count as placed by a person."""
    return RotoShape(
        name,
        closed,
        role_of(name, closed),
        {frame: Key(keys[frame], "human") for frame in sorted(keys)},
        feather_px=feather_px,
    )


def same_count(where: str, keys: dict[int, Points]) -> dict[int, Points]:
    """The keys with the most common number of points. Raises DocumentError where a key has no points."""
    counts = [len(points) for points in keys.values()]
    if 0 in counts:
        raise DocumentError(f"{where}: a key has no points; delete it or export again")
    usual = max(set(counts), key=counts.count) if counts else 0
    return {frame: points for frame, points in keys.items() if len(points) == usual}


def hold_outs_above(shapes: Sequence[RotoShape]) -> list[str]:
    """A line for each hold-out that has shapes after it, for programs that subtract only from the shapes before."""
    last = max((place for place, shape in enumerate(shapes) if not shape.subtract), default=0)
    above = [shape.name for shape in shapes[:last] if shape.subtract]
    return [
        f"{name}: is subtracted only from the shapes before it; the document subtracts it from every shape"
        for name in above
    ]
