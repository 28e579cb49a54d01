"""Frames that the first pass of a run has read, in memory for what comes after it: a short shot is read once."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Any

from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area

MOST_BYTES = 192 << 20  # the surroundings of a face of a third of a 1080p plate's height, in half floats, for 80 frames


class FrameStore:
    """The first frames of a shot, up to `most_bytes` of pixels. Safe to ask from several threads.

    Whether a frame's file still is what it was is for the caller to know.
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
        """Keep the pixels of a frame that are in memory, where it was read for writing and there is room; once there is
        none, nothing more is kept."""
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
        """The same; it is kept no longer."""
        found = self.look_up(frame, area)
        with self._lock:
            self._frames.pop(frame, None)
        return found
