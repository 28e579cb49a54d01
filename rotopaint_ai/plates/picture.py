"""The types that every reader and writer of frames uses: a header, the colour codes, and a patch to write back.

R rows and K columns of the data window, N changed pixels, C colour channels (1 or 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError

Array = NDArray[Any]

MAX_SIDE = 65536
_MOST_PER_BYTE = 4096  # four times the best ratio of deflate
_ANYWAY = 1 << 26
MAX_PIXELS = 1 << 28  # 16384 x 16384: beyond any plate, and 3 GB as float32 RGB


class Bytes(Protocol):
    """Bytes of a file that can be read by slices."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


@dataclass(frozen=True, slots=True)
class Header:
    """The geometry and colour of one frame, before its pixels are read.

    `x`, `y`: top-left pixel of the data window in plate space. `width`, `height`: display window. `data_width`,
    `data_height`: data window. `maximum`: the code that means 1.0, None for floats. `detail`: for the reader only.
    """

    width: int
    height: int
    x: int
    y: int
    data_width: int
    data_height: int
    pixel_aspect: float
    fps: float | None
    colourspace: str
    maximum: int | None
    is_lossy: bool
    detail: Any


@dataclass(frozen=True, slots=True)
class Picture:
    """A header and the colour codes (R, K, C) in the file's own type; `rest` holds other data for writing back."""

    header: Header
    codes: Array
    rest: Any = None


@dataclass(frozen=True, slots=True)
class Patch:
    """Changed pixels of a data window in row-major order: `rows` (N,), `columns` (N,), `codes` (N, C), native type."""

    rows: Array
    columns: Array
    codes: Array

    def between(self, first_row: int, end_row: int) -> Patch:
        """The part of the patch in rows `first_row` (included) to `end_row` (excluded), relative to `first_row`."""
        a, b = np.searchsorted(self.rows, (first_row, end_row))
        return Patch(self.rows[a:b] - first_row, self.columns[a:b], self.codes[a:b])

    def inside(self, x: int, y: int, width: int, height: int) -> Patch:
        """The part of the patch in one rectangle, relative to its top-left corner."""
        rows = self.between(y, y + height)
        keep = (rows.columns >= x) & (rows.columns < x + width)
        return Patch(rows.rows[keep], rows.columns[keep] - x, rows.codes[keep])


def check_header_size(name: str, width: int, height: int) -> None:
    """Refuse sizes that no plate has, before memory is allocated. Raises DamagedFrameError."""
    if width < 1 or height < 1:
        raise DamagedFrameError(f"{name}: its header says {width} x {height} pixels; it is damaged, render it again")
    if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_PIXELS:
        raise DamagedFrameError(
            f"{name}: its header says {width} x {height} pixels, more than the {MAX_PIXELS >> 20} million pixels that"
            " are read; it is probably damaged, render it again"
        )


def check_plausible(name: str, n_bytes: int, path: Path) -> None:
    """Refuse a file far too small for the pixels that its header promises. Raises DamagedFrameError."""
    size = stamp(path)[0]
    if n_bytes > _MOST_PER_BYTE * size + _ANYWAY:
        raise DamagedFrameError(
            f"{name}: only {size} bytes for {n_bytes >> 20} MB of pixels; it is damaged, render it again"
        )


def stamp(path: Path) -> tuple[int, int]:
    """Size and modification time of a file, to notice a change between reading and writing back."""
    try:
        status = path.stat()
    except OSError as error:
        raise MissingFrameError(f"{path.name}: cannot be read ({error.strerror}); check that it is there") from error
    return status.st_size, status.st_mtime_ns


class Contents:
    """The bytes of an open file, read on access.

    The file is not memory-mapped: if another program truncated it, access to a missing page would end the process.
    Mapped pages also count as used memory.
    """

    def __init__(self, stream: BufferedReader, path: Path) -> None:
        self._stream, self._path = stream, path
        self._size = stream.seek(0, 2)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        """The bytes of a slice; slices are resolved with the size that the file had when it was opened.

        Raises: DamagedFrameError where the file has become shorter; PlateError where the disk reports an error.
        """
        first, end, _ = part.indices(self._size)
        wanted = max(end - first, 0)
        try:
            self._stream.seek(first)
            found = self._stream.read(wanted)
        except OSError as error:
            raise _read_error(self._path, error) from error
        if len(found) < wanted:
            raise DamagedFrameError(f"{self._path.name}: became shorter while it was read; run this frame again")
        return found


@contextmanager
def contents(path: Path) -> Iterator[Contents]:
    """The bytes of a file, read-only. Raises DamagedFrameError for an empty file, and the errors of `reading`."""
    with ExitStack() as stack:
        found = Contents(stack.enter_context(_open_stream(path)), path)
        if len(found) == 0:
            raise _empty_file_error(path)
        yield found


@contextmanager
def reading(path: Path) -> Iterator[BufferedReader]:
    """A file of a plate, opened for reading. Raises MissingFrameError; PlateError where the disk reports an error."""
    try:
        with _open_stream(path) as stream:
            yield stream
    except OSError as error:
        raise _read_error(path, error) from error


def _open_stream(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise MissingFrameError(f"{path.name}: the file is not there; render it or leave the frame out") from error
    except OSError as error:
        raise _read_error(path, error) from error


def _read_error(path: Path, error: OSError) -> PlateError:
    return PlateError(f"{path.name}: cannot be read ({error.strerror}); check disk and permissions")


def _empty_file_error(path: Path) -> DamagedFrameError:
    return DamagedFrameError(f"{path.name}: the file is empty (0 bytes); render it again")
