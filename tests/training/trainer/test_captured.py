"""CUDA graphs replay recorded steps: the same losses and gradients as without a recording."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.training.trainer.captured import WARM_UP, CapturedGradients
from rotopaint_ai.training.trainer.optim import OPTIMISERS
from rotopaint_ai.training.trainer.task import Losses

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
STEPS = WARM_UP + 6


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3)).cuda()


def picture(step: int, side: int) -> Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(step)).cuda()


def train(net: nn.Module, gradients: Any) -> list[float]:
    """Losses of some steps, alternating between two picture sizes, with `step` computing the gradients."""
    optimiser, losses = OPTIMISERS["adamw"](net, 0.01, 0.0), []
    for step in range(2 * STEPS):
        optimiser.zero_grad(set_to_none=True)
        loss, _ = gradients(picture(step, 16 + 8 * (step % 2)))
        optimiser.step()
        losses.append(float(loss))
    return losses


def compute_for(net: nn.Module, spoil: bool = False) -> Any:
    def compute(inputs: Tensor) -> Losses:
        loss = net(inputs).square().mean()
        if spoil:
            # reads a value, which is impossible in a recording
            loss = loss * (1.0 if float(loss.detach()) > -1 else 2.0)
        loss.backward()
        return loss.detach(), {}

    return compute


def captured(net: nn.Module, spoil: bool = False) -> CapturedGradients:
    return CapturedGradients(compute_for(net, spoil), list(net.parameters()), torch.cuda.Stream())


def test_recorded_steps_are_the_steps() -> None:
    one, other = network(), network()
    recorded = captured(other)
    expected, found = train(one, compute_for(one)), train(other, recorded)
    assert len(recorded._recorded) == 2
    assert found == pytest.approx(expected, rel=1e-4)
    for mine, theirs in zip(one.state_dict().values(), other.state_dict().values()):
        assert torch.allclose(mine.double(), theirs.double(), atol=1e-4)


def test_a_step_that_cannot_be_recorded_is_computed_kernel_by_kernel() -> None:
    one, other = network(), network()
    recorded = captured(other, spoil=True)
    assert train(other, recorded) == pytest.approx(train(one, compute_for(one)), rel=1e-4)
    assert recorded.failure
    assert not recorded._recorded
