"""The kinds of files that can be plates, recognised by their first bytes and their suffix."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError, UnsupportedPlateError


class PlateKind(StrEnum):
    """A family of file formats that share one reader and one writer."""

    EXR = "EXR"
    DPX = "DPX"
    CINEON = "Cineon"
    TIFF = "TIFF"
    PNG = "PNG"
    JPEG = "JPEG"
    OTHER = "still"
    MOVIE = "movie"


_SUFFIXES: dict[str, PlateKind] = {
    ".exr": PlateKind.EXR,
    ".sxr": PlateKind.EXR,
    ".dpx": PlateKind.DPX,
    ".cin": PlateKind.CINEON,
    ".tif": PlateKind.TIFF,
    ".tiff": PlateKind.TIFF,
    ".png": PlateKind.PNG,
    ".jpg": PlateKind.JPEG,
    ".jpeg": PlateKind.JPEG,
    ".bmp": PlateKind.OTHER,
    ".tga": PlateKind.OTHER,
    ".psd": PlateKind.OTHER,
    ".webp": PlateKind.OTHER,
    ".jp2": PlateKind.OTHER,
    ".sgi": PlateKind.OTHER,
    ".hdr": PlateKind.OTHER,
    ".mov": PlateKind.MOVIE,
    ".mp4": PlateKind.MOVIE,
    ".m4v": PlateKind.MOVIE,
    ".mkv": PlateKind.MOVIE,
    ".webm": PlateKind.MOVIE,
    ".avi": PlateKind.MOVIE,
    ".mxf": PlateKind.MOVIE,
    ".mpg": PlateKind.MOVIE,
    ".mpeg": PlateKind.MOVIE,
    ".mts": PlateKind.MOVIE,
    ".wmv": PlateKind.MOVIE,
}
PLATE_SUFFIXES = frozenset(suffix for suffix, kind in _SUFFIXES.items() if kind is not PlateKind.MOVIE)
MOVIE_SUFFIXES = frozenset(suffix for suffix, kind in _SUFFIXES.items() if kind is PlateKind.MOVIE)

# (offset, bytes, kind): the first row that matches tells what the file really holds.
_MAGIC: tuple[tuple[int, bytes, PlateKind], ...] = (
    (0, b"\x76\x2f\x31\x01", PlateKind.EXR),
    (0, b"SDPX", PlateKind.DPX),
    (0, b"XPDS", PlateKind.DPX),
    (0, b"\x80\x2a\x5f\xd7", PlateKind.CINEON),
    (0, b"\xd7\x5f\x2a\x80", PlateKind.CINEON),
    (0, b"II*\x00", PlateKind.TIFF),
    (0, b"MM\x00*", PlateKind.TIFF),
    (0, b"II+\x00", PlateKind.TIFF),
    (0, b"MM\x00+", PlateKind.TIFF),
    (0, b"\x89PNG\r\n\x1a\n", PlateKind.PNG),
    (0, b"\xff\xd8\xff", PlateKind.JPEG),
    (0, b"8BPS", PlateKind.OTHER),
    (0, b"BM", PlateKind.OTHER),
    (8, b"WEBP", PlateKind.OTHER),
    (4, b"jP  ", PlateKind.OTHER),
    (0, b"\x01\xda", PlateKind.OTHER),
    (0, b"#?RADIANCE", PlateKind.OTHER),
    (0, b"#?RGBE", PlateKind.OTHER),
    (4, b"ftyp", PlateKind.MOVIE),
    (4, b"moov", PlateKind.MOVIE),
    (4, b"mdat", PlateKind.MOVIE),
    (4, b"wide", PlateKind.MOVIE),
    (4, b"free", PlateKind.MOVIE),
    (0, b"\x1a\x45\xdf\xa3", PlateKind.MOVIE),
    (8, b"AVI ", PlateKind.MOVIE),
    (0, b"\x06\x0e\x2b\x34", PlateKind.MOVIE),
    (0, b"\x00\x00\x01\xba", PlateKind.MOVIE),
    (0, b"\x30\x26\xb2\x75", PlateKind.MOVIE),
)
_WANTED = "EXR, DPX, Cineon, TIFF, PNG, JPEG or a movie"


def kind_of(path: Path) -> PlateKind:
    """The kind of the file `path`, by its first bytes; the suffix must agree.

    Raises: MissingFrameError, DamagedFrameError (empty file, or content and suffix disagree), UnsupportedPlateError.
    """
    head = _head_bytes(path)
    named = _SUFFIXES.get(path.suffix.lower())
    held = next((kind for at, magic, kind in _MAGIC if head[at : at + len(magic)] == magic), None)
    if held is None and named in (PlateKind.MOVIE, PlateKind.OTHER):
        return named  # transport streams and TGA have no magic of their own: their reader decides
    if held is not None and named in (None, held):
        return held
    if held is not None:
        raise DamagedFrameError(f"{path.name}: named {path.suffix} but holds a {held} file; rename or re-render it")
    if named is not None:
        raise DamagedFrameError(f"{path.name}: does not begin like a {named} file; it is damaged, render it again")
    raise UnsupportedPlateError(f"{path.name}: not a kind of plate that can be read; wanted {_WANTED}")


def _head_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except FileNotFoundError as error:
        raise MissingFrameError(f"{path.name}: the file is not there; render it or leave the frame out") from error
    except OSError as error:
        raise PlateError(f"{path.name}: cannot be opened ({error.strerror}); check its permissions") from error
    if not head:
        raise DamagedFrameError(f"{path.name}: the file is empty (0 bytes); render it again")
    return head
