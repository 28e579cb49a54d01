"""Bounds on what a model may take in one call: time, by asking onnxruntime to stop, and memory, by its allocator.

A graph may hold loops, and tensors whose sizes come from its own values, so that a small file can run for ever or ask
for any memory. onnxruntime looks between two nodes, also inside loops, whether it has been asked to stop. Inside one
node it does not look; a program that has asked for it ends then (`end_process_when_stuck`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

LIMIT_S = 120.0  # for one call; a call of the shipped models takes milliseconds
GRACE_S = 30.0  # for the call to stop once it has been asked to
STUCK = 2  # exit code of a process that a model's call does not give back
MOST_BYTES = 8 << 30  # of all models of a process together, on the CPU
TICK_S = 0.5


class _Watch:
    """The calls under way, and a thread that stops those that have taken too long."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, Any]] = {}
        self._now = 0.0  # seconds that this process has run, by its own ticks: one that was held up starts no alarm
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.ends_process = False

    @contextmanager
    def limited(self, options: Any) -> Iterator[None]:
        """Stop the call with these options if the block takes longer than `LIMIT_S`."""
        self._start_thread()
        self._calls[id(options)] = (self._now + LIMIT_S, options)
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
            self._now += TICK_S
            for deadline, options in tuple(self._calls.values()):
                if self._now > deadline:
                    options.terminate = True
                if self._now > deadline + GRACE_S and self.ends_process:
                    _end_process()


def _end_process() -> None:
    said = f"a model has not answered for {LIMIT_S + GRACE_S:.0f} s and cannot be stopped; use another pack"
    with suppress(OSError, ValueError):
        print(f"rotopaint: {said}. What was finished is kept", file=sys.stderr, flush=True)
    os._exit(STUCK)


_WATCH = _Watch()


def end_process_when_stuck() -> None:
    """From now on a call of a model that cannot be stopped ends this process, with one line. For our own programs."""
    _WATCH.ends_process = True


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
