"""How many threads a training computes on.

Every core computes, unless one thread alone turns out to be quicker.

On a machine where others work, threads of one computation wait for each other at every step's barriers and can be many
times slower than one of them by itself.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch

from rotopaint_ai.jobs import n_cores
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.group import ALONE
from rotopaint_ai.training.trainer.task import Moment, Task

_WORTH = 0.95  # one thread has to bring the time of a step below this share
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Threads:
    """How many, and what there is to say about it (empty: nothing out of the way)."""

    count: int
    note: str = ""


def choose_threads(config: TrainConfig, task: Task[Any, Any], seconds: Callable[[int], float] | None = None) -> Threads:
    """Set torch's threads for a training: as many as the config says or, for 0, as is quicker now.

    `seconds` measures a step on so many threads; None: by steps of a copy of the network.
    """
    cores = n_cores()
    chosen = Threads(config.threads or cores)
    if not config.threads and cores > 1:
        chosen = _quicker(cores, seconds or _Trial(config, task).seconds)
    torch.set_num_threads(chosen.count)
    return chosen


def _quicker(cores: int, seconds: Callable[[int], float]) -> Threads:
    together, alone = seconds(cores), seconds(1)
    if alone >= _WORTH * together:
        return Threads(cores)
    return Threads(
        1,
        f"one thread is {together / alone:.1f} times as fast as {cores} here: the machine is busy. Training takes one "
        f"and gets through about half of what it would otherwise; to have it your way, --set threads={cores}",
    )


class _Trial:
    """Steps forward and back of a copy of a task's network, on the first batch."""

    def __init__(self, config: TrainConfig, task: Task[Any, Any]) -> None:
        self.task, self.moment = task, Moment(0, 0.0, config, ALONE)
        self.net = cast(Any, copy.deepcopy(task.net)).to(memory_format=torch.channels_last)
        self.inputs = task.to_device(task.make_batch(self.moment), self.moment)

    def seconds(self, count: int) -> float:
        """The quickest of a few steps on so many threads, after one to warm up."""
        torch.set_num_threads(count)
        self.task.set_mode(self.net)
        taken = []
        for _ in range(_ROUNDS + 1):
            start = time.perf_counter()
            loss, _ = self.task.loss(self.net, self.inputs, self.moment)
            cast(Any, loss).backward()
            taken.append(time.perf_counter() - start)
        return min(taken[1:])
