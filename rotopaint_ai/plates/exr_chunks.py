"""The chunks of an EXR part: their positions in the file, and their bytes without ZIP compression.

Source: "OpenEXR File Layout", openexr.com; the byte order and the differences of ZIP as in OpenEXR's ImfZip.cpp.
"""

from __future__ import annotations

import struct
import threading
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError
from rotopaint_ai.plates import deflate
from rotopaint_ai.plates.exr_header import ExrHeader
from rotopaint_ai.plates.picture import Bytes

Array = NDArray[Any]

NONE: Final = 0
ZIPS: Final = 2
ZIP: Final = 3
UNPACKED_HERE: Final = (NONE, ZIPS, ZIP)
_MOST_SUMMED = 1 << 23  # so many bytes have a sum that fits 32 bits
_MOST_KEPT = 1 << 19  # sums up to this size use a buffer that each thread keeps
_EVERY_OTHER = np.frombuffer(b"\0\x80" * 4, np.uint64)
_OF_THREAD = threading.local()


class Chunks:
    """The chunks of part `number` of a file, and their content."""

    def __init__(self, data: Bytes, name: str, exr: ExrHeader, number: int) -> None:
        self.data, self.name, self.number = data, name, number
        self.part, self.is_multipart = exr.parts[number], exr.is_multipart
        before = exr.tables_at + 8 * sum(part.n_chunks for part in exr.parts[:number])
        self.offsets = np.frombuffer(data[before : before + 8 * self.part.n_chunks], "<u8").astype(np.int64)
        self._tiled = {place for place, found in enumerate(exr.parts) if found.tile is not None}
        self._deep = {place for place, found in enumerate(exr.parts) if found.is_deep}

    @property
    def head_bytes(self) -> int:
        """Bytes of a chunk header before the chunk's size: the part number and the position."""
        return (4 if self.is_multipart else 0) + (16 if self.part.tile else 4)

    def damage_error(self) -> DamagedFrameError:
        """The error to raise."""
        return DamagedFrameError(f"{self.name}: some of its pixels are missing or cut off; render it again")

    def size_of(self, at: int) -> int:
        """Bytes of the chunk at offset `at`, of any part, including its header. Raises DamagedFrameError."""
        try:
            part = struct.unpack("<i", self.data[at : at + 4])[0] if self.is_multipart else 0
            head = (4 if self.is_multipart else 0) + (16 if part in self._tiled else 4)
            if part in self._deep:
                table, samples = struct.unpack("<qq", self.data[at + head : at + head + 16])
                size = head + 24 + int(table) + int(samples)
            else:
                size = head + 4 + int(struct.unpack("<i", self.data[at + head : at + head + 4])[0])
        except struct.error as error:
            raise self.damage_error() from error
        if size < head or at + size > len(self.data):
            raise self.damage_error()
        return size

    def head(self, index: int) -> bytes:
        """The bytes of a chunk header before the chunk's size."""
        at = int(self.offsets[index])
        return bytes(self.data[at : at + self.head_bytes])

    def rows(self, index: int, top: int, n_bytes: int, *, is_wanted: bool = True) -> Array | None:
        """The uncompressed bytes of the chunk of scanlines that begins at row `top`, or None as from `unpack_chunk`.

        Raises: DamagedFrameError where the chunk belongs to another row.
        """
        head = struct.pack("<i", self.number) if self.is_multipart else b""
        if self.head(index) != head + struct.pack("<i", self.part.data_window[1] + top):
            raise self.damage_error()
        return self.unpack_chunk(index, n_bytes, is_wanted=is_wanted)

    def unpack_chunk(self, index: int, n_bytes: int, *, is_wanted: bool = True) -> Array | None:
        """The uncompressed bytes (uint8) of a chunk that is stored raw or as ZIP, in a new array.

        Returns None where `is_wanted` is false; the chunk is then only checked.
        Raises: DamagedFrameError where the chunk does not hold `n_bytes`.
        """
        at = int(self.offsets[index])
        payload = bytes(self.data[at + self.head_bytes + 4 : at + self.size_of(at)])
        if len(payload) == n_bytes:
            return np.frombuffer(bytearray(payload), np.uint8) if is_wanted else None
        if self.part.compression == NONE:
            raise self.damage_error()
        packed = self._inflated(payload, n_bytes)
        return unpredict(packed) if is_wanted else None

    def _inflated(self, payload: bytes, n_bytes: int) -> bytes:
        try:
            packed = deflate.decompress(payload, n_bytes + 1)
        except ValueError as error:
            raise self.damage_error() from error
        if len(packed) != n_bytes:
            raise self.damage_error()
        return packed


def predict_bytes(raw: Array) -> Array:
    """Bytes in the form that OpenEXR's ZIP compresses: even bytes, then odd ones, as differences to the one before."""
    half = (raw.size + 1) // 2
    steps = np.empty(raw.size, np.uint8)
    even, odd = _split_bytes(raw)
    steps[0] = even[0] ^ np.uint8(128)
    np.subtract(even[1:], even[:-1], out=steps[1:half])
    steps[half : half + 1] = odd[:1] - even[-1]
    np.subtract(odd[1:], odd[:-1], out=steps[half + 1 :])
    steps ^= np.uint8(128)  # plus 128
    return steps


def _split_bytes(raw: Array) -> tuple[Array, Array]:
    """Even and odd bytes."""
    if raw.size % 2 or not raw.size or not raw.flags.c_contiguous:
        return raw[0::2], raw[1::2]
    even, odd = cv2.split(raw.reshape(1, -1, 2))
    return even[0], odd[0]


def unpredict(packed: bytes) -> Array:
    """The inverse of `predict_bytes`, as a new uint8 array."""
    parted = _running_sums(np.frombuffer(packed, np.uint8))
    whole = parted.size // 8 * 8  # every difference but the first has 128 added, so every second sum is 128 too large
    parted[:whole].view(np.uint64)[...] ^= _EVERY_OTHER
    parted[whole:][1::2] ^= np.uint8(128)
    half = (parted.size + 1) // 2
    if parted.size % 2 == 0 and half:
        return cv2.merge((parted[:half], parted[half:])).ravel()
    raw = np.empty(parted.size, np.uint8)
    raw[0::2], raw[1::2] = parted[:half], parted[half:]
    return raw


def _running_sums(steps: Array) -> Array:
    """Running sums modulo 256, by OpenCV: it takes a sixth of numpy's time."""
    if steps.size == 0 or steps.size > _MOST_SUMMED:
        return steps.cumsum(dtype=np.uint8)
    room = getattr(_OF_THREAD, "sums", None)
    if room is None or room.shape[1] != steps.size + 1:
        room = np.empty((2, steps.size + 1), np.int32)
    _OF_THREAD.sums = room if steps.size <= _MOST_KEPT else None  # allocating memory would take as long as the sums
    return cv2.integral(steps[None], room)[1, 1:].astype(np.uint8)
