"""Prefetching: a thread makes items before they are needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")
_TICK_S = 0.1  # how often a thread with a full queue checks whether it was stopped


class _End(Exception):
    """The items have ended."""


class Producer(Generic[Item]):
    """Takes up to `ahead` items from an iterable in advance. An exception of the iterable is raised by `take`."""

    def __init__(self, items: Iterable[Item], ahead: int, name: str) -> None:
        self._made: queue.Queue[tuple[Item] | BaseException] = queue.Queue(ahead)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._make, args=(items,), name=name, daemon=True)
        self._thread.start()

    def take(self, timeout_s: float | None = None) -> Item:
        """The next item. Raises queue.Empty where it is not ready in time, StopIteration after the last item."""
        made = self._made.get(timeout=timeout_s)
        if isinstance(made, _End):
            raise StopIteration
        if isinstance(made, BaseException):
            raise made
        return made[0]

    def stop(self) -> None:
        """Make no more items, without waiting for the one in progress."""
        self._is_over.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _make(self, items: Iterable[Item]) -> None:
        try:
            for item in items:
                self._put((item,))
                if self._is_over.is_set():
                    return
            self._put(_End())
        except BaseException as error:  # raised again by `take`
            self._put(error)

    def _put(self, made: tuple[Item] | BaseException) -> None:
        while not self._is_over.is_set():
            try:
                self._made.put(made, timeout=_TICK_S)
                return
            except queue.Full:
                continue
