"""Published landmark networks, whose time is compared with ours, rebuilt from their papers with random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.training.trainer.onnx_export import save_onnx


def _convolution(inner: int, outer: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    padding = size // 2
    return nn.Sequential(
        nn.Conv2d(inner, outer, size, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(outer)
    )


class _BasicBlock(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition" (2016), figure 5, left."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_convolution(inner, outer, 3, stride), nn.ReLU(), _convolution(outer, outer, 3))
        same = stride == 1 and inner == outer
        self.skip: nn.Module = nn.Identity() if same else _convolution(inner, outer, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class _InvertedResidual(nn.Module):
    """Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), table 1."""

    def __init__(self, inner: int, outer: int, stride: int, grow: int) -> None:
        super().__init__()
        wide = inner * grow
        first = [] if grow == 1 else [_convolution(inner, wide, 1), nn.ReLU6()]
        self.body = nn.Sequential(
            *first, _convolution(wide, wide, 3, stride, wide), nn.ReLU6(), _convolution(wide, outer, 1)
        )
        self.keeps = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x)
        return x + out if self.keeps else out


def _deconv_head(inner: int, n_landmarks: int) -> nn.Sequential:
    """Three 256-channel deconvolutions, then a 1 x 1 convolution to heatmaps.

    Source: Xiao, Wu and Wei, "Simple Baselines for Human Pose Estimation and Tracking" (2018).
    """
    parts: list[nn.Module] = []
    for channels in (inner, 256, 256):
        parts += [nn.ConvTranspose2d(channels, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
    return nn.Sequential(*parts, nn.Conv2d(256, n_landmarks, 1))


def resnet18_baseline(n_landmarks: int) -> nn.Module:
    """Simple Baseline on a ResNet-18: down to stride 32, then three deconvolutions up to stride 4."""
    parts: list[nn.Module] = [_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [_BasicBlock(inner, outer, stride), _BasicBlock(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*parts, _deconv_head(inner, n_landmarks))


_MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _mobilenet() -> nn.Sequential:
    """A MobileNetV2 down to stride 32, 1,280 channels."""
    parts: list[nn.Module] = [_convolution(3, 32, 3, 2), nn.ReLU6()]
    inner = 32
    for grow, outer, count, stride in _MOBILENET:
        for at in range(count):
            parts.append(_InvertedResidual(inner, outer, stride if at == 0 else 1, grow))
            inner = outer
    return nn.Sequential(*parts, _convolution(inner, 1280, 1), nn.ReLU6())


def mobilenet_baseline(n_landmarks: int) -> nn.Module:
    """Simple Baseline on a MobileNetV2, the light variant that pose libraries ship."""
    return nn.Sequential(_mobilenet(), _deconv_head(1280, n_landmarks))


class _SimCC(nn.Module):
    """Li et al., "SimCC: a Simple Coordinate Classification Perspective for Human Pose Estimation" (2022), figure 2: no
    deconvolutions; each landmark's features are classified along x and along y, two bins a pixel."""

    def __init__(self, n_landmarks: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_mobilenet(), nn.Conv2d(1280, n_landmarks, 1), nn.Flatten(2))
        self.x, self.y = nn.Linear(8 * 8, 256 * 2), nn.Linear(8 * 8, 256 * 2)

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(crop)
        return self.x(features), self.y(features)


class _PFLD(nn.Module):
    """Guo et al., "PFLD: A Practical Facial Landmark Detector" (2019), table 1: coordinates from three scales."""

    def __init__(self, n_landmarks: int) -> None:
        super().__init__()
        first: list[nn.Module] = [_convolution(3, 64, 3, 2), nn.ReLU(), _convolution(64, 64, 3, 1, 64), nn.ReLU()]
        inner = 64
        for grow, outer, count, stride in ((2, 64, 5, 2), (2, 128, 1, 2), (4, 128, 6, 1), (2, 16, 1, 1)):
            for at in range(count):
                first.append(_InvertedResidual(inner, outer, stride if at == 0 else 1, grow))
                inner = outer
        self.first = nn.Sequential(*first)
        self.second = nn.Sequential(_convolution(16, 32, 3, 2), nn.ReLU())
        self.third = nn.Sequential(nn.Conv2d(32, 128, 7), nn.ReLU())
        self.points = nn.Linear(16 + 32 + 128, n_landmarks * 2)

    def forward(self, crop: Tensor) -> Tensor:
        one = self.first(crop)
        two = self.second(one)
        scales = [one.mean((2, 3)), two.mean((2, 3)), self.third(two).flatten(1)]
        points: Tensor = self.points(torch.cat(scales, 1))
        return points


Arrays = Sequence[npt.NDArray[np.float32]]


def _from_heat(arrays: Arrays) -> npt.NDArray[np.float64]:
    return np.asarray(decode_heat_maps(arrays[0][0]) * (256 / arrays[0].shape[2]))


def _from_bins(arrays: Arrays) -> npt.NDArray[np.float64]:
    """The most probable bin along each axis, two bins per pixel."""
    return (np.stack([axis[0].argmax(axis=1) for axis in arrays], axis=1) + 0.5) / 2


def _from_numbers(arrays: Arrays) -> npt.NDArray[np.float64]:
    return np.asarray(arrays[0].reshape(-1, 2) * 112.0, np.float64)


def decode_heat_maps(heat_LHW: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Maxima of heat-maps in heat-map pixels (corner origin), moved a quarter pixel towards the higher neighbour.

    Source: Newell, Yang and Deng, "Stacked Hourglass Networks for Human Pose Estimation" (2016), section 3.2.
    """
    n, height, width = heat_LHW.shape
    at = heat_LHW.reshape(n, -1).argmax(axis=1)
    y, x = np.divmod(at, width)
    rows, inner_x, inner_y = np.arange(n), x.clip(1, width - 2), y.clip(1, height - 2)
    dx = np.sign(heat_LHW[rows, y, inner_x + 1] - heat_LHW[rows, y, inner_x - 1]) * 0.25
    dy = np.sign(heat_LHW[rows, inner_y + 1, x] - heat_LHW[rows, inner_y - 1, x]) * 0.25
    return np.stack((x + dx, y + dy), axis=1) + 0.5


@dataclass(frozen=True, slots=True)
class Peer:
    """A published network: its constructor, the side of its crops, the names of its outputs, and its decoder.

    The decoder converts the outputs to landmarks [L, 2] in pixels of the crop."""

    build: Callable[[int], nn.Module]
    size_px: int
    outputs: tuple[str, ...]
    decode: Callable[[Arrays], npt.NDArray[np.float64]]

    def export(self, n_landmarks: int, path: Path) -> None:
        """Write the network with random weights as ONNX, for single crops [1, 3, S, S]."""
        example = torch.zeros(1, 3, self.size_px, self.size_px)
        save_onnx(self.build(n_landmarks).eval(), path, ("crop", self.outputs), example, free={})


PEERS: Final[dict[str, Peer]] = {
    "Simple Baseline, MobileNetV2, 256 px": Peer(mobilenet_baseline, 256, ("heat",), _from_heat),
    "Simple Baseline, ResNet-18, 256 px": Peer(resnet18_baseline, 256, ("heat",), _from_heat),
    "SimCC, MobileNetV2, 256 px": Peer(_SimCC, 256, ("x", "y"), _from_bins),
    "PFLD, 112 px": Peer(_PFLD, 112, ("points",), _from_numbers),
}
