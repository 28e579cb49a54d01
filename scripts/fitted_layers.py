"""The network of two hidden layers for `fit_relight` and `fit_widths`, in torch and as arrays for `layer_text`."""

from __future__ import annotations

from typing import Any

import torch

from rotopaint_ai.seams.layer_text import Three, layers_of


def build_layers(n_in: int, units: int, n_out: int) -> torch.nn.Sequential:
    """The network from features (N, n_in) to outputs (N, n_out)."""
    return torch.nn.Sequential(
        torch.nn.Linear(n_in, units),
        torch.nn.ReLU(),
        torch.nn.Linear(units, units),
        torch.nn.ReLU(),
        torch.nn.Linear(units, n_out),
    )


def numbers_of(net: torch.nn.Sequential) -> tuple[Three, Three]:
    """Weights (in, out) and biases of the three layers."""
    layers: list[Any] = [net[k] for k in (0, 2, 4)]
    return layers_of([x.detach().numpy().T.copy() for layer in layers for x in (layer.weight, layer.bias)])
