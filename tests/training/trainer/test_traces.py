"""One traced graph serves every network of the same architecture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rotopaint_ai.training.trainer.onnx_export import Traces, export_checked

SAMPLE = np.random.default_rng(0).random((3, 3, 8, 8), np.float32)


class Net(nn.Module):
    """A batch norm and a buffer whose square is folded into a constant, with this many channels."""

    scale: Tensor

    def __init__(self, seed: int, channels: int = 4) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels), nn.ReLU())
        self.register_buffer("scale", torch.rand(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Features times the square of the scale."""
        features: Tensor = self.layers(x)
        return features * (self.scale * self.scale + 1)


def export(net: nn.Module, path: Path, traces: Traces | None = None) -> bytes:
    export_checked(net, path, ("x", ("y",)), SAMPLE, limits={"y": 1e-5}, traces=traces)
    return path.read_bytes()


def test_the_second_network_gives_the_file_of_a_trace_of_its_own(tmp_path: Path) -> None:
    traces: Traces = {}
    first = export(Net(1), tmp_path / "net.onnx", traces)
    second = export(Net(2), tmp_path / "net.onnx", traces)
    assert second == export(Net(2), tmp_path / "net.onnx")
    assert first != second
    assert export(Net(3, channels=6), tmp_path / "net.onnx", traces)  # other shapes: traced again, and compared
