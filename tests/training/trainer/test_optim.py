"""NovoGrad equals its published algorithm, and a loss of any scale gives the same steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rotopaint_ai.training.trainer.optim import NovoGrad, build_novograd


def test_two_steps_by_hand() -> None:
    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    optimiser = NovoGrad([{"params": [weight], "weight_decay": 0.1}], lr=0.5)
    weight.grad = torch.tensor([[6.0, 8.0]])  # of length 10
    optimiser.step()
    first = np.array([0.6 + 0.3, 0.8 + 0.4])  # the gradient over its norm, plus a tenth of the weight
    second = np.array([3.0, 4.0]) - 0.5 * first
    np.testing.assert_allclose(weight.detach().numpy()[0], second, rtol=1e-6)
    weight.grad = torch.tensor([[0.0, 20.0]])
    optimiser.step()
    spread = np.sqrt(0.98 * 100 + 0.02 * 400)  # algorithm 1, line 7
    moment = 0.95 * first + np.array([0.0, 20.0]) / spread + 0.1 * second
    np.testing.assert_allclose(weight.detach().numpy()[0], second - 0.5 * moment, rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 512.0])
def test_large_batches_whose_gradients_add_up_are_learned_as_small_ones(size: float) -> None:
    draw = torch.Generator().manual_seed(4)
    inputs, wanted = torch.randn(512, 6, generator=draw), torch.randn(6, 1, generator=draw)
    torch.manual_seed(1)
    net = torch.nn.Linear(6, 1)
    optimiser = build_novograd(net, 0.02, 0.0)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        loss = ((net(inputs) - inputs @ wanted) ** 2).mean()
        (loss * size).backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.05 * losses[0]
