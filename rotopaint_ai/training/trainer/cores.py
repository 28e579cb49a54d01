"""How a training uses the cores: threads that compute, and who makes batches ahead of the network.

Every core computes, unless one thread alone turns out to be quicker: on a machine where others work, threads of one
computation wait for each other at every step's barriers. Batches are made by a thread beside a network on the
processor, by processes for one on a GPU, which takes thousands of pictures a second where one thread makes some
hundred. What a batch holds depends on its moment alone, so that it is the same whoever makes it.
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
_WORTH = 0.95  # one thread has to bring the time of a step below this share
_ROUNDS = 2
_AHEAD = 3  # batches made by the thread before they are wanted
_AHEAD_OF_EACH = 2  # by each process


@dataclass(frozen=True, slots=True, eq=False)
class TimedBatch(Generic[Batch]):
    """A batch, and the seconds that it took: in all, to bring pictures' bytes to memory, and to decode them."""

    batch: Batch
    taken_s: float
    reading_s: float
    decoding_s: float


Batches = Iterator[tuple[TimedBatch[Batch], float]]  # each with the seconds it was waited for


def n_processes(device: torch.device) -> int:
    """How many processes make batches for a network on a device: all cores but one for a GPU's; none for the
    processor's, which computes on them, nor where a process cannot be doubled."""
    if device.type != "cuda" or "fork" not in multiprocessing.get_all_start_methods():
        return 0
    return n_cores() - 1


@contextlib.contextmanager
def prefetching_batches(
    task: Task[Any, Batch], moment: Callable[[int], Moment], first: int, processes: int = 0
) -> Iterator[Batches[Batch]]:
    """Batches of step `first` and on, made by so many processes, or by a thread for fewer than two; they end with the
    block. Processes begin with it, as copies of this one: no other thread may be at work then, whose locks they would
    never get.

    What making a batch raises is raised where it is taken. Raises TrainingError where a process is lost.
    """
    if processes > 1:
        with _pool(task, processes) as pool:
            steps = map(moment, itertools.count(first))
            asked = deque(pool.submit(_make_here, next(steps)) for _ in range(_AHEAD_OF_EACH * processes))
            yield _timed(_in_turn(pool, asked, steps))
        return
    producer = Producer((make_timed(task, moment(step)) for step in itertools.count(first)), _AHEAD, "batches")
    try:
        yield _timed(iter(producer.take, None))
    finally:
        producer.stop()
        producer.join()


def _timed(made: Iterator[TimedBatch[Batch]]) -> Batches[Batch]:
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
    """Copies of this process, which have the task's data without its being sent."""
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), initializer=_set_up_worker, initargs=(task, processes)
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _in_turn(
    pool: ProcessPoolExecutor, asked: deque[Future[TimedBatch[Any]]], steps: Iterator[Moment]
) -> Iterator[TimedBatch[Any]]:
    """What was asked for, in its order; for each, the next step's is asked for."""
    while True:
        try:
            asked.append(pool.submit(_make_here, next(steps)))
            made = asked.popleft().result()
        except BrokenProcessPool as error:
            raise TrainingError(
                "a process that makes batches was ended by the system (out of memory?); go on with --resume, and with "
                "a smaller batch if it comes again"
            ) from error
        yield made


_own: list[Task[Any, Any]] = []  # the task whose batches this process makes


def _set_up_worker(task: Task[Any, Any], processes: int) -> None:
    """Begin a process that makes batches: on one thread, as there are many of it; Ctrl+C is for who waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    stream.keep_less(processes)
    _own.append(task)


def _make_here(moment: Moment) -> TimedBatch[Any]:
    return make_timed(_own[0], moment)


def choose_threads(config: TrainConfig, task: Task[Any, Any], seconds: Callable[[int], float] | None = None) -> str:
    """Set torch's threads for a training: as many as the config says or, for 0, as is quicker now. Returns
    what there is to say about it (empty: nothing out of the way).

    `seconds` measures a step on so many threads; None: by steps of a copy of the network.
    """
    count, note = config.threads or n_cores(), ""
    if not config.threads and count > 1:
        count, note = _quicker(count, seconds or _Trial(config, task).seconds)
    torch.set_num_threads(count)
    return note


def _quicker(cores: int, seconds: Callable[[int], float]) -> tuple[int, str]:
    together, alone = seconds(cores), seconds(1)
    if alone >= _WORTH * together:
        return cores, ""
    return 1, (
        f"one thread is {together / alone:.1f} times as fast as {cores} here: the machine is busy. Training takes one "
        f"and gets through about half of what it would otherwise; to have it your way, --set threads={cores}"
    )


class _Trial:
    """Steps forward and back of a copy of a task's network, on the first batch."""

    def __init__(self, config: TrainConfig, task: Task[Any, Any]) -> None:
        self.task, self.moment = task, Moment(0, 0.0, config, ALONE)
        self.net = cast(Any, copy.deepcopy(task.net)).to(memory_format=torch.channels_last)
        self.inputs = task.to_device(task.make_batch(self.moment), self.moment)

    def seconds(self, count: int) -> float:
        """The quickest of a few steps on so many threads, after one to warm up."""
        torch.set_num_threads(count)
        self.task.set_mode(self.net)
        taken = []
        for _ in range(_ROUNDS + 1):
            start = time.perf_counter()
            loss, _ = self.task.loss(self.net, self.inputs, self.moment)
            cast(Any, loss).backward()
            taken.append(time.perf_counter() - start)
        return min(taken[1:])
