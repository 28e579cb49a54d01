"""Cryptomatte: the mattes of all shapes in one EXR a frame, to be picked by name.

Every shape has the MurmurHash3 of its name as a number. Each pixel lists the shapes that cover it, the largest coverage
first, as pairs of number and coverage in the channels `CryptoShape00.RGBA`, `CryptoShape01.RGBA` and so on. Coverage
is the matte itself, so overlapping shapes add up to more than 1 and each comes out whole. Source: J. Friedman and A.
Jones, "Cryptomatte Specification" 1.2; A. Appleby, MurmurHash3 x86_32 (public domain).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import files
from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import lossiness
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.exchange.lossiness import Loss
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates import exr_writer
from rotopaint_ai.shapes.rasterise import mattes_of
from rotopaint_ai.shapes.roto import RotoDocument

SUFFIX: Final = ".crypto.exr"
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
    "subtract": "{names}: what it holds out is away from the other mattes for good",
}
_FEWEST: Final = 6  # ranks that other programs make room for
_MASK32: Final = 0xFFFFFFFF

MOST_THREADS: Final = 8  # a frame at 4K with its ranks takes some 500 MB

Matte = NDArray[np.float32]
T = TypeVar("T")


def losses_of(document: RotoDocument) -> list[Loss]:
    """What pictures do not hold of this document."""
    return lossiness.of(document, keeps=KEEPS, words=WORDS)


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86_32."""
    h = seed
    blocks = len(data) // 4
    for (k,) in struct.iter_unpack("<I", data[: blocks * 4]):
        h ^= _scrambled(k)
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & _MASK32
    tail = data[blocks * 4 :]
    if tail:
        h ^= _scrambled(int.from_bytes(tail, "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = ((h ^ (h >> shift)) * factor) & _MASK32
    return h


def _scrambled(k: int) -> int:
    return (_rotated((k * 0xCC9E2D51) & _MASK32, 15) * 0x1B873593) & _MASK32


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK32


def identity(name: str) -> int:
    """The bits of a name's number: its hash, with an exponent that makes it an ordinary 32-bit float."""
    found = murmur3(name.encode())
    return found ^ (1 << 23) if (found >> 23) & 0xFF in (0, 0xFF) else found


def metadata(names: list[str]) -> dict[str, str]:
    """The attributes that tell other programs what the channels are."""
    head = f"cryptomatte/{murmur3(LAYER.encode()):08x}"[: len("cryptomatte/") + 7]
    manifest = json.dumps({name: f"{identity(name):08x}" for name in names}, ensure_ascii=False)
    fields = {"name": LAYER, "hash": "MurmurHash3_32", "conversion": "uint32_to_float32", "manifest": manifest}
    return {f"{head}/{field}": text for field, text in fields.items()}


def pattern(path: Path) -> Path:
    """Where the frames of `NAME.crypto.exr` go: `NAME.crypto.####.exr`."""
    if "#" in path.name:
        return path.with_name(re.sub(r"#+", "####", path.name))
    return path.with_name(path.name[: -len(".exr")] + ".####.exr")


def write(path: Path, document: RotoDocument) -> float:
    """Write one EXR a frame at `pattern(path)`, each read back while its mattes are at hand.

    Returns the largest difference of a matte. Raises DocumentError where two names share a number.
    """
    names = [shape.name for shape in document.shapes if shape.keys]
    numbers = {identity(name): name for name in names}
    if len(numbers) < len(names):
        lost = next(name for name in names if numbers[identity(name)] != name)
        raise DocumentError(f"shape '{lost}' and '{numbers[identity(lost)]}' have one hash; rename one of them")
    target = pattern(path)
    texts = metadata(names)
    found = _each_frame(document, lambda frame: _write_frame(_file_of_frame(target, frame), document, frame, texts))
    return max(found, default=0.0)


def _file_of_frame(pattern: Path, frame: int) -> Path:
    return pattern.with_name(pattern.name.replace("####", f"{frame:04d}"))


def _each_frame(document: RotoDocument, work: Callable[[int], T]) -> list[T]:
    """What `work` gives for every frame, on as many threads as there are cores, at most MOST_THREADS."""
    with ThreadPoolExecutor(min(n_cores(), MOST_THREADS), thread_name_prefix="cryptomatte") as pool:
        jobs = [pool.submit(work, frame) for frame in range(document.first_frame, document.last_frame + 1)]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _write_frame(path: Path, document: RotoDocument, frame: int, texts: Mapping[str, str]) -> float:
    """Write a frame; returns by how much any matte of the file differs from what was meant."""
    x, y, mattes = mattes_at(document, frame)
    ids, coverage = ranked(mattes, min(len(document.shapes), _FEWEST))
    channels = []
    for rank in range(len(ids)):
        layer, pair = f"{LAYER}{rank // 2:02d}", ("RG", "BA")[rank % 2]
        channels += [(f"{layer}.{pair[0]}", ids[rank]), (f"{layer}.{pair[1]}", coverage[rank])]
    with files.replacing(path) as beside:
        exr_writer.write(
            beside,
            channels,
            data_at=(x, y),
            display=(0, 0, document.width, document.height),
            pixel_aspect=document.pixel_aspect,
            texts=texts,
        )
    return _coverage_difference(path, x, y, mattes)


def mattes_at(document: RotoDocument, frame: int) -> tuple[int, int, dict[str, Matte]]:
    """Each seen shape's matte at a frame in the smallest window that holds them all: its left and top, and mattes."""
    regions = mattes_of((s for s in document.shapes if s.keys), frame, document.width, document.height)
    regions = {name: region for name, region in regions.items() if not region.is_empty}
    if not regions:
        return 0, 0, {"": np.zeros((1, 1), np.float32)}
    x, y = min(r.x for r in regions.values()), min(r.y for r in regions.values())
    width = max(r.x + r.coverage.shape[1] for r in regions.values()) - x
    height = max(r.y + r.coverage.shape[0] for r in regions.values()) - y
    found = {}
    for name, region in regions.items():
        found[name] = np.zeros((height, width), np.float32)
        rows, columns = region.coverage.shape
        found[name][region.y - y : region.y - y + rows, region.x - x : region.x - x + columns] = region.coverage
    return x, y, found


def ranked(mattes: Mapping[str, Matte], fewest: int) -> tuple[Matte, Matte]:
    """Numbers and coverage (R, H, W) of the shapes at each pixel, largest coverage first, an even number of ranks."""
    stack = np.stack(list(mattes.values()))
    bits = np.array([identity(name) if name else 0 for name in mattes], np.uint32).view(np.float32)
    deepest = int((stack > 0).sum(axis=0).max(initial=1))
    ranks = max(deepest, fewest, 1)
    ranks += ranks % 2
    order = np.argsort(-stack, axis=0, kind="stable")
    coverage = np.take_along_axis(stack, order, axis=0)
    ids = np.where(coverage > 0, bits[order], np.float32(0))
    short = max(0, ranks - len(stack))
    padded = [np.pad(each, ((0, short), (0, 0), (0, 0)))[:ranks] for each in (ids, coverage)]
    return padded[0].astype(np.float32), padded[1].astype(np.float32)


def read_back(path: Path, document: RotoDocument) -> float:
    """The largest difference of any shape's matte in the written frames from the matte that was meant."""

    def difference(frame: int) -> float:
        return _coverage_difference(_file_of_frame(path, frame), *mattes_at(document, frame))

    return max(_each_frame(document, difference), default=0.0)


def _coverage_difference(file: Path, x: int, y: int, meant: Mapping[str, Matte]) -> float:
    height, width = next(iter(meant.values())).shape
    found = _Picked(file, (x, y, width, height))
    return max(float(np.abs(found.matte(name) - wanted).max()) for name, wanted in meant.items()) if any(meant) else 0.0


class _Picked:
    """A window of a Cryptomatte file, read once, of which mattes are picked by name."""

    def __init__(self, file: Path, window: tuple[int, int, int, int]) -> None:
        import OpenImageIO as oiio

        buffer = oiio.ImageBuf(str(file))
        if buffer.has_error or not buffer.spec().channelnames:
            raise DocumentError(f"{file.name}: cannot be read back ({buffer.geterror()[:80]}); check the disk")
        x, y, width, height = window
        pixels = buffer.get_pixels(oiio.FLOAT, oiio.ROI(x, x + width, y, y + height, 0, 1, 0, buffer.nchannels))
        assert pixels is not None  # the file was opened
        at = {channel: place for place, channel in enumerate(buffer.spec().channelnames)}
        self._rank_layers = [
            (np.ascontiguousarray(pixels[..., place]).view(np.uint32), pixels[..., at[f"{layer}.{cover}"]])
            for layer, place, cover in _rank_layers(at)
        ]
        self._shape = (height, width)

    def matte(self, name: str) -> Matte:
        wanted, out = np.uint32(identity(name)), np.zeros(self._shape, np.float32)
        for ids, cover in self._rank_layers:
            out += np.where(ids == wanted, cover, 0)
        return out


def _rank_layers(places: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    """Layer, channel of the numbers and letter of the coverage, for each rank of a file."""
    for channel, place in places.items():
        layer, _, part = channel.rpartition(".")
        if layer.startswith(LAYER) and part in ("R", "B"):
            yield layer, place, "G" if part == "R" else "A"
