"""OpenEXR plates: reads the colour channels, and writes the same file with only the changed pixels replaced.

Writing copies the file. The header, other parts, other layers, and every chunk (a run of rows, or a tile) without a
changed pixel are copied byte by byte. Only chunks with changed pixels are decoded; their other pixels and channels stay
bit-identical. Such a chunk is compressed again where that is lossless and cheap (ZIP, ZIPS). Otherwise it is stored
uncompressed. The file layout allows that in any compression ("if the compressed size is not smaller, the data are
stored raw"), and it keeps lossy plates (DWAA, B44, PXR24) bit-identical. Smaller levels of mip-mapped plates keep
the unchanged picture.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates import deflate, oiio
from rotopaint_ai.plates.exr_chunks import UNPACKED_HERE, ZIP, ZIPS, Chunks, predict_bytes
from rotopaint_ai.plates.exr_header import TYPE_NAMES, ExrHeader, ExrPart, parse_header, tile_levels
from rotopaint_ai.plates.picture import Bytes, Contents, Header, Patch, Picture, contents
from rotopaint_ai.plates.plate_window import Area, PixelRect, WindowedCodes, own_memory

Array = NDArray[Any]

_PIECE = 1 << 18  # bytes copied at a time
_LARGEST_CHUNK = 1 << 26  # bytes; no plate has larger chunks, and OpenImageIO has limits of its own
_PREFERRED = ("", "rgba", "rgb", "beauty", "left", "right", "main", "default")


@dataclass(frozen=True, slots=True)
class ChannelChoice:
    """The part and the channels that hold the picture: three names for R, G, B, or one."""

    part: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExrDetail:
    """The part of a header that only this module uses, for reading and for writing back."""

    exr: ExrHeader
    choice: ChannelChoice


def header(path: Path) -> Header:
    """Geometry of an EXR file; nothing is decoded. Raises DamagedFrameError, UnsupportedPlateError."""
    with contents(path) as data:
        return _header_of_exr(data, path)


def _header_of_exr(data: Bytes, path: Path) -> Header:
    exr = parse_header(data, path.name)
    choice = choose(exr, path.name)
    part = exr.parts[choice.part]
    left, top, right, bottom = part.display_window
    return Header(
        width=right - left + 1,
        height=bottom - top + 1,
        x=part.data_window[0] - left,
        y=part.data_window[1] - top,
        data_width=part.width,
        data_height=part.height,
        pixel_aspect=part.pixel_aspect,
        fps=part.fps,
        colourspace="linear",
        maximum=None,
        is_lossy=False,
        detail=ExrDetail(exr, choice),
    )


def choose(exr: ExrHeader, name: str) -> ChannelChoice:
    """The channels of the picture: plain R, G, B if present, else a beauty layer, else a single channel.

    Raises: UnsupportedPlateError for deep, luminance-chroma and colourless files.
    """
    ranked = sorted(
        (rank, index, channels)
        for index, part in enumerate(exr.parts)
        if not part.is_deep
        for rank, channels in _picture_channels(part)
    )
    if not ranked:
        raise _no_picture(exr, name)
    _, index, channels = ranked[0]
    chosen = {c.name: c for c in exr.parts[index].channels}
    if any(chosen[c].type == 0 for c in channels):
        raise UnsupportedPlateError(f"{name}: {', '.join(channels)} hold integers (ids?), wanted half or float")
    if any((c.x_sampling, c.y_sampling) != (1, 1) for part in exr.parts for c in part.channels):
        raise UnsupportedPlateError(
            f"{name}: has channels at half resolution; wanted full resolution, render it again as RGB"
        )
    return ChannelChoice(index, channels)


def _picture_channels(part: ExrPart) -> Iterator[tuple[int, tuple[str, ...]]]:
    names = {channel.name for channel in part.channels}
    if names & {"RY", "BY"}:
        return
    for prefix in sorted({name.rpartition(".")[0] for name in names}):
        layer = f"{prefix}." if prefix else ""
        rgb = tuple(layer + c for c in "RGB")
        lower = tuple(layer + c for c in ("r", "g", "b"))
        last = prefix.rpartition(".")[2].lower() if prefix else ""
        preference = _PREFERRED.index(last) if last in _PREFERRED else len(_PREFERRED)
        for found in (rgb, lower):
            if names.issuperset(found):
                yield preference, found
        if layer + "Y" in names:
            yield 20 + preference, (layer + "Y",)
    if len(names) == 1 and not names & {"Z", "ZBack", "id"}:
        yield 40, tuple(names)


def _no_picture(exr: ExrHeader, name: str) -> UnsupportedPlateError:
    if all(part.is_deep for part in exr.parts):
        return UnsupportedPlateError(f"{name}: deep EXR; wanted flat pixels, flatten it first (Nuke: DeepToImage)")
    names = [channel.name for part in exr.parts for channel in part.channels]
    if {"RY", "BY"} & set(names):
        return UnsupportedPlateError(f"{name}: luminance-chroma EXR (Y, RY, BY); wanted R, G, B, save it again as RGB")
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return UnsupportedPlateError(f"{name}: no colour among its channels ({shown}); wanted R, G, B or one channel")


def read(path: Path) -> Picture:
    """The colour channels in their own type, half or float. Raises DamagedFrameError, UnsupportedPlateError."""
    with contents(path) as data:
        found = _header_of_exr(data, path)
        if _is_plain(found.detail):
            return Picture(found, _unpacked_rows(data, path, found, _all_of(found)))
    return Picture(found, _by_library(path, found))


def read_within(path: Path, area: Area, again: Callable[[], Array], is_sound: bool) -> Picture:
    """As `read`, but only the pixels of an area stay in memory, where the file's form allows it.

    `again` reads all pixels later. Chunks outside the area are decompressed too, so that damage is found; `is_sound`
    skips that for a file that has been checked before.
    """
    with contents(path) as data:
        found = _header_of_exr(data, path)
        shape = (found.data_height, found.data_width, len(found.detail.choice.channels))
        cut = area.cut((found.x, found.y), shape)
        if cut != _all_of(found) and _is_plain(found.detail):
            codes: Any = WindowedCodes(shape, cut, _unpacked_rows(data, path, found, cut, is_sound=is_sound), again)
            return Picture(found, codes)
    return read(path)


def _all_of(found: Header) -> PixelRect:
    return PixelRect(0, found.data_height, 0, found.data_width)


def _is_plain(detail: ExrDetail) -> bool:
    """Whether this module can decode the picture itself: rows that are uncompressed or ZIP.

    OpenImageIO would take twice the time, and 30 MB for its tables."""
    part = detail.exr.parts[detail.choice.part]
    names = {channel.name for channel in part.channels}
    is_known = part.tile is None and part.compression in UNPACKED_HERE and len(names) == len(part.channels)
    return is_known and part.lines_per_chunk * part.width * part.pixel_bytes <= _LARGEST_CHUNK


def _dtype(detail: ExrDetail) -> str:
    types = {channel.name: TYPE_NAMES[channel.type] for channel in detail.exr.parts[detail.choice.part].channels}
    return max((types[name] for name in detail.choice.channels), key=("float16", "float32").index)


def _unpacked_rows(data: Contents, path: Path, found: Header, cut: PixelRect, *, is_sound: bool = False) -> Array:
    """The chosen channels of the pixels `cut`, from chunks of rows; `is_sound`: other chunks need no check."""
    detail: ExrDetail = found.detail
    chunks = Chunks(data, path.name, detail.exr, detail.choice.part)
    part, lines = chunks.part, chunks.part.lines_per_chunk
    codes = own_memory((cut.bottom - cut.top, cut.right - cut.left, len(detail.choice.channels)), _dtype(detail))
    places = _channel_places(part)
    for index in range(part.n_chunks):
        top = index * lines
        end = min(top + lines, part.height)
        first, last = max(top, cut.top), min(end, cut.bottom)
        if is_sound and first >= last:
            continue
        raw = chunks.rows(index, top, (end - top) * part.width * part.pixel_bytes, is_wanted=first < last)
        if raw is None:
            continue
        rows = raw.reshape(end - top, -1)[first - top : last - top]
        for place, name in enumerate(detail.choice.channels):
            at, dtype = places[name]
            wanted = rows[:, at + cut.left * dtype.itemsize : at + cut.right * dtype.itemsize]
            codes[first - cut.top : last - cut.top, :, place] = wanted.view(dtype)
    return codes


def _channel_places(part: ExrPart) -> dict[str, tuple[int, np.dtype[Any]]]:
    """Where each channel's codes begin in the bytes of a row, and their type."""
    places, at = {}, 0
    for channel in part.channels:
        dtype = np.dtype(TYPE_NAMES[channel.type]).newbyteorder("<")
        places[channel.name] = (at, dtype)
        at += part.width * dtype.itemsize
    return places


def _by_library(path: Path, found: Header) -> Array:
    """The chosen channels through OpenImageIO."""
    choice: ChannelChoice = found.detail.choice
    with oiio.opened_image(path) as source:
        names = _channel_names(source, choice.part, path)
        places = [names.index(name) if name in names else -1 for name in choice.channels]
        if min(places) < 0:
            raise DamagedFrameError(f"{path.name}: channels differ between header and reader; render it again")
        first, end = min(places), max(places) + 1
        codes = oiio.read_pixels(source, path, first=first, end=end, dtype=_dtype(found.detail), subimage=choice.part)
    if codes.shape[:2] != (found.data_height, found.data_width):
        raise DamagedFrameError(f"{path.name}: size differs between header and pixels; render it again")
    if places != list(range(first, end)):
        codes = np.ascontiguousarray(codes[..., [place - first for place in places]])
    return codes


def _channel_names(source: Any, part: int, path: Path) -> list[str]:
    if not source.seek_subimage(part, 0):
        raise DamagedFrameError(f"{path.name}: part {part} cannot be read ({oiio.error_text(source, path)})")
    return [str(name) for name in source.spec().channelnames]


def lines_written(picture: Picture) -> int | None:
    """How many rows `write` encodes from the picture's codes where one of them changes.

    It is 0 where `write` decodes the chunk from the file instead, and None for tiles.
    """
    detail: ExrDetail = picture.header.detail
    part = detail.exr.parts[detail.choice.part]
    if part.compression in UNPACKED_HERE:
        return 0
    return None if part.tile is not None else part.lines_per_chunk


def write(target: Path, source: Path, picture: Picture, patch: Patch) -> None:
    """Copy `source`, the file of `picture`, with the pixels of `patch`. Raises DamagedFrameError, OSError."""
    with contents(source) as data, target.open("wb") as out:
        _write_chunks(out, data, source, picture, patch)


def _write_chunks(out: BinaryIO, data: Contents, source: Path, picture: Picture, patch: Patch) -> None:
    detail: ExrDetail = picture.header.detail
    exr, number = detail.exr, detail.choice.part
    n_chunks = sum(part.n_chunks for part in exr.parts)
    tables_end = exr.tables_at + 8 * n_chunks
    offsets = np.frombuffer(data[exr.tables_at : tables_end], "<u8").astype(np.int64)
    before = sum(part.n_chunks for part in exr.parts[:number])
    patcher = _Patcher(Chunks(data, source.name, exr, number), source, picture)
    replaced = patcher.replace_chunks(patch)
    out.write(data[: exr.tables_at])
    out.write(bytes(8 * n_chunks))
    placed = {before + index: chunk for index, chunk in replaced.items()}
    _copy_chunks(out, data, offsets, placed, patcher.chunks.size_of)
    out.seek(exr.tables_at)
    out.write(offsets.astype("<u8").tobytes())


def _copy_chunks(
    out: BinaryIO, data: Contents, offsets: Array, replaced: dict[int, bytes], size_of: Callable[[int], int]
) -> None:
    """Write all chunks in file order, and store their new positions in `offsets`."""
    order = np.argsort(offsets, kind="stable")
    position = out.tell()
    run_from = run_to = 0
    for index in order.tolist():
        at = int(offsets[index])
        new = replaced.get(index)
        end = at + size_of(at)
        if new is None and at == run_to:
            run_to = end
        else:
            _copy_run(out, data, run_from, run_to)
            run_from, run_to = (end, end) if new is not None else (at, end)
            if new is not None:
                out.write(new)
        offsets[index] = position
        position += end - at if new is None else len(new)
    _copy_run(out, data, run_from, run_to)


def _copy_run(out: BinaryIO, data: Contents, first: int, end: int) -> None:
    for at in range(first, end, _PIECE):
        out.write(data[at : min(at + _PIECE, end)])


class _Patcher:
    """Encodes the chunks of a picture with a patch applied."""

    def __init__(self, chunks: Chunks, source: Path, picture: Picture) -> None:
        detail: ExrDetail = picture.header.detail
        self.chunks, self.source, self.part = chunks, source, chunks.part
        self.channels = detail.choice.channels
        self.places = _channel_places(self.part)
        self.codes = picture.codes if self._are_all(picture.codes) else None

    def _are_all(self, codes: Array) -> bool:
        """Whether the picture holds every channel and pixel of the part, so that no chunk has to be decoded."""
        types = {TYPE_NAMES[channel.type] for channel in self.part.channels}
        return len(self.part.channels) == len(self.channels) and types == {codes.dtype.name}

    def replace_chunks(self, patch: Patch) -> dict[int, bytes]:
        """The new chunks, headers included, that the patch touches, keyed by their index in the part."""
        jobs = list(self._touched(patch))
        if not jobs:
            return {}
        if self.codes is not None or self.part.compression in UNPACKED_HERE:
            return {job.index: self._stored_chunk(job, self._raw(job)) for job in jobs}
        with oiio.opened_image(self.source) as decoder:
            return {job.index: self._stored_chunk(job, self._decoded_chunk(decoder, job)) for job in jobs}

    def _touched(self, patch: Patch) -> Iterator[_Job]:
        tile = self.part.tile
        if tile is None:
            lines = self.part.lines_per_chunk
            for index in np.unique(patch.rows // lines).tolist():
                top = index * lines
                rows = min(lines, self.part.height - top)
                yield _Job(index, 0, top, self.part.width, rows, patch.between(top, top + rows))
            return
        across, _ = tile_levels(self.part)[0]
        places = np.unique((patch.rows // tile[1]) * across + patch.columns // tile[0])
        for index in places.tolist():
            x, y = index % across * tile[0], index // across * tile[1]
            width, rows = min(tile[0], self.part.width - x), min(tile[1], self.part.height - y)
            yield _Job(index, x, y, width, rows, patch.inside(x, y, width, rows))

    def _raw(self, job: _Job) -> Array:
        """A chunk's uncompressed bytes, from the file or from the picture's codes."""
        if self.codes is None or self.part.compression in UNPACKED_HERE:
            return cast(Array, self.chunks.unpack_chunk(job.index, job.width * job.rows * self.part.pixel_bytes))
        order = [self.channels.index(channel.name) for channel in self.part.channels]
        codes = self.codes[job.y : job.y + job.rows, job.x : job.x + job.width, order]
        return np.ascontiguousarray(codes.transpose(0, 2, 1)).view(np.uint8).ravel()

    def _stored_chunk(self, job: _Job, raw: Array) -> bytes:
        """The patched chunk, compressed where that is lossless and makes it smaller."""
        rows = raw.reshape(job.rows, -1)
        at = 0
        for channel in self.part.channels:
            dtype = np.dtype(TYPE_NAMES[channel.type]).newbyteorder("<")
            end = at + job.width * dtype.itemsize
            if channel.name in self.channels:
                changed = job.patch.codes[:, self.channels.index(channel.name)]
                rows[:, at:end].view(dtype)[job.patch.rows, job.patch.columns] = changed
            at = end
        packed = deflate.compress(predict_bytes(raw)) if self.part.compression in (ZIPS, ZIP) else None
        payload = packed if packed is not None and len(packed) < raw.size else raw.tobytes()
        return self.chunks.head(job.index) + struct.pack("<i", len(payload)) + payload

    def _decoded_chunk(self, decoder: Any, job: _Job) -> Array:
        """The uncompressed bytes of all channels of a chunk, decoded by OpenImageIO."""
        names = _channel_names(decoder, self.chunks.number, self.source)
        place = {name: index for index, name in enumerate(names)}
        rows = []
        cache: dict[str, Array] = {}
        for channel in self.part.channels:
            if channel.name not in cache:
                cache |= self._channel_run(decoder, job, names, place.get(channel.name, -1))
            rows.append(cache[channel.name].view(np.uint8).reshape(job.rows, -1))
        return np.ascontiguousarray(np.concatenate(rows, axis=1)).reshape(-1)

    def _channel_run(self, decoder: Any, job: _Job, names: list[str], first: int) -> dict[str, Array]:
        """Neighbouring channels of one type, read in that type so that no bit changes."""
        if first < 0:
            raise self.chunks.damage_error()
        types = {channel.name: channel.type for channel in self.part.channels}
        end = first + 1
        while end < len(names) and types.get(names[end]) == types[names[first]]:
            end += 1
        dtype = np.dtype(TYPE_NAMES[types[names[first]]])
        left, top = self.part.data_window[0] + job.x, self.part.data_window[1] + job.y
        common = (first, end, oiio.type_of(dtype))
        if self.part.tile is None:
            found = decoder.read_scanlines(self.chunks.number, 0, top, top + job.rows, 0, *common)
        else:
            found = decoder.read_tiles(
                self.chunks.number, 0, left, left + job.width, top, top + job.rows, 0, 1, *common
            )
        if found is None or decoder.has_error:
            oiio.error_text(decoder, self.source)
            raise self.chunks.damage_error()
        array = np.asarray(found).reshape(job.rows, job.width, end - first)
        return {names[first + i]: np.ascontiguousarray(array[..., i]) for i in range(end - first)}


@dataclass(frozen=True, slots=True)
class _Job:
    """One chunk to encode again: its index in the part, its rectangle in the data window, its share of the patch."""

    index: int
    x: int
    y: int
    width: int
    rows: int
    patch: Patch
