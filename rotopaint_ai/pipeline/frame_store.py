"""Frames and looks that the first pass of a run keeps for later passes.

Frames are kept in memory, so that a short shot is read once. Looks at the exposures, from which the seams of the whole
shot are solved, are kept on disk, so that memory does not grow with the shot.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import IO, Any

from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.seams.placement import SeamLook

MOST_BYTES = 192 << 20  # the surroundings of a face of a third of a 1080p plate's height, in half floats, for 80 frames


class FrameStore:
    """The first frames of a shot, up to `most_bytes` of pixels; thread-safe.

    The caller must check whether a frame's file has changed since.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._lock = Lock()
        self._left = most_bytes
        self._frames: dict[int, Frame] = {}

    @property
    def has_room(self) -> bool:
        """Whether a frame might still be kept."""
        return self._left > 0

    def keep(self, frame: Frame) -> None:
        """Keep the pixels of a frame in memory, if it was read for writing and there is room.

        After the first frame without room, no further frames are kept.
        """
        if frame.native is None:
            return
        rest: Any = frame.native.picture.rest
        n_bytes = int(frame.codes.nbytes) + (0 if rest is None else int(rest.nbytes))
        with self._lock:
            self._left = self._left - n_bytes if n_bytes < self._left else 0
            if self._left:
                self._frames[frame.number] = replace(frame)  # without the linear pixels that it may have made

    def look_up(self, frame: int, area: Area | None) -> Frame | None:
        """A kept frame; None where it is not kept, or lacks pixels of the area (None: of the picture)."""
        found = self._frames.get(frame)
        return found if found is not None and found.has(area) else None

    def take(self, frame: int, area: Area | None) -> Frame | None:
        """As `look_up`, and drop the frame from the store."""
        found = self.look_up(frame, area)
        with self._lock:
            self._frames.pop(frame, None)
        return found


class LookStore:
    """Looks by the first frame of their exposure, in an unnamed temporary file that disappears with the process.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._file: IO[bytes] | None = None
        self._folder = Path()
        self._places: dict[int, int] = {}

    def open_in(self, folder: Path) -> None:
        """Keep looks in this folder from now on. Raises: OSError where the disk refuses."""
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
        """Lock the file for one thread; errors of the disk name the folder, because the file has no name."""
        with self._lock:
            try:
                yield
            except OSError as error:
                error.filename = error.filename or str(self._folder)
                raise
