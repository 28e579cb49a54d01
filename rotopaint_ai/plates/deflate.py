"""Deflate streams for EXR chunks and PNG strips: ISA-L where it is installed, else zlib.

Film grain hardly packs, so time counts and not the last percent: on chunks of a 1080p half-float plate with grain ISA-L
takes less than half the time of zlib's run-length mode. Flat data, such as mattes, pack fastest by its level 0: a fifth
of zlib's time for twice the bytes, which are few.

Not its levels 1 and 2: of some data (one chunk in fifty of noise between zeros) they write other bytes in another
process, as many and decoding to the same, and a resumed run would not give the same files (version 2.32.1; levels 0 and
3 gave the same for 400 such chunks in 16 processes).
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
    """A whole zlib stream; `flat` data are the same over long runs."""
    if isal_zlib is not None:
        return isal_zlib.compress(data, _ISAL_FLAT if flat else _ISAL_LEVEL)
    packed = packer()
    return bytes(packed.compress(data) + packed.flush())


def packer() -> Any:
    """An object with `compress` and `flush` that makes one zlib stream of many pieces."""
    if isal_zlib is not None:
        return isal_zlib.compressobj(_ISAL_LEVEL)
    return zlib.compressobj(_ZLIB_LEVEL, strategy=zlib.Z_RLE)


def decompress(packed: Buffer, most: int) -> bytes:
    """The data of a zlib stream, cut after `most` bytes (1 or more). Raises ValueError for what is none, or no whole
    one."""
    stream: Any = (zlib if isal_zlib is None else isal_zlib).decompressobj()
    try:
        found = bytes(stream.decompress(packed, most))
    except (zlib.error, _ISAL_ERROR) as error:
        raise ValueError(str(error)) from error
    if len(found) < most and not stream.eof:
        raise ValueError("the stream ends before its check")
    return found


def crc32(data: Buffer) -> int:
    """The CRC-32 of data."""
    return int((zlib if isal_zlib is None else isal_zlib).crc32(data))
