"""Wall time per stage of a frame, in milliseconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

Times = MutableMapping[str, float]

STAGES = ("decode", "detect", "de-jitter", "shapes", "mattes", "fill", "encode", "measure", "pictures")


@contextmanager
def timed(times: Times, stage: str) -> Iterator[None]:
    """Add the time that the block takes to `times[stage]`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        times[stage] = times.get(stage, 0.0) + (time.perf_counter() - start) * 1000.0


class Eta:
    """Rate and time to go, from the frames finished since the start of this process."""

    def __init__(self, *, total: int, done: int) -> None:
        self._start = time.monotonic()
        self._total = total
        self._first = done
        self._done = done

    def step(self) -> dict[str, float | int | None]:
        """Count one more frame; returns the facts of a progress event."""
        self._done += 1
        elapsed = time.monotonic() - self._start
        per_frame = elapsed / (self._done - self._first)
        return {
            "done": self._done,
            "total": self._total,
            "eta_s": round(per_frame * (self._total - self._done), 1),
            "ms_per_frame": round(per_frame * 1000.0, 2),
        }
