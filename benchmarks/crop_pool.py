"""A pool of augmented crops, made once and used for many trainings, so that a GPU never waits for augmentation."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import torch

from rotopaint_ai.jobs import n_cores
from rotopaint_ai.training.data.augment import Batch as CropBatch
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.task import LandmarkTask, build_net
from rotopaint_ai.training.pack.prepare import TrainInputs
from rotopaint_ai.training.trainer.cores import prefetching_batches
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.task import Moment

AT_ONCE = 64  # crops made at a time


@dataclass(frozen=True, slots=True)
class Pool:
    """A data set as read, the recipe of its augmentation, and its crops."""

    ready: TrainInputs
    crops: CropBatch

    @classmethod
    def make(cls, ready: TrainInputs, count: int) -> Pool:
        """Make `count` crops of a data set at the recipe's input size, on every core."""
        config = replace(ready.config, batch=AT_ONCE, small_share=0.0, minutes=None, steps=1)
        task = LandmarkTask(config, ready.task.net, ready.task.data)
        with prefetching_batches(task, lambda step: Moment(step, 0.0, config, Group()), 0, n_cores()) as batches:
            parts = [next(batches)[0].batch for _ in range(-(-count // AT_ONCE))]
        return cls(ready, CropBatch(*(np.concatenate(part)[:count] for part in zip(*parts))))

    def task(self, config: PackConfig) -> PooledTask:
        """A training on the pool with a recipe, from random weights."""
        torch.manual_seed(config.seed)
        return PooledTask(config, build_net(config, len(self.ready.data.sheet.landmarks)), self)


class PooledTask(LandmarkTask):
    """A landmark network that trains on a pool."""

    def __init__(self, config: PackConfig, net: LandmarkNet, pool: Pool) -> None:
        super().__init__(config, net, pool.ready.task.data)
        self.crops = pool.crops

    def make_batch(self, moment: Moment) -> CropBatch:
        """A batch of crops drawn from the pool."""
        rows = moment.rows(len(self.crops.crops))
        crops, landmarks, visible = self.crops
        return CropBatch(crops[rows], landmarks[rows], visible[rows])


def take_core(at: int) -> None:
    """Restrict this process to one core, because other trainings run in parallel."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[at % len(cores)]})
