"""Published landmark networks to be timed beside ours, rebuilt from their papers with weights drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from rotopaint_ai.training.export import save_onnx


def _convolved(inner: int, outer: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    padding = size // 2
    return nn.Sequential(
        nn.Conv2d(inner, outer, size, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(outer)
    )


class _Basic(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition" (2016), figure 5, left."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_convolved(inner, outer, 3, stride), nn.ReLU(), _convolved(outer, outer, 3))
        same = stride == 1 and inner == outer
        self.skip: nn.Module = nn.Identity() if same else _convolved(inner, outer, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class _Inverted(nn.Module):
    """Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), table 1."""

    def __init__(self, inner: int, outer: int, stride: int, grow: int) -> None:
        super().__init__()
        wide = inner * grow
        first = [] if grow == 1 else [_convolved(inner, wide, 1), nn.ReLU6()]
        self.body = nn.Sequential(
            *first, _convolved(wide, wide, 3, stride, wide), nn.ReLU6(), _convolved(wide, outer, 1)
        )
        self.keeps = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return x + out if self.keeps else out


def _head(inner: int, n_landmarks: int) -> nn.Sequential:
    """Xiao, Wu and Wei, "Simple Baselines for Human Pose Estimation and Tracking" (2018): deconvolutions of 256."""
    parts: list[nn.Module] = []
    for channels in (inner, 256, 256):
        parts += [nn.ConvTranspose2d(channels, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
    return nn.Sequential(*parts, nn.Conv2d(256, n_landmarks, 1))


def resnet18_baseline(n_landmarks: int) -> nn.Module:
    """Simple Baseline on a ResNet-18: stride 32 down, three deconvolutions up to stride 4."""
    parts: list[nn.Module] = [_convolved(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [_Basic(inner, outer, stride), _Basic(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*parts, _head(inner, n_landmarks))


def mobilenet_baseline(n_landmarks: int) -> nn.Module:
    """Simple Baseline on a MobileNetV2, the light variant that pose libraries ship."""
    parts: list[nn.Module] = [_convolved(3, 32, 3, 2), nn.ReLU6()]
    inner = 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for grow, outer, count, stride in table:
        for at in range(count):
            parts.append(_Inverted(inner, outer, stride if at == 0 else 1, grow))
            inner = outer
    return nn.Sequential(*parts, _convolved(inner, 1280, 1), nn.ReLU6(), _head(1280, n_landmarks))


PEERS: Final[dict[str, Callable[[int], nn.Module]]] = {
    "Simple Baseline, MobileNetV2, 256 px": mobilenet_baseline,
    "Simple Baseline, ResNet-18, 256 px": resnet18_baseline,
}


def export(net: nn.Module, path: Path) -> None:
    """Write a network of 256 px crops [1, 3, 256, 256] as ONNX with the output `heat`."""
    save_onnx(net.eval(), path, "crop", ("heat",), torch.zeros(1, 3, 256, 256), free={})
