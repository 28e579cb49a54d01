"""The stock recipe: PyTorch as in its tutorials, with the same network, losses and augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.landmarks import config as losses
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import CENTRE_JITTER, make_augmenter
from rotopaint_ai.training.pack.prepare import TrainInputs

LEARNING_RATE = 1e-3


class Samples(TorchDataset[Any]):
    """One augmented crop per sample, decoded from its file each time."""

    def __init__(self, ready: TrainInputs) -> None:
        self.data, self.size = ready.train_data, ready.config.input_size
        self.augmenter = make_augmenter(ready.config, ready.task.data.mirror)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """A float crop [3, S, S] of 0..1, landmarks [L, 2] in pixels of the crop, and their visibility [L]."""
        truth = self.data.truth.rows(np.array([row]))
        memory = Memory((self.data.picture(row),), truth, np.ones((1, 2)))
        draw = np.random.default_rng(int(torch.randint(2**31, ()).item()))
        batch = self.augmenter.batch(memory, [0], self.size, draw)
        crop = torch.from_numpy(batch.crops[0]).permute(2, 0, 1).contiguous().float() / 255
        return crop, torch.from_numpy(batch.landmarks[0]), torch.from_numpy(batch.visible[0])


def steps(ready: TrainInputs, workers: int) -> Iterator[tuple[LandmarkNet, int]]:
    """Train without end; yields the network and the images of the last step, first before any step."""
    config, net = ready.config, ready.task.net.train()
    optimiser = torch.optim.Adam(net.parameters(), LEARNING_RATE)
    whole = len(ready.train_data) >= config.batch
    loader = DataLoader(Samples(ready), config.batch, shuffle=True, num_workers=workers, drop_last=whole)
    weights = torch.tensor(ready.task.data.weights_L)
    yield net, 0
    while True:
        for crops, landmarks, visible in loader:
            target = losses.make_target(landmarks, visible, weights, config.input_size, config.hidden_weight)
            jitter = torch.randn(target.points.shape) * CENTRE_JITTER * COARSE_STRIDE
            loss, _ = losses.total_loss(net(crops, jitter), target, config.losses)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            yield net, len(crops)
