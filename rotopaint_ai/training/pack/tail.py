"""What a pack's training does after its last step, how long that will take on this machine, and how far it has got.

The parts' seconds were measured on one core. A few held-out samples, read before the first step, tell how much slower
this machine is than that one; each part that is over tells it anew for those to come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rotopaint_ai.jobs import Event, Sink, n_cores
from rotopaint_ai.training.models.landmarks.validation import predict_held_out
from rotopaint_ai.training.pack.prepare import Prepared
from rotopaint_ai.training.trainer.budget import Budget

_READING_S = 0.045  # of that core: one crop of 256 px by the usual network, exactly
_READ = 8  # samples
_SEAM_SHARE = 0.2  # of a command's time, at most
_TELLS_EVERY_S = 2.0
_NEARLY = 0.95
_RESCALED = 0.5, 2.0  # by what a part may change the estimates of others


class Tail:
    """Keeps the time of the parts that are to come in a budget, and tells how much of the command is over."""

    def __init__(self, ready: Prepared, budget: Budget, sink: Sink, *, seams: bool) -> None:
        self._budget, self._sink = budget, sink
        self.seam_s = ready.config.seam_minutes * 60 * seams
        if budget.limit_s is not None:
            self.seam_s = min(self.seam_s, _SEAM_SHARE * budget.limit_s)
        slower = _reading_s(ready) / _READING_S
        self._to_come = {part: slower * seconds for part, seconds in _estimate_seconds(ready, seams).items()}
        budget.reserve(self._left_s())

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Stands round a part, and tells now and then how far it has got."""
        start, expected = self._budget.spent_s(), self._to_come[name]
        over = threading.Event()
        teller = threading.Thread(target=self._keep_telling, args=(name, start, over), daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
        del self._to_come[name]
        if name != "seams":  # their length is chosen
            slower = float(np.clip((self._budget.spent_s() - start) / expected, *_RESCALED))
            self._to_come = {part: slower * seconds for part, seconds in self._to_come.items()}
        else:
            self.seam_s = 0.0
        self._budget.reserve(self._left_s())

    def time_for_seams(self) -> float:
        """Seconds for tuning the seam network: all that other parts leave over, or what the recipe says."""
        if self._budget.limit_s is not None and self.seam_s:
            self.seam_s = max(1.0, self._budget.left_s() - sum(self._to_come.values()))
        return self.seam_s

    def _left_s(self) -> float:
        return self.seam_s + sum(self._to_come.values())

    def _keep_telling(self, name: str, start: float, over: threading.Event) -> None:
        """Tell how far the command has got until a part is over; one that takes longer than expected is nearly done."""
        while True:
            expected = self._to_come[name] + (self.seam_s if name == "seams" else 0.0)
            passed = min(self._budget.spent_s() - start, _NEARLY * expected)
            self._budget.reserve(self._left_s() - passed)
            share = round(min(1.0, self._budget.share(1.0)), 4)
            self._sink(Event("progress", {"stage": "train", "share": share, "doing": name}))
            if over.wait(_TELLS_EVERY_S):
                return


def _reading_s(ready: Prepared) -> float:
    """Seconds in which one thread reads a held-out sample exactly, after one to warm up."""
    held, threads = ready.task.data.held_out, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for rows in (np.arange(1), np.arange(min(_READ, len(held)))):
            start = time.perf_counter()
            predict_held_out(ready.task.net, held, rows, ready.config, exact=True)
        return (time.perf_counter() - start) / len(rows)
    finally:
        torch.set_num_threads(threads)


def _estimate_seconds(ready: Prepared, seams: bool) -> dict[str, float]:
    """Seconds of each part on the core that they were measured on, but for the tuning itself."""
    n_held, n_packs = len(ready.task.data.held_out), 2 if ready.config.learn_all else 1
    measured = min(60, len(ready.data.rows_of("test")) or n_held)
    return {
        "fitting": 1.0 + 9.0 * ready.config.prior / min(3, n_cores()) + 0.27 * n_held,  # heads are fitted side by side
        "seams": (1.0 + 0.08 * n_held) * seams,
        "export": 22.0 + 14.0 * ready.config.prior + 5.5 * n_packs + 5.0 * ready.config.int8,
        "evaluation": 2.0 + 0.15 * measured,
    }
