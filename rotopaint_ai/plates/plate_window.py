"""A picture of which only a rectangle is in memory, with the interface of the whole picture.

A run keeps a dozen frames in memory until their landmarks are final, but it uses only the region around the face.
Access to other pixels reads the file again, which takes time.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_WORTH = 0.85  # a rectangle with more than this share of the pixels is not worth the copy


class Area(NamedTuple):
    """A rectangle in plate space, pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def grown(self, px: float) -> Area:
        """The area grown by `px` pixels on every side."""
        return Area(self.left - px, self.top - px, self.right + px, self.bottom + px)

    def around(self, other: Area) -> Area:
        """The smallest area that holds both."""
        low, high = map(min, self[:2], other[:2]), map(max, self[2:], other[2:])
        return Area(*low, *high)

    def cut(
        self, origin: tuple[int, int], shape: tuple[int, ...], *, lines: int = 1, whole_rows: bool = False
    ) -> PixelRect:
        """The pixels of a data window that the area covers, rounded outwards to multiples of `lines` rows.

        `origin` is the top-left pixel of the data window. Returns the whole window where the area covers no pixel, or
        so many that keeping a part is not worth it.
        """
        rows, columns = shape[:2]
        left, right = (
            (0, columns) if whole_rows else _step_span(self.left - origin[0], self.right - origin[0], columns, 1)
        )
        top, bottom = _step_span(self.top - origin[1], self.bottom - origin[1], rows, lines)
        found = PixelRect(top, bottom, left, right)
        return found if 0 < found.n_pixels <= _WORTH * rows * columns else PixelRect(0, rows, 0, columns)


class PixelRect(NamedTuple):
    """Rows `top` to `bottom` and columns `left` to `right` of a data window; `bottom` and `right` are excluded."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def n_pixels(self) -> int:
        """The number of pixels."""
        return max(self.bottom - self.top, 0) * max(self.right - self.left, 0)

    def holds(self, other: PixelRect) -> bool:
        """Whether the other rectangle lies inside this one."""
        is_high = self.top <= other.top and other.bottom <= self.bottom
        return is_high and self.left <= other.left and other.right <= self.right

    def of(self, codes: Array) -> Array:
        """The pixels of this rectangle, from the codes of a whole picture."""
        return codes[self.top : self.bottom, self.left : self.right]


def _step_span(low: float, high: float, size: int, step: int) -> tuple[int, int]:
    return max(0, floor(low / step) * step), min(size, ceil(high / step) * step)


class WindowedCodes:
    """A frame's codes (R, K, C) with only the pixels `cut` in memory; `again` reads all on access to other pixels.

    Read-only, and for use by one thread."""

    def __init__(self, shape: tuple[int, ...], cut: PixelRect, codes: Array, again: Callable[[], Array]) -> None:
        self.shape, self.dtype, self.ndim = shape, codes.dtype, len(shape)
        self._cut, self._codes, self.again = cut, codes, again
        self._codes.flags.writeable = False

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels in memory."""
        return int(self._codes.nbytes)

    def holds(self, cut: PixelRect) -> bool:
        """Whether the pixels `cut` are in memory."""
        return self._cut.holds(cut)

    def __getitem__(self, key: Any) -> Array:
        asked = self._rect_of_key(key)
        if asked is None or not (asked.n_pixels == 0 or self._cut.holds(asked)):
            return np.asarray(self._all_codes()[key])
        if asked.n_pixels == 0:
            return np.asarray(np.broadcast_to(np.zeros((), self.dtype), self.shape)[key])
        top, bottom, left, right = asked
        y, x = self._cut.top, self._cut.left
        rest = key[2:] if isinstance(key, tuple) else ()
        found: Array = self._codes[(slice(top - y, bottom - y), slice(left - x, right - x), *rest)]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._all_codes(), dtype)

    def narrowed(self, cut: PixelRect) -> WindowedCodes:
        """The same picture with only the pixels `cut` in memory; unchanged where they are not in memory now."""
        if not self._cut.holds(cut) or cut == self._cut:
            return self
        y, x = self._cut.top, self._cut.left
        part = self._codes[cut.top - y : cut.bottom - y, cut.left - x : cut.right - x]
        return WindowedCodes(self.shape, cut, own_copy(part), self.again)

    def _rect_of_key(self, key: Any) -> PixelRect | None:
        """The rectangle that a key of slices selects; None for any other key."""
        parts = (*key[:2], slice(None))[:2] if isinstance(key, tuple) else (key, slice(None))
        if not all(isinstance(part, slice) and part.step in (None, 1) for part in parts):
            return None
        (top, bottom, _), (left, right, _) = (part.indices(size) for part, size in zip(parts, self.shape))
        return PixelRect(top, bottom, left, right)

    def _all_codes(self) -> Array:
        """All pixels. They stay in memory, because a caller usually asks for them again."""
        if self._codes.shape != self.shape:
            self._codes, self._cut = self.again(), PixelRect(0, self.shape[0], 0, self.shape[1])
        return self._codes


def own_memory(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros in memory of their own, which returns to the system when the array is deleted.

    Blocks of this size from the C library's allocator would fragment its memory.
    """
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    try:
        found: Array = np.ndarray(shape, dtype, _pages(max(n_bytes, 1)))
    except OSError as error:
        raise MemoryError(f"no {n_bytes >> 20} MB of memory for pixels") from error
    return found


def _pages(n_bytes: int) -> mmap.mmap:
    """Private memory pages, large ones where available: shared small pages take seven times as long to get."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, n_bytes)  # Windows
    found = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
    return found


def own_copy(codes: Array) -> Array:
    """A copy of the codes in memory from `own_memory`."""
    copied = own_memory(codes.shape, codes.dtype)
    copied[...] = codes
    return copied
