"""`rotopaint train DATASET --recipe seam --out PACK`: trains the seam network and puts it into a pack.

N batch, T places along, S pairs of places, D offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.training.data.dataset import Dataset, join, read_dataset
from rotopaint_ai.training.data.holdout import split_held_out
from rotopaint_ai.training.models.seam.examples import Example, Examples, StripBatch, batch_of
from rotopaint_ai.training.models.seam.net import SeamNet, export
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.task import NETWORKS, Moment, Network, PartTask, TrainSources

_TRIES = 20  # samples drawn until one has a seam of some length
_LOOKED_AT = 300  # held-out samples that figures are of


@dataclass(frozen=True, slots=True)
class SeamConfig(TrainConfig):
    """A seam network's training."""

    task: str = "seam"
    name: str = "seam"
    minutes: float | None = 9.0
    batch: int = 12
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    clip: float = 1.0
    ema: float = 0.99
    bf16: bool = False
    eval_every: int = 100


class SeamTask(PartTask[SeamNet, StripBatch]):
    """A seam network in training on a data set's `train` samples."""

    def __init__(self, config: TrainConfig, net: SeamNet, examples: Examples) -> None:
        self.config, self.net, self.examples = config, net, examples
        self.samples, self.held_out = examples.rows_of("train"), examples.rows_of("val")
        if not len(self.samples):
            raise TrainingError(f"{examples.dataset.name}: no open shapes of role 'seam'; wanted a data set with seams")

    @classmethod
    def prepare(cls, config: SeamConfig, sources: TrainSources) -> SeamTask:
        """Read data sets, hold samples back, draw the network's weights."""
        data = split_held_out(join([read_dataset(folder) for folder in sources.folders]))
        torch.manual_seed(config.seed)
        return cls(config, SeamNet(), Examples.of(data))

    @property
    def data(self) -> Dataset:
        """The data set."""
        return self.examples.dataset

    @property
    def counts(self) -> tuple[int, int]:
        """Samples with seams, and held-out ones."""
        return len(self.samples), len(self.held_out)

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """The samples' sizes and curves."""
        yield np.array([(sample.width, sample.height) for sample in self.data.samples])
        yield from (np.asarray(self.samples), self.data.truth.landmarks, self.data.truth.points)

    def make_batch(self, moment: Moment) -> StripBatch:
        """This rank's strips."""
        return batch_of([self._example(rng) for rng in moment.generators()])

    def _example(self, rng: np.random.Generator) -> Example:
        for _ in range(_TRIES):
            made = self.examples.make(int(rng.choice(self.samples)), rng)
            if made is not None:
                return made
        raise TrainingError(f"{self.data.name}: {_TRIES} samples in turn have no seam long enough to see; look at them")

    def to_device(self, batch: StripBatch, moment: Moment) -> tuple[Tensor, Tensor]:
        """Strips and target probabilities."""
        return torch.from_numpy(batch.strip).to(moment.device), torch.from_numpy(batch.target).to(moment.device)

    def loss(self, net: SeamNet, inputs: tuple[Tensor, Tensor], moment: Moment) -> tuple[Tensor, dict[str, float]]:
        """Cross entropy against the target probabilities, per place that is known."""
        strip, target = inputs
        with moment.precision():
            logits = net(strip).float()
        return -(target * F.log_softmax(logits, dim=2)).sum() / target.sum().clamp_min(1.0), {}

    @torch.no_grad()
    def metrics(self, net: SeamNet) -> Mapping[str, Any]:
        """Share of seen places whose best offset is within 2 steps, and of hidden ones that are taken for such."""
        rng = np.random.default_rng(1)
        right, blind = [], []
        for row in self.held_out[:_LOOKED_AT]:
            item = self.examples.make(int(row), rng, augment=False)
            if item is None:
                continue
            logits = net(torch.from_numpy(batch_of([item]).strip))[0].numpy()
            known = item.weight > 0
            seen = np.isfinite(item.offset) & known
            right.append((np.abs(OFFSETS[logits[:, :-1].argmax(axis=1)] - item.offset) <= 2)[seen])
            blind.append((logits.argmax(axis=1) == N_OFFSETS)[~np.isfinite(item.offset) & known])
        joined = [np.concatenate(parts) if parts else np.zeros(0) for parts in (right, blind)]
        return {
            name: round(float(values.mean()), 4)
            for name, values in zip(("within_2_steps", "hidden_told"), joined)
            if len(values)
        }

    def export(self, net: SeamNet, path: Path) -> float:
        """Write `seam.onnx` with a free number of places."""
        return export(net, path)


NETWORKS.register("seam")(Network(SeamConfig(), SeamTask.prepare, file="seam.onnx", card=("training", "seam")))
