"""Work on many pictures, by one process or several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """What `work` makes of each item, in their order: made here for one worker, else by so many processes."""
    if workers == 1:
        yield from map(work, items)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(workers, _ignore_interrupt) as pool:
        yield from pool.imap(work, items)


def _ignore_interrupt() -> None:
    """Ctrl+C is for the process that waits for the workers, and told once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
