"""Locks that keep a second process out of a folder, on every system and disk.

The operating system's own locks where the disk has them, a marker file with its owner's process and host where not.
Neither looks at a clock. A link in the lock's place is refused, never followed.
"""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rotopaint_ai.errors import UsageError

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP}  # of disks that have none; with ENOSYS the library helps itself


class FileLock:
    """A lock that is held until `release`, or until its process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises: BlockingIOError where another process has it; OSError where the disk refuses."""
        import filelock

        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the library warns when it falls back to a marker by itself
                self._lock: filelock.BaseFileLock = filelock.FileLock(path, thread_local=False)
                self._acquire()
        except OSError as error:
            if error.errno not in _NO_LOCKS or isinstance(error, BlockingIOError):
                raise
            marker = path.with_name(f"{path.name}.owner")  # the lock file itself is there by now, and says nothing
            self._lock = filelock.SoftFileLock(marker, thread_local=False)
            self._acquire()

    def _acquire(self) -> None:
        import filelock

        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise BlockingIOError(errno.EWOULDBLOCK, "is locked", self._lock.lock_file) from error

    def release(self) -> None:
        """Let others in."""
        self._lock.release()


@contextmanager
def locked(path: Path, *, refusal: str) -> Iterator[None]:
    """Keep other processes out for as long as the block runs. Raises: UsageError(refusal) where one is there."""
    lock = take(path, refusal=refusal)
    try:
        yield
    finally:
        lock.release()


def take(path: Path, *, refusal: str) -> FileLock:
    """A lock, taken. Raises: UsageError(refusal) where another process has it."""
    try:
        return FileLock(path)
    except BlockingIOError as error:
        raise UsageError(refusal) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path}: is a link, and nothing is written through links; remove it") from error
        raise
