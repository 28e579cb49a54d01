"""The dual task: classes and edges, each judged by itself and each by the other.

Source: Takikawa et al. (2019), section 3.3, equations 3 to 7; classes are two yes-or-no questions here, no softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.training.models.segmentation.net import SegmentationOutput
from rotopaint_ai.training.registry import Registry

SURE_EDGE = 0.8  # probability from which the shape stream's edges ask the classes to be right there
THIN = 6.0  # how much more a seam's pixel counts than one beside it: seams fill a hundredth of a crop


class SegmentationTarget(NamedTuple):
    """Coverage [N, 2, S, S] of seam and face, and the edges [N, S, S] of both, 0 to 1."""

    classes: Tensor
    edges: Tensor


Part = Callable[[SegmentationOutput, SegmentationTarget], Tensor]
LOSSES: Registry[Part] = Registry("segmentation loss")


def make_target(seam: Tensor, face: Tensor) -> SegmentationTarget:
    """A target from coverages [N, S, S]."""
    classes = torch.stack((seam, face), 1)
    return SegmentationTarget(classes, (boundary(classes) > 0.2).any(1).to(seam.dtype))


def boundary(classes: Tensor) -> Tensor:
    """How much of an edge each pixel lies on [N, 2, S, S]: the slope of smoothed coverage over root 2 (equation 5)."""
    smooth = F.avg_pool2d(F.pad(classes, (1, 1, 1, 1), "replicate"), 3, 1)
    across, down = F.pad(smooth, (1, 1, 0, 0), "replicate"), F.pad(smooth, (0, 0, 1, 1), "replicate")
    dx, dy = (across[..., 2:] - across[..., :-2]) / 2, (down[:, :, 2:] - down[:, :, :-2]) / 2
    return torch.sqrt(dx**2 + dy**2 + 1e-8) * 2**0.5


def total(
    said: SegmentationOutput, target: SegmentationTarget, parts: Mapping[str, float]
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the parts, and each part for the log."""
    values = {name: LOSSES[name](said, target) for name, share in parts.items() if share}
    loss = torch.stack([parts[name] * value for name, value in values.items()]).sum()
    return loss, {name: float(value.detach()) for name, value in values.items()}


@LOSSES.register("classes")
def classes(said: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of both classes; a seam's pixels count `THIN` times."""
    plain = F.binary_cross_entropy_with_logits(said.classes, target.classes, reduction="none")
    weight = torch.cat((1 + (THIN - 1) * target.classes[:, :1], torch.ones_like(target.classes[:, 1:])), 1)
    return (plain * weight).sum() / weight.sum()


@LOSSES.register("overlap")
def overlap(said: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """1 - Dice of the seams of a batch: thin things drown in a mean over pixels (Milletari et al., 2016)."""
    found, true = said.classes[:, 0].sigmoid(), target.classes[:, 0]
    return 1 - (2 * (found * true).sum() + 1) / (found.sum() + true.sum() + 1)


@LOSSES.register("edges")
def edges(said: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of the edges, both kinds of pixels in balance (equation 3)."""
    share = target.edges.mean().clamp(0.01, 0.99)
    weight = torch.where(target.edges > 0.5, 1 - share, share)
    plain = F.binary_cross_entropy_with_logits(said.edges, target.edges, reduction="none")
    return (plain * weight).sum() / weight.sum()


@LOSSES.register("own_edges")
def own_edges(said: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Difference of the edges that the classes make, where either has one (equation 6)."""
    found, true = boundary(said.classes.sigmoid()), boundary(target.classes)
    either = (found.detach() > 0.1) | (true > 0.1)
    return ((found - true).abs() * either).sum() / either.sum().clamp(min=1)


@LOSSES.register("at_edges")
def at_edges(said: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of the classes where the shape stream is sure of an edge (equation 7)."""
    sure = (said.edges.detach().sigmoid() > SURE_EDGE)[:, None]
    plain = F.binary_cross_entropy_with_logits(said.classes, target.classes, reduction="none")
    return (plain * sure).sum() / (2 * sure.sum()).clamp(min=1)
