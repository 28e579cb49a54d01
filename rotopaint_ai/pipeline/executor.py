"""The line itself: frames are read ahead, tracked in order, and finished side by side, with a bounded number in flight.

    pool:    read read read ...                       finish finish ...
    caller:              track -> window of few frames ->

Reading and finishing share one pool of threads; tracking, which needs its frames in order, runs in the calling thread.
Memory does not grow with the shot: it holds the frames read ahead, the tracker's window and the frames being finished.
Of each frame only the surroundings of the face are kept. For frames read ahead that is the face's last position with a
margin for motion; for tracked frames it is the part that is read again.

A `Snapshot` holds the complete state between two frames, so that a killed run resumes to the same result.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import pickle
import sys
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from rotopaint_ai.errors import PlateError
from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import Cancel, Event, Sink
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area

Value = TypeVar("Value")
Known = Any  # the tracker's result for a frame; the executor only passes it on
SettledFrames = Sequence[tuple[int, Known]]
StageTimes = MutableMapping[str, float]  # wall time of each stage of a frame in milliseconds
MORE_AHEAD = 4  # frames that are read ahead beside one a thread
STAGES = ("decode", "detect", "de-jitter", "shapes", "front", "mattes", "fill", "encode", "measure", "pictures")


class Tracker(Protocol):
    """Takes frames in order, and returns their results in the same order, some frames later."""

    def push(self, frame: Frame, ms: StageTimes) -> SettledFrames:
        """Take the next frame, noting the time of each stage; returns the frames that are settled now."""

    def skip(self, frame: int) -> SettledFrames:
        """Note a frame that cannot be read; it is not among the settled ones."""

    def flush(self) -> SettledFrames:
        """Settle the frames that still wait."""

    @property
    def reach(self) -> Area | None:
        """The region of the frame pushed last that will be read again; None: the whole frame."""

    @property
    def room(self) -> float:
        """The margin around `reach` for the next frames, as a multiple of its height."""


@dataclass(slots=True)
class FrameInFlight:
    """A frame in the pipeline: its pixels, or why it has none, and the milliseconds of its stages."""

    number: int
    frame: Frame | None = None
    error: PlateError | None = None
    ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state between two frames: the number of frames given to the tracker, those it has not settled, and the
    results of settled frames that are not yet finished."""

    n_pushed: int
    tracker: Tracker
    waiting: tuple[int, ...] = ()
    settled: tuple[tuple[int, Known], ...] = ()


@dataclass(slots=True)
class Executor:
    """The stages of a run. `read` and `finish` are called from several threads, the others from the calling one.

    `read` gets the area of a frame that the tracker will probably use. `is_finished` names frames that an earlier
    process has finished; `keep` is called with a snapshot after every frame that went through the tracker. `prepare`
    is called after a frame was read, for work that other frames will wait for.
    """

    read: Callable[[int, Area | None], Frame]
    finish: Callable[[Frame, Known, dict[str, float]], FrameRecord]
    fail: Callable[[int, str], FrameRecord]
    is_finished: Callable[[int], bool]
    keep: Callable[[Snapshot], None]
    threads: int
    prepare: Callable[[Frame, dict[str, float]], None] | None = None
    _near: Area | None = None
    _waiting: dict[int, FrameInFlight] = field(default_factory=dict)
    _finishing: deque[tuple[int, Known, Future[FrameRecord]]] = field(default_factory=deque)

    def run(self, frames: Sequence[int], start: Snapshot, cancel: Cancel) -> Iterator[FrameRecord]:
        """Yield a record per frame that had to be finished, in the order in which frames are settled.

        Raises: CancelledError when asked to stop, after the frames just being written; whatever a stage raises.
        """
        hold_no_frames()
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="line")
        try:
            yield from self._read_in_flight(pool, start)
            yield from self._run_frames(pool, frames, start, cancel)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _read_in_flight(self, pool: ThreadPoolExecutor, start: Snapshot) -> Iterator[FrameRecord]:
        """Read those frames again that were in flight when the snapshot was taken."""
        for read in self._reads(pool, [*(frame for frame, _ in start.settled), *start.waiting]):
            self._waiting[read.number] = read
        yield from self._start_finishing(pool, start.settled)

    def _run_frames(
        self, pool: ThreadPoolExecutor, frames: Sequence[int], start: Snapshot, cancel: Cancel
    ) -> Iterator[FrameRecord]:
        tracker = start.tracker
        for n_before, read in enumerate(self._reads(pool, frames[start.n_pushed :]), start.n_pushed):
            settled = self._track_frame(tracker, read)
            if read.error is not None:
                yield self.fail(read.number, str(read.error))
            yield from self._start_finishing(pool, settled)
            yield from self._finished_records(self.threads + 1)
            self.keep(self._snapshot(n_before + 1, tracker))
            if cancel.is_requested:
                yield from self._finished_records(0)
                cancel.check()
        yield from self._start_finishing(pool, tracker.flush())
        yield from self._finished_records(0)

    def _reads(self, pool: ThreadPoolExecutor, frames: Sequence[int]) -> Iterator[FrameInFlight]:
        """Frames in order, read ahead by more than there are threads: a repeated exposure is tracked at once."""
        numbers = iter(frames)
        first = islice(numbers, self.threads + min(self.threads, MORE_AHEAD))
        ahead = deque(pool.submit(self._read_ahead, number, self._near) for number in first)
        while ahead:
            read = ahead.popleft().result()
            ahead.extend(pool.submit(self._read_ahead, number, self._near) for number in islice(numbers, 1))
            yield read

    def _read_ahead(self, number: int, near: Area | None) -> FrameInFlight:
        read = FrameInFlight(number)
        with time_stage(read.ms, "decode"):
            try:
                read.frame = self.read(number, near)
            except PlateError as error:
                read.error = error
        if self.prepare is not None and read.frame is not None:
            self.prepare(read.frame, read.ms)
        return read

    def _track_frame(self, tracker: Tracker, read: FrameInFlight) -> SettledFrames:
        if read.frame is None:
            return tracker.skip(read.number)
        try:
            settled = tracker.push(read.frame, read.ms)
        except PlateError:  # it needed pixels outside the area that was read, and the file has changed
            anew = self._read_ahead(read.number, None)
            read.frame, read.error = anew.frame, anew.error
            if read.frame is None:
                return tracker.skip(read.number)
            settled = tracker.push(read.frame, read.ms)
        except (ArithmeticError, ValueError) as error:  # pixels that no model can look at
            read.error = PlateError(f"frame {read.number}: cannot be looked at ({error}); render it again")
            read.frame = None
            return tracker.skip(read.number)
        self._keep_waiting(read, read.frame, tracker)
        return settled

    def _keep_waiting(self, read: FrameInFlight, frame: Frame, tracker: Tracker) -> None:
        reach = tracker.reach
        read.frame = frame if reach is None else frame.narrowed(reach)
        self._waiting[read.number] = read
        self._near = None if reach is None else reach.grown(tracker.room * (reach.bottom - reach.top))

    def _start_finishing(self, pool: ThreadPoolExecutor, settled: SettledFrames) -> Iterator[FrameRecord]:
        for number, known in settled:
            read = self._waiting.pop(number)
            if self.is_finished(number):
                continue
            if read.frame is None:  # it was there for the process before this one
                yield self.fail(number, str(read.error))
                continue
            self._finishing.append((number, known, pool.submit(self.finish, read.frame, known, read.ms)))

    def _finished_records(self, n_left: int) -> Iterator[FrameRecord]:
        """Records of finished frames; waits until at most `n_left` are in progress."""
        while self._finishing and (len(self._finishing) > n_left or self._finishing[0][2].done()):
            record = self._finishing[0][2].result()
            yield record
            self._finishing.popleft()

    def _snapshot(self, n_pushed: int, tracker: Tracker) -> Snapshot:
        return Snapshot(
            n_pushed, tracker, tuple(self._waiting), tuple((number, known) for number, known, _ in self._finishing)
        )


def keep_nothing(snapshot: Snapshot) -> None:
    """The `keep` of an executor whose tracker has no state between frames."""


class FrameMemo(Generic[Value]):
    """Values by frame, each computed once on first use; thread-safe.

    `kept`: how many of the last used values stay. An error of `make` is raised, and the next call tries again.
    """

    def __init__(self, make: Callable[[int], Value], *, kept: int) -> None:
        self._make = make
        self._kept = kept
        self._slots: OrderedDict[int, tuple[Lock, list[Value]]] = OrderedDict()
        self._lock = Lock()

    def at(self, frame: int, make: Callable[[], Value] | None = None) -> Value:
        """The value of a frame, computed unless it is kept; `make` computes it from what the caller has at hand."""
        with self._lock:
            lock, slot = self._slots.setdefault(frame, (Lock(), []))
            self._slots.move_to_end(frame)
            while len(self._slots) > self._kept:
                self._slots.popitem(last=False)
        with lock:
            if not slot:
                slot.append(self._make(frame) if make is None else make())
            return slot[0]


_MAGIC = b"rotopaint-snapshot-1\n"
_PLAIN = {
    ("collections", "deque"),
    ("collections", "OrderedDict"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "slice"),
    ("builtins", "range"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *(
        (module, name)
        for module in ("numpy._core.multiarray", "numpy.core.multiarray")
        for name in ("_reconstruct", "scalar")
    ),
    *((module, "_frombuffer") for module in ("numpy._core.numeric", "numpy.core.numeric")),
}
_OWN = frozenset(  # no class of these opens a file or starts a process when it is made
    f"rotopaint_ai.{name}"
    for name in (
        *("crops", "sheet", "landmarks.dejitter", "landmarks.detect", "landmarks.holds", "landmarks.track"),
        *("pipeline.executor", "pipeline.face_tracker", "plates.plate_window", "seams.placement", "shapes.predict"),
    )
)


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, models: Mapping[str, object]) -> None:
        super().__init__(stream, protocol=5)
        self._names = {id(model): name for name, model in models.items()}

    def persistent_id(self, value: object) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, models: Mapping[str, object]) -> None:
        super().__init__(stream)
        self._models = models

    def persistent_load(self, name: Any) -> object:
        return self._models[name]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN and not (module in _OWN and "." not in name):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")
        found = super().find_class(module, name)
        if module in _OWN and not (isinstance(found, type) and found.__module__ in _OWN):
            raise pickle.UnpicklingError(f"{module}.{name} is not a value of this product")
        return found


def save_snapshot(path: Path, snapshot: Snapshot, models: Mapping[str, object]) -> None:
    """Write a snapshot atomically; objects in `models` are stored as their names."""
    stream = io.BytesIO()
    _Pickler(stream, models).dump(snapshot)
    body = stream.getvalue()
    with replacing(path) as beside:
        beside.write_bytes(_MAGIC + b"%08x" % zlib.crc32(body) + body)


def load_snapshot(path: Path, models: Mapping[str, object]) -> Snapshot | None:
    """The snapshot in a file; None where it is missing or damaged, or belongs to another job or version."""
    try:
        data = path.read_bytes()
        body = data[len(_MAGIC) + 8 :]
        if not data.startswith(_MAGIC + b"%08x" % zlib.crc32(body)):
            return None
        snapshot = _Unpickler(io.BytesIO(body), models).load()
    except (OSError, ValueError, LookupError, EOFError, AttributeError, ImportError, TypeError, pickle.UnpicklingError):
        return None
    except (MemoryError, OverflowError, RecursionError):  # raised by wrong lengths or deep nesting in a damaged file
        return None
    return snapshot if isinstance(snapshot, Snapshot) else None


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # M_... of mallopt(3)
_LARGE = 8 << 20  # bytes; with one megabyte, arrays of a crop would also be allocated each time: a sixth more time
_SMALL = 128 << 10  # bytes: glibc's initial value of both thresholds
_SPARE = 16 << 20  # bytes that stay at hand; with the 128 KB that they are else, a tenth more work for no less memory


def hold_no_frames() -> None:
    """Make the allocator return large blocks, such as frames, to the system as soon as they are freed.

    To be called before threads start. By default glibc raises its threshold for such blocks to the largest block that
    was freed, and frames then fragment its arenas. One arena is set, so that every thread can reuse what another has
    freed.
    """
    _set_allocator({_MMAP_THRESHOLD: _LARGE, _TRIM_THRESHOLD: _SPARE, _ARENA_MAX: 1})


def give_back() -> None:
    """Return all free memory to the system, and from then on every block larger than a few pages as soon as it is
    freed.

    Call `hold_no_frames` again before more frames are read.
    """
    _set_allocator({_MMAP_THRESHOLD: _SMALL, _TRIM_THRESHOLD: _SMALL}, trim=True)


def _set_allocator(wanted: Mapping[int, int], *, trim: bool = False) -> None:
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            for what, value in wanted.items():
                library.mallopt(what, value)
            if trim:
                library.malloc_trim(0)


@contextmanager
def time_stage(times: StageTimes, stage: str) -> Iterator[None]:
    """Add the time that the block takes to `times[stage]`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        times[stage] = times.get(stage, 0.0) + (time.perf_counter() - start) * 1000.0


class Eta:
    """Rate and remaining time, from the frames finished since the start of this process.

    `after_s`: expected seconds after the last frame; `n_later`: frames that a second pass takes up again, at the same
    rate.
    """

    def __init__(self, *, total: int, done: int, after_s: float = 0.0, n_later: int = 0) -> None:
        self._after_s, self._n_later = after_s, n_later
        self._start = time.monotonic()
        self._total = total
        self._first = done
        self._done = done

    def step(self) -> dict[str, float | int | None]:
        """Count one more frame; returns the facts of a progress event."""
        return self.at(self._done + 1)

    def at(self, done: int, total: int | None = None) -> dict[str, float | int | None]:
        """The facts of a progress event after that many finished frames."""
        self._done, self._total = done, self._total if total is None else total
        elapsed = time.monotonic() - self._start
        per_frame = elapsed / (self._done - self._first)
        return {
            "done": self._done,
            "total": self._total,
            "eta_s": round(per_frame * (self._total - self._done + self._n_later) + self._after_s, 1),
            "ms_per_frame": round(per_frame * 1000.0, 2),
        }


Progress = Callable[[int, int], None]  # how many of so many steps are done
Thing = TypeVar("Thing")
PROGRESS_INTERVAL_S = 1.0


@dataclass(slots=True)
class Steps:
    """Reports the number of finished steps out of a known total."""

    tell: Progress
    total: int
    done: int = 0

    def over(self, things: Iterable[Thing]) -> Iterator[Thing]:
        """Iterate over things, and count each as a step when it is done."""
        for thing in things:
            yield thing
            self.done += 1
            self.tell(self.done, self.total)

    def finish(self) -> None:
        """Report all steps as done."""
        if self.done < self.total:
            self.tell(self.total, self.total)


def make_progress(task: str, sink: Sink, cancel: Cancel) -> Progress:
    """A progress callback that sends events at intervals; it raises CancelledError when a stop was requested."""
    eta, last = Eta(total=0, done=0), time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        cancel.check()
        facts = eta.at(done, total)
        if time.monotonic() - last >= PROGRESS_INTERVAL_S:
            sink(Event("progress", {"task": task, **facts}))
            last = time.monotonic()

    return tell
