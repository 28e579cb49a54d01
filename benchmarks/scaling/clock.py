"""A clock that skips the time in which nobody computes, so that days of a cluster pass in a minute.

It counts this process's processor time, so that a scheduler that is too slow for its workers stays too slow, and that
others on the machine do not count; and where nothing is to be computed it is put forward to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any

_RARER = 20
_began = time.time() - time.process_time()
_skipped = [0.0]


def now() -> float:
    """Seconds since 1970 by this clock."""
    return _began + time.process_time() + _skipped[0]


def install() -> None:
    """Put the clock in place of this process's, and have Dask's servers do what they do every second every 20 seconds:
    hundreds of them are in one process here. To be called before Dask is imported.
    """
    import tornado.ioloop

    time.time = time.monotonic = now

    class Rarer(tornado.ioloop.PeriodicCallback):
        """What is done from time to time."""

        @property
        def callback_time(self) -> float:
            """Milliseconds between two calls."""
            return self._callback_time

        @callback_time.setter
        def callback_time(self, value: float) -> None:
            self._callback_time = value * _RARER

    tornado.ioloop.PeriodicCallback = Rarer  # type: ignore[misc]


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not sleep: where it would wait for a timer, the clock is put forward."""

    def __init__(self) -> None:
        super().__init__(_SkippingSelector())

    def time(self) -> float:
        """Seconds by the clock above."""
        return now()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Done at once, in this thread: a thread would have to be waited for by the real clock."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _SkippingSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready now; where nothing is, the time until the next timer is skipped."""
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            _skipped[0] += max(timeout, 0.0)
        return ready
