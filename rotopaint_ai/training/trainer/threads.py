"""How many threads a training runs on: every core, unless one thread alone turns out to be quicker.

On a machine where others work, threads of one computation wait for each other at every step's barriers and can be many
times slower than one of them by itself.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.validation import precision
from rotopaint_ai.training.trainer.recipe import Recipe

_WORTH = 0.95  # one thread has to bring the time of a step below this share
_SIZE_PX = 128
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Threads:
    """How many, and what there is to say about it (empty: nothing out of the way)."""

    count: int
    note: str = ""


def settle(recipe: Recipe, net: LandmarkNet, seconds: Callable[[int], float] | None = None) -> Threads:
    """Set torch's threads for a training: as many as the recipe says or, for 0, as is quicker now.

    `seconds` measures a step on so many threads; None: by steps of a copy of the network.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = Threads(recipe.threads or cores)
    if not recipe.threads and cores > 1:
        chosen = _quicker(cores, seconds or (lambda count: _step_seconds(recipe, net, count)))
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


def _step_seconds(recipe: Recipe, net: LandmarkNet, count: int) -> float:
    """The quickest of a few forward and backward passes of a small batch, after one to warm up."""
    torch.set_num_threads(count)
    layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
    twin = copy.deepcopy(net).to(memory_format=layout).train()  # type: ignore[call-overload]
    crops = torch.rand(recipe.batch, 3, _SIZE_PX, _SIZE_PX).to(memory_format=layout)
    taken = []
    for _ in range(_ROUNDS + 1):
        start = time.perf_counter()
        with precision(recipe):
            said = twin(crops)
        (said.points.sum() + said.coarse_log.mean()).backward()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])
