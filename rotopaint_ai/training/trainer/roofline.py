"""Whether a training is limited by arithmetic or by memory bandwidth, by a roofline measured on the device.

Each operation of a step has a minimum time: its floating-point operations at the rate of a large matrix product, or its
bytes, read and written once, at the rate of a large copy. The longer of the two limits it.
Source: Williams, Waterman & Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

SIDE, COPIED, ROUNDS = 1024, 64 << 20, 5


class Operation(NamedTuple):
    """One torch operation: floating-point operations, bytes read and written, and data type."""

    flop: float
    n_bytes: int
    dtype: torch.dtype


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records all torch operations while active, the backward pass included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            count = flop_registry.get(func.overloadpacket)
            flop = count(*args, **(kwargs or {}), out_val=out) if count else 0
            tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
            if tensors:
                self.noted.append(Operation(flop, sum(t.nbytes for t in tensors), tensors[0].dtype))
        return out


@dataclass(frozen=True, slots=True)
class Roofline:
    """Measured peaks of a device: floating-point operations per second, and bytes read and written per second."""

    flop_per_s: float
    bytes_per_s: float

    def memory_share(self, operations: Sequence[Operation]) -> float:
        """Share of the operations' minimum time that is limited by memory, 0 to 1."""
        times = [(each.flop / self.flop_per_s, each.n_bytes / self.bytes_per_s) for each in operations]
        total = sum(max(pair) for pair in times)
        return sum(memory for arithmetic, memory in times if memory > arithmetic) / max(total, 1e-12)


def memory_bound_share(operations: Sequence[Operation], device: torch.device) -> float | None:
    """The `memory_share` on a device, measured now in the data type of the largest operation; None without
    arithmetic."""
    most = max(operations, key=lambda each: each.flop, default=None)
    if most is None or not most.flop:
        return None
    return measure_roofline(device, most.dtype).memory_share(operations)


def measure_roofline(device: torch.device, dtype: torch.dtype) -> Roofline:
    """Measure a device with all its threads; takes about a tenth of a second."""
    side = torch.ones(SIDE, SIDE, device=device, dtype=dtype)
    source = torch.ones(COPIED, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    product_s = _shortest_s(lambda: side @ side, device)
    return Roofline(2 * SIDE**3 / product_s, 2 * COPIED / _shortest_s(lambda: target.copy_(source), device))


def _shortest_s(act: Callable[[], object], device: torch.device) -> float:
    """Shortest device time of several calls in seconds; on the processor, CPU time, without that of other programs."""
    taken = []
    for _ in range(ROUNDS + 1):  # the first one is a warm-up
        began = _device_clock(device)
        act()
        taken.append(_device_clock(device) - began)
    return min(taken)


def _device_clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time() / torch.get_num_threads()
