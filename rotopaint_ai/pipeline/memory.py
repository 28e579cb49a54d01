"""What the C library keeps of memory that is free again. On Linux only; elsewhere nothing is asked of it."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt(3)
_LARGE = 8 << 20  # bytes; with a megabyte, arrays of a crop too are fetched anew each time: a sixth more work


def hold_no_frames() -> None:
    """Let large blocks, such as frames, go back to the system as soon as they are free.

    glibc raises the size from which it does so to that of the largest block it has seen, and frames of a run then lie
    scattered in its arenas.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def give_back() -> None:
    """Return everything that is free to the system."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
