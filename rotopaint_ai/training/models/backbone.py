"""What networks share: blocks, registered backbones, the pyramid's way down, and the config that names them.

N batch, C channels, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.config import TrainConfig, check_all

MEAN, SPREAD = 0.45, 0.25  # of display-referred pixels; only brings the input near zero mean and unit spread

Backbone = Callable[[Sequence[int], Sequence[int]], nn.Module]
BACKBONES: Registry[Backbone] = Registry("backbone")


@dataclass(frozen=True, slots=True)
class PyramidConfig(TrainConfig):
    """A training of a network on a pyramid. `neck`: channels of its way down."""

    backbone: str = "dense"
    widths: tuple[int, ...] = (16, 32, 64, 96, 128)  # those of the landmark network, whose weights start the others
    depths: tuple[int, ...] = (1, 1, 1, 1)
    neck: int = 48

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        TrainConfig.check(self)
        _ = BACKBONES[self.backbone]
        check_all(
            (
                (len(self.widths) == 5, f"widths {self.widths}: wanted 5, for the strides 2, 4, 8, 16 and 32"),
                (len(self.widths) == len(self.depths) + 1, "depths: wanted one for each width after the first"),
                # oneDNN's bf16 kernels crash the process on some other channel counts
                (all(w > 0 and w % 8 == 0 for w in (*self.widths, self.neck)), "widths, neck: wanted multiples of 8"),
                (all(depth >= 1 for depth in self.depths), f"depths {self.depths}: wanted 1 or more"),
            )
        )

    def pyramid(self) -> dict[str, Any]:
        """What a network's constructor wants of it."""
        return {name: getattr(self, name) for name in ("backbone", "widths", "depths", "neck")}


def weighted_sum(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> tuple[Tensor, dict[str, float]]:
    """The sum of a loss's parts by a recipe's weights, and each part for the log."""
    loss = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
    return loss, {name: float(part.detach()) for name, part in parts.items()}


class ConvNorm(nn.Sequential):
    """Convolution, batch normalisation and, unless `act` is False, a ReLU."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(n_out),
        ]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if act else []))


class Residual(nn.Module):
    """Two dense 3 x 3 convolutions beside a skip connection (He et al. 2016, the basic block).

    One that keeps the shape does nothing at first (Goyal et al. 2017, section 5.1), so that a deeper network starts
    where a shallower one ended.
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        last = ConvNorm(n_out, n_out, 3, act=False)
        self.body = nn.Sequential(ConvNorm(n_in, n_out, 3, stride), last)
        same = n_in == n_out and stride == 1
        self.skip = nn.Identity() if same else ConvNorm(n_in, n_out, 1, stride, act=False)
        if same:
            nn.init.zeros_(cast(Tensor, last[1].weight))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class Pyramid(nn.Module):
    """Features at strides 2, 4, 8, 16, 32: a stem and four stages of dense residual blocks."""

    def __init__(self, widths: Sequence[int], depths: Sequence[int]) -> None:
        super().__init__()
        self.stem = ConvNorm(3, widths[0], 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(Residual(n_in, n_out, 2), *(Residual(n_out, n_out, 1) for _ in range(depth - 1)))
            for n_in, n_out, depth in zip(widths[:-1], widths[1:], depths, strict=True)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        features = [self.stem(x)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features


@BACKBONES.register("dense")
def build_dense(widths: Sequence[int], depths: Sequence[int]) -> nn.Module:
    """Much arithmetic, which a CPU in bf16 does well: 72 images/s where depthwise blocks gave 41."""
    return Pyramid(widths, depths)


def conv_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The convolutional blocks of a network, each of which can be computed again from its input."""
    for child in module.children():
        if isinstance(child, (ConvNorm, Residual)):
            yield child
        else:
            yield from conv_blocks(child)


class PyramidNet(nn.Module):
    """A backbone and the way down its pyramid; a subclass adds what reads them."""

    def __init__(
        self,
        *,
        backbone: str = "dense",
        widths: Sequence[int] = (16, 32, 64, 96, 128),
        depths: Sequence[int] = (1, 1, 1, 1),
        neck: int = 48,
    ) -> None:
        """`neck`: channels of the pyramid's top-down path."""
        super().__init__()
        self.widths = tuple(widths)
        self.backbone = BACKBONES[backbone](widths, depths)
        self.laterals = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths[1:])
        self.smooth = nn.ModuleList(ConvNorm(neck, neck) for _ in widths[1:])

    def read_pyramid(self, crop_NCHW: Tensor) -> tuple[Sequence[Tensor], Tensor]:
        """The backbone's features at strides 2 to 32 and the pyramid's [N, neck, S / 4, S / 4], of crops that are
        display-referred 0..1."""
        features = self.backbone((crop_NCHW - MEAN) / SPREAD)
        return features, top_down(self.laterals, self.smooth, features[1:])


def top_down(laterals: nn.ModuleList, smooth: nn.ModuleList, features: Sequence[Tensor]) -> Tensor:
    """The pyramid's path from the coarsest feature to the finest one, at the finest one's size [N, neck, H, W]."""
    path: Tensor | None = None
    for feature, lateral, even in zip(reversed(features), reversed(laterals), reversed(smooth)):
        here = lateral(feature)
        path = even(here if path is None else here + F.interpolate(path, scale_factor=2.0, mode="nearest"))
    assert path is not None
    return path
