"""Features of a face crop for the seam network: what a strip along a curve cannot show, such as the outline beyond it.

N batch, S side of the crop, H side of the features, F their number.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.inference.pack import SEAM_CROP_PX, SEAM_N_FEATURES
from rotopaint_ai.training.models.backbone import MEAN, SPREAD, ConvNorm, Residual
from rotopaint_ai.training.trainer.onnx_export import export_checked, load_weights, read_graph

WIDTHS = (16, 32, 48, 64, 96)  # channels at strides 2, 4, 8, 16 and 32
_PARITY = 1e-3


class FeatureNet(nn.Module):
    """A feature pyramid (Lin et al. 2017) whose finest level, of stride 2, gives the features."""

    def __init__(self, widths: tuple[int, ...] = WIDTHS) -> None:
        super().__init__()
        steps = tuple(pairwise(widths))
        self.begin = ConvNorm(3, widths[0], stride=2)
        self.down = nn.ModuleList(nn.Sequential(ConvNorm(a, b, stride=2), Residual(b, b, 1)) for a, b in steps)
        self.narrow = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in reversed(steps))
        self.up = nn.ModuleList(ConvNorm(a, a) for a, _ in reversed(steps))
        self.end = nn.Conv2d(widths[0], SEAM_N_FEATURES, 1)

    def forward(self, crop: Tensor) -> Tensor:
        """[N, S, S, 3] display-referred 0..1 -> [N, H, H, F]."""
        levels = [self.begin((crop.permute(0, 3, 1, 2) - MEAN) / SPREAD)]
        for step in self.down:
            levels.append(step(levels[-1]))
        path = levels.pop()
        for narrow, up in zip(self.narrow, self.up):
            path = up(F.interpolate(narrow(path), scale_factor=2.0, mode="nearest") + levels.pop())
        return torch.as_tensor(self.end(path)).permute(0, 2, 3, 1)


def features_along(features: Tensor, places: Tensor) -> Tensor:
    """Features [N, H, H, F] at places [N, T, D, 2], -1 to 1 from one side of the crop to the other -> [N, T, D, F].

    They fade to 0 outside the crop, as in `placement.strips`.
    """
    read = F.grid_sample(features.permute(0, 3, 1, 2).float(), places, align_corners=False)
    return read.permute(0, 2, 3, 1)


def load_feature_net(path: Path) -> FeatureNet:
    """Load the network of a `seam_features.onnx`. Raises TrainingError for any other file."""
    net = FeatureNet()
    load_weights(net, read_graph(path), path)
    return net.eval()


def export_features(net: FeatureNet, path: Path) -> float:
    """Write the network. Returns the largest difference to torch. Raises TrainingError if it is too large."""
    crops = np.random.default_rng(0).random((2, SEAM_CROP_PX, SEAM_CROP_PX, 3), np.float32)
    return export_checked(net, path, ("crop", ("features",)), crops, limits={"features": _PARITY})
