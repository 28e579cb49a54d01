"""Communication between the ranks of a training: gradients, and a few numbers that all must agree on.

By torch.distributed: gloo between processors, NCCL between GPUs; MPI or oneCCL instead of gloo on request.
"""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rotopaint_ai.errors import CancelledError, UsageError
from rotopaint_ai.jobs import RESUMES
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.launch import is_rank

ONE_BUCKET_MB = 4096
CPU = torch.device("cpu")
BACKENDS = ("gloo", "mpi", "ccl")
TIMEOUT = datetime.timedelta(minutes=20)  # the first rank validates while the others wait
Hook = Callable[[nn.parallel.DistributedDataParallel], None]
HOOKS: Registry[Hook] = Registry("gradient compression")


def check_backend(name: str) -> None:
    """Load a CPU backend. Raises UsageError if it is unknown or not installed."""
    if name == "mpi" and not dist.is_mpi_available():
        raise UsageError("--backend mpi: this PyTorch was built without MPI; use gloo, or build PyTorch with MPI")
    if name == "ccl":
        try:
            import_module("oneccl_bindings_for_pytorch")
        except ImportError as error:
            raise UsageError("--backend ccl: needs oneccl_bindings_for_pytorch; install it, or use gloo") from error
    if name not in BACKENDS:
        raise UsageError(f"--backend {name}: wanted one of {', '.join(BACKENDS)}")


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of a training; by default a single one."""

    rank: int = 0
    ranks: int = 1
    device: torch.device = CPU  # this rank's device

    @classmethod
    def join(cls, between_processors: str = "gloo") -> Group:
        """Join the other ranks if the launcher started this process; else a group of one.

        A rank uses the GPU of its local number if the host has one for each of its ranks. Raises UsageError as
        `check_backend` does.
        """
        check_backend(between_processors)
        device = _own_device()
        if not is_rank():
            return cls(device=device)
        if not dist.is_initialized():
            # control values are exchanged between processors
            backend = f"cpu:{between_processors},cuda:nccl" if device.type == "cuda" else between_processors
            dist.init_process_group(backend, timeout=TIMEOUT)
        return cls(dist.get_rank(), dist.get_world_size(), device)

    @property
    def is_first(self) -> bool:
        """Whether this rank writes files and reports."""
        return self.rank == 0

    def share(self, values: Any) -> Any:
        """This rank's part of a sequence or of a tensor's first axis."""
        return values[self.rank :: self.ranks]

    def sums(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks."""
        if self.ranks == 1:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(summed)
        return [float(value) for value in summed]

    def from_first(self, value: float) -> float:
        """The first rank's value."""
        return self.sums([value if self.is_first else 0.0])[0]

    def is_true_anywhere(self, value: bool) -> bool:
        """Whether it is true on any rank. For example, the launcher counts restarts only on the host of the lost
        rank."""
        return self.sums([float(value)])[0] > 0

    def check(self, check: Callable[[], None]) -> None:
        """Call `check` on every rank; if it raises on one, all raise CancelledError, so that none waits."""
        if self.ranks == 1:
            check()
            return
        raised = False
        try:
            check()
        except CancelledError:
            raised = True
        if self.is_true_anywhere(raised):
            raise CancelledError(f"stopped on request; {RESUMES}")

    def communication_s(self, wrapped: nn.Module) -> float:
        """Seconds of the last step spent waiting for gradients, from PyTorch's record."""
        if not isinstance(wrapped, nn.parallel.DistributedDataParallel):
            return 0.0
        record = cast(Any, wrapped)._get_ddp_logging_data()
        return (
            float(record.get("avg_backward_comm_time", 0) - record.get("avg_backward_compute_comm_overlap_time", 0))
            / 1e9
        )

    def wrap(self, net: nn.Module, *, compression: str = "none", equal: bool = False) -> nn.Module:
        """Wrap a network so that its gradients are averaged over all ranks.

        `equal`: batch norms use the whole batch, as in one process; slower than each rank's own part.
        """
        if self.ranks == 1:
            return net
        if equal:
            share_norms(net)
        # only the first rank validates and saves, with its own running statistics: no need to broadcast them
        wrapped = nn.parallel.DistributedDataParallel(
            net,
            device_ids=[self.device] if self.device.type == "cuda" else None,
            **_broadcast_arguments(),
            gradient_as_bucket_view=True,
            # PowerSGD sends twice per bucket; with several buckets gloo's ranks may disagree on the order
            bucket_cap_mb=ONE_BUCKET_MB if compression == "powersgd" else None,
        )
        HOOKS[compression](wrapped)
        return wrapped

    def leave(self) -> None:
        """Leave the group without waiting for the others."""
        if self.ranks > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Group()


def _broadcast_arguments() -> dict[str, Any]:
    """The argument that keeps buffers from being broadcast; its name depends on PyTorch's version (2.13 deprecates
    one)."""
    known = inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters
    return {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}


def _own_device() -> torch.device:
    local, ranks_here = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if not torch.cuda.is_available() or torch.cuda.device_count() < ranks_here:
        return CPU
    torch.cuda.set_device(local)  # otherwise every rank would open its first context on GPU 0
    return torch.device("cuda", local)


@HOOKS.register("none")
def send_whole(wrapped: nn.parallel.DistributedDataParallel) -> None:
    """Send gradients uncompressed."""


@HOOKS.register("bf16")
def send_bf16(wrapped: nn.parallel.DistributedDataParallel) -> None:
    """Gradients rounded to bfloat16: half the bytes. PyTorch's own hook refuses gloo."""

    def hook(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        small = buffer.bfloat16().div_(dist.get_world_size())
        done = cast(Any, dist.all_reduce(small, async_op=True)).get_future()
        return done.then(lambda future: buffer.copy_(future.value()[0]))

    hook.__annotations__.clear()  # PyTorch compares annotations with types, and here they are strings
    wrapped.register_comm_hook(None, hook)


@HOOKS.register("powersgd")
def send_powersgd(wrapped: nn.parallel.DistributedDataParallel) -> None:
    """Gradients as low-rank products (Vogels et al. 2019), for slow networks between hosts."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    wrapped.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=20), powerSGD_hook)


def share_norms(net: nn.Module) -> None:
    """Replace every batch norm by one over the batches of all ranks."""
    for module in net.modules():
        for name, child in module.named_children():
            if type(child) is nn.BatchNorm2d:
                setattr(module, name, _as_shared_norm(child))


class SharedNorm(nn.BatchNorm2d):
    """A batch norm over all ranks' samples. PyTorch's SyncBatchNorm needs GPUs."""

    def forward(self, values: Tensor) -> Tensor:
        """Normalise [N, C, H, W] with the mean and variance of all ranks."""
        if not self.training:
            return super().forward(values)
        wide = values.double()  # in single precision E[x^2] - E[x]^2 loses small variances
        count = values.shape[0] * values.shape[2] * values.shape[3] * dist.get_world_size()
        sums = _all_sum(torch.stack([wide.sum((0, 2, 3)), (wide * wide).sum((0, 2, 3))]))
        exact = sums[0] / count
        mean, variance = exact.float(), (sums[1] / count - exact * exact).clamp_min(0).float()
        self._update_statistics(mean.detach(), variance.detach() * count / max(1, count - 1))
        scale = torch.rsqrt(variance + self.eps) * self.weight
        moved = values.float() * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]
        return moved.to(values.dtype)

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        share = 0.1 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


def _as_shared_norm(norm: nn.BatchNorm2d) -> SharedNorm:
    made = SharedNorm(norm.num_features, norm.eps, norm.momentum)
    made.weight, made.bias = norm.weight, norm.bias
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        setattr(made, name, getattr(norm, name))
    return made.train(norm.training)


def _all_sum(values: Tensor) -> Tensor:
    """The sum over all ranks; gradients are summed over all ranks too."""
    return cast(Tensor, _AllSum.apply(values))  # type: ignore[no-untyped-call]


class _AllSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        summed = values.clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        summed = gradient.clone()
        dist.all_reduce(summed)
        return summed
