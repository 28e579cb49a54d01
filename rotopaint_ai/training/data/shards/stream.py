"""The order of samples; pictures decoded on demand and cached while memory lasts; shards fetched in advance."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast, overload

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import CancelledError, RotopaintError

WINDOW = 8  # shards whose pictures are mixed
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sampler:
    """The order of n samples under a seed. `groups` says which shard each lies in; None: anywhere at hand."""

    n: int
    seed: int
    groups: tuple[int, ...] | None = None
    window: int = WINDOW

    def batch(self, step: int, count: int) -> list[int]:
        """The rows of a step's whole batch: all samples once, in an order of their own, before any comes again."""
        rows: list[int] = []
        at, end = step * count, (step + 1) * count
        while at < end:
            rest = self.epoch(at // self.n)[at % self.n :][: end - at]
            rows += [int(row) for row in rest]
            at += len(rest)
        return rows

    def epoch(self, number: int) -> Rows:
        """The order of an epoch."""
        return _epoch(self, number)

    def ahead(self, step: int, count: int) -> list[int]:
        """A row of each shard in the order in which they are wanted from a step on, into the next epoch.

        Empty without shards.
        """
        if self.groups is None:
            return []
        number, at = divmod(step * count, self.n)
        rows = np.concatenate([self.epoch(number)[at:], self.epoch(number + 1)])
        _, first = np.unique(np.asarray(self.groups)[rows], return_index=True)
        return [int(rows[place]) for place in np.sort(first)]


@lru_cache(maxsize=4)
def _epoch(order: Sampler, number: int) -> Rows:
    rng = np.random.default_rng((order.seed, number, 99))
    if order.groups is None:
        return rng.permutation(order.n)
    groups = np.asarray(order.groups)
    shards = rng.permutation(np.unique(groups))
    windows = [shards[i : i + order.window] for i in range(0, len(shards), order.window)]
    return np.concatenate([rng.permutation(np.flatnonzero(np.isin(groups, window))) for window in windows])


Picture = npt.NDArray[np.uint8]
Check = Callable[[], None]
Size = tuple[int, int]  # width, height

MEMORY_SHARE = 0.4  # share of the machine's memory for decoded pictures
_keepers = 1  # processes that keep pictures, each its own


def keep_less(processes: int) -> None:
    """Limit this process's picture cache to its share among so many processes."""
    global _keepers
    _keepers = processes


def target_size(size: Size, factor: float) -> Size:
    """The size of a picture after `smaller`."""
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

    `fetch(row, check)` brings what a row needs to this machine, `bring(row)` its bytes to memory.
    """

    read: Callable[[int], Picture]
    on_disk: Sequence[Size]
    factors: Sequence[float]
    fetch: Callable[[int, Check], None] = lambda row, check: None
    budget_bytes: float = field(default_factory=lambda: MEMORY_SHARE * memory_bytes())
    bring: Callable[[int], None] = lambda row: None
    _kept: dict[int, Picture] = field(init=False, default_factory=dict)
    _n_bytes: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    reading_s: float = field(init=False, default=0.0)  # in which bytes came to memory
    decoding_s: float = field(init=False, default=0.0)

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
        self.bring(row)
        came = time.perf_counter()
        picture = smaller(self.read(row), self.factors[row])
        with self._lock:
            self.reading_s += came - start
            self.decoding_s += time.perf_counter() - came
            if row not in self._kept and self._n_bytes + picture.nbytes <= self.budget_bytes / _keepers:
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
        """Fetch the shard of a row to this machine."""
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


def reading_and_decoding_s(pictures: Sequence[Picture]) -> tuple[float, float]:
    """The seconds in which pictures' bytes came to memory, and were decoded; none for those that were there before."""
    if isinstance(pictures, Joined):
        pairs = zip(reading_and_decoding_s(pictures.first), reading_and_decoding_s(pictures.second))
        reading, decoding = (a + b for a, b in pairs)
        return reading, decoding
    return (pictures.reading_s, pictures.decoding_s) if isinstance(pictures, Streamed) else (0.0, 0.0)


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


Ahead = Callable[
    [int], Sequence[int]
]  # rows, one of each shard, in the order in which a step and those after want them


@contextlib.contextmanager
def fetching(pictures: Sequence[Picture], ahead: Ahead, depth: int = WINDOW) -> Iterator[Callable[[int], None]]:
    """Fetch the next `depth` shards while the block runs; call the yielded function at each step.

    A shard that cannot be fetched raises when its picture is read; the shards after it are still fetched.
    """
    if not ahead(0):
        yield lambda step: None
        return
    is_over, running = threading.Event(), Future[None]()
    running.set_result(None)

    def check() -> None:
        if is_over.is_set():
            raise CancelledError("training is over")

    def tell(step: int) -> None:
        nonlocal running
        if running.done():
            running = pool.submit(_fetch_next, pictures, ahead(step)[:depth], check)

    with ThreadPoolExecutor(1, "shards") as pool:
        try:
            yield tell
        finally:
            is_over.set()


def _fetch_next(pictures: Sequence[Picture], rows: Sequence[int], check: Check) -> None:
    for row in rows:
        with contextlib.suppress(RotopaintError, OSError):  # the error is raised where the picture is used
            fetch(pictures, row, check)
        check()
