"""Optimisers that a recipe can name, the schedule of the learning rate, and the moving average of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from rotopaint_ai.training.registry import Registry

BuildOptimiser = Callable[[nn.Module, float, float], torch.optim.Optimizer]
Net = TypeVar("Net", bound=nn.Module)
OPTIMISERS: Registry[BuildOptimiser] = Registry("optimiser")


def _parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weights with decay; biases, norms and single vectors without."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


@OPTIMISERS.register("adamw")
def build_adamw(module: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW, Loshchilov & Hutter (2019)."""
    on_gpu = any(parameter.is_cuda for parameter in module.parameters())
    groups = _parameter_groups(module, weight_decay)
    return torch.optim.AdamW(groups, learning_rate, betas=(0.9, 0.99), fused=on_gpu, foreach=not on_gpu)


@OPTIMISERS.register("novograd")
def build_novograd(module: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """NovoGrad, Ginsburg et al. (2019)."""
    return NovoGrad(_parameter_groups(module, weight_decay), learning_rate)


class NovoGrad(torch.optim.Optimizer):
    """Momentum of gradients that are normalised layer by layer.

    Source: Ginsburg et al., "Stochastic Gradient Methods with Layer-wise Adaptive Moments" (2019), algorithm 1. The
    first moment starts as the first normalised gradient.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, *, betas: tuple[float, float] = (0.95, 0.98), eps: float = 1e-8
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; `closure` is not supported and must be None."""
        if closure is not None:
            raise NotImplementedError("NovoGrad takes no closure")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return None

    def _move(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        square = grad.float().pow(2).sum()
        if not state:
            state["second"], state["first"] = square.clone(), torch.zeros_like(parameter)
        else:
            state["second"].mul_(beta2).add_(square, alpha=1 - beta2)
        pull = grad / (state["second"].sqrt() + group["eps"]) + group["weight_decay"] * parameter
        state["first"].mul_(beta1).add_(pull)
        parameter.add_(state["first"], alpha=-group["lr"])


@OPTIMISERS.register("muon")
def build_muon(module: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Muon, Jordan et al. (2024), for the kernels of convolutions, and AdamW for all other parameters."""
    on_gpu = any(parameter.is_cuda for parameter in module.parameters())
    groups = _parameter_groups(module, weight_decay)
    kernels = [parameter for parameter in groups[0]["params"] if parameter.ndim == 4]
    groups[0]["params"] = [parameter for parameter in groups[0]["params"] if parameter.ndim != 4]
    groups.append({"params": kernels, "weight_decay": weight_decay, "is_orthogonal": True})
    return Muon(groups, learning_rate, betas=(0.9, 0.99), fused=on_gpu, foreach=not on_gpu)


class Muon(torch.optim.AdamW):
    """AdamW; in groups that are `is_orthogonal`, steps along the nearest orthogonal matrix to the momentum.

    A kernel [O, I, h, w] is a matrix [O, I h w]. Sources: Jordan et al., "Muon: an optimizer for hidden layers in
    neural networks" (2024), with its coefficients; Liu et al., "Muon is scalable for LLM training" (2025), section 2.2:
    a step's size is AdamW's, so that one learning rate serves both. torch's own Muon refuses kernels.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; `closure` is not supported and must be None."""
        if closure is not None:
            raise NotImplementedError("Muon takes no closure")
        moved = [
            parameter for group in self.param_groups if group.get("is_orthogonal") for parameter in group["params"]
        ]
        grads = [parameter.grad for parameter in moved]
        for group in self.param_groups:
            if group.get("is_orthogonal"):
                self._move_kernels([kernel for kernel in group["params"] if kernel.grad is not None], group)
        for parameter in moved:
            parameter.grad = None  # AdamW passes over it
        super().step()
        for parameter, grad in zip(moved, grads):
            parameter.grad = grad
        return None

    def _move_kernels(self, kernels: Sequence[Tensor], group: dict[str, Any]) -> None:
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
        for kernel in kernels:
            assert kernel.grad is not None
            if not self.state[kernel]:
                self.state[kernel] = {"momentum": torch.zeros_like(kernel), "step": torch.zeros(())}  # AdamW reads it
            momentum = self.state[kernel]["momentum"]
            momentum.lerp_(kernel.grad, 1 - _MOMENTUM)
            ahead = torch.lerp(kernel.grad, momentum, _MOMENTUM).flatten(1)
            alike.setdefault((ahead.shape[0], ahead.shape[1]), []).append((kernel, ahead))
        for (rows, columns), pairs in alike.items():
            steps = make_orthogonal(torch.stack([ahead for _, ahead in pairs]))
            length = group["lr"] * _ADAM_SIZE * max(rows, columns) ** 0.5
            for (kernel, _), step in zip(pairs, steps):
                kernel.mul_(1 - group["lr"] * group["weight_decay"])
                kernel.add_(step.view_as(kernel), alpha=-length)


_MOMENTUM = 0.9
_ADAM_SIZE = 0.2  # root mean square of a step of AdamW at learning rate 1
_ITERATIONS = 5


def make_orthogonal(matrix_NRC: Tensor) -> Tensor:
    """Matrices [N, R, C] with the same singular vectors, and singular values between 0.7 and 1.2.

    Five iterations of Newton and Schulz with Jordan's coefficients. Each multiplies the matrix by a polynomial of its
    Gram matrix [R, R], so that only the product of the polynomials is applied to the wide matrix.
    """
    is_tall = matrix_NRC.shape[1] > matrix_NRC.shape[2]
    wide = (matrix_NRC.mT if is_tall else matrix_NRC).float()
    wide = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    gram = wide @ wide.mT
    product = start = torch.eye(gram.shape[1], device=gram.device).expand_as(gram)
    for _ in range(_ITERATIONS):
        factor = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315).add_(start, alpha=3.4445)
        product, gram = factor @ product, factor @ gram @ factor
    orthogonal: Tensor = product @ wide
    return orthogonal.mT if is_tall else orthogonal


def rate_at(progress: float, *, warmup: float) -> float:
    """Factor of the learning rate at a share of the run: a linear warm-up, then half a cosine."""
    if progress < warmup:
        return max(0.01, progress / warmup)
    done = min(1.0, (progress - warmup) / max(1e-9, 1 - warmup))
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))


class MovingAverage(Generic[Net]):
    """A copy of a network that averages its weights and running statistics during training (EMA)."""

    def __init__(self, net: Net, decay: float) -> None:
        self.net, self.decay = copy.deepcopy(net).eval(), decay
        self._average, self._source = _floats(self.net), _floats(net)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """One step towards the network; early steps are larger."""
        torch._foreach_lerp_(self._average, self._source, 1 - min(self.decay, (1 + step) / (10 + step)))


def _floats(module: nn.Module) -> list[Tensor]:
    return [value for value in module.state_dict().values() if value.is_floating_point()]
