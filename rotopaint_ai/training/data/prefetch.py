"""Batches made by another thread, a few ahead of the one that computes."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Batch = TypeVar("Batch")
_AHEAD = 3  # batches made before they are wanted


@contextlib.contextmanager
def ahead(make: Callable[[int], Batch], first: int) -> Iterator[Iterator[tuple[Batch, float]]]:
    """Batches of step `first` and on, each with the seconds it was waited for; the thread ends with the block.

    What `make` raises is raised where the batch is taken.
    """
    ready: queue.Queue[Batch | BaseException] = queue.Queue(maxsize=_AHEAD)
    stop = threading.Event()

    def work() -> None:
        step = first
        try:
            while not stop.is_set():
                _put(ready, make(step), stop)
                step += 1
        except BaseException as error:  # handed to the main thread, which raises it
            _put(ready, error, stop)

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        yield _taken(ready)
    finally:
        stop.set()
        thread.join()


def _taken(ready: queue.Queue[Batch | BaseException]) -> Iterator[tuple[Batch, float]]:
    while True:
        start = time.perf_counter()
        item = ready.get()
        if isinstance(item, BaseException):
            raise item
        yield item, time.perf_counter() - start


def _put(ready: queue.Queue[Any], item: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue
