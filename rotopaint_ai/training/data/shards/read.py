"""Pictures out of shards: any picture at random, decoded straight from the mapped file."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates.coded_pictures import Picture, decode, decode_clip, decode_into
from rotopaint_ai.plates.deflate import crc32
from rotopaint_ai.training.data.shards.store import Index, Member, Shard, ShardStore

_MAP_TRIES = 4
MOST_OPEN = 64  # shards at once; eight are mixed (`stream.WINDOW`)


@dataclass(slots=True)
class ShardPictures:
    """The pictures of a sharded data set. Safe to call from several threads. Shards are opened on demand, and the one
    that was opened first is closed when too many are open."""

    store: ShardStore
    index: Index
    _places: dict[str, int] = field(init=False)
    _open: dict[int, mmap.mmap] = field(init=False, default_factory=dict)
    _whole: dict[int, set[str]] = field(init=False, default_factory=dict)  # of open shards: what is as it was packed
    _locks: tuple[threading.Lock, ...] = field(init=False)
    _keeping: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._places = self.index.places()
        self._locks = tuple(threading.Lock() for _ in self.index.shards)

    def shard_of(self, name: str) -> int:
        """The number of the shard that holds a picture. Raises TrainingError for one that no shard holds."""
        try:
            return self._places[name]
        except KeyError:
            raise TrainingError(f"{name}: no shard holds it; pack the data set again") from None

    def data(self, name: str) -> memoryview:
        """The bytes of a picture's file. Raises TrainingError where they are not those that were packed."""
        number, member = self.shard_of(name), self._member(name)
        found = memoryview(self._mapped(number))[member.offset : member.offset + member.size]
        whole = self._whole.setdefault(number, set())
        if name not in whole:
            if crc32(found) != member.crc32:
                path = self.store.shard(self.index.shards[number])
                raise TrainingError(
                    f"{path}: {name} in it was altered since it was packed; copy it again, or remove it where a server "
                    "gives it anew"
                )
            whole.add(name)
        return found

    def fetch(self, name: str, check: Callable[[], None] = lambda: None) -> None:
        """Fetch the shard that holds a picture; `check` is called now and then and may raise to stop."""
        self._mapped(self.shard_of(name), check)

    def picture(self, name: str) -> Picture:
        """A picture: (H, W, 3) RGB. Raises TrainingError for one that cannot be decoded."""
        if self._member(name).number is not None:
            return self._pictures_of_clip([name])[0]
        found = decode(self.data(name))
        if found is None:
            raise self._unreadable(name)
        return found

    def clip(self, names: Sequence[str], size: tuple[int, int]) -> Picture:
        """Pictures of one size (width, height) as (T, H, W, 3) RGB, decoded in place, side by side on every core.

        Raises TrainingError where one cannot be decoded or has another size.
        """
        clip = np.empty((len(names), size[1], size[0], 3), np.uint8)
        places = [(self.shard_of(name), self._member(name).offset) for name in names]
        rows = [list(run) for _, run in groupby(range(len(names)), places.__getitem__)]
        with ThreadPoolExecutor(max(1, min(len(rows), n_cores()))) as pool:
            for _ in pool.map(
                lambda run: self._decode_into(clip[run[0] : run[-1] + 1], [names[row] for row in run]), rows
            ):
                pass
        return clip

    def _decode_into(self, places: Picture, names: Sequence[str]) -> None:
        """Decode the pictures at one place of a shard."""
        if self._member(names[0]).number is not None:
            found = self._pictures_of_clip(names)
        elif all(decode_into(self.data(name), place) for name, place in zip(names, places)):
            return
        else:
            found = [self.picture(name) for name in names]
        for place, picture, name in zip(places, found, names):
            if picture.shape != place.shape:
                got, wanted = (f"{shape[1]}x{shape[0]}" for shape in (picture.shape, place.shape))
                raise TrainingError(f"{name}: is {got}; wanted {wanted} for a clip of one size")
            place[:] = picture

    def _pictures_of_clip(self, names: Sequence[str]) -> list[Picture]:
        """The pictures of one clip, each at its own size."""
        members = [self._member(name) for name in names]
        try:
            found = decode_clip(self.data(names[0]), [member.number or 0 for member in members])
        except ValueError:
            raise self._unreadable(names[0]) from None
        return [np.ascontiguousarray(p[: member.height, : member.width]) for p, member in zip(found, members)]

    def _unreadable(self, name: str) -> TrainingError:
        shard = self.index.shards[self.shard_of(name)].name
        return TrainingError(f"{shard}: {name} in it cannot be read as a picture; copy the shard again")

    def _member(self, name: str) -> Member:
        return self.index.shards[self.shard_of(name)].members[name]

    def _mapped(self, number: int, check: Callable[[], None] = lambda: None) -> mmap.mmap:
        found = self._open.get(number)
        if found is not None:
            return found
        with self._locks[number]:
            found = self._open.get(number)
            if found is None:
                found = self._map_shard(self.index.shards[number], check)
                self._keep_open(number, found)
            return found

    def _map_shard(self, shard: Shard, check: Callable[[], None]) -> mmap.mmap:
        for _ in range(_MAP_TRIES):
            path = self.store.shard(shard, check)
            with contextlib.suppress(FileNotFoundError):  # deleted by another process to make room in a full cache
                return _map(path, shard)
        raise TrainingError(
            f"{path}: is removed again as soon as it has come: more is read at once than the cache holds; set "
            "ROTOPAINT_CACHE for each training"
        )

    def _keep_open(self, number: int, mapped: mmap.mmap) -> None:
        """Each open shard takes one of the files that a process may have open, and its place on a cache's disk."""
        with self._keeping:
            self._open[number] = mapped
            while len(self._open) > MOST_OPEN:
                oldest = next(iter(self._open))
                del self._open[oldest]
                self._whole.pop(oldest, None)


def _map(path: Path, shard: Shard) -> mmap.mmap:
    with path.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if len(mapped) != shard.n_bytes:
        raise TrainingError(f"{path}: has {len(mapped):,} bytes, the index says {shard.n_bytes:,}; copy it again")
    return mapped
