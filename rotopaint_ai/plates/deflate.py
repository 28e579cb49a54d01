"""Deflate streams for EXR chunks and PNG strips: ISA-L where it is installed, else zlib.

Film grain hardly compresses, so speed matters more than size. On chunks of a 1080p half-float plate with grain, ISA-L
takes less than half the time of zlib's run-length mode. Flat data, such as mattes, use ISA-L's level 0: it takes a
fifth of zlib's time. Its output is twice as large, but still small.

Levels 1 and 2 of ISA-L are not used because their output is not deterministic. For some data (one chunk in fifty of
noise between zeros) they write different bytes in another process, although these decode to the same data. A resumed
run would then write different files. Version 2.32.1 behaves so; its levels 0 and 3 gave equal bytes for 400 such chunks
in 16 processes.
"""

from __future__ import annotations

import zlib
from typing import Any, cast

try:
    from isal import isal_zlib
except ImportError:  # no wheel for this machine
    isal_zlib = None  # type: ignore[assignment]

_ISAL_FLAT, _ISAL_LEVEL, _ZLIB_LEVEL = 0, 3, 1
_ISAL_ERROR = zlib.error if isal_zlib is None else cast(type[Exception], isal_zlib.IsalError)

Buffer = Any  # bytes, or an array of them


def compress(data: Buffer, *, flat: bool = False) -> bytes:
    """`data` as a complete zlib stream; set `flat` for data with long runs of equal values."""
    if isal_zlib is not None:
        return isal_zlib.compress(data, _ISAL_FLAT if flat else _ISAL_LEVEL)
    packed = packer()
    return bytes(packed.compress(data) + packed.flush())


def packer() -> Any:
    """A compressor object that makes one zlib stream of many pieces by `compress` and `flush`."""
    if isal_zlib is not None:
        return isal_zlib.compressobj(_ISAL_LEVEL)
    return zlib.compressobj(_ZLIB_LEVEL, strategy=zlib.Z_RLE)


def decompress(packed: Buffer, most: int) -> bytes:
    """The data of a zlib stream, cut after `most` bytes (1 or more).

    Raises: ValueError where `packed` is not a zlib stream or is incomplete."""
    stream: Any = (zlib if isal_zlib is None else isal_zlib).decompressobj()
    try:
        found = bytes(stream.decompress(packed, most))
    except (zlib.error, _ISAL_ERROR) as error:
        raise ValueError(str(error)) from error
    if len(found) < most and not stream.eof:
        raise ValueError("the stream ends before its checksum")
    return found


def crc32(data: Buffer) -> int:
    """The CRC-32 of data."""
    return int((zlib if isal_zlib is None else isal_zlib).crc32(data))
