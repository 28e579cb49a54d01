"""Bounds on what a model may take in one call: time, by asking onnxruntime to stop, and memory, by its allocator.

A graph may hold loops, and tensors whose sizes come from its own values, so that a small file can run for ever or ask
for any memory. onnxruntime looks between two nodes, also inside loops, whether it has been asked to stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

LIMIT_S = 120.0  # for one call; a call of the shipped models takes milliseconds
MOST_BYTES = 8 << 30  # of all models of a process together, on the CPU
TICK_S = 0.5


class _Watch:
    """The calls under way, and a thread that stops those that have taken too long."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, Any]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @contextmanager
    def limited(self, options: Any) -> Iterator[None]:
        """Stop the call with these options if the block takes longer than `LIMIT_S`."""
        self._start_thread()
        self._calls[id(options)] = (time.monotonic() + LIMIT_S, options)
        try:
            yield
        finally:
            del self._calls[id(options)]

    def _start_thread(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._check_deadlines, name="model limits", daemon=True)
                    self._thread.start()

    def _check_deadlines(self) -> None:
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            for deadline, options in tuple(self._calls.values()):
                if now > deadline:
                    options.terminate = True


_WATCH = _Watch()


@contextmanager
def limited_call() -> Iterator[Any]:
    """Options for one call of a model, which is stopped when it takes too long."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    with _WATCH.limited(options):
        yield options


@lru_cache(maxsize=1)
def bound_memory() -> None:
    """Give this process's models on the CPU one allocator, with an end. Sessions ask for it by `SHARED_ALLOCATOR`."""
    import onnxruntime

    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    as_usual = dict.fromkeys(("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), -1)
    onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg({"max_mem": MOST_BYTES, **as_usual}))


SHARED_ALLOCATOR = "session.use_env_allocators"


def explained(error: Exception) -> str:
    """Why a call ended, where it was one of these bounds; else what onnxruntime says."""
    text = str(error)
    if "terminate flag" in text:
        return f"it has not answered for {LIMIT_S:.0f} s; its graph may never end, use another pack"
    if "Available memory of" in text:
        return f"it wants more than {MOST_BYTES >> 30} GB; use another pack"
    return text
