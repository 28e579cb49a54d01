"""Filled crops of the frames around a frame, made once and kept as long as somebody near may ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.seams.temporal import REACH, Still, distinct

Look = Callable[[int], Still | None]


class Neighbours:
    """Stills by frame; safe to ask from several threads, each made by the first who asks.

    A neighbour that cannot be read is left out: its own turn will tell why.
    """

    def __init__(self, frames: Sequence[int], look: Look, *, kept: int) -> None:
        self._frames = sorted(frames)
        self._look = look
        self._kept = kept
        self._stills: OrderedDict[int, tuple[Lock, list[Still | None]]] = OrderedDict()
        self._lock = Lock()

    def of(self, frame: int, now: Still) -> tuple[list[Still], list[Still]]:
        """Neighbours before and after a frame, nearest first, as far as REACH other exposures."""
        row = self._frames.index(frame)
        return self._side(self._frames[:row][::-1], now), self._side(self._frames[row + 1 :], now)

    def _side(self, frames: Sequence[int], now: Still) -> list[Still]:
        found: list[Still] = []
        for frame in frames:
            still = self._at(frame)
            if still is None:
                break
            found.append(still)
            if len(distinct([now, *found])) > REACH:
                break
        return found

    def _at(self, frame: int) -> Still | None:
        with self._lock:
            lock, slot = self._stills.setdefault(frame, (Lock(), []))
            self._stills.move_to_end(frame)
            while len(self._stills) > self._kept:
                self._stills.popitem(last=False)
        with lock:
            if not slot:
                slot.append(self._made(frame))
            return slot[0]

    def _made(self, frame: int) -> Still | None:
        try:
            return self._look(frame)
        except RotopaintError:
            return None
