"""How a step stores activations for the backward pass: all, few (recomputed), or none in memory (offloaded).

`checkpoint` stores the input of each stage and recomputes the rest in the backward pass (Chen et al., "Training Deep
Nets with Sublinear Memory Cost", 2016). `offload` moves stored tensors to host memory from a GPU, else to the disk.
`auto` starts with all in memory and switches when memory runs out.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

MODES = ("auto", "keep", "checkpoint", "offload")
SMALLEST_BYTES = 1 << 16  # smaller tensors stay in memory


@dataclass(slots=True)
class Activations:
    """How a network's activations are stored. `stages`: modules that may be recomputed."""

    mode: str
    stages: tuple[nn.Module, ...]
    folder: Path | None = None
    current: str = field(init=False)
    _undo: list[Callable[[], None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.current = "keep"
        self._switch_to("keep" if self.mode == "auto" else self.mode)

    def save_memory(self) -> bool:
        """Use less memory from now on, if the mode is `auto`; returns whether that was possible."""
        if self.mode != "auto" or self.current == "offload":
            return False
        self._switch_to({"keep": "checkpoint", "checkpoint": "offload"}[self.current])
        gc.collect()
        torch.cuda.empty_cache()  # does nothing without a GPU
        return True

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Context for a step's forward and backward pass."""
        if self.current != "offload":
            yield
        elif next(self.stages[0].parameters()).is_cuda:
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                yield
        else:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".activations-") as place, _on_disk(Path(place)):
                yield

    def _switch_to(self, mode: str) -> None:
        while self._undo:
            self._undo.pop()()
        self.current = mode
        if mode != "keep":
            self._undo += [_recompute(stage) for stage in self.stages]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on the host or on a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "out of memory" in str(error))


def _recompute(stage: nn.Module) -> Callable[[], None]:
    """Recompute a module in the backward pass instead of storing its activations; returns a function that undoes
    this."""
    plain = stage.forward

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), _restore_buffers(stage)

    def forward(*values: Tensor) -> Any:
        if not (stage.training and torch.is_grad_enabled()):
            return plain(*values)
        return checkpoint(plain, *values, use_reentrant=False, context_fn=contexts)

    stage.forward = forward

    def undo() -> None:
        stage.forward = plain

    return undo


@contextlib.contextmanager
def _restore_buffers(stage: nn.Module) -> Iterator[None]:
    """Restore running statistics afterwards, so that recomputing a stage does not update them twice."""
    kept = {name: value.clone() for name, value in stage.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in stage.named_buffers():
                value.copy_(kept[name])


@contextlib.contextmanager
def _on_disk(folder: Path) -> Iterator[None]:
    numbers = itertools.count()

    def pack(value: Tensor) -> Any:
        if value.numel() * value.element_size() < SMALLEST_BYTES or isinstance(value, nn.Parameter):
            return value
        order = _order(value)
        if order is None:
            return value
        path = folder / f"{next(numbers)}.npy"
        np.save(path, value.detach().permute(order).view(torch.uint8).numpy())
        return path, value.dtype, order

    def unpack(packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        path, dtype, order = packed
        return torch.from_numpy(np.load(path)).view(dtype).permute([order.index(axis) for axis in range(len(order))])

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


def _order(value: Tensor) -> list[int] | None:
    """The axis order in which a tensor is contiguous in memory; None if there is none."""
    if value.is_contiguous():
        return list(range(value.ndim))
    order = [0, 2, 3, 1]
    return order if value.ndim == 4 and value.permute(order).is_contiguous() else None
