"""What a detector's batch should give, and how far it is from that: registered parts, weighted by the recipe.

N batch, G faces of a picture (padded), A cells of all levels, K regions of a picture, M keypoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.training.models.detection.boxes import giou_loss, grown, iou, iou_table, roi_align
from rotopaint_ai.training.models.detection.net import (
    MASK_SIDE,
    ROOM,
    STRIDES,
    Dense,
    DetectorNet,
    best_proposals,
    cell_centres,
    heat_places,
)
from rotopaint_ai.training.registry import Registry

CENTRE = 0.22  # cells this close to a face's middle, in shares of its sides, answer for it ...
AT_LEAST = 0.75  # ... and never fewer than those within so many strides
LEVEL_SIDES = (0.0, 64.0, 128.0, 1e9)  # longest sides that each proposing level answers for
SLACK = 1.25  # by which those ranges overlap
IS_FACE, IS_NEAR = 0.5, 0.3  # overlap from which a region holds a face; between the two it is nobody's
MASK_SCALE = 0.5  # of the true masks against the picture
_JITTER = 0.12
N_JUDGED = 8


class DetectionTarget(NamedTuple):
    """Faces of a batch: boxes [N, G, 4], which of them count [N, G], which are to be passed over [N, G], keypoints
    [N, G, M, 3] (x, y, seen), and masks [N, G, H / 2, W / 2] from 0 to 1."""

    boxes: Tensor
    counts: Tensor
    passed: Tensor
    points: Tensor
    masks: Tensor


class DetectorOutput(NamedTuple):
    """What the network says of a batch."""

    dense: Dense
    regions: Tensor  # [N, K, 4] judged
    logits: Tensor  # [N, K]
    moved: Tensor  # [N, K, 4]
    rough: Tensor  # [N, G, 4] true boxes, shaken, that masks are drawn in
    masks: Tensor  # [N * G, S, S]
    heat: Tensor  # [N * G, M, S, S]
    size: tuple[int, int]  # of the picture: height, width


Part = Callable[[DetectorOutput, DetectionTarget], Tensor]
LOSSES: Registry[Part] = Registry("detection loss")


def forward_heads(
    net: DetectorNet, pictures_NCHW: Tensor, target: DetectionTarget, noise: torch.Generator
) -> DetectorOutput:
    """Run all heads: the box head on proposals and shaken true boxes, the others on shaken true boxes."""
    height, width = pictures_NCHW.shape[2:]
    levels = net.features(pictures_NCHW)
    dense = net.proposals(levels)
    with torch.no_grad():
        found = best_proposals(Dense(dense.logits.detach(), dense.boxes.detach()), N_JUDGED, width, height)
    true = torch.where(target.counts[..., None], target.boxes, found[:, : target.boxes.shape[1]])
    regions = torch.cat((found, shaken(true, 2 * _JITTER, noise)), 1)
    logits, moved = net.judged(levels, regions)
    rough = shaken(true, _JITTER, noise)
    masks, heat = net.drawn(levels, rough)
    return DetectorOutput(dense, regions, logits, moved, rough, masks, heat, (height, width))


def shaken(boxes: Tensor, amount: float, noise: torch.Generator) -> Tensor:
    """Boxes whose edges were moved by `amount` of their size, as proposals miss."""
    size = (boxes[..., 2:] - boxes[..., :2]).repeat_interleave(2, -1)[..., [0, 2, 0, 2]]
    draw = torch.randn(boxes.shape, generator=noise).to(boxes.device)
    return boxes + (draw * amount).clamp(-2 * amount, 2 * amount) * size


def total(
    output: DetectorOutput, target: DetectionTarget, parts: Mapping[str, float]
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the parts, and each part for the log."""
    values = {name: LOSSES[name](output, target) for name, share in parts.items() if share}
    loss = torch.stack([parts[name] * value for name, value in values.items()]).sum()
    return loss, {name: float(value.detach()) for name, value in values.items()}


class _Cells(NamedTuple):
    """Which face each cell answers for [N, A] (its row), whether it answers for one, and whether it is nobody's."""

    face: Tensor
    is_face: Tensor
    is_passed: Tensor


def _cells(output: DetectorOutput, target: DetectionTarget) -> _Cells:
    height, width = output.size
    centres, facts = [], []
    for k, stride in enumerate(STRIDES):
        own = cell_centres(height // stride, width // stride, stride, target.boxes)
        level = own.new_tensor([stride, LEVEL_SIDES[k] / SLACK, LEVEL_SIDES[k + 1] * SLACK])
        centres.append(own)
        facts.append(level[:, None].expand(-1, len(own)))
    at, (stride_A, low_A, high_A) = torch.cat(centres), torch.cat(facts, 1)
    size = target.boxes[..., 2:] - target.boxes[..., :2]
    middle = (target.boxes[..., 2:] + target.boxes[..., :2]) / 2
    away = (at[None, None] - middle[:, :, None]).abs()  # [N, G, A, 2]
    reach = torch.maximum(CENTRE * size[:, :, None], AT_LEAST * stride_A[None, None, :, None])
    side = size.amax(-1)[..., None]
    near = (away <= reach).all(-1) & (side >= low_A) & (side < high_A) & target.counts[..., None]
    nearest = torch.where(near, away.sum(-1), torch.full_like(away[..., 0], 1e9)).min(1)
    inside = (away <= size[:, :, None] / 2).all(-1) & target.passed[..., None]
    return _Cells(nearest.indices, near.any(1), inside.any(1) & ~near.any(1))


@LOSSES.register("propose")
def propose(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Focal cross entropy of each cell's logit (Lin et al., "Focal Loss", 2017, equation 5; alpha 0.25, gamma 2)."""
    cells = _cells(output, target)
    wanted = cells.is_face.to(output.dense.logits.dtype)
    logits = output.dense.logits
    plain = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    missed = (wanted - logits.sigmoid()).abs()
    weight = (0.25 * wanted + 0.75 * (1 - wanted)) * missed**2 * ~cells.is_passed
    return (plain * weight).sum() / wanted.sum().clamp(min=1)


@LOSSES.register("propose_box")
def propose_box(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """GIoU of the boxes that cells in the middle of faces see."""
    cells = _cells(output, target)
    wanted = target.boxes.gather(1, cells.face[..., None].expand(-1, -1, 4))
    return (giou_loss(output.dense.boxes, wanted) * cells.is_face).sum() / cells.is_face.sum().clamp(min=1)


def _match_regions(output: DetectorOutput, target: DetectionTarget) -> tuple[Tensor, Tensor, Tensor]:
    """Overlap of each region [N, K] with the face it overlaps most, that face's row, and whether it counts at all."""
    table = iou_table(output.regions, target.boxes)
    best = (table * target.counts[:, None]).max(2)
    passed = (table * target.passed[:, None]).amax(2)
    counts = ((best.values >= IS_FACE) | (best.values < IS_NEAR)) & ((passed < IS_NEAR) | (best.values >= IS_FACE))
    return best.values, best.indices, counts


@LOSSES.register("judge")
def judge(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of each region's holding a face."""
    overlap, _, counts = _match_regions(output, target)
    wanted = (overlap >= IS_FACE).to(output.logits.dtype)
    plain = F.binary_cross_entropy_with_logits(output.logits, wanted, reduction="none")
    return (plain * counts).sum() / counts.sum().clamp(min=1)


@LOSSES.register("judge_box")
def judge_box(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """GIoU of the moved boxes of regions that hold a face."""
    overlap, face, _ = _match_regions(output, target)
    is_face = overlap >= IS_FACE
    wanted = target.boxes.gather(1, face[..., None].expand(-1, -1, 4))
    return (giou_loss(output.moved, wanted) * is_face).sum() / is_face.sum().clamp(min=1)


def _rooms(output: DetectorOutput) -> Tensor:
    return grown(output.rough, ROOM).reshape(-1, 4)


def _drawn_counts(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Whether each shaken true box is close enough to learn a mask in [N * G]."""
    return ((iou(output.rough, target.boxes) >= IS_FACE) & target.counts).flatten()


@LOSSES.register("mask")
def mask(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of every cell of the masks of faces."""
    flat = target.masks.flatten(0, 1)[:, None]
    wanted = roi_align(flat, _rooms(output)[:, None], MASK_SIDE, MASK_SCALE)[:, 0]
    plain = F.binary_cross_entropy_with_logits(output.masks, wanted, reduction="none").mean((1, 2))
    counts = _drawn_counts(output, target)
    return (plain * counts).sum() / counts.sum().clamp(min=1)


@LOSSES.register("keypoints")
def keypoints(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of the heat-maps against one cell's Gaussian, and the distance of their means, in cells.

    Hidden keypoints count for a third; those outside the square, not at all.
    """
    rooms = _rooms(output)
    points = target.points.flatten(0, 1)
    share = (points[..., :2] - rooms[:, None, :2]) / (rooms[:, None, 2:] - rooms[:, None, :2]).clamp(min=1)
    counts = ((share > 0) & (share < 1)).all(-1) * _drawn_counts(output, target)[:, None]
    weight = counts * (0.33 + 0.67 * points[..., 2].clamp(0, 1))
    at, log_p = heat_places(output.heat)
    cells = torch.arange(MASK_SIDE, device=at.device) + 0.5
    peaks = torch.softmax(-0.5 * (cells - share[..., None] * MASK_SIDE) ** 2, -1)  # [R, M, 2, S]
    cross = -torch.einsum("rmhw,rmh,rmw->rm", log_p, peaks[:, :, 1], peaks[:, :, 0])
    away = F.smooth_l1_loss(at * MASK_SIDE, share * MASK_SIDE, reduction="none").sum(-1)
    return ((cross + 0.5 * away) * weight).sum() / weight.sum().clamp(min=1)
