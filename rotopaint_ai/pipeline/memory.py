"""What the C library keeps of memory that is free again. On Linux only; elsewhere nothing is asked of it."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Mapping

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # M_... of mallopt(3)
_LARGE = 8 << 20  # bytes; with a megabyte, arrays of a crop too are fetched anew each time: a sixth more work
_SMALL = 128 << 10  # bytes: what glibc begins with, for both
_SPARE = 16 << 20  # bytes that stay at hand; with the 128 KB that they are else, a tenth more work for no less memory


def hold_no_frames() -> None:
    """Let large blocks, such as frames, go back to the system as soon as they are free; to be called before threads
    begin.

    glibc raises the size from which it does so to that of the largest block it has seen, and frames of a run then lie
    scattered in its arenas. Of those one is enough: what one thread has done with serves the next.
    """
    _ask({_MMAP_THRESHOLD: _LARGE, _TRIM_THRESHOLD: _SPARE, _ARENA_MAX: 1})


def give_back() -> None:
    """Return everything that is free to the system, and from then on at once what is larger than a few pages; frames
    that come later want `hold_no_frames` again.
    """
    _ask({_MMAP_THRESHOLD: _SMALL, _TRIM_THRESHOLD: _SMALL}, trim=True)


def _ask(wanted: Mapping[int, int], *, trim: bool = False) -> None:
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            for what, value in wanted.items():
                library.mallopt(what, value)
            if trim:
                library.malloc_trim(0)
