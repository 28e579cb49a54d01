"""Boxes as [..., 4] tensors of x0, y0, x1, y1 in pixels: how much they share, and moves between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

MOVE, GROW = 0.1, 0.2  # what one unit of an offset means: shares of the box's size, and logarithms of it
_LARGEST_GROWTH = 4.0  # in logarithm units before GROW


def area(boxes: Tensor) -> Tensor:
    """Areas [...]; a box that is inside out has none."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return size[..., 0] * size[..., 1]


def _intersection(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    return area(torch.cat((low, high), -1))


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes of one shape, element by element."""
    shared = _intersection(a, b)
    return shared / (area(a) + area(b) - shared).clamp(min=1e-9)


def iou_table(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union [..., A, B] of every box [..., A, 4] with every box [..., B, 4]."""
    return iou(a[..., :, None, :], b[..., None, :, :])


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU, -1 to 1: IoU less the share of the smallest box round both that neither covers.

    Boxes that do not meet still have a gradient towards each other.
    Source: Rezatofighi et al., "Generalized Intersection over Union" (2019), algorithm 1.
    """
    shared = _intersection(a, b)
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


SAMPLES = 2  # along each axis of a cell


def nms_keep(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Which boxes [N, K, 4] stay, as 1 and 0 [N, K]: each unless a better one that stays overlaps it by more.

    Greedy suppression, exact: the k-th best box is settled in the k-th round.
    """
    if torch.onnx.is_in_onnx_export():
        kept: Tensor = torch.ops.rotopaint.nms_keep(boxes, scores, threshold)
        return kept
    return _nms_keep(boxes, scores, threshold)


def _nms_keep(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    order = scores.argsort(dim=1, descending=True, stable=True)
    ranked = boxes.gather(1, order[..., None].expand(-1, -1, 4))
    beats = iou_table(ranked, ranked) > threshold  # [N, better, worse]
    stays = torch.ones_like(scores, dtype=torch.bool)
    later = torch.arange(boxes.shape[1], device=boxes.device)
    for best in range(boxes.shape[1] - 1):
        stays = stays & ~(beats[:, best] & stays[:, best : best + 1] & (later > best))
    return torch.zeros_like(scores).scatter(1, order, stays.to(scores.dtype))


def roi_align(features: Tensor, boxes: Tensor, size: int, scale: float) -> Tensor:
    """Features [N * K, C, P, P] of boxes [N, K, 4] (pixels; `scale` cells a pixel) of maps [N, C, H, W].

    Means of 2 x 2 bilinear samples a cell; beyond the map's rim there is nothing.
    Source: He et al., "Mask R-CNN" (2017), section 3, with the half-pixel shift (ONNX's `half_pixel`).
    """
    if torch.onnx.is_in_onnx_export():
        picture = torch.arange(boxes.shape[0], device=boxes.device).repeat_interleave(boxes.shape[1])
        cut: Tensor = torch.ops.rotopaint.roi_align(features, boxes.reshape(-1, 4), picture, size, scale)
        return cut
    return _roi_align(features, boxes, size, scale)


def _roi_align(features: Tensor, boxes: Tensor, size: int, scale: float) -> Tensor:
    """Bilinear sampling is linear in each axis: two products with matrices of weights, no gathering."""
    n, channels, height, width = features.shape
    placed = boxes.float() * scale - 0.5
    rows = _weights(placed[..., 1], placed[..., 3], size, height)  # [N, K, P, H]
    columns = _weights(placed[..., 0], placed[..., 2], size, width)
    lines = features.float().permute(0, 2, 1, 3).reshape(n, height, channels * width)
    by_row = torch.bmm(rows.flatten(1, 2), lines).view(n * boxes.shape[1], size * channels, width)
    cells = torch.bmm(by_row, columns.flatten(0, 1).transpose(1, 2))
    return cells.view(-1, size, channels, size).transpose(1, 2)


def _weights(low: Tensor, high: Tensor, size: int, cells: int) -> Tensor:
    """How much each of a map's cells counts [N, K, P, cells] in each cell of the output, along one axis."""
    steps = (torch.arange(size * SAMPLES, device=low.device, dtype=low.dtype) + 0.5) / (size * SAMPLES)
    at = low[..., None] + (high - low)[..., None] * steps
    is_on = ((at >= -1) & (at <= cells)).to(low.dtype)
    centre = torch.arange(cells, device=low.device, dtype=low.dtype)
    hat = (1 - (at.clamp(0, cells - 1)[..., None] - centre).abs()).clamp(min=0) * is_on[..., None]
    return hat.view(*low.shape, size, SAMPLES, cells).mean(-2)


@torch.library.custom_op("rotopaint::nms_keep", mutates_args=())
def _nms_op(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    return _nms_keep(boxes, scores, threshold)


@_nms_op.register_fake
def _(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    return torch.empty_like(scores)


@torch.library.custom_op("rotopaint::roi_align", mutates_args=())
def _roi_op(features: Tensor, boxes: Tensor, picture: Tensor, size: int, scale: float) -> Tensor:
    own = features.index_select(0, picture)
    return _roi_align(own, boxes[:, None], size, scale).contiguous()


@_roi_op.register_fake
def _(features: Tensor, boxes: Tensor, picture: Tensor, size: int, scale: float) -> Tensor:
    return features.new_empty((boxes.shape[0], features.shape[1], size, size))


def translations() -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """How the exporter is to write the two: as ONNX's standard operators."""
    from onnxscript import opset18

    op: Any = opset18

    def nms(boxes: Any, scores: Any, threshold: float) -> Any:
        found = op.NonMaxSuppression(
            boxes,
            op.Unsqueeze(scores, op.Constant(value_ints=[1])),
            op.Gather(op.Shape(boxes), op.Constant(value_ints=[1])),
            op.Constant(value_floats=[threshold]),
        )
        places = op.Gather(found, op.Constant(value_ints=[0, 2]), axis=1)
        ones = op.Expand(op.Constant(value_float=1.0), op.Gather(op.Shape(places), op.Constant(value_ints=[0])))
        return op.ScatterND(op.Mul(scores, op.Constant(value_float=0.0)), places, ones)

    def align(features: Any, boxes: Any, picture: Any, size: int, scale: float) -> Any:
        return op.RoiAlign(
            features,
            boxes,
            picture,
            coordinate_transformation_mode="half_pixel",
            mode="avg",
            output_height=size,
            output_width=size,
            sampling_ratio=SAMPLES,
            spatial_scale=scale,
        )

    return {torch.ops.rotopaint.nms_keep.default: nms, torch.ops.rotopaint.roi_align.default: align}
