"""What a step keeps between its way forward and back: everything, little (computed again), or nothing (on the disk).

`checkpoint` keeps the input of each stage of the backbone and computes the rest again on the way back (Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016). `offload` puts what is kept into the host's memory where the
network is on a GPU, else on the disk. `auto` starts with everything and gives way when memory runs out.
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
SMALLEST_BYTES = 1 << 16  # a tensor that is smaller stays in memory


@dataclass(slots=True)
class Activations:
    """How a network's activations are kept. `stages` are the modules that may be computed again."""

    mode: str
    stages: tuple[nn.Module, ...]
    folder: Path | None = None
    current: str = field(init=False)
    _undo: list[Callable[[], None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.current = "keep"
        self._switch_to("keep" if self.mode == "auto" else self.mode)

    def tighten(self) -> bool:
        """Keep less from now on, where the mode is `auto`; returns whether that was possible."""
        if self.mode != "auto" or self.current == "offload":
            return False
        self._switch_to({"keep": "checkpoint", "checkpoint": "offload"}[self.current])
        gc.collect()
        torch.cuda.empty_cache()  # does nothing where there is no GPU
        return True

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """A step's way forward and back stand inside."""
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
    """Whether an error says that memory has run out, on the host or on a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "out of memory" in str(error))


def _recompute(stage: nn.Module) -> Callable[[], None]:
    """Make a module forget its inside on the way forward; returns what undoes that."""
    plain = stage.forward

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), _buffers_kept(stage)

    def forward(*values: Tensor) -> Any:
        if not (stage.training and torch.is_grad_enabled()):
            return plain(*values)
        return checkpoint(plain, *values, use_reentrant=False, context_fn=contexts)

    stage.forward = forward

    def undo() -> None:
        stage.forward = plain

    return undo


@contextlib.contextmanager
def _buffers_kept(stage: nn.Module) -> Iterator[None]:
    """Running means must not move a second time when a stage is computed again."""
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
    """The order of axes in which a tensor lies in memory without gaps; None where it does not."""
    if value.is_contiguous():
        return list(range(value.ndim))
    order = [0, 2, 3, 1]
    return order if value.ndim == 4 and value.permute(order).is_contiguous() else None
