"""The face detector: a registered backbone with a feature pyramid, dense proposals, and heads on ROIAlign.

Proposals come from an anchor-free dense head: faces are the only class and rarely overlap, so one box a cell is enough
(Tian et al., "FCOS", 2019). Box, mask and keypoint heads follow Mask R-CNN (He et al., 2017). Every tensor has a fixed
size: K proposals and D detections, however many faces there are.
N batch, C channels, H, W rows and columns, K proposals, D detections, R regions of all pictures, M keypoints. Boxes are
[..., 4] tensors of x0, y0, x1, y1 in pixels of the network's picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.training.models.backbone import BACKBONES, MEAN, SPREAD, ConvNorm

MOVE, GROW = 0.1, 0.2  # one unit of an offset: this share of the box's size, this logarithm of its scale
_LARGEST_GROWTH = 4.0  # in units of GROW


def box_areas(boxes: Tensor) -> Tensor:
    """Areas [...] of boxes; zero for a box with swapped corners."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return size[..., 0] * size[..., 1]


def _intersection(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    return box_areas(torch.cat((low, high), -1))


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of corresponding boxes."""
    shared = _intersection(a, b)
    return shared / (box_areas(a) + box_areas(b) - shared).clamp(min=1e-9)


def iou_table(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union [..., A, B] of every box [..., A, 4] with every box [..., B, 4]."""
    return iou(a[..., :, None, :], b[..., None, :, :])


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU, -1 to 1: IoU minus the uncovered share of the smallest box around both.

    Disjoint boxes still have a gradient towards each other.
    Source: Rezatofighi et al., "Generalized Intersection over Union" (2019), algorithm 1.
    """
    shared = _intersection(a, b)
    union = box_areas(a) + box_areas(b) - shared
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    around = box_areas(torch.cat((low, high), -1))
    return shared / union.clamp(min=1e-9) - (around - union) / around.clamp(min=1e-9)


def giou_loss(a: Tensor, b: Tensor) -> Tensor:
    """1 - GIoU: 0 for equal boxes, up to 2."""
    return 1 - giou(a, b)


def apply_offsets(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Boxes changed by offsets [..., 4]: the centre by MOVE shares of the size, the log size by GROW (Girshick
    2014)."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=1e-3)
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + offsets[..., :2] * MOVE * size
    half = size * torch.exp(offsets[..., 2:].clamp(-_LARGEST_GROWTH, _LARGEST_GROWTH) * GROW) / 2
    return torch.cat((centre - half, centre + half), -1)


def scale_boxes(boxes: Tensor, factor: float) -> Tensor:
    """Boxes scaled by `factor` about their centres."""
    half = (boxes[..., 2:] - boxes[..., :2]) * (factor / 2)
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    return torch.cat((centre - half, centre + half), -1)


SAMPLES = 2  # along each axis of a cell


def nms_keep(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Greedy non-maximum suppression: 1 for each box [N, K, 4] that stays, else 0, as [N, K].

    A box stays unless a better one that stays overlaps it by more than `threshold`. Round k settles the k-th best box.
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
    """Features [N * K, C, P, P] of boxes [N, K, 4] in maps [N, C, H, W]; boxes in pixels, `scale` cells per pixel.

    Each output cell is the mean of 2 x 2 bilinear samples; outside the map features are zero.
    Source: He et al., "Mask R-CNN" (2017), section 3, with the half-pixel shift (ONNX's `half_pixel`).
    """
    if torch.onnx.is_in_onnx_export():
        picture = torch.arange(boxes.shape[0], device=boxes.device).repeat_interleave(boxes.shape[1])
        cut: Tensor = torch.ops.rotopaint.roi_align(features, boxes.reshape(-1, 4), picture, size, scale)
        return cut
    return _roi_align(features, boxes, size, scale)


def _roi_align(features: Tensor, boxes: Tensor, size: int, scale: float) -> Tensor:
    """Bilinear sampling is separable: two products with weight matrices, without gather."""
    n, channels, height, width = features.shape
    placed = boxes.float() * scale - 0.5
    rows = _weights(placed[..., 1], placed[..., 3], size, height)  # [N, K, P, H]
    columns = _weights(placed[..., 0], placed[..., 2], size, width)
    lines = features.float().permute(0, 2, 1, 3).reshape(n, height, channels * width)
    by_row = torch.bmm(rows.flatten(1, 2), lines).view(n * boxes.shape[1], size * channels, width)
    cells = torch.bmm(by_row, columns.flatten(0, 1).transpose(1, 2))
    return cells.view(-1, size, channels, size).transpose(1, 2)


def _weights(low: Tensor, high: Tensor, size: int, cells: int) -> Tensor:
    """Weight [N, K, P, cells] of each map cell in each output cell, along one axis."""
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
    """Export rules: the ONNX standard operators for the two custom ones."""
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


STRIDES = (8, 16, 32)  # strides of the proposal levels
REGION_STRIDES = (4, 8, 16)  # strides of the levels for ROIAlign
REGION_SIDES = (56.0, 112.0)  # box sides up to this use the first level, the second level
N_KEYPOINTS = 5
N_PROPOSALS, N_FACES = 48, 8
NMS_PROPOSALS, NMS_FACES = 0.7, 0.45
BOX_CELLS, MASK_CELLS = 7, 14
MASK_SIDE = 2 * MASK_CELLS
MASK_SCALE = 0.5  # scale of the true masks relative to the picture
ROOM = 1.3  # side of a mask's square over its box: noses and chins stick out


class DenseProposals(NamedTuple):
    """Proposals of every cell of every level: logits [N, A], boxes [N, A, 4]; A cells of all levels."""

    logits: Tensor
    boxes: Tensor


class DetectorNet(nn.Module):
    """The detector network. Training calls the heads separately; `DetectorModel` runs them in sequence."""

    def __init__(
        self,
        *,
        backbone: str = "dense",
        widths: Sequence[int] = (16, 32, 64, 96, 128),
        depths: Sequence[int] = (1, 1, 1, 1),
        neck: int = 48,
    ) -> None:
        super().__init__()
        self.backbone = BACKBONES[backbone](widths, depths)
        self.laterals = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths[1:])
        # names by stage as in the landmark network, so that its weights load
        self.smooth = nn.ModuleDict({str(stage): ConvNorm(neck, neck) for stage in (1, 2, 3)})
        self.dense = nn.ModuleList(ConvNorm(neck, neck) for _ in STRIDES)
        self.propose = nn.Conv2d(neck, 5, 3, padding=1)
        self.reach = nn.Parameter(torch.zeros(len(STRIDES)))
        self.squeeze = ConvNorm(neck, neck, 3, 2)
        self.judge = nn.Sequential(nn.Linear(neck * 16, 96), nn.ReLU(inplace=True), nn.Linear(96, 5))
        self.trunk = nn.Sequential(
            ConvNorm(neck, neck), ConvNorm(neck, neck), nn.ConvTranspose2d(neck, 32, 2, 2), nn.ReLU(inplace=True)
        )
        self.draw = nn.Conv2d(32, 1 + N_KEYPOINTS, 1)
        nn.init.constant_(self.propose.bias[:1], -4.0)  # type: ignore[index]  # few cells hold a face

    def blocks(self) -> tuple[nn.Module, ...]:
        """Parts that support activation checkpointing."""
        return tuple(self.backbone.children())

    def features(self, picture_NCHW: Tensor) -> list[Tensor]:
        """The pyramid at strides 4, 8, 16 and 32 of display-referred pictures 0..1."""
        found = self.backbone((picture_NCHW - MEAN) / SPREAD)[1:]
        path = self.smooth["3"](self.laterals[3](found[3]))
        levels = [path]
        for k in (2, 1):
            path = self.smooth[str(k)](self.laterals[k](found[k]) + _upsample(path))
            levels.append(path)
        levels.append(F.relu(self.laterals[0](found[0]) + _upsample(path)))
        return levels[::-1]

    def proposals(self, levels: Sequence[Tensor]) -> DenseProposals:
        """For every cell the logit of being at a face's centre, and the predicted box."""
        logits, boxes = [], []
        for k, stride in enumerate(STRIDES):
            output = self.propose(self.dense[k](levels[k + 1])).float()
            logits.append(output[:, 0].flatten(1))
            away = torch.exp((output[:, 1:] + self.reach[k]).clamp(-3, 3)).flatten(2).transpose(1, 2) * (2 * stride)
            centre = cell_centres(output.shape[2], output.shape[3], stride, away)
            boxes.append(torch.cat((centre - away[..., :2], centre + away[..., 2:]), -1))
        return DenseProposals(torch.cat(logits, 1), torch.cat(boxes, 1))

    def regions(self, levels: Sequence[Tensor], boxes: Tensor, size: int) -> Tensor:
        """Features [R, C, size, size] of boxes [N, K, 4], each from the level for its size."""
        flat = boxes.reshape(-1, 4)
        side = torch.sqrt(((flat[:, 2] - flat[:, 0]) * (flat[:, 3] - flat[:, 1])).clamp(min=1.0))
        small, large = side < REGION_SIDES[0], side >= REGION_SIDES[1]
        belongs = (small, ~small & ~large, large)
        parts = [
            roi_align(level, boxes, size, 1 / stride) * is_own[:, None, None, None]
            for level, stride, is_own in zip(levels, REGION_STRIDES, belongs)
        ]
        return parts[0] + parts[1] + parts[2]

    def score_regions(self, levels: Sequence[Tensor], boxes: Tensor) -> tuple[Tensor, Tensor]:
        """The logit [N, K] that a box contains a face, and the refined box [N, K, 4]."""
        output = self.judge(self.squeeze(self.regions(levels, boxes, BOX_CELLS)).flatten(1)).float()
        output = output.view(*boxes.shape[:2], 5)
        return output[..., 0], apply_offsets(boxes, output[..., 1:])

    def draw_regions(self, levels: Sequence[Tensor], boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Mask logits [R, 28, 28] and keypoint logits [R, M, 28, 28] in squares `ROOM` times the boxes [N, K, 4]."""
        maps = self.draw(self.trunk(self.regions(levels, scale_boxes(boxes, ROOM), MASK_CELLS))).float()
        return maps[:, 0], maps[:, 1:]


def cell_centres(height: int, width: int, stride: int, like: Tensor) -> Tensor:
    """Centres [height * width, 2] of a level's cells in pixels."""
    ys, xs = ((torch.arange(n, device=like.device, dtype=like.dtype) + 0.5) * stride for n in (height, width))
    return torch.stack((xs[None].expand(height, -1), ys[:, None].expand(-1, width)), -1).flatten(0, 1)


def _upsample(level: Tensor) -> Tensor:
    return F.interpolate(level, scale_factor=2.0, mode="nearest")


def best_proposals(dense: DenseProposals, count: int, width: int, height: int) -> Tensor:
    """The `count` best boxes after non-maximum suppression, clipped to the picture; suppressed boxes fill up the
    end."""
    scores, rows = dense.logits.topk(min(4 * count, dense.logits.shape[1]), dim=1)
    boxes = clip_boxes(dense.boxes.gather(1, rows[..., None].expand(-1, -1, 4)), width, height)
    keep = nms_keep(boxes, scores.sigmoid(), NMS_PROPOSALS)
    rows = (scores.sigmoid() * keep).topk(count, dim=1).indices
    return boxes.gather(1, rows[..., None].expand(-1, -1, 4))


def clip_boxes(boxes: Tensor, width: int, height: int) -> Tensor:
    """Boxes clipped to the picture."""
    return torch.stack(
        (
            boxes[..., 0].clamp(0, width),
            boxes[..., 1].clamp(0, height),
            boxes[..., 2].clamp(0, width),
            boxes[..., 3].clamp(0, height),
        ),
        -1,
    )


def heat_places(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mean position [R, M, 2] of each heat map, as shares of its side, and its log probabilities [R, M, S, S]."""
    n, count, side = logits.shape[0], logits.shape[1], logits.shape[2]
    log_p = F.log_softmax(logits.flatten(2), dim=2).view(n, count, side, side)
    at = (torch.arange(side, device=logits.device, dtype=logits.dtype) + 0.5) / side
    p = log_p.exp()
    return torch.stack(((p.sum(2) * at).sum(2), (p.sum(3) * at).sum(2)), 2), log_p


class DetectorModel(nn.Module):
    """The exported graph: pictures to at most N_FACES faces, best first; a score of 0 means no face."""

    def __init__(self, net: DetectorNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Detect faces.

        `picture` [N, H, W, 3] display-referred 0..1 -> boxes [N, D, 4] px, scores [N, D], masks [N, D, 28, 28]
        probabilities in squares `ROOM` times the boxes, keypoints [N, D, 5, 2] px.
        """
        height, width = picture.shape[1], picture.shape[2]
        levels = self.net.features(picture.permute(0, 3, 1, 2))
        rough = best_proposals(self.net.proposals(levels), N_PROPOSALS, width, height)
        logits, boxes = self.net.score_regions(levels, rough)
        boxes = clip_boxes(boxes, width, height)
        scores = logits.sigmoid()
        scores, rows = (scores * nms_keep(boxes, scores, NMS_FACES)).topk(N_FACES, dim=1)
        boxes = boxes.gather(1, rows[..., None].expand(-1, -1, 4))
        masks, heat = self.net.draw_regions(levels, boxes)
        shares, _ = heat_places(heat)
        room = scale_boxes(boxes, ROOM).reshape(-1, 1, 4)
        points = room[..., :2] + shares * (room[..., 2:] - room[..., :2])
        shape = boxes.shape[:2]
        masks = masks.sigmoid().view(*shape, MASK_SIDE, MASK_SIDE)
        return boxes, scores, masks, points.view(*shape, N_KEYPOINTS, 2)
