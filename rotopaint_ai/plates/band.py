"""Some rows of a picture in memory, which look like the whole.

A run holds a dozen frames until their landmarks have settled, and looks at no more of them than the rows round the face
by then. Whoever asks for other rows gets them, from the file, and pays for reading it again.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Band:
    """Rows `first` to `end` (not included) of codes (R, K, C); `again` reads all of them. Not to be written to."""

    def __init__(self, codes: Array, first: int, end: int, again: Callable[[], Array]) -> None:
        self.shape, self.dtype, self.ndim = codes.shape, codes.dtype, codes.ndim
        self.nbytes = codes[first:end].nbytes
        self._first, self._end, self._again = first, end, again
        rows = codes[first:end]
        # memory of its own, which goes back to the system: blocks of this size lie scattered in the C library's
        self._rows: Array = np.ndarray(rows.shape, rows.dtype, mmap.mmap(-1, max(rows.nbytes, 1)))
        self._rows[...] = rows
        self._rows.flags.writeable = False

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, end, _ = rows.indices(self.shape[0])
            if first >= end or self._first <= first <= end <= self._end:
                here = slice(max(first - self._first, 0), max(end - self._first, 0)) if first < end else slice(0, 0)
                found: Array = self._rows[(here, *key[1:]) if isinstance(key, tuple) else here]
                return found
        return np.asarray(self._again()[key])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._again(), dtype)
