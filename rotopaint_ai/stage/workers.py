"""Processing many items in one process or several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """The results of `work` for each item, in order, computed here for one worker, else in `workers` processes."""
    if workers == 1:
        yield from map(work, items)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(workers, _ignore_interrupt) as pool:
        yield from pool.imap(work, items)


def _ignore_interrupt() -> None:
    """Ignore Ctrl+C in a worker; the process that waits for the workers handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
