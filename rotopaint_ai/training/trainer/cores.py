"""How a training uses the cores: computing threads, and workers that make batches ahead of the network.

All cores compute, unless one thread alone is faster: on a busy machine, threads wait for each other at every barrier. A
network on the processor gets its batches from one thread; a network on a GPU consumes thousands of pictures a second,
where one thread makes some hundred, so processes make them. A batch depends only on its moment (seed, step, rank), so
it is the same whoever makes it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import cv2
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.producer import Producer
from rotopaint_ai.training.data.shards import stream
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.group import ALONE
from rotopaint_ai.training.trainer.task import Moment, Task

Batch = TypeVar("Batch")
_WORTH = 0.95  # one thread must reduce the step time below this share
_ROUNDS = 2
_AHEAD = 3  # batches that the thread makes in advance
_AHEAD_OF_EACH = 2  # batches that each process makes in advance


@dataclass(frozen=True, slots=True, eq=False)
class TimedBatch(Generic[Batch]):
    """A batch with the seconds to make it: in total, reading and decoding."""

    batch: Batch
    taken_s: float
    reading_s: float
    decoding_s: float


TimedBatches = Iterator[tuple[TimedBatch[Batch], float]]  # each batch with the seconds spent waiting for it


def n_processes(device: torch.device) -> int:
    """The number of processes that make batches for a device.

    For a GPU, all cores but one. None for the processor, which needs its cores to compute, and none without `fork`.
    """
    if device.type != "cuda" or "fork" not in multiprocessing.get_all_start_methods():
        return 0
    return n_cores() - 1


@contextlib.contextmanager
def prefetching_batches(
    task: Task[Any, Batch], moment: Callable[[int], Moment], first: int, processes: int = 0
) -> Iterator[TimedBatches[Batch]]:
    """Iterate over the batches from step `first` on, made by `processes`, or by a thread if there are fewer than two.

    Workers end with the block. Processes are forked when it begins: no other thread may run then, because its locks
    would stay locked in the copies. Errors of a worker are raised when its batch is taken. Raises TrainingError if a
    process is lost.
    """
    if processes > 1:
        with _pool(task, processes) as pool:
            steps = map(moment, itertools.count(first))
            pending = deque(pool.submit(_make_in_worker, next(steps)) for _ in range(_AHEAD_OF_EACH * processes))
            yield _time_waits(_in_order(pool, pending, steps))
        return
    producer = Producer((make_timed(task, moment(step)) for step in itertools.count(first)), _AHEAD, "batches")
    try:
        yield _time_waits(iter(producer.take, None))
    finally:
        producer.stop()
        producer.join()


def _time_waits(made: Iterator[TimedBatch[Batch]]) -> TimedBatches[Batch]:
    while True:
        start = time.perf_counter()
        batch = next(made)
        yield batch, time.perf_counter() - start


def make_timed(task: Task[Any, Batch], moment: Moment) -> TimedBatch[Batch]:
    """This rank's part of the batch of a moment."""
    start, before = time.perf_counter(), task.reading_and_decoding_s()
    batch = task.make_batch(moment)
    reading, decoding = (now - then for now, then in zip(task.reading_and_decoding_s(), before))
    return TimedBatch(batch, time.perf_counter() - start, reading, decoding)


@contextlib.contextmanager
def _pool(task: Task[Any, Any], processes: int) -> Iterator[ProcessPoolExecutor]:
    """Forked worker processes, which share the task's data without a transfer."""
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), initializer=_set_up_worker, initargs=(task, processes)
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, pending: deque[Future[TimedBatch[Any]]], steps: Iterator[Moment]
) -> Iterator[TimedBatch[Any]]:
    """The results in order; requests the next step for each result taken."""
    while True:
        try:
            pending.append(pool.submit(_make_in_worker, next(steps)))
            made = pending.popleft().result()
        except BrokenProcessPool as error:
            raise TrainingError(
                "the system ended a process that makes batches (out of memory?); continue with --resume, and with a "
                "smaller batch if it happens again"
            ) from error
        yield made


_own: list[Task[Any, Any]] = []  # the task of this worker process


def _set_up_worker(task: Task[Any, Any], processes: int) -> None:
    """Initialise a worker process: one thread, and Ctrl+C left to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    stream.share_cache(processes)
    _own.append(task)


def _make_in_worker(moment: Moment) -> TimedBatch[Any]:
    return make_timed(_own[0], moment)


def choose_threads(config: TrainConfig, task: Task[Any, Any], seconds: Callable[[int], float] | None = None) -> str:
    """Set torch's threads for a training: the config's number or, for 0, the faster choice now.

    Returns a note about an unusual choice, else an empty text. `seconds` measures a step with a given number of
    threads;
    None: by steps of a copy of the network.
    """
    count, note = config.threads or n_cores(), ""
    if not config.threads and count > 1:
        count, note = _choose_count(count, seconds or _Trial(config, task).seconds)
    torch.set_num_threads(count)
    return note


def _choose_count(cores: int, seconds: Callable[[int], float]) -> tuple[int, str]:
    together, alone = seconds(cores), seconds(1)
    if alone >= _WORTH * together:
        return cores, ""
    return 1, (
        f"one thread is {together / alone:.1f} times as fast as {cores} here, because the machine is busy. Training "
        f"uses one thread and does about half the steps of a quiet machine; to use all, --set threads={cores}"
    )


class _Trial:
    """Forward and backward steps of a copy of a task's network, on the first batch."""

    def __init__(self, config: TrainConfig, task: Task[Any, Any]) -> None:
        self.task, self.moment = task, Moment(0, 0.0, config, ALONE)
        self.net = cast(Any, copy.deepcopy(task.net)).to(memory_format=torch.channels_last)
        self.inputs = task.to_device(task.make_batch(self.moment), self.moment)

    def seconds(self, count: int) -> float:
        """Duration of the fastest of a few steps with `count` threads, after one warm-up step."""
        torch.set_num_threads(count)
        self.task.set_mode(self.net)
        taken = []
        for _ in range(_ROUNDS + 1):
            start = time.perf_counter()
            loss, _ = self.task.loss(self.net, self.inputs, self.moment)
            cast(Any, loss).backward()
            taken.append(time.perf_counter() - start)
        return min(taken[1:])
