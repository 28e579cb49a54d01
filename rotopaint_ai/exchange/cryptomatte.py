"""Cryptomatte: the mattes of all shapes in one EXR per frame, each selectable by name.

The number of a shape is the MurmurHash3 of its name. Each pixel lists the shapes that cover it, the largest coverage
first, as pairs of number and coverage in the channels `CryptoShape00.RGBA`, `CryptoShape01.RGBA` and so on. Coverage
is the matte itself, so overlapping shapes add up to more than 1, and each matte can be extracted completely.
Source: J. Friedman and A. Jones, "Cryptomatte Specification" 1.2; A. Appleby, MurmurHash3 x86_32 (public domain).
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import files
from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import lossiness, parsing
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.format_spec import Tell
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.exchange.parsing import frame_file, frame_pattern
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates import exr_writer
from rotopaint_ai.shapes.rasterise import mattes_of
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape

LAYER: Final = "CryptoShape"
KEEPS: Final[frozenset[Feature]] = frozenset(
    ("feather", "width", "taper", "visibility", "names", "aspect", "range", "size")
)
_PICTURES: Final = "mattes are pictures: curves, keys and landmarks are not in them"
WORDS: Final[Mapping[Feature, str]] = {
    "points": _PICTURES,
    "tangents": _PICTURES,
    "open": _PICTURES,
    "keys": _PICTURES,
    "holds": _PICTURES,
    "landmarks": _PICTURES,
    "layers": "{names}: layers stay a part of the name",
    "subtract": "{names}: its hold-out is permanently subtracted from the other mattes",
}
_FEWEST: Final = 6  # the number of ranks that other programs expect
_MASK32: Final = 0xFFFFFFFF

MOST_THREADS: Final = 8  # a frame at 4K with its ranks takes some 500 MB

Matte = NDArray[np.float32]
T = TypeVar("T")


def _tell_nobody(done: int, total: int) -> None:
    """A progress callback that does nothing."""


def losses_of(document: RotoDocument) -> list[Loss]:
    """The parts of this document that pictures cannot hold."""
    return lossiness.list_losses(document, keeps=KEEPS, words=WORDS)


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86_32."""
    h = seed
    blocks = len(data) // 4
    for (k,) in struct.iter_unpack("<I", data[: blocks * 4]):
        h ^= _scramble_bits(k)
        h = (_rotate_bits(h, 13) * 5 + 0xE6546B64) & _MASK32
    tail = data[blocks * 4 :]
    if tail:
        h ^= _scramble_bits(int.from_bytes(tail, "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = ((h ^ (h >> shift)) * factor) & _MASK32
    return h


def _scramble_bits(k: int) -> int:
    return (_rotate_bits((k * 0xCC9E2D51) & _MASK32, 15) * 0x1B873593) & _MASK32


def _rotate_bits(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK32


def identity(name: str) -> int:
    """The bits of a name's number: its hash, with the exponent changed so that it is a normal 32-bit float."""
    found = murmur3(name.encode())
    return found ^ (1 << 23) if (found >> 23) & 0xFF in (0, 0xFF) else found


def metadata(names: list[str]) -> dict[str, str]:
    """The EXR attributes that declare the Cryptomatte channels to other programs."""
    head = f"cryptomatte/{murmur3(LAYER.encode()):08x}"[: len("cryptomatte/") + 7]
    manifest = json.dumps({name: f"{identity(name):08x}" for name in names}, ensure_ascii=False)
    fields = {"name": LAYER, "hash": "MurmurHash3_32", "conversion": "uint32_to_float32", "manifest": manifest}
    return {f"{head}/{field}": text for field, text in fields.items()}


def pattern(path: Path) -> Path:
    """The pattern of the files of `NAME.crypto.exr`: `NAME.crypto.####.exr`."""
    return frame_pattern(path, ".exr")


def write(path: Path, document: RotoDocument, tell: Tell = _tell_nobody) -> float:
    """Write one EXR per frame at `pattern(path)`, and read each back while its mattes are in memory.

    `tell` receives the number of finished frames. Returns the largest difference of a matte, 0 to 1.
    Raises DocumentError where two names share a number, and on numbers that are not finite.
    """
    for shape in document.shapes:
        _refuse_far_points(shape)
    names = [shape.name for shape in document.shapes if shape.keys]
    numbers = {identity(name): name for name in names}
    if len(numbers) < len(names):
        lost = next(name for name in names if numbers[identity(name)] != name)
        raise DocumentError(f"shape '{lost}' and '{numbers[identity(lost)]}' have the same hash; rename one of them")
    target = pattern(path)
    texts = metadata(names)
    return max(_each_pose(document, lambda frames: _write_pose(target, document, frames, texts), tell), default=0.0)


def _refuse_far_points(shape: RotoShape) -> None:
    """Refuse what the reader of a text format refuses: a picture would show nothing of it."""
    for key in shape.keys.values():
        for row in (*key.points, *key.feather, *key.widths):
            parsing.check_numbers(shape.name, row)


def read_back(path: Path, document: RotoDocument) -> float:
    """The largest difference between a shape's matte in the written frames and its source."""

    def difference(frames: Sequence[int]) -> float:
        meant = _Coverage.of(document, frames[0])
        return max(meant.difference(frame_file(path, frame)) for frame in frames)

    return max(_each_pose(document, difference), default=0.0)


def _each_pose(document: RotoDocument, work: Callable[[Sequence[int]], T], tell: Tell = _tell_nobody) -> list[T]:
    """The results of `work` for every run of held frames, on one thread per core, at most MOST_THREADS."""
    with ThreadPoolExecutor(min(n_cores(), MOST_THREADS), thread_name_prefix="cryptomatte") as pool:
        jobs = {pool.submit(work, frames): len(frames) for frames in _held_runs(document)}
        done, total = 0, sum(jobs.values())
        try:
            tell(0, total)
            for job in as_completed(jobs):
                job.result()
                done += jobs[job]
                tell(done, total)
            return [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _held_runs(document: RotoDocument) -> Iterator[list[int]]:
    """The document's frames, grouped into runs of equal poses."""
    shapes = [shape for shape in document.shapes if shape.keys]
    run: list[int] = []
    last = None
    for frame in range(document.first_frame, document.last_frame + 1):
        shown = [
            (s.at(frame), s.feather_at(frame), s.widths_at(frame)) if s.is_visible(frame) else None for s in shapes
        ]
        if run and shown != last:
            yield run
            run = []
        run, last = [*run, frame], shown
    if run:
        yield run


def _write_pose(pattern: Path, document: RotoDocument, frames: Sequence[int], texts: Mapping[str, str]) -> float:
    """Write frames of one pose; returns the largest difference of a written matte from its source."""
    covered = _Coverage.of(document, frames[0])
    first = frame_file(pattern, frames[0])
    ids, coverage = covered.ranked(min(len(document.shapes), _FEWEST))
    channels = []
    for rank in range(len(ids)):
        layer, pair = f"{LAYER}{rank // 2:02d}", ("RG", "BA")[rank % 2]
        channels += [(f"{layer}.{pair[0]}", ids[rank]), (f"{layer}.{pair[1]}", coverage[rank])]
    with files.replacing(first) as beside:
        exr_writer.write(
            beside,
            channels,
            data_at=(covered.x, covered.y),
            display=(0, 0, document.width, document.height),
            pixel_aspect=document.pixel_aspect,
            texts=texts,
        )
    found = covered.difference(first)
    for frame in frames[1:]:
        with files.replacing(frame_file(pattern, frame)) as beside:
            shutil.copyfile(first, beside)
    return found


@dataclass(frozen=True, slots=True)
class _Coverage:
    """The coverage of a frame's visible shapes, in the smallest window (`x`, `y`, `width`, `height`) around them all.

    An entry (N,) for each shape at each pixel that it covers: the index of its name, the pixel's index in the window,
    and the coverage of that pixel.
    """

    x: int
    y: int
    width: int
    height: int
    names: tuple[str, ...]
    name: NDArray[np.intp]
    pixel: NDArray[np.intp]
    cover: Matte

    @classmethod
    def of(cls, document: RotoDocument, frame: int) -> _Coverage:
        """The mattes of a frame; a window of one pixel where no shape is visible."""
        drawn = mattes_of((s for s in document.shapes if s.keys), frame, document.width, document.height)
        seen = {name: region for name, region in drawn.items() if not region.is_empty}
        x, y = (min((getattr(r, side) for r in seen.values()), default=0) for side in ("x", "y"))
        width = max((r.x + r.coverage.shape[1] for r in seen.values()), default=1) - x
        height = max((r.y + r.coverage.shape[0] for r in seen.values()), default=1) - y
        rows = [(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.float32))]
        for place, region in enumerate(seen.values()):
            row, column = np.nonzero(region.coverage)
            pixel = (row + region.y - y) * width + column + region.x - x
            rows.append((np.full(len(pixel), place), pixel, region.coverage[row, column]))
        name, pixel, cover = (np.concatenate(each) for each in zip(*rows, strict=True))
        return cls(x, y, width, height, tuple(seen), name, pixel, cover)

    @property
    def _identities(self) -> NDArray[np.uint32]:
        return np.array([identity(name) for name in self.names], np.uint32)

    def ranked(self, fewest: int) -> tuple[Matte, Matte]:
        """Numbers and coverage (R, H, W) of the shapes at each pixel, largest coverage first; R is even."""
        order = np.lexsort((self.name, -self.cover, self.pixel))
        pixel = self.pixel[order]
        rank = np.arange(len(pixel)) - np.searchsorted(pixel, pixel)
        ranks = max(int(rank.max(initial=0)) + 1, fewest, 1)
        ids, coverage = (np.zeros((ranks + ranks % 2, self.height, self.width), np.float32) for _ in range(2))
        ids.reshape(len(ids), -1)[rank, pixel] = self._identities.view(np.float32)[self.name[order]]
        coverage.reshape(len(ids), -1)[rank, pixel] = self.cover[order]
        return ids, coverage

    def difference(self, file: Path) -> float:
        """The largest difference between a matte extracted from the file by its number and its source."""
        ids, coverage = _ranks_of_file(file, (self.x, self.y, self.width, self.height))
        rank, pixel = np.nonzero(coverage)
        if not self.names:
            return float(np.abs(coverage).max())
        numbers, found = self._identities, ids[rank, pixel]
        order = np.argsort(numbers)
        name = order[np.searchsorted(numbers, found, sorter=order).clip(max=len(order) - 1)]
        name = np.where(numbers[name] == found, name, len(order))  # one extra index for unknown numbers
        away = np.zeros((len(order) + 1, self.height * self.width), np.float32)
        away[self.name, self.pixel] = self.cover
        np.subtract.at(away, (name, pixel), coverage[rank, pixel])
        return float(max(away.max(), -away.min()))


def _ranks_of_file(file: Path, window: tuple[int, int, int, int]) -> tuple[NDArray[np.uint32], Matte]:
    """Numbers' bits and coverage (R, N) of all ranks of a Cryptomatte file in a window."""
    import OpenImageIO as oiio

    buffer = oiio.ImageBuf(str(file))
    if buffer.has_error or not buffer.spec().channelnames:
        raise DocumentError(f"{file.name}: cannot be read back ({buffer.geterror()[:80]}); check the disk")
    x, y, width, height = window
    pixels = buffer.get_pixels(oiio.FLOAT, oiio.ROI(x, x + width, y, y + height, 0, 1, 0, buffer.nchannels))
    assert pixels is not None  # the file was opened
    at = {channel: place for place, channel in enumerate(buffer.spec().channelnames)}
    planes = pixels.reshape(-1, buffer.nchannels).T
    places = [(place, at[f"{layer}.{cover}"]) for layer, place, cover in _rank_layers(at)]
    ids = np.ascontiguousarray(planes[[number for number, _ in places]])
    return ids.view(np.uint32), planes[[cover for _, cover in places]]


def _rank_layers(places: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    """Layer, channel of the numbers and letter of the coverage, for each rank of a file."""
    for channel, place in places.items():
        layer, _, part = channel.rpartition(".")
        if layer.startswith(LAYER) and part in ("R", "B"):
            yield layer, place, "G" if part == "R" else "A"
