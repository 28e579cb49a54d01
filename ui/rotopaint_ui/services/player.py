"""Playback at the plate's own rate: frames that are not decoded in time are dropped, the clock is not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from rotopaint_ui.engine.frame_cache import PLATE, FrameCache
from rotopaint_ui.session.session import ShotSession

AHEAD = 12  # frames requested ahead of the current one
MEASURE_S = 1.0


class Player(QObject):
    """Steps the session through the plate, or a range of it, in a loop.

    Each tick shows the frame that is due. If it is not decoded yet, the newest decoded frame since the shown one is
    shown, or the picture stays. The screen never waits for the disk.
    """

    measured = Signal(float, int)  # frames shown in a second, frames dropped in it; 0, 0 when playing ends

    def __init__(
        self,
        session: ShotSession,
        frame_cache: FrameCache,
        parent: QObject,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(parent)
        self._session, self._frames, self._clock = session, frame_cache, clock
        self._range: tuple[int, int] | None = None
        self._timer = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)
        self._began = 0.0
        self._place = 0  # steps from the frame where playing began to the one that is shown
        self._start = 0
        self._asked = -1
        self._on_disk: frozenset[int] = frozenset()
        self._shown: deque[tuple[float, int]] = deque()  # when a frame came on the screen, how many were dropped for it
        self._last_report = 0.0

    @property
    def is_playing(self) -> bool:
        """Whether it plays."""
        return self._timer.isActive()

    @property
    def range(self) -> tuple[int, int] | None:
        """The range of frames to play, both ends included; None: the whole plate."""
        return self._range

    def set_range(self, first: int | None, last: int | None) -> None:
        """Play only a range, or (None) all of the plate."""
        self._range = None if first is None or last is None else (min(first, last), max(first, last))
        self._restart()

    def play(self, on: bool) -> bool:
        """Start or stop; returns whether it plays now."""
        plate = self._session.plate
        if on and plate is not None:
            self._restart()
            self._timer.start(max(round(500 / plate.fps), 4))  # twice a frame: a late tick costs half of one
        else:
            self._timer.stop()
            self._shown.clear()
            self.measured.emit(0.0, 0)
        return self.is_playing

    def tick(self) -> None:
        """Show the frame that is due, and request the next ones."""
        session, plate = self._session, self._session.plate
        if plate is None or session.edits.is_dragging:
            return
        if session.frame != self._frame_at(self._place):
            self._restart()  # the artist went to another frame: continue there
        due = int((self._clock() - self._began) * plate.fps)
        best = next((place for place in range(due, self._place, -1) if self._is_there(place)), None)
        if best is not None:
            self._measure_rate(best - self._place - 1)
            self._place = best
            session.go_to(self._frame_at(best))
        if best is not None or due != self._asked:
            self._asked = due
            ahead = dict.fromkeys(self._frame_at(due + step) for step in range(1, AHEAD + 1))
            self._frames.want([(PLATE, frame) for frame in ahead if frame in self._on_disk])

    def _restart(self) -> None:
        plate = self._session.plate
        if plate is None:
            return
        self._on_disk = frozenset(plate.frames)
        first, last = self._play_bounds()
        self._start = self._session.frame if first <= self._session.frame <= last else first
        self._began, self._place, self._asked = self._clock(), 0, -1
        if self._start != self._session.frame:
            self._session.go_to(self._start)

    def _play_bounds(self) -> tuple[int, int]:
        plate = self._session.plate
        assert plate is not None
        first, last = self._range or (plate.first, plate.last)
        first, last = max(first, plate.first), min(last, plate.last)
        return (first, last) if first <= last else (plate.first, plate.last)  # a range of another shot

    def _frame_at(self, place: int) -> int:
        first, last = self._play_bounds()
        return first + (self._start - first + place) % (last - first + 1)

    def _is_there(self, place: int) -> bool:
        """Whether a frame can be shown now: decoded, or known not to be."""
        frame = self._frame_at(place)
        if frame not in self._on_disk or (PLATE, frame) in self._frames.broken:
            return True
        return self._frames.has(PLATE, frame)

    def _measure_rate(self, dropped: int) -> None:
        now = self._clock()
        self._shown.append((now, dropped))
        while now - self._shown[0][0] > MEASURE_S:
            self._shown.popleft()
        if now - self._last_report >= MEASURE_S:
            self._last_report = now
            self.measured.emit(len(self._shown) / MEASURE_S, sum(each for _, each in self._shown))
