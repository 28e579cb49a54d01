"""The log of a training: one line at every evaluation, in `log.csv` and as progress events."""

from __future__ import annotations

import csv
from collections.abc import Sequence
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


class HeldOutError(NamedTuple):
    """How far visible landmarks of held-out samples are off: see `Row`."""

    percent: float
    px: float
    p95_px: float


NOT_MEASURED = HeldOutError(float("inf"), 0.0, 0.0)


class Window:
    """Sums since the last evaluation."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.images, self.computing, self.waiting, self.copying = 0, 0.0, 0.0, 0.0

    def add(self, loss: float, images: int, taken: float, waited: float, copied: float) -> None:
        """One step: how many images, and seconds of computing (copying among them) and of waiting."""
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
        return Row(step, minutes, size_px, loss, error.percent, self.images / total, *shares, error.px, error.p95_px)


def write_log(path: Path, rows: Sequence[Row]) -> None:
    """Write the whole log, beside and renamed."""
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(Row._fields)
        writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
