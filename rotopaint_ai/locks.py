"""Locks that keep a second process out of a folder, on every system and disk.

Where the disk supports the operating system's locks, these are used; elsewhere a marker file that names the owner's
process and host. Neither depends on a clock. A symbolic link in place of the lock file is refused, never followed.

The Python of a host such as Nuke has no filelock; there the operating system's lock on the same file is used.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rotopaint_ai.errors import BusyError, UsageError

# Errors of disks without locks; for ENOSYS the library itself falls back to a marker.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP}


class _Lock(Protocol):
    def release(self) -> None: ...


class FileLock:
    """A lock that is held until `release`, or until its process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises: BlockingIOError where another process has it; OSError from the disk."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock: _Lock = _library_lock(path)
        except ModuleNotFoundError:
            self._lock = _HostLock(path)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()


def _library_lock(path: Path) -> _Lock:
    import filelock

    def acquire(lock: filelock.BaseFileLock) -> filelock.BaseFileLock:
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise BlockingIOError(errno.EWOULDBLOCK, "is locked", lock.lock_file) from error
        return lock

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library warns when it falls back to a marker
            return acquire(filelock.FileLock(path, thread_local=False))
    except OSError as error:
        if error.errno not in _NO_LOCKS or isinstance(error, BlockingIOError):
            raise
        marker = path.with_name(f"{path.name}.owner")  # the lock file exists by now; its presence means nothing
        return acquire(filelock.SoftFileLock(marker, thread_local=False))


class _HostLock:
    """The operating system's lock on the file that filelock also uses, so that the two exclude each other."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            _lock_whole(self._file)
        except OSError as error:
            os.close(self._file)
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise BlockingIOError(errno.EWOULDBLOCK, "is locked", str(path)) from error
            raise

    def release(self) -> None:
        """Let others in."""
        os.close(self._file)


def _lock_whole(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def hold_lock(path: Path, *, refusal: str) -> Iterator[None]:
    """Hold a lock while the block runs. Raises: BusyError(refusal) where another process has it."""
    lock = take(path, refusal=refusal)
    try:
        yield
    finally:
        lock.release()


def take(path: Path, *, refusal: str) -> FileLock:
    """Take a lock and return it. Raises: BusyError(refusal) where another process has it."""
    try:
        return FileLock(path)
    except BlockingIOError as error:
        raise BusyError(refusal) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path}: is a symbolic link, which is never written through; remove it") from error
        raise
