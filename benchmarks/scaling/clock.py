"""A clock that skips idle time, so that days of a cluster are simulated in a minute.

It counts this process's processor time. So a scheduler that is too slow for its workers also appears too slow here, and
other load on the machine does not matter. While nothing is computed, the clock jumps to the next timer.
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
    """Replace the clock of this process; must be called before Dask is imported.

    Periodic work of Dask's servers is done every 20 seconds in place of every second, because hundreds of servers run
    in this process.
    """
    import tornado.ioloop

    time.time = time.monotonic = now

    class Rarer(tornado.ioloop.PeriodicCallback):
        """Periodic work of a server, at a lower rate."""

        @property
        def callback_time(self) -> float:
            """Milliseconds between two calls."""
            return self._callback_time

        @callback_time.setter
        def callback_time(self, value: float) -> None:
            self._callback_time = value * _RARER

    tornado.ioloop.PeriodicCallback = Rarer  # type: ignore[misc]


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not sleep: where it would wait for a timer, the clock jumps forward."""

    def __init__(self) -> None:
        super().__init__(_SkippingSelector())

    def time(self) -> float:
        """Seconds by the clock above."""
        return now()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function at once in this thread, because waiting for a thread would need the real clock."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _SkippingSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[Any]:
        """The ready events; without any, the time until the next timer is skipped."""
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            _skipped[0] += max(timeout, 0.0)
        return ready
