"""Gated shape stream beside a regular stream: where the seam and the face are, and where their edges run.

Source: Takikawa et al., "Gated-SCNN: Gated Shape CNNs for Semantic Segmentation" (2019), sections 3.1 and 3.2. Smaller
than theirs, and on crops: the regular stream is a registered backbone, the shape stream keeps stride 2.

N batch, C channels, S side of the crop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.training.models.backbone import ConvNorm, PyramidNet

CLASSES = ("seam", "face")
STRIDE = 2  # of what the network gives; the logits are enlarged to the crop


class SegmentationOutput(NamedTuple):
    """Logits of the classes [N, 2, S, S], and of lying on an edge of one of them [N, S, S]."""

    classes: Tensor
    edges: Tensor


class GatedConv(nn.Module):
    """Lets through of the shape stream what the regular stream finds worth it (equations 1 and 2).

    alpha = sigmoid(1 x 1 convolutions of both), shape' = W (shape * alpha + shape). The regular stream speaks through
    one channel, made before it is enlarged, as the authors' own code has it.
    """

    def __init__(self, shape: int, regular: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(regular, 1, 1)
        self.gate = nn.Sequential(
            nn.BatchNorm2d(shape + 1),
            nn.Conv2d(shape + 1, shape, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(shape, 1, 1),
        )
        self.weigh = nn.Conv2d(shape, shape, 1)

    def forward(self, shape: Tensor, regular: Tensor) -> Tensor:
        """[N, C, H, W] and [N, D, H / k, W / k] -> [N, C, H, W]."""
        wide = F.interpolate(self.narrow(regular), size=shape.shape[2:], mode="bilinear", align_corners=False)
        alpha = torch.sigmoid(self.gate(torch.cat((shape, wide), 1)))
        return torch.as_tensor(self.weigh(shape * alpha + shape))


class _Step(nn.Module):
    """A residual block of the shape stream and the gate after it."""

    def __init__(self, shape: int, regular: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvNorm(shape, shape), ConvNorm(shape, shape, act=False))
        self.gate = GatedConv(shape, regular)

    def forward(self, shape: Tensor, regular: Tensor) -> Tensor:
        return torch.as_tensor(self.gate(F.relu(shape + self.body(shape)), regular))


class GatedNet(PyramidNet):
    """Crops to classes and edges."""

    def __init__(self, *, neck: int = 48, shape: int = 16, **pyramid: Any) -> None:
        """`shape`: channels of the shape stream. The rest as `PyramidNet` has it."""
        super().__init__(neck=neck, **pyramid)
        widths = self.widths
        self.begin = nn.Conv2d(widths[0] + 1, shape, 1)
        self.steps = nn.ModuleList(_Step(shape, width) for width in widths[1:4])
        self.edge = nn.Conv2d(shape, 1, 1)
        self.fuse = nn.Sequential(ConvNorm(neck + shape + widths[0] + 1, 32, 1), ConvNorm(32, 32))
        self.classify = nn.Conv2d(32, len(CLASSES), 1)

    def blocks(self) -> tuple[nn.Module, ...]:
        """Parts that may be computed again from their input."""
        return (*self.backbone.children(), *self.steps, self.fuse)

    def forward(self, crop_NCHW: Tensor) -> SegmentationOutput:
        """`crop_NCHW`: display-referred 0..1."""
        features, path = self.read_pyramid(crop_NCHW)
        shape = self.begin(torch.cat((features[0], slope(crop_NCHW, features[0])), 1))
        for step, feature in zip(self.steps, features[1:4]):
            shape = step(shape, feature)
        edges = self.edge(shape)
        wide = F.interpolate(path, scale_factor=2.0, mode="nearest")
        fused = self.fuse(torch.cat((wide, shape, features[0], torch.sigmoid(edges)), 1))
        return SegmentationOutput(_twice(self.classify(fused)).float(), _twice(edges).float()[:, 0])


def slope(crop: Tensor, like: Tensor) -> Tensor:
    """How steep the picture's light is [N, 1, H, W], at the size of `like`: what the paper's Canny edges stand for."""
    light = F.avg_pool2d(crop.mean(1, keepdim=True), STRIDE)
    across, down = F.pad(light, (1, 1, 0, 0), "replicate"), F.pad(light, (0, 0, 1, 1), "replicate")
    dx, dy = across[..., 2:] - across[..., :-2], down[:, :, 2:] - down[:, :, :-2]
    return (4 * torch.sqrt(dx**2 + dy**2 + 1e-6)).to(like.dtype)


def _twice(logits: Tensor) -> Tensor:
    return F.interpolate(logits, scale_factor=float(STRIDE), mode="bilinear", align_corners=False)


class SegmentationGraph(nn.Module):
    """The graph that a pack ships."""

    def __init__(self, net: GatedNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`crop` [N, S, S, 3] display-referred 0..1 -> probabilities [N, S, S] of seam, face and edge."""
        said = self.net(crop.permute(0, 3, 1, 2))
        seam, face = said.classes.sigmoid().unbind(1)
        return seam, face, said.edges.sigmoid()
