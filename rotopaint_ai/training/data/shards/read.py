"""Random access to pictures in shards, decoded straight from the memory-mapped file."""

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
MOST_OPEN = 64  # shards open at once; eight are mixed (`stream.WINDOW`)


@dataclass(slots=True)
class ShardPictures:
    """The pictures of a sharded data set; thread-safe.

    Shards are opened on demand. When too many are open, the one opened first is closed.
    """

    store: ShardStore
    index: Index
    _places: dict[str, int] = field(init=False)
    _open: dict[int, mmap.mmap] = field(init=False, default_factory=dict)
    # per open shard: members whose CRC has been checked
    _whole: dict[int, set[str]] = field(init=False, default_factory=dict)
    _locks: tuple[threading.Lock, ...] = field(init=False)
    _keeping: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._places = self.index.places()
        self._locks = tuple(threading.Lock() for _ in self.index.shards)

    def shard_of(self, name: str) -> int:
        """The number of the shard that contains a picture. Raises TrainingError if none does."""
        try:
            return self._places[name]
        except KeyError:
            raise TrainingError(f"{name}: no shard holds it; pack the data set again") from None

    def data(self, name: str) -> memoryview:
        """The bytes of a picture's file. Raises TrainingError if their CRC is not that of the index."""
        number, member = self.shard_of(name), self._member(name)
        found = memoryview(self._open_shard(number))[member.offset : member.offset + member.size]
        whole = self._whole.setdefault(number, set())
        if name not in whole:
            if crc32(found) != member.crc32:
                path = self.store.shard(self.index.shards[number])
                raise TrainingError(
                    f"{path}: {name} in it changed after it was packed; copy the shard again, or delete it if it comes "
                    "from a server"
                )
            whole.add(name)
        return found

    def fetch(self, name: str, check: Callable[[], None] = lambda: None) -> None:
        """Download the shard that contains a picture if necessary; `check` is called repeatedly and may raise to
        stop."""
        self._open_shard(self.shard_of(name), check)

    def picture(self, name: str) -> Picture:
        """A picture: (H, W, 3) RGB. Raises TrainingError if it cannot be decoded."""
        if self._member(name).number is not None:
            return self._pictures_of_clip([name])[0]
        found = decode(self.data(name))
        if found is None:
            raise self._unreadable(name)
        return found

    def clip(self, names: Sequence[str], size: tuple[int, int]) -> Picture:
        """Pictures of one size (width, height) as (T, H, W, 3) RGB, decoded in place, in parallel on all cores.

        Raises TrainingError if one cannot be decoded or has another size.
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
        """Decode pictures that share one position of a shard: one clip, or one file."""
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
        """The pictures of one clip, each cropped to its own size."""
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

    def _open_shard(self, number: int, check: Callable[[], None] = lambda: None) -> mmap.mmap:
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
            with contextlib.suppress(FileNotFoundError):  # another process deleted it to make room in a full cache
                return _map(path, shard)
        raise TrainingError(
            f"{path}: is deleted as soon as it is downloaded: the trainings running now need more than the cache may "
            "keep; give each training its own ROTOPAINT_CACHE"
        )

    def _keep_open(self, number: int, mapped: mmap.mmap) -> None:
        """Record an open shard and close the oldest ones: each takes a file descriptor and space in the cache."""
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
