"""Looks at the exposures of a shot, for what the whole shot makes of its seams: on disk, so that memory stays flat."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO

from rotopaint_ai.seams.placement import SeamLook


class LookStore:
    """Looks by the first frame of their exposure, in a file without a name that goes when it is closed, or with the
    process.

    Safe to ask from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._file: IO[bytes] | None = None
        self._folder = Path()
        self._places: dict[int, int] = {}

    def open_in(self, folder: Path) -> None:
        """Keep looks from now on, in this folder. Raises OSError where the disk refuses."""
        self._folder = folder
        with self._used():
            self._file = self._file or tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - see `close`

    def close(self) -> None:
        """Forget all looks."""
        with self._lock:
            self._places.clear()
            if self._file is not None:
                with suppress(OSError):  # what does not fit is forgotten, too
                    self._file.close()
                self._file = None

    def keep(self, frame: int, look: SeamLook) -> None:
        """Keep a look. Raises OSError where the disk refuses."""
        with self._used():
            if self._file is not None:
                self._places[frame] = self._file.seek(0, 2)
                pickle.dump(look, self._file, pickle.HIGHEST_PROTOCOL)

    def look_up(self, frame: int) -> SeamLook | None:
        """A kept look; None where it is not kept. Raises OSError where the disk refuses."""
        with self._used():
            if self._file is None or frame not in self._places:
                return None
            self._file.seek(self._places[frame])
            found = pickle.load(self._file)
        assert isinstance(found, SeamLook)
        return found

    @contextmanager
    def _used(self) -> Iterator[None]:
        """By one thread at a time; an error of the disk names the folder, for the file has no name."""
        with self._lock:
            try:
                yield
            except OSError as error:
                error.filename = error.filename or str(self._folder)
                raise
