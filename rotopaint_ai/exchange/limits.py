"""Limits of sizes and frame numbers: a value beyond them is a typing error or a damaged file.

Standard library only. Each check raises DocumentError in one line.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.frames import MOST_FRAMES
from rotopaint_ai.shapes.roto import Metadata, RotoDocument

MOST_BYTES: Final = 1 << 29  # largest file; reading takes up to twenty times as much memory
MOST_PX: Final = 100_000  # largest width and height of a plate
MOST_PIXELS: Final = 1 << 28  # largest plate, 16,384 squared: one matte of it takes a gigabyte
FAR_PX: Final = 1e9  # largest coordinate: beyond it 32-bit floats lose whole pixels
MOST_WIDTH_PX: Final = 1_000.0  # largest stroke or feather: drawing wider ones would take minutes
MOST_METADATA: Final = 1 << 24  # bytes of JSON in a document: the scripts of long shots
DEEPEST_METADATA: Final = 32
MOST_DEEP: Final = 100  # deepest nesting of groups
MOST_NUMBER: Final = 10_000_000  # largest frame: the 32-bit floats of Nuke scripts are exact up to 16 million


def refuse_text(where: str, what: str) -> NoReturn:
    """Raise DocumentError for a place in a text, and say what is wrong there."""
    raise DocumentError(f"{where}: {what}")


def short_value(value: Any) -> str:
    """A value as in Python code, cut to 60 letters for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_file(path: Path) -> None:
    """Refuse paths that are not regular files, such as an endless device, and files that are too large.

    Raises: OSError where the file does not exist; DocumentError."""
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise DocumentError(f"{path.name}: is a folder, a pipe or a device; wanted a file of shapes")
    if facts.st_size > MOST_BYTES:
        raise DocumentError(f"{path.name}: is larger than {MOST_BYTES >> 20} MB; export fewer shapes at a time")


def check_size(width: int | None, height: int | None, where: str) -> None:
    """Refuse an impossible plate size; None is not checked."""
    for name, value in (("width", width), ("height", height)):
        if value is not None and not 0 < value <= MOST_PX:
            raise DocumentError(f"{where}: {name} is {value} px; wanted 1 to {MOST_PX:,}: give the plate's own size")
    if width is not None and height is not None and width * height > MOST_PIXELS:
        raise DocumentError(
            f"{where}: {width} x {height} px; wanted at most {MOST_PIXELS:,} pixels: give the plate's own size"
        )


def bounded_width(width_px: float, what: str, report: Callable[[str], None]) -> float:
    """A stroke's or feather's width, cut to the document's limit; `report` is called if it was cut."""
    if width_px > MOST_WIDTH_PX:
        report(f"{what} of {width_px:,.0f} px was cut to {MOST_WIDTH_PX:,.0f} px, the largest width that is drawn")
    return min(width_px, MOST_WIDTH_PX)


def check_range(first: int, last: int, where: str) -> None:
    """Refuse an impossible frame range."""
    if max(abs(first), abs(last)) > MOST_NUMBER:
        raise DocumentError(
            f"{where}: frames {first} to {last}; wanted numbers up to {MOST_NUMBER:,}: check the frames, or the offset"
        )
    if last - first >= MOST_FRAMES:
        raise DocumentError(
            f"{where}: frames {first} to {last}; wanted a shot of at most {MOST_FRAMES:,} frames: check the keys"
        )


def check_frames(document: RotoDocument, where: str) -> None:
    """Refuse a document with an impossible frame range or impossible key frames."""
    keyed = [frame for shape in document.shapes for frame in shape.keys]
    keyed += [frame for layer in document.layers for frame in (*layer.poses, *layer.track)]
    check_range(min([document.first_frame, *keyed]), max([document.last_frame, *keyed]), where)


def check_names(document: RotoDocument, where: str) -> None:
    """Refuse names that no file can hold: JSON can state a lone surrogate, which no text encoding allows."""
    for name in (*(shape.name for shape in document.shapes), *document.landmarks.names):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DocumentError(f"{where}: the name {name!a} holds half a character; rename it") from None


def check_metadata(found: Iterable[Metadata], where: str) -> None:
    """Refuse metadata that is too large, too deeply nested, or not JSON values under the names of formats."""
    size = 0
    for each in found:
        if not isinstance(each, dict) or not all(isinstance(name, str) and name.strip() for name in each):
            raise DocumentError(f"{where}: metadata is {str(each)[:60]!r}; wanted an object with names of formats")
        if _depth(each) > DEEPEST_METADATA:
            raise DocumentError(f"{where}: metadata nested deeper than {DEEPEST_METADATA}; leave it out")
        try:
            size += len(json.dumps(each, allow_nan=False, ensure_ascii=False).encode())
        except (TypeError, ValueError) as error:
            raise DocumentError(f"{where}: metadata is not JSON ({error}); leave it out") from error
    if size > MOST_METADATA:
        raise DocumentError(f"{where}: {size:,} bytes of metadata; wanted at most {MOST_METADATA:,}: leave it out")


def _depth(value: Any) -> int:
    """The nesting depth of lists and objects, counted up to one more than allowed."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST_METADATA:
        level = [each for each in level if isinstance(each, (dict, list, tuple))]
        depth += bool(level)
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth
