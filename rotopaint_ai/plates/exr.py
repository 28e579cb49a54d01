"""OpenEXR plates: colour channels in, and the same file with only changed pixels replaced out.

Writing back copies the file. Header, other parts, other layers, and every chunk (a run of rows, or a tile) without a
changed pixel are copied byte by byte. Only chunks with changed pixels are taken apart: their other pixels and channels
keep their bits. Such a chunk is compressed again where that is lossless and cheap (ZIP, ZIPS), else it is stored
uncompressed, which the file layout allows in any compression ("if the compressed size is not smaller, the data are
stored raw") and which keeps lossy plates (DWAA, B44, PXR24) bit-identical. Smaller levels of mip-mapped plates keep
the unchanged picture.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates import deflate, oiio
from rotopaint_ai.plates.exr_header import TYPE_NAMES, ExrHeader, Part, parse, tile_levels
from rotopaint_ai.plates.picture import Header, Patch, Picture, mapped

Array = NDArray[Any]

_NONE, _ZIPS, _ZIP = 0, 2, 3
_PREFERRED = ("", "rgba", "rgb", "beauty", "left", "right", "main", "default")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which channels of which part are the picture: three names for R, G, B, or one."""

    part: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """What reading and writing back need to know."""

    exr: ExrHeader
    choice: Choice


def header(path: Path) -> Header:
    """Geometry of an EXR file; nothing is decoded. Raises DamagedFrameError, UnsupportedPlateError."""
    with mapped(path) as data:
        exr = parse(data, path.name)
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
        detail=Detail(exr, choice),
    )


def choose(exr: ExrHeader, name: str) -> Choice:
    """The picture among a file's parts and layers: plain R, G, B first, then a beauty layer, then a single channel.

    Raises: UnsupportedPlateError for deep, luminance-chroma and colourless files.
    """
    ranked = sorted(
        (rank, index, channels)
        for index, part in enumerate(exr.parts)
        if not part.is_deep
        for rank, channels in _pictures(part)
    )
    if not ranked:
        raise _no_picture(exr, name)
    _, index, channels = ranked[0]
    chosen = {c.name: c for c in exr.parts[index].channels}
    if any(chosen[c].type == 0 for c in channels):
        raise UnsupportedPlateError(f"{name}: {', '.join(channels)} are whole numbers (ids?), wanted half or float")
    if any((c.x_sampling, c.y_sampling) != (1, 1) for part in exr.parts for c in part.channels):
        raise UnsupportedPlateError(
            f"{name}: has channels at half resolution; wanted full resolution, re-render as RGB"
        )
    return Choice(index, channels)


def _pictures(part: Part) -> Iterator[tuple[int, tuple[str, ...]]]:
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
    found = header(path)
    choice: Choice = found.detail.choice
    part: Part = found.detail.exr.parts[choice.part]
    types = {channel.name: TYPE_NAMES[channel.type] for channel in part.channels}
    dtype = max((types[name] for name in choice.channels), key=("float16", "float32").index)
    with oiio.reading(path) as source:
        names = _names(source, choice.part, path)
        places = [names.index(name) if name in names else -1 for name in choice.channels]
        if min(places) < 0:
            raise DamagedFrameError(f"{path.name}: channels differ between header and reader; render it again")
        first, end = min(places), max(places) + 1
        codes = oiio.pixels(source, path, first=first, end=end, dtype=dtype, subimage=choice.part)
    if codes.shape[:2] != (found.data_height, found.data_width):
        raise DamagedFrameError(f"{path.name}: size differs between header and pixels; render it again")
    if places != list(range(first, end)):
        codes = np.ascontiguousarray(codes[..., [place - first for place in places]])
    return Picture(found, codes)


def _names(source: Any, part: int, path: Path) -> list[str]:
    if not source.seek_subimage(part, 0):
        raise DamagedFrameError(f"{path.name}: part {part} cannot be read ({oiio.error_text(source, path)})")
    return [str(name) for name in source.spec().channelnames]


def lines_written(picture: Picture) -> int | None:
    """Rows of a picture that are written together where one of them changes; None for tiles."""
    detail: Detail = picture.header.detail
    part = detail.exr.parts[detail.choice.part]
    return None if part.tile is not None else part.lines_per_chunk


def write(target: Path, source: Path, picture: Picture, patch: Patch) -> None:
    """Copy `source`, which `picture` was read from, with the pixels of `patch`. Raises DamagedFrameError, OSError."""
    with mapped(source) as data, target.open("wb") as out:
        _write(out, data, source, picture, patch)


def _write(out: BinaryIO, data: memoryview, source: Path, picture: Picture, patch: Patch) -> None:
    detail: Detail = picture.header.detail
    exr, number = detail.exr, detail.choice.part
    n_chunks = sum(part.n_chunks for part in exr.parts)
    tables_end = exr.tables_at + 8 * n_chunks
    offsets = np.frombuffer(data[exr.tables_at : tables_end], "<u8").astype(np.int64)
    before = sum(part.n_chunks for part in exr.parts[:number])
    chunks = _Chunks(data, source, picture, offsets[before : before + exr.parts[number].n_chunks])
    replaced = chunks.patched(patch)
    out.write(data[: exr.tables_at])
    out.write(bytes(8 * n_chunks))
    _copy(out, data, offsets, {before + index: chunk for index, chunk in replaced.items()}, chunks.size_of)
    out.seek(exr.tables_at)
    out.write(offsets.astype("<u8").tobytes())


def _copy(out: BinaryIO, data: memoryview, offsets: Array, replaced: dict[int, bytes], size_of: Any) -> None:
    """Write all chunks in file order, and put where they now stand into `offsets`."""
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
            out.write(data[run_from:run_to])
            run_from, run_to = (end, end) if new is not None else (at, end)
            if new is not None:
                out.write(new)
        offsets[index] = position
        position += end - at if new is None else len(new)
    out.write(data[run_from:run_to])


class _Chunks:
    """The chunks of the picture's part: where they are, and how they look with a patch in them."""

    def __init__(self, data: memoryview, source: Path, picture: Picture, offsets: Array) -> None:
        detail: Detail = picture.header.detail
        self.data, self.source, self.offsets = data, source, offsets
        self.is_multipart = detail.exr.is_multipart
        self.number, self.part = detail.choice.part, detail.exr.parts[detail.choice.part]
        self.channels = detail.choice.channels
        self.codes = picture.codes if self._has_every_channel(picture.codes) else None
        self.tiled = {part for part, found in enumerate(detail.exr.parts) if found.tile is not None}
        self.deep = {part for part, found in enumerate(detail.exr.parts) if found.is_deep}

    def _has_every_channel(self, codes: Array) -> bool:
        """Whether the picture's codes are all that the part holds, so that chunks need not be taken apart."""
        types = {TYPE_NAMES[channel.type] for channel in self.part.channels}
        return len(self.part.channels) == len(self.channels) and types == {codes.dtype.name}

    def size_of(self, at: int) -> int:
        """Bytes of the chunk at `at`, its own header included."""
        try:
            part = struct.unpack_from("<i", self.data, at)[0] if self.is_multipart else 0
            head = (4 if self.is_multipart else 0) + (16 if part in self.tiled else 4)
            if part in self.deep:
                table, samples = struct.unpack_from("<qq", self.data, at + head)
                size = head + 24 + int(table) + int(samples)
            else:
                size = head + 4 + int(struct.unpack_from("<i", self.data, at + head)[0])
        except struct.error as error:
            raise self.damaged() from error
        if size < head or at + size > len(self.data):
            raise self.damaged()
        return size

    def damaged(self) -> DamagedFrameError:
        return DamagedFrameError(f"{self.source.name}: some of its pixels are missing or cut off; render it again")

    def patched(self, patch: Patch) -> dict[int, bytes]:
        """New chunks, with their headers, for those that the patch touches; by their place in the part."""
        jobs = list(self._touched(patch))
        if not jobs:
            return {}
        if self.codes is not None or self.part.compression in (_NONE, _ZIPS, _ZIP):
            return dict(map(self._rebuilt, jobs))
        with oiio.reading(self.source) as decoder:
            return {job.index: self._stored(job, self._decoded(decoder, job)) for job in jobs}

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

    def _rebuilt(self, job: _Job) -> tuple[int, bytes]:
        if self.codes is not None:
            order = [self.channels.index(channel.name) for channel in self.part.channels]
            codes = self.codes[job.y : job.y + job.rows, job.x : job.x + job.width, order]
            return job.index, self._stored(job, np.ascontiguousarray(codes.transpose(0, 2, 1)).view(np.uint8).ravel())
        at = int(self.offsets[job.index])
        payload = bytes(self.data[at + self._head_bytes() + 4 : at + self.size_of(at)])
        return job.index, self._stored(job, self._unpacked(payload, job))

    def _head_bytes(self) -> int:
        return (4 if self.is_multipart else 0) + (16 if self.part.tile else 4)

    def _unpacked(self, payload: bytes, job: _Job) -> Array:
        wanted = job.width * job.rows * self.part.pixel_bytes
        if len(payload) != wanted:
            if self.part.compression == _NONE:
                raise self.damaged()
            payload = self._inflated(payload, wanted)
        return np.frombuffer(bytearray(payload), np.uint8)

    def _inflated(self, payload: bytes, wanted: int) -> bytes:
        try:
            packed = deflate.decompress(payload, wanted + 1)
        except ValueError as error:
            raise self.damaged() from error
        if len(packed) != wanted:
            raise self.damaged()
        return unpredict(packed)

    def _stored(self, job: _Job, raw: Array) -> bytes:
        """The chunk with the patch in it, compressed where that is lossless and makes it smaller."""
        rows = raw.reshape(job.rows, -1)
        at = 0
        for channel in self.part.channels:
            dtype = np.dtype(TYPE_NAMES[channel.type]).newbyteorder("<")
            end = at + job.width * dtype.itemsize
            if channel.name in self.channels:
                place = min(self.channels.index(channel.name), job.patch.codes.shape[1] - 1)
                rows[:, at:end].view(dtype)[job.patch.rows, job.patch.columns] = job.patch.codes[:, place]
            at = end
        packed = deflate.compress(predict(raw)) if self.part.compression in (_ZIPS, _ZIP) else None
        payload = packed if packed is not None and len(packed) < raw.size else raw.tobytes()
        start = int(self.offsets[job.index])
        return bytes(self.data[start : start + self._head_bytes()]) + struct.pack("<i", len(payload)) + payload

    def _decoded(self, decoder: Any, job: _Job) -> Array:
        """All channels of a chunk as the file would hold them uncompressed, through the reader."""
        names = _names(decoder, self.number, self.source)
        place = {name: index for index, name in enumerate(names)}
        rows = []
        cache: dict[str, Array] = {}
        for channel in self.part.channels:
            if channel.name not in cache:
                cache |= self._run(decoder, job, names, place.get(channel.name, -1))
            rows.append(cache[channel.name].view(np.uint8).reshape(job.rows, -1))
        return np.ascontiguousarray(np.concatenate(rows, axis=1)).reshape(-1)

    def _run(self, decoder: Any, job: _Job, names: list[str], first: int) -> dict[str, Array]:
        """Neighbouring channels of one type, read in that type so that their bits survive."""
        if first < 0:
            raise self.damaged()
        types = {channel.name: channel.type for channel in self.part.channels}
        end = first + 1
        while end < len(names) and types.get(names[end]) == types[names[first]]:
            end += 1
        dtype = np.dtype(TYPE_NAMES[types[names[first]]])
        left, top = self.part.data_window[0] + job.x, self.part.data_window[1] + job.y
        common = (first, end, oiio.type_of(dtype))
        if self.part.tile is None:
            found = decoder.read_scanlines(self.number, 0, top, top + job.rows, 0, *common)
        else:
            found = decoder.read_tiles(self.number, 0, left, left + job.width, top, top + job.rows, 0, 1, *common)
        if found is None or decoder.has_error:
            oiio.error_text(decoder, self.source)
            raise self.damaged()
        array = np.asarray(found).reshape(job.rows, job.width, end - first)
        return {names[first + i]: np.ascontiguousarray(array[..., i]) for i in range(end - first)}


@dataclass(frozen=True, slots=True)
class _Job:
    """One chunk to make anew: its place in the part, its rectangle in the data window, and its share of the patch."""

    index: int
    x: int
    y: int
    width: int
    rows: int
    patch: Patch


def predict(raw: Array) -> Array:
    """Bytes as OpenEXR's ZIP compresses them: even bytes, then odd ones, each as difference to the one before."""
    half = (raw.size + 1) // 2
    parted, steps = np.empty(raw.size, np.uint8), np.empty(raw.size, np.uint8)
    parted[:half], parted[half:] = raw[0::2], raw[1::2]
    steps[0] = parted[0]
    np.subtract(parted[1:], parted[:-1], out=steps[1:])
    steps[1:] ^= np.uint8(128)  # plus 128
    return steps


def unpredict(packed: bytes) -> bytes:
    """The inverse of `predict`."""
    parted = np.frombuffer(packed, np.uint8).cumsum(dtype=np.uint8)
    parted[1::2] ^= np.uint8(128)  # minus 128 for every step: only odd places differ
    half = (parted.size + 1) // 2
    raw = np.empty(parted.size, np.uint8)
    raw[0::2], raw[1::2] = parted[:half], parted[half:]
    return raw.tobytes()
