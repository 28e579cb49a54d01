"""Shards are fetched before they are wanted, by a thread of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from rotopaint_ai.errors import CancelledError, RotopaintError
from rotopaint_ai.training.data.shards.sampler import WINDOW
from rotopaint_ai.training.data.shards.stream import Picture, fetch

Ahead = Callable[
    [int], Sequence[int]
]  # rows, one of each shard, in the order in which a step and those after want them


@contextlib.contextmanager
def fetching(pictures: Sequence[Picture], ahead: Ahead, depth: int = WINDOW) -> Iterator[Callable[[int], None]]:
    """Fetch the next `depth` shards while the block runs; it is told each step, and nothing is left half done.

    What cannot be fetched is left to whoever asks for the picture, who then hears why; the shards after it still come.
    """
    told = _Told()
    if not ahead(0):
        yield told.tell
        return
    thread = threading.Thread(target=_work, args=(pictures, ahead, depth, told), name="shards", daemon=True)
    thread.start()
    try:
        yield told.tell
    finally:
        told.stop()
        thread.join()


def _work(pictures: Sequence[Picture], ahead: Ahead, depth: int, told: _Told) -> None:
    with contextlib.suppress(CancelledError):
        while (step := told.wait()) is not None:
            for row in ahead(step)[:depth]:
                _fetch(pictures, row, told)
                told.check()


def _fetch(pictures: Sequence[Picture], row: int, told: _Told) -> None:
    try:
        fetch(pictures, row, told.check)
    except CancelledError:
        raise
    except (RotopaintError, OSError):
        return


class _Told:
    """The step that training is at, and whether it is over."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._step: int | None = None
        self._is_over = False

    def tell(self, step: int) -> None:
        with self._changed:
            self._step = step
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def wait(self) -> int | None:
        """The newest step, once; None when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._step is not None)
            step, self._step = self._step, None
            return None if self._is_over else step

    def check(self) -> None:
        if self._is_over:
            raise CancelledError("training is over")
