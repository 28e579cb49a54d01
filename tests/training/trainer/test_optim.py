"""NovoGrad and Muon equal their published algorithms, and a loss of any scale gives the same steps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from rotopaint_ai.training.trainer.optim import NovoGrad, build_muon, build_novograd, make_orthogonal


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


@pytest.mark.parametrize("shape", [(3, 16, 144), (2, 64, 16), (1, 128, 1152)])
def test_a_matrix_becomes_orthogonal_as_by_the_published_iteration(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(3))
    found = make_orthogonal(matrices)
    for matrix, orthogonal in zip(matrices, found):
        X = matrix / matrix.norm()
        X = X if shape[1] <= shape[2] else X.mT
        for _ in range(5):  # Jordan (2024), as it is written there
            A = X @ X.mT
            X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
        torch.testing.assert_close(orthogonal, X if shape[1] <= shape[2] else X.mT, rtol=2e-4, atol=2e-5)
        values = torch.linalg.svdvals(orthogonal)
        assert float(values.min()) > 0.6
        assert float(values.max()) < 1.25


def test_kernels_step_along_an_orthogonal_matrix_and_all_else_by_adamw() -> None:
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    alone = copy.deepcopy(net)
    both = build_muon(net, 0.01, 0.1), torch.optim.AdamW(alone.parameters(), 0.01, betas=(0.9, 0.99), weight_decay=0.1)
    kernel = net[0].weight.detach().clone()
    for each, optimiser in zip((net, alone), both):
        each(torch.ones(4, 8, 3, 3)).square().sum().backward()
        optimiser.step()
    gradient = net[0].weight.grad
    assert gradient is not None
    step = make_orthogonal(gradient.flatten(1)[None])[0].view_as(kernel)
    torch.testing.assert_close(net[0].weight, kernel * (1 - 0.01 * 0.1) - 0.01 * 0.2 * np.sqrt(72) * step)
    torch.testing.assert_close(net[2].weight, alone[2].weight)


def test_a_checkpoint_of_muon_goes_on_as_if_it_had_not_stopped() -> None:
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, bias=False), torch.nn.BatchNorm2d(16))
    optimiser = build_muon(net, 0.01, 0.1)
    batches = torch.randn(4, 5, 8, 6, 6, generator=torch.Generator().manual_seed(1))

    def step(net: torch.nn.Module, optimiser: torch.optim.Optimizer, batch: torch.Tensor) -> None:
        optimiser.zero_grad()
        net(batch).pow(3).mean().backward()
        optimiser.step()

    for batch in batches[:2]:
        step(net, optimiser, batch)
    other = copy.deepcopy(net)
    resumed = build_muon(other, 0.01, 0.1)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for batch in batches[2:]:
        step(net, optimiser, batch)
        step(other, resumed, batch)
    torch.testing.assert_close(other[0].weight, net[0].weight, rtol=0, atol=0)
