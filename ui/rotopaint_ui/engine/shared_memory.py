"""Memory shared by two processes: one writes a picture, the other reads it. No Qt.

A picture through a pipe costs the GUI thread a copy for every few kilobytes (measured: 15 ms for 1920 x 1080, 66 ms for
4K); through a mapped file it costs one copy. The file lies on a memory file system. The process that made it sends its
name, which is removed as soon as the other process has opened it, so that a crash leaves nothing behind.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_MEMORY = Path("/dev/shm")  # Linux; elsewhere the system keeps a temporary file that is mapped in memory all the same


class SharedMemoryWriter:
    """The writing side. Makes a larger window when a picture does not fit."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._path: Path | None = None

    def room(self, size: int) -> tuple[memoryview, str] | None:
        """Memory of `size` bytes to write to, and the window's name; None where there is not enough memory."""
        if self._map is None or len(self._map) < size:
            self.close()
            try:
                self._map, self._path = _make_window(size)
            except OSError:
                return None
        return memoryview(self._map)[:size], str(self._path)

    def close(self) -> None:
        """Free the memory."""
        if self._map is not None:
            with suppress(BufferError):
                self._map.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._map = self._path = None


class SharedMemoryReader:
    """The reading side."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._name = ""

    def view(self, name: str, size: int) -> memoryview:
        """The first `size` bytes of the window of that name. Raises OSError."""
        if name != self._name or self._map is None:
            self.close()
            with Path(name).open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            self._name = name
            with suppress(OSError):  # where an open file keeps its name (Windows), its maker takes it away
                Path(name).unlink()
        return memoryview(self._map)[:size]

    def close(self) -> None:
        """Close the window."""
        if self._map is not None:
            with suppress(BufferError):
                self._map.close()
        self._map, self._name = None, ""


def _make_window(size: int) -> tuple[mmap.mmap, Path]:
    """Create a window. Its memory is reserved at once, because a write to memory that is missing would kill the
    process."""
    handle, name = tempfile.mkstemp(prefix="rotopaint-", dir=_MEMORY if _MEMORY.is_dir() else None)
    path = Path(name)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.truncate(handle, size)
        return mmap.mmap(handle, size), path
    except (OSError, ValueError) as error:
        path.unlink(missing_ok=True)
        raise OSError(f"no memory for a picture of {size} bytes: {error}") from error
    finally:
        os.close(handle)
