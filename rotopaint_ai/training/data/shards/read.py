"""Pictures out of shards: any picture at random, decoded straight from the mapped file; and clips of pictures.

A clip is a few pictures of one shot as a small h264 movie, a member of a shard like any picture. It begins with its
only key picture, so that any picture of a shot is reached by decoding `CLIP_LENGTH` at most. Pictures of other sizes
are grown at the right and below to that of the clip, and cut again when they are read. Kept are planes (I420).
"""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates.deflate import crc32
from rotopaint_ai.training.data.shards.store import Index, Member, Shard, ShardStore

Picture = npt.NDArray[np.uint8]
_MAP_TRIES = 4
MOST_OPEN = 64  # shards at once; eight are mixed (`stream.WINDOW`)
RAW = b"\x93NUMPY"  # how a file of one array begins
_JPEG, _PNG = b"\xff\xd8", b"\x89PNG\r\n\x1a\n"


@dataclass(slots=True)
class ShardPictures:
    """The pictures of a sharded data set. Safe to ask from several threads; shards are opened when they are wanted, the
    one that was opened first is let go where there are many."""

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
        """Have the shard that holds a picture at hand; `check` is called now and then and may raise to stop."""
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
            for _ in pool.map(lambda run: self._put(clip[run[0] : run[-1] + 1], [names[row] for row in run]), rows):
                pass
        return clip

    def _put(self, places: Picture, names: Sequence[str]) -> None:
        """Decode pictures that lie at one place of a shard."""
        if self._member(names[0]).number is not None:
            found = self._pictures_of_clip(names)
        elif all(_decode_into(self.data(name), place) for name, place in zip(names, places)):
            return
        else:
            found = [self.picture(name) for name in names]
        for place, picture, name in zip(places, found, names):
            if picture.shape != place.shape:
                got, wanted = (f"{shape[1]}x{shape[0]}" for shape in (picture.shape, place.shape))
                raise TrainingError(f"{name}: is {got}; wanted {wanted} for a clip of one size")
            place[:] = picture

    def _pictures_of_clip(self, names: Sequence[str]) -> list[Picture]:
        """Pictures that lie in one clip, each of its own size."""
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
            with contextlib.suppress(FileNotFoundError):  # whose room somebody else needed, where the cache is full
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


_RAW_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '\|u1', 'fortran_order': False, 'shape': \((?P<rows>\d+), (?P<columns>\d+)(?P<rgb>, 3)?\), \} *\n",
    re.DOTALL,
)


def decode(data: memoryview | bytes) -> Picture | None:
    """A JPEG, a PNG or a raw picture as (H, W, 3) RGB, None where it is none, or one too large; JPEG by the fastest
    decoder that is installed.

    A raw one (.npy of three dimensions) is no copy: it lies where `data` does, and cannot be written to. One of two
    dimensions holds planes: the brightness of every pixel, then both colour differences at half size (I420).
    """
    if bytes(data[:6]) == RAW:
        stored = _stored(data)
        return stored if stored is None or stored.ndim == 3 else _from_planes(stored)
    try:
        return _by_decoder(data) if 0 < _promised_pixels(data) <= _MOST_PIXELS else None
    except (ValueError, cv2.error):
        return None


def _promised_pixels(data: memoryview | bytes) -> int:
    """How many pixels a JPEG or PNG says it has, which costs nothing; 0 for anything else."""
    head, fast = bytes(data[:24]), _fast_jpeg()
    if head[:8] == _PNG and len(head) == 24:
        return int.from_bytes(head[16:20]) * int.from_bytes(head[20:])
    if head[:2] != _JPEG:
        return 0
    return math.prod(fast.decode_jpeg_header(data)[:2]) if fast else 1  # OpenCV has a limit of its own, 2^30


def _by_decoder(data: memoryview | bytes) -> Picture | None:
    fast = _fast_jpeg()
    if fast is not None and bytes(data[:2]) == _JPEG:
        return cast(Picture, fast.decode_jpeg(data))
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return None if found is None else cast(Picture, cv2.cvtColor(found, cv2.COLOR_BGR2RGB))


def planes(picture: Picture) -> Picture | None:
    """A picture (H, W, 3) as planes (H * 3 / 2, W), as movies keep theirs; None where a side is odd."""
    height, width = picture.shape[:2]
    return None if height % 2 or width % 2 else cast(Picture, cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420))


def _from_planes(stored: Picture, place: Picture | None = None) -> Picture | None:
    """The picture of its planes, in an array of its size where one is given; None where they are those of none."""
    try:
        return cast(Picture, cv2.cvtColor(stored, cv2.COLOR_YUV2RGB_I420, dst=place))
    except cv2.error:
        return None


def _stored(data: memoryview | bytes) -> Picture | None:
    """The array in a .npy file."""
    # numpy's own reader takes the header for Python source; its parser fails at random under Python 3.11
    head = _RAW_HEAD.match(bytes(data[:256]))
    if head is None or head.end() != 10 + int.from_bytes(head["length"], "little"):
        return None
    try:
        shape = (int(head["rows"]), int(head["columns"]), *((3,) if head["rgb"] else ()))
        return np.frombuffer(data, np.uint8, offset=head.end()).reshape(shape)
    except ValueError:
        return None


def _decode_into(data: memoryview, place: Picture) -> bool:
    """Decode a JPEG or planes of just that size into an array; False, and nothing of worth in it, where not."""
    if bytes(data[:6]) == RAW:
        stored = _stored(data)
        fits = stored is not None and stored.shape == (place.shape[0] * 3 // 2, place.shape[1])
        return stored is not None and fits and _from_planes(stored, place) is not None
    fast = _fast_jpeg()
    try:
        if fast is None or fast.decode_jpeg_header(data)[:2] != place.shape[:2]:
            return False
        fast.decode_jpeg(data, buffer=place)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1)
def _fast_jpeg() -> Any:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


CLIP_LENGTH = 12
CLIP_SUFFIX = ".mp4"
_ENCODER, _DECODER = "libx264", "h264"
_OPTIONS = {"crf": "18", "tune": "fastdecode", "bf": "0", "sc_threshold": "0"}
_MOST_PIXELS = 64 << 20  # of one picture, before memory is asked for


def encode_clip(pictures: Sequence[Picture]) -> bytes:
    """Pictures (H, W, 3) RGB as one movie; the same bytes for the same pictures on one machine."""
    import av  # costs its start, and few data sets are in clips

    height, width = (max(picture.shape[axis] for picture in pictures) + 1 & ~1 for axis in (0, 1))
    file = io.BytesIO()
    with av.open(file, "w", format="mp4", options={"fflags": "+bitexact"}) as movie:
        stream = cast(Any, movie.add_stream(_ENCODER, rate=24, options=_OPTIONS))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.thread_count = CLIP_LENGTH, 1
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(_enlarged(picture, height, width), format="yuv420p")
            movie.mux(stream.encode(frame))
        movie.mux(stream.encode())
    return file.getvalue()


def _enlarged(picture: Picture, height: int, width: int) -> Picture:
    below, right = height - picture.shape[0], width - picture.shape[1]
    grown = cv2.copyMakeBorder(picture, 0, below, 0, right, cv2.BORDER_REPLICATE)
    return cast(Picture, cv2.cvtColor(grown, cv2.COLOR_RGB2YUV_I420))


def decode_clip(data: memoryview | bytes, numbers: Sequence[int]) -> list[Picture]:
    """Pictures of a clip by number, RGB, of the clip's size. Raises ValueError where one cannot be decoded, as in a
    movie that `encode_clip` does not make."""
    import av

    wanted, found = set(numbers), {}
    try:
        with cast(Any, av.open(io.BytesIO(data), "r", format="mp4")) as movie:
            stream = movie.streams.video[0]
            if max(wanted) >= CLIP_LENGTH or stream.codec_context is None or stream.codec_context.name != _DECODER:
                raise ValueError("is no clip")
            stream.codec_context.thread_count = 1  # clips are decoded side by side
            stream.codec_context.options = {"max_pixels": str(_MOST_PIXELS)}
            for number, frame in enumerate(movie.decode(stream)):
                if number in wanted:
                    found[number] = _picture(frame)
                if len(found) == len(wanted):
                    break
        return [found[number] for number in numbers]
    except (av.FFmpegError, LookupError, ValueError, cv2.error) as error:
        raise ValueError("cannot be read as a clip") from error


def _picture(frame: Any) -> Picture:
    if frame.width % 2 or frame.height % 2:
        raise ValueError("a side is odd")
    return cast(Picture, cv2.cvtColor(frame.to_ndarray(format="yuv420p"), cv2.COLOR_YUV2RGB_I420))
