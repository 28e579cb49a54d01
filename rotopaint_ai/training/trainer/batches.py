"""Batches made ahead of the network: by a thread beside a network on the processor, by processes for one on a GPU.

A GPU takes thousands of pictures a second, and one thread makes some hundred. What a batch holds depends on its moment
alone, so that it is the same whoever makes it.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import cv2
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.producer import Producer
from rotopaint_ai.training.data.shards import stream
from rotopaint_ai.training.trainer.task import Moment, Task

Batch = TypeVar("Batch")
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
        processes, multiprocessing.get_context("fork"), initializer=_begin, initargs=(task, processes)
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


def _begin(task: Task[Any, Any], processes: int) -> None:
    """Begin a process that makes batches: on one thread, as there are many of it; Ctrl+C is for who waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    stream.keep_less(processes)
    _own.append(task)


def _make_here(moment: Moment) -> TimedBatch[Any]:
    return make_timed(_own[0], moment)
