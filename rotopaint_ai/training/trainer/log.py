"""The log of a training: one line at every evaluation, in `log.csv` and as progress events."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rotopaint_ai.files import replacing

LOG = "log.csv"


class Row(NamedTuple):
    """One line of the log: at an evaluation, means since the last one.

    The held-out errors are distances of visible landmarks: the mean as a percentage of the face's longest side, and the
    mean and 95th percentile in pixels of the plate. Once held-out samples are learned from as well, all three stand at
    the best that was measured before.
    """

    step: int
    minutes: float
    size_px: int
    loss: float
    held_out_percent: float
    images_per_s: float
    waiting_share: float  # of the time, for batches
    learning_rate: float
    copying_share: float = 0.0  # of the time, from batch to network
    talking_share: float = 0.0  # of the time, for other ranks' gradients
    held_out_px: float = 0.0
    held_out_p95_px: float = 0.0
    busy_share: float = 0.0  # of the threads' time the processor's, or of the time the GPU's; 0 where nobody can tell
    copied_gb_per_s: float = 0.0  # from batch to network


class HeldOutError(NamedTuple):
    """How far visible landmarks of held-out samples are off: see `Row`."""

    percent: float
    px: float
    p95_px: float


NOT_MEASURED = HeldOutError(float("inf"), 0.0, 0.0)


class Window:
    """Sums since the last evaluation. `busy_s` tells the seconds that a device has computed, all its threads' together,
    and `threads` how many it has."""

    def __init__(self, busy_s: Callable[[], float] = time.process_time, threads: int = 1) -> None:
        self._busy_s, self._threads, self._began = busy_s, threads, (time.perf_counter(), busy_s())
        self.copied_bytes = 0
        self.losses: list[float] = []
        self.images, self.computing, self.waiting, self.copying = 0, 0.0, 0.0, 0.0

    def add(self, loss: float, images: int, taken: float, waited: float, copied: float, n_bytes: int = 0) -> None:
        """One step: how many images, seconds of computing (copying among them) and of waiting, and bytes copied."""
        self.copied_bytes += n_bytes
        self._busy_s()  # a GPU tells only of the time just gone
        self.losses.append(loss)
        self.images += images
        self.computing += taken
        self.waiting += waited
        self.copying += copied

    def row(self, step: int, minutes: float, size_px: int, error: HeldOutError, rate: float, talking: float) -> Row:
        """The line of the log; `talking` in seconds."""
        total = max(self.computing + self.waiting, 1e-9)
        loss = float(np.mean(self.losses)) if self.losses else 0.0
        shares = (self.waiting / total, rate, self.copying / total, min(1.0, talking / total))
        return Row(
            step,
            minutes,
            size_px,
            loss,
            error.percent,
            self.images / total,
            *shares,
            error.px,
            error.p95_px,
            self._busy_share(),
            self.copied_bytes / 1e9 / self.copying if self.copying > 0 else 0.0,
        )

    def _busy_share(self) -> float:
        clock, busy = time.perf_counter() - self._began[0], self._busy_s() - self._began[1]
        return min(1.0, busy / max(clock * self._threads, 1e-9))


def write_log(path: Path, rows: Sequence[Row]) -> None:
    """Write the whole log, beside and renamed."""
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(Row._fields)
        writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
