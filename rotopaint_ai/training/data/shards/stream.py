"""The order of samples, pictures decoded on demand and cached, and shards downloaded in advance."""

from __future__ import annotations

import contextlib
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
from rotopaint_ai.numa import memory_bytes

WINDOW = 8  # number of shards whose pictures are shuffled together
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Sampler:
    """The order of n samples, given a seed. `groups`: shard of each sample; None: any order is equally fast."""

    n: int
    seed: int
    groups: tuple[int, ...] | None = None
    window: int = WINDOW

    def batch(self, step: int, count: int) -> list[int]:
        """The rows of a step's whole batch. Every epoch contains each sample once, in its own order."""
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

    def prefetch_rows(self, step: int, count: int) -> list[int]:
        """A row of each shard, in the order of first use from `step` on, up to the end of the next epoch.

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
_cache_sharers = 1  # processes on this machine that each cache pictures


def share_cache(processes: int) -> None:
    """Limit this process's picture cache to its share among `processes`."""
    global _keepers
    _cache_sharers = processes


def target_size(size: Size, factor: float) -> Size:
    """The size of a picture after `shrink_picture`."""
    if factor >= 0.98:
        return size
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def shrink_picture(picture: Picture, factor: float) -> Picture:
    """A picture shrunk by area averaging; unchanged if the factor is close to 1."""
    size = picture.shape[1], picture.shape[0]
    wanted = target_size(size, factor)
    return picture if wanted == size else cast(Picture, cv2.resize(picture, wanted, interpolation=cv2.INTER_AREA))


@dataclass(slots=True)
class PictureStream(Sequence[Picture]):
    """Pictures by row, decoded on demand by `read(row)`, shrunk by their factors and cached.

    `on_disk`: sizes of the pictures that `read` returns. `fetch(row, check)` downloads what a row needs;
    `load_bytes(row)` reads its bytes into memory.
    """

    read: Callable[[int], Picture]
    on_disk: Sequence[Size]
    factors: Sequence[float]
    fetch: Callable[[int, Check], None] = lambda row, check: None
    budget_bytes: float = field(default_factory=lambda: MEMORY_SHARE * memory_bytes())
    load_bytes: Callable[[int], None] = lambda row: None
    _kept: dict[int, Picture] = field(init=False, default_factory=dict)
    _n_bytes: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    reading_s: float = field(init=False, default=0.0)  # time spent reading bytes into memory
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
        return self._decode_row(row) if kept is None else kept

    def _decode_row(self, row: int) -> Picture:
        start = time.perf_counter()
        self.load_bytes(row)
        came = time.perf_counter()
        picture = shrink_picture(self.read(row), self.factors[row])
        with self._lock:
            self.reading_s += came - start
            self.decoding_s += time.perf_counter() - came
            if row not in self._kept and self._n_bytes + picture.nbytes <= self.budget_bytes / _cache_sharers:
                self._kept[row] = picture
                self._n_bytes += picture.nbytes
        return picture

    @property
    def sizes(self) -> list[Size]:
        """Width and height of every picture, without decoding."""
        return [target_size(size, factor) for size, factor in zip(self.on_disk, self.factors)]

    def smaller(self, factor: float) -> PictureStream:
        """The same pictures shrunk again."""
        return PictureStream(self.__getitem__, self.sizes, [factor] * len(self), self.fetch, self.budget_bytes / 4)


@dataclass(frozen=True, slots=True)
class PictureChain(Sequence[Picture]):
    """The concatenation of two picture sequences."""

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
        """Download the shard of a row."""
        n = len(self.first)
        fetch(self.first if row < n else self.second, row if row < n else row - n, check)

    @property
    def sizes(self) -> list[Size]:
        """Width and height of every picture."""
        return [*sizes_of(self.first), *sizes_of(self.second)]

    def smaller(self, factor: float) -> PictureChain:
        """The same pictures shrunk again."""
        return PictureChain(shrink_pictures(self.first, factor), shrink_pictures(self.second, factor))


def sizes_of(pictures: Sequence[Picture]) -> list[Size]:
    """Width and height of every picture, without decoding."""
    if isinstance(pictures, (PictureStream, PictureChain)):
        return pictures.sizes
    return [(picture.shape[1], picture.shape[0]) for picture in pictures]


def fetch(pictures: Sequence[Picture], row: int, check: Check) -> None:
    """Download what a row needs, if necessary; `check` may raise to stop."""
    if isinstance(pictures, (PictureStream, PictureChain)):
        pictures.fetch(row, check)


def reading_and_decoding_s(pictures: Sequence[Picture]) -> tuple[float, float]:
    """Seconds spent reading bytes into memory and decoding; zero for pictures that were loaded before training."""
    if isinstance(pictures, PictureChain):
        pairs = zip(reading_and_decoding_s(pictures.first), reading_and_decoding_s(pictures.second))
        reading, decoding = (a + b for a, b in pairs)
        return reading, decoding
    return (pictures.reading_s, pictures.decoding_s) if isinstance(pictures, PictureStream) else (0.0, 0.0)


def shrink_pictures(pictures: Sequence[Picture], factor: float) -> Sequence[Picture]:
    """Every picture shrunk, now or on first use."""
    if isinstance(pictures, (PictureStream, PictureChain)):
        return pictures.smaller(factor)
    return tuple(shrink_picture(picture, factor) for picture in pictures)


# step -> one row of each shard, in the order of first use from that step on
PrefetchRows = Callable[[int], Sequence[int]]


@contextlib.contextmanager
def prefetch(
    pictures: Sequence[Picture], rows_from: PrefetchRows, depth: int = WINDOW
) -> Iterator[Callable[[int], None]]:
    """Download the next `depth` shards while the block runs; call the yielded function at each step.

    A failed download raises only when its picture is read; later shards are still downloaded.
    """
    if not rows_from(0):
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
            running = pool.submit(_fetch_next, pictures, rows_from(step)[:depth], check)

    with ThreadPoolExecutor(1, "shards") as pool:
        try:
            yield tell
        finally:
            is_over.set()


def _fetch_next(pictures: Sequence[Picture], rows: Sequence[int], check: Check) -> None:
    for row in rows:
        with contextlib.suppress(RotopaintError, OSError):  # the error is raised again where the picture is read
            fetch(pictures, row, check)
        check()
