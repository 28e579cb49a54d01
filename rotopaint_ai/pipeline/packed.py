"""Keys and landmarks of a long shot in arrays, which look like the tables that a document holds.

A control point of plain Python numbers takes 250 bytes, six numbers of an array 48. Frames of a hold share a row.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Generic, TypeVar

from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark

V = TypeVar("V")
Row = Sequence[float]
_UNSEEN = (nan, nan, nan)


class Packed(Mapping[int, V], Generic[V]):
    """Values by frame, in ascending order of frames; each is made of its numbers when it is asked for."""

    def __init__(self, make: Callable[[list[float]], V]) -> None:
        self._make = make
        self._numbers = array("d")
        self._ends = array("q", [0])  # where the numbers of each row end, after the first
        self._row: dict[int, int] = {}
        self._last: tuple[int, V] | None = None

    def add(self, frame: int, numbers: Sequence[float]) -> None:
        """Put numbers at a frame; equal to those of the call before, they are the same row."""
        added = array("d", numbers)
        if len(self._ends) < 2 or added != self._numbers[self._ends[-2] :]:  # one with NaN equals none
            self._numbers.extend(added)
            self._ends.append(len(self._numbers))
        self._row[frame] = len(self._ends) - 2

    def __getitem__(self, frame: int) -> V:
        row = self._row[frame]
        last = self._last
        if last is None or last[0] != row:
            last = row, self._make(self._numbers[self._ends[row] : self._ends[row + 1]].tolist())
            self._last = last
        return last[1]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._row))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, frame: object) -> bool:
        return frame in self._row


class PackedKeys(Packed[Key]):
    """A shape's keys, from rows of six numbers."""

    def __init__(self) -> None:
        super().__init__(_key)

    def put(self, frame: int, rows: Sequence[Row]) -> None:
        """The key of a frame."""
        self.add(frame, [number for row in rows for number in row])


class PackedLandmarks(Packed[tuple[Landmark | None, ...]]):
    """Landmarks, from rows of three numbers; None where one is not seen."""

    def __init__(self) -> None:
        super().__init__(_landmarks)

    def put(self, frame: int, rows: Sequence[Row | None]) -> None:
        """The landmarks of a frame."""
        self.add(frame, [number for row in rows for number in (Landmark(*row) if row else _UNSEEN)])


def _key(numbers: list[float]) -> Key:
    return Key(tuple(ControlPoint(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)))


def _landmarks(numbers: list[float]) -> tuple[Landmark | None, ...]:
    rows = (numbers[at : at + 3] for at in range(0, len(numbers), 3))
    return tuple(None if isnan(row[0]) else Landmark(*row) for row in rows)
