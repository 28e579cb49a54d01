"""Boxes as [..., 4] tensors of x0, y0, x1, y1 in pixels: how much they share, and moves between them."""

from __future__ import annotations

import torch
from torch import Tensor

MOVE, GROW = 0.1, 0.2  # what one unit of an offset means: shares of the box's size, and logarithms of it
_LARGEST_GROWTH = 4.0  # in logarithm units before GROW


def area(boxes: Tensor) -> Tensor:
    """Areas [...]; a box that is inside out has none."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return size[..., 0] * size[..., 1]


def _shared(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    return area(torch.cat((low, high), -1))


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes of one shape, element by element."""
    shared = _shared(a, b)
    return shared / (area(a) + area(b) - shared).clamp(min=1e-9)


def iou_table(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union [..., A, B] of every box [..., A, 4] with every box [..., B, 4]."""
    return iou(a[..., :, None, :], b[..., None, :, :])


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU, -1 to 1: IoU less the share of the smallest box round both that neither covers.

    Boxes that do not meet still have a gradient towards each other.
    Source: Rezatofighi et al., "Generalized Intersection over Union" (2019), algorithm 1.
    """
    shared = _shared(a, b)
    union = area(a) + area(b) - shared
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    around = area(torch.cat((low, high), -1))
    return shared / union.clamp(min=1e-9) - (around - union) / around.clamp(min=1e-9)


def giou_loss(a: Tensor, b: Tensor) -> Tensor:
    """1 - GIoU: 0 for equal boxes, up to 2."""
    return 1 - giou(a, b)


def moved(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Boxes moved by offsets [..., 4]: centre in MOVE shares of the size, size in GROW logarithms (Girshick 2014)."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=1e-3)
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + offsets[..., :2] * MOVE * size
    half = size * torch.exp(offsets[..., 2:].clamp(-_LARGEST_GROWTH, _LARGEST_GROWTH) * GROW) / 2
    return torch.cat((centre - half, centre + half), -1)


def grown(boxes: Tensor, factor: float) -> Tensor:
    """Boxes `factor` times as large about their centres."""
    half = (boxes[..., 2:] - boxes[..., :2]) * (factor / 2)
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    return torch.cat((centre - half, centre + half), -1)
