"""Every shape format of this product in one table, and conversion between them by suffix.

Standard library only. After a file is written it is read back and compared with what was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document, nuke, svg
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import Key, RotoDocument

Read = Callable[[Path, int | None, int | None], tuple[RotoDocument, tuple[str, ...]]]
Write = Callable[[Path, RotoDocument], tuple[float, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Format:
    """A shape format: its suffixes (lower case), how it is read and written, and what a person should know of it.

    `read` gives a document and what it could not hold; `write` the largest error in pixels found by reading the file
    back, and what the file does not hold. None says that this direction does not exist.
    """

    name: str
    suffixes: tuple[str, ...]
    about: str
    read: Read | None
    write: Write | None


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion did: shapes and keys written, largest error in pixels, everything that was lost on the way."""

    path: Path
    n_shapes: int
    n_keys: int
    max_error_px: float
    losses: tuple[str, ...]


def _read_document(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    found = document.read(path)
    if width is not None and height is not None and (width, height) != (found.width, found.height):
        raise DocumentError(
            f"{path.name}: drawn for {found.width} x {found.height}, not {width} x {height}; take the shapes of this "
            "plate, or leave the size out"
        )
    return found, ()


def _write_document(path: Path, meant: RotoDocument) -> tuple[float, tuple[str, ...]]:
    document.write(path, meant)
    return nuke.difference(meant, document.read(path)), ()


def _read_nuke(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    reading = nuke.read_report(path, width=width, height=height)
    return reading.document, reading.losses


def _write_nuke(path: Path, meant: RotoDocument) -> tuple[float, tuple[str, ...]]:
    proof = nuke.write_report(path, meant)
    return proof.max_error_px, proof.losses


def _read_svg(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    reading = svg.read_report(path, width=width, height=height)
    return reading.document, reading.losses


def _write_svg(path: Path, meant: RotoDocument) -> tuple[float, tuple[str, ...]]:
    svg.write(path, meant)
    return _drawn_difference(meant, svg.read(path)), svg.LOSSES


def _drawn_difference(meant: RotoDocument, found: RotoDocument) -> float:
    """The largest error over the frames that were drawn: between them a picture says nothing."""
    shapes = {shape.name: shape for shape in found.shapes}
    worst = 0.0
    for shape in meant.shapes:
        frames = [f for f in range(meant.first_frame, meant.last_frame + 1) if shape.keys and shape.is_visible(f)]
        if not frames:
            continue
        drawn = shape.with_keys({frame: Key(shape.at(frame)) for frame in frames})
        if shape.name not in shapes or shapes[shape.name].frames != drawn.frames:
            raise DocumentError(f"shape '{shape.name}' was not drawn at every frame")
        drawn, other = (replace(each, visible={}) for each in (drawn, shapes[shape.name]))
        worst = max(worst, nuke.difference(replace(meant, shapes=(drawn,)), replace(meant, shapes=(other,))))
    return worst


FORMATS = (
    Format("RotoPaint", (".roto.json",), "the open document, everything kept", _read_document, _write_document),
    Format("Nuke", (".nk", ".gizmo"), "Roto and RotoPaint nodes; landmarks, taper lost", _read_nuke, _write_nuke),
    Format("SVG", (".svg",), "a drawing of every frame; keys and landmarks lost", _read_svg, _write_svg),
)


def format_of(path: Path | str) -> Format:
    """The format that a file's suffix names. Raises UsageError listing what there is."""
    name = Path(path).name.lower()
    for each in FORMATS:
        if name.endswith(each.suffixes):
            return each
    known = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
    raise UsageError(f"{Path(path).name}: no shape format has this suffix; wanted one of {known}")


def read(
    path: Path | str, *, width: int | None = None, height: int | None = None
) -> tuple[RotoDocument, tuple[str, ...]]:
    """A document from any format, with the list of what it could not hold. Raises UsageError, DocumentError."""
    each = format_of(path)
    if each.read is None:
        raise UsageError(f"{Path(path).name}: {each.name} is written only, not read")
    return each.read(Path(path), width, height)


def write(path: Path | str, meant: RotoDocument) -> tuple[float, tuple[str, ...]]:
    """Write a document in any format and read it back: largest error in pixels, and what the file does not hold."""
    each = format_of(path)
    if each.write is None or Path(path).suffix.lower() == ".gizmo":
        raise UsageError(f"{Path(path).name}: {each.name} of this suffix is read only; write a .nk")
    return each.write(Path(path), meant)


def convert(
    source: Path | str,
    target: Path | str,
    *,
    width: int | None = None,
    height: int | None = None,
    offset: int = 0,
) -> Converted:
    """Convert between shape formats, chosen by suffix; `offset` frames are added to every frame number.

    `width` and `height` (both or neither) are the plate's, for sources that do not tell. Raises UsageError,
    DocumentError; the target is not touched by a conversion that fails while reading.
    """
    if (width is None) != (height is None) or min(width or 1, height or 1) <= 0:
        raise UsageError("convert: give --width and --height together, both above 0")
    format_of(target)
    found, lost = read(source, width=width, height=height)
    meant = edit.shift_frames(found, offset) if offset else found
    error, dropped = write(target, meant)
    n_keys = sum(len(shape.keys) for shape in meant.shapes)
    return Converted(Path(target), len(meant.shapes), n_keys, error, (*lost, *dropped))
