"""The header of an OpenEXR file, read and checked before any decoder sees the file.

Source: "OpenEXR File Layout", openexr.com: magic, version, parts as attribute lists, chunk offset tables, chunks.
Damaged headers are refused here with a clear message, before a decoder allocates an absurd amount of memory.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates.picture import Bytes, check_header_size

COMPRESSIONS: Final = (
    "none",
    "rle",
    "zips",
    "zip",
    "piz",
    "pxr24",
    "b44",
    "b44a",
    "dwaa",
    "dwab",
    "htj2k256",
    "htj2k32",
)
_LINES: Final = (1, 1, 1, 16, 32, 16, 32, 32, 32, 256, 256, 32)
_BYTES: Final = (4, 2, 4)  # uint, half, float
TYPE_NAMES: Final = ("uint32", "float16", "float32")
_TILED, _DEEP, _MULTIPART = 0x200, 0x800, 0x1000
_KNOWN_FLAGS: Final = 0x200 | 0x400 | 0x800 | 0x1000
_MAX_ATTRIBUTE: Final = 1 << 26
_MAX_CHANNELS: Final = 1024
_MAX_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel: `type` 0 uint, 1 half, 2 float."""

    name: str
    type: int
    x_sampling: int
    y_sampling: int


@dataclass(frozen=True, slots=True)
class ExrPart:
    """One part. Windows are (left, top, right, bottom), inclusive as in the file."""

    channels: tuple[Channel, ...]
    compression: int
    data_window: tuple[int, int, int, int]
    display_window: tuple[int, int, int, int]
    pixel_aspect: float
    tile: tuple[int, int, int] | None  # width, height, mode
    kind: str
    name: str
    n_chunks: int
    fps: float | None

    @property
    def width(self) -> int:
        """Columns of the data window."""
        return self.data_window[2] - self.data_window[0] + 1

    @property
    def height(self) -> int:
        """Rows of the data window."""
        return self.data_window[3] - self.data_window[1] + 1

    @property
    def is_deep(self) -> bool:
        """Whether a pixel may hold any number of samples (deep data)."""
        return self.kind.startswith("deep")

    @property
    def lines_per_chunk(self) -> int:
        """Rows that are compressed together."""
        return _LINES[self.compression]

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel with all its channels."""
        return sum(_BYTES[channel.type] for channel in self.channels)


@dataclass(frozen=True, slots=True)
class ExrHeader:
    """All parts, and the file offset of the chunk offset tables."""

    parts: tuple[ExrPart, ...]
    is_multipart: bool
    tables_at: int


class _Reader:
    """Reads values from bytes in order, and names the missing value in its error message."""

    def __init__(self, data: Bytes, name: str) -> None:
        self.data, self.name, self.at = data, name, 0

    def take(self, count: int, what: str) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise DamagedFrameError(f"{self.name}: cut off in its header ({what}); it is damaged, render it again")
        taken = bytes(self.data[self.at : self.at + count])
        self.at += count
        return taken

    def text(self, what: str) -> str:
        window = bytes(self.data[self.at : self.at + 256])
        length = window.find(b"\0")
        if length < 0:
            raise DamagedFrameError(f"{self.name}: a name in its header has no end ({what}); render it again")
        self.at += length + 1
        return window[:length].decode("utf-8", "replace")

    def int32(self, what: str) -> int:
        return int(struct.unpack("<i", self.take(4, what))[0])


def _printable(text: str) -> str:
    """Untrusted bytes from a file as printable text, cut to fit one line."""
    return ascii(text if len(text) <= 24 else text[:24] + "...")


def parse_header(data: Bytes, name: str) -> ExrHeader:
    """Read and check the header of an EXR file. Raises DamagedFrameError, UnsupportedPlateError."""
    reader = _Reader(data, name)
    if reader.take(4, "magic number") != b"\x76\x2f\x31\x01":
        raise DamagedFrameError(f"{name}: does not begin like an EXR file; it is damaged, render it again")
    version = reader.int32("version")
    flags = version & ~0xFF
    if version & 0xFF != 2 or flags & ~_KNOWN_FLAGS or (flags & _TILED and flags & (_DEEP | _MULTIPART)):
        raise DamagedFrameError(
            f"{name}: EXR version field {version:#x} makes no sense; it is damaged, render it again"
        )
    is_multipart = bool(flags & _MULTIPART)
    parts = tuple(_read_part(found, flags, name, is_multipart) for found in _read_parts(reader, is_multipart))
    header = ExrHeader(parts, is_multipart, reader.at)
    n_chunks = sum(part.n_chunks for part in parts)
    if reader.at + 8 * n_chunks > len(data):
        raise DamagedFrameError(
            f"{name}: promises {n_chunks} chunks of pixels and ends before their table; it is cut off, render it again"
        )
    _check_chunks(header, data, name)
    return header


def _check_chunks(header: ExrHeader, data: Bytes, name: str) -> None:
    """Refuse a file with missing chunks before memory is allocated for its pixels."""
    n_chunks = sum(part.n_chunks for part in header.parts)
    first = header.tables_at + 8 * n_chunks
    offsets = struct.unpack(f"<{n_chunks}Q", data[header.tables_at : first])
    there = sum(first <= offset <= len(data) - 8 for offset in offsets)
    if there < n_chunks:
        raise DamagedFrameError(f"{name}: {there} of {n_chunks} chunks of pixels are there; render it again")


def _read_parts(reader: _Reader, is_multipart: bool) -> list[dict[str, tuple[str, bytes]]]:
    parts: list[dict[str, tuple[str, bytes]]] = []
    while True:
        found = _read_attributes(reader)
        if is_multipart and not found:
            break
        parts.append(found)
        if not is_multipart:
            break
        if len(parts) > _MAX_PARTS:
            raise DamagedFrameError(f"{reader.name}: more than {_MAX_PARTS} parts; it is damaged, render it again")
    if not parts:
        raise DamagedFrameError(f"{reader.name}: has no parts; it is damaged, render it again")
    return parts


def _read_attributes(reader: _Reader) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    while True:
        name = reader.text("attribute name")
        if not name:
            return found
        kind = reader.text(f"type of attribute {_printable(name)}")
        size = reader.int32(f"size of attribute {_printable(name)}")
        if not kind or size < 0 or size > _MAX_ATTRIBUTE:
            raise DamagedFrameError(
                f"{reader.name}: attribute {_printable(name)} is malformed; it is damaged, render it again"
            )
        found[name] = (kind, reader.take(size, f"value of attribute {_printable(name)}"))


def _read_part(found: Mapping[str, tuple[str, bytes]], flags: int, name: str, is_multipart: bool) -> ExrPart:
    data_window = _read_box(found, "dataWindow", name)
    display_window = _read_box(found, "displayWindow", name)
    compression = _attribute_value(found, "compression", "compression", 1, name)[0]
    if compression >= len(COMPRESSIONS):
        raise UnsupportedPlateError(f"{name}: EXR compression number {compression} is not known; save it as ZIP")
    kind = _header_text(found, "type") or ("tiledimage" if flags & _TILED else "scanlineimage")
    if flags & _DEEP and not is_multipart and not kind.startswith("deep"):
        kind = "deepscanline"
    tile = _read_tile(found, name) if "tile" in kind else None
    part = ExrPart(
        channels=_channels(found, name),
        compression=compression,
        data_window=data_window,
        display_window=display_window,
        pixel_aspect=_pixel_aspect(found),
        tile=tile,
        kind=kind,
        name=_header_text(found, "name"),
        n_chunks=0,
        fps=_fps(found),
    )
    check_header_size(name, part.width, part.height)
    check_header_size(name, *(display_window[i + 2] - display_window[i] + 1 for i in (0, 1)))
    return _with_chunk_count(part, found, name, is_multipart)


def _with_chunk_count(part: ExrPart, found: Mapping[str, tuple[str, bytes]], name: str, is_multipart: bool) -> ExrPart:
    n_chunks = chunks_of(part)
    if is_multipart and n_chunks and "chunkCount" in found:
        stated = struct.unpack("<i", _attribute_value(found, "chunkCount", "int", 4, name))[0]
        if stated != n_chunks:
            raise DamagedFrameError(f"{name}: states {stated} chunks where {n_chunks} are needed; render it again")
    fields = {key: getattr(part, key) for key in ExrPart.__dataclass_fields__}
    return ExrPart(**(fields | {"n_chunks": n_chunks}))


def chunks_of(part: ExrPart) -> int:
    """The number of chunks of a part of this size: runs of rows, or tiles of every level."""
    if part.tile is None:
        return -(-part.height // part.lines_per_chunk)
    return sum(wide * high for wide, high in tile_levels(part))


def tile_levels(part: ExrPart) -> list[tuple[int, int]]:
    """Tiles across and down of each level, in the file's order."""
    assert part.tile is not None
    width, height, mode = part.tile
    level_mode, round_up = mode & 0xF, bool(mode >> 4)
    if level_mode == 0:
        sizes = [(part.width, part.height)]
    elif level_mode == 1:
        count = _n_levels(max(part.width, part.height), round_up)
        sizes = [(_shrunk(part.width, n, round_up), _shrunk(part.height, n, round_up)) for n in range(count)]
    else:
        across, down = _n_levels(part.width, round_up), _n_levels(part.height, round_up)
        sizes = [
            (_shrunk(part.width, n, round_up), _shrunk(part.height, m, round_up))
            for m in range(down)
            for n in range(across)
        ]
    return [(-(-wide // width), -(-high // height)) for wide, high in sizes]


def _n_levels(size: int, round_up: bool) -> int:
    return ((size - 1).bit_length() if round_up else size.bit_length() - 1) + 1


def _shrunk(size: int, level: int, round_up: bool) -> int:
    return max(1, (size + (1 << level) - 1) >> level if round_up else size >> level)


def _attribute_value(found: Mapping[str, tuple[str, bytes]], key: str, kind: str, size: int, name: str) -> bytes:
    if key not in found:
        raise DamagedFrameError(f"{name}: its header has no '{key}'; it is damaged, render it again")
    got_kind, value = found[key]
    if got_kind != kind or len(value) != size:
        raise DamagedFrameError(f"{name}: '{key}' in its header is malformed; it is damaged, render it again")
    return value


def _read_box(found: Mapping[str, tuple[str, bytes]], key: str, name: str) -> tuple[int, int, int, int]:
    left, top, right, bottom = struct.unpack("<4i", _attribute_value(found, key, "box2i", 16, name))
    return int(left), int(top), int(right), int(bottom)


def _read_tile(found: Mapping[str, tuple[str, bytes]], name: str) -> tuple[int, int, int]:
    width, height, mode = struct.unpack("<IIB", _attribute_value(found, "tiles", "tiledesc", 9, name))
    if mode & 0xF > 2 or mode >> 4 > 1:
        raise DamagedFrameError(f"{name}: its tile description is malformed; it is damaged, render it again")
    check_header_size(name, width, height)
    return int(width), int(height), int(mode)


def _channels(found: Mapping[str, tuple[str, bytes]], name: str) -> tuple[Channel, ...]:
    kind, value = found.get("channels", ("", b""))
    if kind != "chlist":
        raise DamagedFrameError(f"{name}: its header has no list of channels; it is damaged, render it again")
    reader, channels = _Reader(memoryview(value), name), []
    while True:
        at = reader.at
        label = reader.text("channel name")
        if not label:
            break
        type_, _, x_sampling, y_sampling = struct.unpack("<iIii", reader.take(16, f"channel {_printable(label)}"))
        if type_ not in (0, 1, 2) or x_sampling < 1 or y_sampling < 1:
            raise DamagedFrameError(f"{name}: channel {_printable(label)} is malformed; it is damaged, render it again")
        channels.append((value[at:].partition(b"\0")[0], Channel(label, type_, x_sampling, y_sampling)))
    if not 0 < len(channels) <= _MAX_CHANNELS:
        raise DamagedFrameError(f"{name}: {len(channels)} channels; wanted 1 to {_MAX_CHANNELS}; render it again")
    return tuple(channel for _, channel in sorted(channels, key=itemgetter(0)))  # OpenEXR's order


def _header_text(found: Mapping[str, tuple[str, bytes]], key: str) -> str:
    kind, value = found.get(key, ("string", b""))
    return value.decode("utf-8", "replace") if kind == "string" else ""


def _pixel_aspect(found: Mapping[str, tuple[str, bytes]]) -> float:
    kind, value = found.get("pixelAspectRatio", ("", b""))
    aspect = struct.unpack("<f", value)[0] if kind == "float" and len(value) == 4 else 1.0
    return float(aspect) if 1e-3 < aspect < 1e3 else 1.0


def _fps(found: Mapping[str, tuple[str, bytes]]) -> float | None:
    kind, value = found.get("framesPerSecond", ("", b""))
    if kind != "rational" or len(value) != 8:
        return None
    above, below = struct.unpack("<iI", value)
    return float(above) / float(below) if above > 0 and below > 0 else None
