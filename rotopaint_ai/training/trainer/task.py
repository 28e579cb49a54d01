"""What the Trainer is given: a network with its batches, its loss, its validation and its file.

A new network is one module that subclasses `PartTask`, and one row of `NETWORKS`:

    NETWORKS.register("mine")(Network(MyConfig(), MyTask.prepare, file="mine.onnx", card=("mine",)))
"""

from __future__ import annotations

import contextlib
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
    """Where a training stands. `progress`: the share of it that is over, by steps or by the clock."""

    step: int
    progress: float
    config: TrainConfig
    group: Group

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""
        return self.group.device

    def rows(self, n: int) -> list[int]:
        """Rows out of `n` for this rank's part of the step's batch, drawn at random."""
        drawn = np.random.default_rng((self.config.seed, self.step)).integers(0, n, self.config.batch)
        return [int(row) for row in self.group.share(drawn)]

    def generators(self) -> list[np.random.Generator]:
        """A random generator for each sample of this rank's part; however many ranks, a sample's is the same."""
        places = self.group.share(range(self.config.batch))
        return [np.random.default_rng((self.config.seed, self.step, at)) for at in places]

    def noise(self) -> torch.Generator:
        """The step's generator of torch, on the processor; anew at every call."""
        return torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The arithmetic that the config asks for, on this rank's device."""
        return precision(self.config, self.device)


def precision(config: TrainConfig, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """The arithmetic that a config asks for: bfloat16 where it wants it and the device has it, else float32."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16, enabled=config.bf16 and has_bf16(device.type))


def has_bf16(device_type: str) -> bool:
    """Whether a kind of device has instructions for bfloat16; without them it is imitated, many times slower."""
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type != "cpu":
        return True
    can = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if can.get("architecture") == "x86_64":
        return bool(can["avx512_bf16"] or can["amx_bf16"])
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def to_tensor(values: npt.NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """An array on a device. A GPU fetches it by itself, so that the processor can go on."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Task(ABC, Generic[Net, Batch]):
    """A network to train. What a step does must depend on its `Moment` alone, so that a run can be resumed exactly."""

    net: Net
    scores: tuple[str, ...] = ()  # names of what `validate` gives; the first is to become small
    # whether `loss` does the same operations for all inputs of one shape, whatever the moment, and asks for no value:
    # a GPU can then repeat a recording of them
    captures: bool = False

    @abstractmethod
    def arrays(self) -> Iterable[npt.NDArray[Any]]:
        """What tells this task's data from others: a checkpoint is only resumed with the same."""

    @abstractmethod
    def make_batch(self, moment: Moment) -> Batch:
        """This rank's part of the batch of a step; called by a thread of its own, a few steps ahead."""

    @abstractmethod
    def to_device(self, batch: Batch, moment: Moment) -> Any:
        """The batch as tensors on the moment's device."""

    @abstractmethod
    def loss(self, net: Net, inputs: Any, moment: Moment) -> Losses:
        """The loss of what `to_device` gave, and its parts for the log, without gradients; may be asked for twice."""

    def blocks(self) -> tuple[nn.Module, ...]:
        """Parts of the network that may be computed again from their input when memory is short."""
        return ()

    def set_mode(self, net: Net) -> None:
        """Ready the network for a step."""
        net.train()

    def validate(self, net: Net) -> tuple[float, ...]:
        """The `scores` of the averaged network on held-out samples, at an evaluation; asked of the first rank."""
        return ()

    def trains_on_all(self, moment: Moment) -> bool:
        """Whether held-out samples are trained on from this moment; the best network before that is kept apart."""
        return False

    def facts(self, moment: Moment) -> dict[str, float]:
        """What else a line of the log says of a step."""
        return {}

    @contextlib.contextmanager
    def prefetching(self, first: Moment) -> Iterator[Callable[[Moment], None]]:
        """Stands round the training; what it gives is called with each moment, to have far data fetched in time."""
        yield lambda moment: None

    def reading_and_decoding_s(self) -> tuple[float, float]:
        """Seconds in which pictures' bytes came to memory, and were decoded, while batches were made."""
        return 0.0, 0.0


class PartTask(Task[Net, Batch]):
    """A network that is one file of a pack, trained on `samples`."""

    samples: Any  # what is trained on; anything that has a length
    held_out: Any

    @property
    def counts(self) -> tuple[int, int]:
        """How many samples are trained on, and how many are held out."""
        return len(self.samples), len(self.held_out)

    @abstractmethod
    def metrics(self, net: Net) -> Mapping[str, Any]:
        """Figures of the trained network, on the processor, on held-out samples."""

    @abstractmethod
    def export(self, net: Net, path: Path) -> float:
        """Write the file; the largest difference from the network. Raises TrainingError where that is too large."""


@dataclass(frozen=True, slots=True)
class TrainSources:
    """What a task is prepared from: folders of data, the pack to start from, a folder for what takes long to make."""

    folders: Sequence[str]
    init: str | None
    folder: Path
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Network:
    """A row of the table of networks.

    `config`: its defaults. `prepare`: reads data and makes the task. `file`: its name in a pack. `card`: where on the
    pack's card its facts go.
    """

    config: Any
    prepare: Callable[[Any, TrainSources], PartTask[Any, Any]]
    file: str
    card: tuple[str, ...]


NETWORKS: Registry[Network] = Registry("network")
