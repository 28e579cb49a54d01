"""The Trainer's interface: a network with its batches, loss, validation and export.

A new network is one module that subclasses `PartTask`, and one row of `NETWORKS`:

    NETWORKS.register("mine")(Network(MyConfig(), MyTask.prepare, file="mine.onnx", card=("mine",)))
"""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.group import Group

Net = TypeVar("Net", bound=nn.Module)
Batch = TypeVar("Batch")
Losses = tuple[Tensor, dict[str, Tensor]]  # a loss, and its parts for the log


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a training at a step. `progress`: the completed share of the run, by steps or by the clock."""

    step: int
    progress: float
    config: TrainConfig
    group: Group

    @property
    def device(self) -> torch.device:
        """This rank's device."""
        return self.group.device

    def rows(self, n: int) -> list[int]:
        """Indices below `n` for this rank's part of the step's batch, drawn at random."""
        drawn = np.random.default_rng((self.config.seed, self.step)).integers(0, n, self.config.batch)
        return [int(row) for row in self.group.share(drawn)]

    def generators(self) -> list[np.random.Generator]:
        """A random generator for each sample of this rank's part, independent of the number of ranks."""
        places = self.group.share(range(self.config.batch))
        return [np.random.default_rng((self.config.seed, self.step, at)) for at in places]

    def noise(self) -> torch.Generator:
        """The step's torch generator on the CPU; a new, equal one at every call."""
        return torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The config's autocast context on this rank's device."""
        return precision(self.config, self.device)


def precision(config: TrainConfig, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """The autocast context of a config: bfloat16 where the config and the device allow it, else float32."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16, enabled=config.bf16 and has_bf16(device.type))


def has_bf16(device_type: str) -> bool:
    """Whether a device type has bfloat16 instructions; emulation is many times slower."""
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type != "cpu":
        return True
    can = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if can.get("architecture") == "x86_64":
        return bool(can["avx512_bf16"] or can["amx_bf16"])
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def to_tensor(values: npt.NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """An array on a device; copies to a GPU are asynchronous."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Task(ABC, Generic[Net, Batch]):
    """A network to train. A step must depend on its `Moment` only, so that a run can be resumed exactly."""

    net: Net
    scores: tuple[str, ...] = ()  # names of the results of `validate`; the first is minimised
    # whether `loss` runs the same operations for all inputs of one shape at any moment, and reads no values; a GPU can
    # then record it as a CUDA graph
    captures: bool = False

    @abstractmethod
    def arrays(self) -> Iterable[npt.NDArray[Any]]:
        """Arrays that identify this task's data; a checkpoint is resumed only with equal ones."""

    @abstractmethod
    def make_batch(self, moment: Moment) -> Batch:
        """This rank's part of a step's batch; called ahead of time in another thread or process."""

    @abstractmethod
    def to_device(self, batch: Batch, moment: Moment) -> Any:
        """The batch as tensors on the moment's device."""

    @abstractmethod
    def loss(self, net: Net, inputs: Any, moment: Moment) -> Losses:
        """The loss of the inputs from `to_device`, and its parts for the log; may be called twice.

        Parts are detached scalars on the loss's device, the same at every step.
        """

    def blocks(self) -> tuple[nn.Module, ...]:
        """Parts of the network that may be recomputed from their input when memory is short."""
        return ()

    def set_mode(self, net: Net) -> None:
        """Prepare the network for a step."""
        net.train()

    def validate(self, net: Net) -> tuple[float, ...]:
        """The `scores` of the averaged network on held-out samples; called on the first rank only."""
        return ()

    def trains_on_all(self, moment: Moment) -> bool:
        """Whether held-out samples are trained on from this moment; the best network before it is kept separately."""
        return False

    def facts(self, moment: Moment) -> dict[str, float]:
        """Further columns of the log's row for a step."""
        return {}

    @contextlib.contextmanager
    def prefetching(self, first: Moment) -> Iterator[Callable[[Moment], None]]:
        """A context around the training; its value is called with each moment, to prefetch remote data."""
        yield lambda moment: None

    def reading_and_decoding_s(self) -> tuple[float, float]:
        """Seconds spent reading and decoding pictures for batches."""
        return 0.0, 0.0


class PartTask(Task[Net, Batch]):
    """A network that is one file of a pack, trained on `samples`."""

    samples: Any  # training samples, with a length
    held_out: Any

    @property
    def counts(self) -> tuple[int, int]:
        """The number of training samples and of held-out samples."""
        return len(self.samples), len(self.held_out)

    @abstractmethod
    def metrics(self, net: Net) -> Mapping[str, Any]:
        """Metrics of the trained network on held-out samples, computed on the CPU."""

    @abstractmethod
    def export(self, net: Net, path: Path) -> float:
        """Write the ONNX file; returns its largest difference from the network. Raises TrainingError where that is too
        large."""


class KeptWeights:
    """A share of the weights that a network begins with, which remains in what is made of it."""

    def __init__(self, net: nn.Module, share: float) -> None:
        self._share = share
        self._first = [weight.clone() for weight in net.state_dict().values()]

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """The weights as a part of `Task.arrays`, as a resumed training keeps what it began with; none without a
        share."""
        if self._share:
            yield from (weight.cpu().numpy() for weight in self._first)

    def mixed_into(self, net: Net) -> Net:
        """A copy of the network in training, mixed with what it began with."""
        made = copy.deepcopy(net)
        for weight, old in zip(made.state_dict().values(), self._first, strict=True):
            if weight.is_floating_point():
                weight.lerp_(old.to(weight.device), self._share)
        return made


@dataclass(frozen=True, slots=True)
class TrainSources:
    """Inputs of `Network.prepare`: data folders, the initial pack, a folder for intermediate files."""

    folders: Sequence[str | Path]
    init: str | Path | None
    folder: Path
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Network:
    """A row of the table of networks.

    `config`: its defaults. `prepare`: reads the data and makes the task. `file`: its name in a pack. `card`: the path
    of its facts on the pack's card. `others`: files that its export may write beside.
    """

    config: Any
    prepare: Callable[[Any, TrainSources], PartTask[Any, Any]]
    file: str
    card: tuple[str, ...]
    others: tuple[str, ...] = ()


NETWORKS: Registry[Network] = Registry("network")
