"""Where the time of a training went, and which ceiling binds: reading, augmentation, copying, gradients, arithmetic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from rotopaint_ai.training.trainer.log import Row

KEEPING = "keep"  # the way to keep activations that costs nothing


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares of a training's time, weighed over its log, and what binds it.

    `busy` is the share of its threads' time that the processor gave it, or of its time that the GPU computed;
    `copied_gb_per_s` what a batch is copied at on its way to the network; `remote` the share of its memory that lies on
    other NUMA nodes than its cores. None where nobody can tell.
    """

    bound_by: str
    waiting: float
    copying: float
    talking: float
    computing: float
    busy: float | None
    copied_gb_per_s: float
    remote: float | None
    device: str
    activations: str

    def content(self) -> dict[str, Any]:
        """The profile as JSON values."""
        return {key: round(v, 4) if isinstance(v, float) else v for key, v in asdict(self).items()}

    def line(self) -> str:
        """The profile in one line, for whoever asks why it is not faster."""
        said = f"bound by {self.bound_by}: {self.computing:.1%} computing, {self.waiting:.1%} waiting for batches, "
        said += f"{self.copying:.1%} copying at {self.copied_gb_per_s:.2f} GB/s, {self.talking:.1%} gradients"
        if self.busy is not None:
            said += f"; {self.device} busy {self.busy:.0%}"
        return said if self.remote is None else f"{said}; {self.remote:.0%} of memory on other NUMA nodes"


def profile(
    rows: Sequence[Row], *, device: str, activations: str, reading_share: float, remote: float | None = None
) -> Profile | None:
    """The profile of a run by its log, each line weighed by its minutes; None where there is none.

    `reading_share`: of the time in which batches are made, what went into reading and decoding pictures. `activations`:
    how they were kept at last.
    """
    if not rows:
        return None
    weights = np.diff([0.0, *(row.minutes for row in rows)]).clip(min=1e-9)

    def mean(name: str) -> float:
        return float(np.average([getattr(row, name) for row in rows], weights=weights))

    waiting, copying, talking = (mean(f"{name}_share") for name in ("waiting", "copying", "talking"))
    computing = max(0.0, 1 - waiting - copying - talking)
    shares = {
        "reading and decoding pictures" if reading_share > 0.5 else "augmentation": waiting,
        "copying": copying,
        "gradients": talking,
        "arithmetic" if activations == KEEPING else f"memory (activations: {activations})": computing,
    }
    busy = mean("busy_share")
    return Profile(
        bound_by=max(shares, key=lambda name: shares[name]),
        waiting=waiting,
        copying=copying,
        talking=talking,
        computing=computing,
        busy=busy if busy > 0 else None,
        copied_gb_per_s=mean("copied_gb_per_s"),
        remote=remote,
        device=device,
        activations=activations,
    )


def gpu_clock() -> Callable[[], float]:
    """A clock of the seconds that the GPU has computed since now, as the driver says at each look; stands still where
    it says nothing."""
    last, busy = time.perf_counter(), 0.0

    def look() -> float:
        nonlocal last, busy
        now = time.perf_counter()
        with contextlib.suppress(Exception):  # without NVML, or a driver that is not asked
            busy += (now - last) * torch.cuda.utilization() / 100
        last = now
        return busy

    return look
