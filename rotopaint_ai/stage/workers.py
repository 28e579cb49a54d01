"""Processing many items in one process or several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from rotopaint_ai.errors import TrainingError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_LOOK_S = 0.5  # seconds between two looks for a stop


def map_in_order(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    workers: int,
    check: Callable[[], None] = lambda: None,
) -> Iterator[_Result]:
    """The results of `work` for each item, in order, computed here for one worker, else in `workers` processes.

    check: called every half second or item; raises to stop. Raises: TrainingError where the system ends a process.
    """
    if workers == 1:
        for item in items:
            check()
            yield work(item)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_worker)
    try:
        waiting = deque(pool.submit(work, item) for item in items)
        while waiting:
            check()
            try:
                made = waiting[0].result(timeout=_LOOK_S)
            except TimeoutError:
                continue
            waiting.popleft()
            yield made
    except BrokenProcessPool as error:
        raise TrainingError(
            "the system ended a process that makes pictures (out of memory?); run it again, with fewer workers if it "
            "happens again"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Ignore Ctrl+C in a worker, as the process that waits handles it, and use one thread."""
    import cv2

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
