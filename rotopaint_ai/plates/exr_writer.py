"""Writing a plain new EXR file: one part, float32 channels as planes, ZIP.

Made for mattes: it writes planes directly, where image libraries interleave them first, and copies nothing twice.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.plates import deflate
from rotopaint_ai.plates.exr_chunks import predict_bytes

Array = NDArray[Any]

_ROWS: Final = 16
_FLOAT: Final = 2
_ZIP: Final = 3
_LONG_NAMES: Final = 0x400


def write(
    path: Path,
    planes: Sequence[tuple[str, Array]],
    *,
    data_at: tuple[int, int],
    display: tuple[int, int, int, int],
    pixel_aspect: float,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write named planes (H, W) as float32 ZIP, with string attributes `texts`.

    `data_at`: top-left pixel of the planes; `display`: left, top, width, height of the display window. Raises OSError.
    """
    ordered = sorted(planes, key=lambda plane: plane[0].encode())
    height, width = ordered[0][1].shape
    head = _header_bytes([name for name, _ in ordered], data_at, (width, height), display, pixel_aspect, texts or {})
    tops = range(0, height, _ROWS)
    stack = [np.ascontiguousarray(plane, np.dtype("<f4")).view(np.uint8) for _, plane in ordered]
    chunks = [_chunk_bytes(stack, top, data_at[1]) for top in tops]
    sizes = np.array([0] + [len(chunk) for chunk in chunks[:-1]], np.uint64)
    offsets = len(head) + 8 * len(chunks) + np.cumsum(sizes)
    with path.open("wb") as out:
        out.write(head + offsets.astype("<u8").tobytes())
        out.writelines(chunks)


def _chunk_bytes(stack: Sequence[Array], top: int, first_row: int) -> bytes:
    raw = np.concatenate([plane[top : top + _ROWS] for plane in stack], axis=1).ravel()
    packed = deflate.compress(predict_bytes(raw), flat=True)
    payload = packed if len(packed) < raw.size else raw.tobytes()
    return struct.pack("<ii", first_row + top, len(payload)) + payload


def _header_bytes(
    names: Sequence[str],
    at: tuple[int, int],
    size: tuple[int, int],
    display: tuple[int, int, int, int],
    aspect: float,
    texts: Mapping[str, str],
) -> bytes:
    channels = b"".join(name.encode() + b"\0" + struct.pack("<iIii", _FLOAT, 0, 1, 1) for name in names) + b"\0"
    attributes: tuple[tuple[bytes, bytes, bytes], ...] = (
        (b"channels", b"chlist", channels),
        (b"compression", b"compression", bytes((_ZIP,))),
        (b"dataWindow", b"box2i", struct.pack("<4i", *at, at[0] + size[0] - 1, at[1] + size[1] - 1)),
        (
            b"displayWindow",
            b"box2i",
            struct.pack("<4i", *display[:2], *(display[i] + display[i + 2] - 1 for i in (0, 1))),
        ),
        (b"lineOrder", b"lineOrder", b"\0"),
        (b"pixelAspectRatio", b"float", struct.pack("<f", aspect)),
        (b"screenWindowCenter", b"v2f", struct.pack("<2f", 0.0, 0.0)),
        (b"screenWindowWidth", b"float", struct.pack("<f", 1.0)),
    )
    attributes += tuple((name.encode(), b"string", text.encode()) for name, text in texts.items())
    flags = _LONG_NAMES if max(len(name.encode()) for name in (*names, *texts)) > 31 else 0
    body = b"".join(name + b"\0" + kind + b"\0" + struct.pack("<i", len(v)) + v for name, kind, v in attributes)
    return struct.pack("<II", 20000630, 2 | flags) + body + b"\0"
