"""Pictures that are decoded when they are first wanted, and kept as long as memory allows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast, overload

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
Check = Callable[[], None]
Size = tuple[int, int]  # width, height

MEMORY_SHARE = 0.4  # of the machine's memory, for pictures that were decoded


def target_size(size: Size, factor: float) -> Size:
    """What `smaller` makes of a picture of a size."""
    if factor >= 0.98:
        return size
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def smaller(picture: Picture, factor: float) -> Picture:
    """A picture shrunk by area averaging; as it is where that would change next to nothing."""
    size = picture.shape[1], picture.shape[0]
    wanted = target_size(size, factor)
    return picture if wanted == size else cast(Picture, cv2.resize(picture, wanted, interpolation=cv2.INTER_AREA))


@dataclass(slots=True)
class Streamed(Sequence[Picture]):
    """Pictures by row, from `read(row)`, shrunk by their factors. `on_disk` are the sizes that `read` gives.

    `fetch(row, check)` brings what a row needs to this machine.
    """

    read: Callable[[int], Picture]
    on_disk: Sequence[Size]
    factors: Sequence[float]
    fetch: Callable[[int, Check], None] = lambda row, check: None
    budget_bytes: float = field(default_factory=lambda: MEMORY_SHARE * memory_bytes())
    _kept: dict[int, Picture] = field(init=False, default_factory=dict)
    _n_bytes: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    reading_s: float = field(init=False, default=0.0)  # in which pictures were read and decoded

    def __len__(self) -> int:
        return len(self.on_disk)

    @overload
    def __getitem__(self, row: int) -> Picture: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Picture]: ...
    def __getitem__(self, row: int | slice) -> Picture | Sequence[Picture]:
        if isinstance(row, slice):
            return [self[at] for at in range(*row.indices(len(self)))]
        kept = self._kept.get(row)
        return self._decoded(row) if kept is None else kept

    def _decoded(self, row: int) -> Picture:
        start = time.perf_counter()
        picture = smaller(self.read(row), self.factors[row])
        with self._lock:
            self.reading_s += time.perf_counter() - start
            if row not in self._kept and self._n_bytes + picture.nbytes <= self.budget_bytes:
                self._kept[row] = picture
                self._n_bytes += picture.nbytes
        return picture

    @property
    def sizes(self) -> list[Size]:
        """Width and height of every picture, without decoding any."""
        return [target_size(size, factor) for size, factor in zip(self.on_disk, self.factors)]

    def smaller(self, factor: float) -> Streamed:
        """The same pictures shrunk again."""
        return Streamed(self.__getitem__, self.sizes, [factor] * len(self), self.fetch, self.budget_bytes / 4)


@dataclass(frozen=True, slots=True)
class Joined(Sequence[Picture]):
    """The pictures of one sequence and then of another."""

    first: Sequence[Picture]
    second: Sequence[Picture]

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @overload
    def __getitem__(self, row: int) -> Picture: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Picture]: ...
    def __getitem__(self, row: int | slice) -> Picture | Sequence[Picture]:
        if isinstance(row, slice):
            return [self[at] for at in range(*row.indices(len(self)))]
        return self.first[row] if row < len(self.first) else self.second[row - len(self.first)]

    def fetch(self, row: int, check: Check) -> None:
        """Bring what a row needs to this machine."""
        n = len(self.first)
        fetch(self.first if row < n else self.second, row if row < n else row - n, check)

    @property
    def sizes(self) -> list[Size]:
        """Width and height of every picture."""
        return [*sizes_of(self.first), *sizes_of(self.second)]

    def smaller(self, factor: float) -> Joined:
        """The same pictures shrunk again."""
        return Joined(made_smaller(self.first, factor), made_smaller(self.second, factor))


def sizes_of(pictures: Sequence[Picture]) -> list[Size]:
    """Width and height of every picture, decoding none."""
    if isinstance(pictures, (Streamed, Joined)):
        return pictures.sizes
    return [(picture.shape[1], picture.shape[0]) for picture in pictures]


def fetch(pictures: Sequence[Picture], row: int, check: Check) -> None:
    """Bring what a row needs to this machine, where it is not here; `check` may raise to stop."""
    if isinstance(pictures, (Streamed, Joined)):
        pictures.fetch(row, check)


def reading_s(pictures: Sequence[Picture]) -> float:
    """The seconds in which pictures were read and decoded; none for those that lay in memory from the start."""
    if isinstance(pictures, Joined):
        return reading_s(pictures.first) + reading_s(pictures.second)
    return pictures.reading_s if isinstance(pictures, Streamed) else 0.0


def made_smaller(pictures: Sequence[Picture], factor: float) -> Sequence[Picture]:
    """Every picture shrunk, now or when it is first wanted."""
    if isinstance(pictures, (Streamed, Joined)):
        return pictures.smaller(factor)
    return tuple(smaller(picture, factor) for picture in pictures)


def memory_bytes() -> int:
    """This machine's memory."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30
