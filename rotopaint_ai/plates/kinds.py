"""Which kinds of files can be plates, told by their first bytes and by their suffix."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError, UnsupportedPlateError


class Kind(StrEnum):
    """A family of files that is read and written in one way."""

    EXR = "EXR"
    DPX = "DPX"
    CINEON = "Cineon"
    TIFF = "TIFF"
    PNG = "PNG"
    JPEG = "JPEG"
    OTHER = "still"
    MOVIE = "movie"


_SUFFIXES: dict[str, Kind] = {
    ".exr": Kind.EXR,
    ".sxr": Kind.EXR,
    ".dpx": Kind.DPX,
    ".cin": Kind.CINEON,
    ".tif": Kind.TIFF,
    ".tiff": Kind.TIFF,
    ".png": Kind.PNG,
    ".jpg": Kind.JPEG,
    ".jpeg": Kind.JPEG,
    ".bmp": Kind.OTHER,
    ".tga": Kind.OTHER,
    ".psd": Kind.OTHER,
    ".webp": Kind.OTHER,
    ".jp2": Kind.OTHER,
    ".sgi": Kind.OTHER,
    ".hdr": Kind.OTHER,
    ".mov": Kind.MOVIE,
    ".mp4": Kind.MOVIE,
    ".m4v": Kind.MOVIE,
    ".mkv": Kind.MOVIE,
    ".webm": Kind.MOVIE,
    ".avi": Kind.MOVIE,
    ".mxf": Kind.MOVIE,
    ".mpg": Kind.MOVIE,
    ".mpeg": Kind.MOVIE,
    ".mts": Kind.MOVIE,
    ".wmv": Kind.MOVIE,
}
PLATE_SUFFIXES = frozenset(suffix for suffix, kind in _SUFFIXES.items() if kind is not Kind.MOVIE)
MOVIE_SUFFIXES = frozenset(suffix for suffix, kind in _SUFFIXES.items() if kind is Kind.MOVIE)

# (offset, bytes, kind): the first that matches says what the file really holds.
_MAGIC: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"\x76\x2f\x31\x01", Kind.EXR),
    (0, b"SDPX", Kind.DPX),
    (0, b"XPDS", Kind.DPX),
    (0, b"\x80\x2a\x5f\xd7", Kind.CINEON),
    (0, b"\xd7\x5f\x2a\x80", Kind.CINEON),
    (0, b"II*\x00", Kind.TIFF),
    (0, b"MM\x00*", Kind.TIFF),
    (0, b"II+\x00", Kind.TIFF),
    (0, b"MM\x00+", Kind.TIFF),
    (0, b"\x89PNG\r\n\x1a\n", Kind.PNG),
    (0, b"\xff\xd8\xff", Kind.JPEG),
    (0, b"8BPS", Kind.OTHER),
    (0, b"BM", Kind.OTHER),
    (8, b"WEBP", Kind.OTHER),
    (4, b"jP  ", Kind.OTHER),
    (0, b"\x01\xda", Kind.OTHER),
    (0, b"#?RADIANCE", Kind.OTHER),
    (0, b"#?RGBE", Kind.OTHER),
    (4, b"ftyp", Kind.MOVIE),
    (4, b"moov", Kind.MOVIE),
    (4, b"mdat", Kind.MOVIE),
    (4, b"wide", Kind.MOVIE),
    (4, b"free", Kind.MOVIE),
    (0, b"\x1a\x45\xdf\xa3", Kind.MOVIE),
    (8, b"AVI ", Kind.MOVIE),
    (0, b"\x06\x0e\x2b\x34", Kind.MOVIE),
    (0, b"\x00\x00\x01\xba", Kind.MOVIE),
    (0, b"\x30\x26\xb2\x75", Kind.MOVIE),
)
_WANTED = "EXR, DPX, Cineon, TIFF, PNG, JPEG or a movie"


def kind_of(path: Path) -> Kind:
    """What `path` holds, by its first bytes; its suffix must not say otherwise.

    Raises: MissingFrameError, DamagedFrameError (empty, or not what its name says), UnsupportedPlateError.
    """
    head = _head(path)
    named = _SUFFIXES.get(path.suffix.lower())
    held = next((kind for at, magic, kind in _MAGIC if head[at : at + len(magic)] == magic), None)
    if held is None and named in (Kind.MOVIE, Kind.OTHER):
        return named  # transport streams and TGA have no magic of their own: their reader decides
    if held is not None and named in (None, held):
        return held
    if held is not None:
        raise DamagedFrameError(f"{path.name}: named {path.suffix} and holds a {held} file; rename or re-render it")
    if named is not None:
        raise DamagedFrameError(f"{path.name}: does not begin like a {named} file; it is damaged, render it again")
    raise UnsupportedPlateError(f"{path.name}: not a kind of plate that is known; wanted {_WANTED}")


def _head(path: Path) -> bytes:
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
