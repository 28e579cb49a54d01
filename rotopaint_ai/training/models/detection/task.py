"""`rotopaint train PLATES... --recipe detector --out PACK`: trains the face detector and puts it into a pack.

    python -m rotopaint_ai.stage plates PLATES --count 1300 --seed 50000
    rotopaint train PLATES DATASET --recipe detector --out PACK

Data: rendered plates, face-crop data sets, shots with their roto, in any mixture; see `scenes`. Losses are registered
parts, weighted by the recipe.

N batch, G faces of a picture (padded), A cells of all levels, K regions of a picture, M keypoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.landmarks.faces import letterbox
from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.data.dataset_checks import split_samples
from rotopaint_ai.training.models.backbone import PictureTask, PyramidConfig, sum_losses
from rotopaint_ai.training.models.detection.batches import CanvasMaker, DetectorBatch
from rotopaint_ai.training.models.detection.net import (
    MASK_SCALE,
    MASK_SIDE,
    ROOM,
    STRIDES,
    DenseProposals,
    DetectorModel,
    DetectorNet,
    best_proposals,
    cell_centres,
    giou_loss,
    heat_places,
    iou,
    iou_table,
    roi_align,
    scale_boxes,
    translations,
)
from rotopaint_ai.training.models.detection.scenes import DetectionScene, detection_figures, read_scenes
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.config import check_all, check_ranges, check_weights
from rotopaint_ai.training.trainer.group import CPU
from rotopaint_ai.training.trainer.onnx_export import export_checked
from rotopaint_ai.training.trainer.task import NETWORKS, Losses, Moment, Network, TrainSources

CENTRE = 0.22  # a cell is positive within this distance of a face's centre, in shares of its sides ...
AT_LEAST = 0.75  # ... and at least within this many strides
LEVEL_SIDES = (0.0, 64.0, 128.0, 1e9)  # range of longest face sides for each proposal level
SLACK = 1.25  # factor by which those ranges overlap
# IoU above which a region is a face, and below which it is background; regions between are ignored.
IS_FACE, IS_NEAR = 0.5, 0.3
_JITTER = 0.12
N_REGIONS = 8


class DetectionTarget(NamedTuple):
    """Faces of a batch.

    `boxes` [N, G, 4]; `counts` [N, G]: faces to detect; `passed` [N, G]: faces to ignore; `points` [N, G, M, 3] as x,
    y, visible; `masks` [N, G, H / 2, W / 2] from 0 to 1.
    """

    boxes: Tensor
    counts: Tensor
    passed: Tensor
    points: Tensor
    masks: Tensor


class DetectorOutput(NamedTuple):
    """The network's output for a batch."""

    dense: DenseProposals
    regions: Tensor  # [N, K, 4] regions of the box head
    logits: Tensor  # [N, K]
    moved: Tensor  # [N, K, 4] refined regions
    rough: Tensor  # [N, G, 4] jittered true boxes, regions of the mask and keypoint head
    masks: Tensor  # [N * G, S, S]
    heat: Tensor  # [N * G, M, S, S]
    size: tuple[int, int]  # height and width of the picture


DetectionLoss = Callable[[DetectorOutput, DetectionTarget], Tensor]
LOSSES: Registry[DetectionLoss] = Registry("detection loss")


def forward_heads(
    net: DetectorNet, pictures_NCHW: Tensor, target: DetectionTarget, noise: torch.Generator
) -> DetectorOutput:
    """Run all heads: the box head on proposals and jittered true boxes, the others on jittered true boxes."""
    height, width = pictures_NCHW.shape[2:]
    levels = net.features(pictures_NCHW)
    dense = net.proposals(levels)
    with torch.no_grad():
        found = best_proposals(DenseProposals(dense.logits.detach(), dense.boxes.detach()), N_REGIONS, width, height)
    true = torch.where(target.counts[..., None], target.boxes, found[:, : target.boxes.shape[1]])
    regions = torch.cat((found, jitter_boxes(true, 2 * _JITTER, noise)), 1)
    logits, moved = net.score_regions(levels, regions)
    rough = jitter_boxes(true, _JITTER, noise)
    masks, heat = net.draw_regions(levels, rough)
    return DetectorOutput(dense, regions, logits, moved, rough, masks, heat, (height, width))


def jitter_boxes(boxes: Tensor, amount: float, noise: torch.Generator) -> Tensor:
    """Boxes with each edge randomly moved by `amount` of their size, like inaccurate proposals."""
    size = (boxes[..., 2:] - boxes[..., :2]).repeat_interleave(2, -1)[..., [0, 2, 0, 2]]
    draw = torch.randn(boxes.shape, generator=noise).to(boxes.device)
    return boxes + (draw * amount).clamp(-2 * amount, 2 * amount) * size


class _Cells(NamedTuple):
    """For each cell [N, A]: the row of its face, whether it is positive, and whether it is ignored."""

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
    """GIoU loss of the boxes proposed by positive cells."""
    cells = _cells(output, target)
    wanted = target.boxes.gather(1, cells.face[..., None].expand(-1, -1, 4))
    return (giou_loss(output.dense.boxes, wanted) * cells.is_face).sum() / cells.is_face.sum().clamp(min=1)


def _match_regions(output: DetectorOutput, target: DetectionTarget) -> tuple[Tensor, Tensor, Tensor]:
    """For each region [N, K]: the largest IoU with a face, that face's row, and whether the region counts."""
    table = iou_table(output.regions, target.boxes)
    best = (table * target.counts[:, None]).max(2)
    passed = (table * target.passed[:, None]).amax(2)
    counts = ((best.values >= IS_FACE) | (best.values < IS_NEAR)) & ((passed < IS_NEAR) | (best.values >= IS_FACE))
    return best.values, best.indices, counts


@LOSSES.register("classify")
def classify(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of each region's face logit."""
    overlap, _, counts = _match_regions(output, target)
    wanted = (overlap >= IS_FACE).to(output.logits.dtype)
    plain = F.binary_cross_entropy_with_logits(output.logits, wanted, reduction="none")
    return (plain * counts).sum() / counts.sum().clamp(min=1)


@LOSSES.register("refine_box")
def refine_box(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """GIoU loss of the refined boxes of regions that contain a face."""
    overlap, face, _ = _match_regions(output, target)
    is_face = overlap >= IS_FACE
    wanted = target.boxes.gather(1, face[..., None].expand(-1, -1, 4))
    return (giou_loss(output.moved, wanted) * is_face).sum() / is_face.sum().clamp(min=1)


def _scale_to_mask_squares(output: DetectorOutput) -> Tensor:
    return scale_boxes(output.rough, ROOM).reshape(-1, 4)


def _drawn_counts(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Whether each jittered true box [N * G] is close enough to train the mask on."""
    return ((iou(output.rough, target.boxes) >= IS_FACE) & target.counts).flatten()


@LOSSES.register("mask")
def mask(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of the masks of faces, over all cells."""
    flat = target.masks.flatten(0, 1)[:, None]
    wanted = roi_align(flat, _scale_to_mask_squares(output)[:, None], MASK_SIDE, MASK_SCALE)[:, 0]
    plain = F.binary_cross_entropy_with_logits(output.masks, wanted, reduction="none").mean((1, 2))
    counts = _drawn_counts(output, target)
    return (plain * counts).sum() / counts.sum().clamp(min=1)


@LOSSES.register("keypoints")
def keypoints(output: DetectorOutput, target: DetectionTarget) -> Tensor:
    """Cross entropy of heat maps with a Gaussian of one cell, plus the smooth L1 error of their means in cells.

    Hidden keypoints weigh a third; those outside the square, nothing.
    """
    rooms = _scale_to_mask_squares(output)
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


OUTPUTS = ("boxes", "scores", "masks", "keypoints")
PARITY_PX, PARITY_SHARE = 0.02, 0.001
_IS_FACE = 0.3  # smallest score for comparing file and network


@dataclass(frozen=True, slots=True)
class DetectorConfig(PyramidConfig):
    """Training of a detector: `width` x `height` of the network's picture, augmentation, losses."""

    task: str = "detector"
    name: str = "detector"
    eval_every: int = 50
    width: int = 320
    height: int = 192
    augment: dict[str, float] = field(
        default_factory=lambda: {
            "occluders": 0.2,
            "shadow": 0.3,
            "tone": 0.8,
            "colour": 0.5,
            "channels": 0.15,
            "blur": 0.2,
            "noise": 0.4,
            "jpeg": 0.2,
        }
    )
    losses: dict[str, float] = field(
        default_factory=lambda: {
            "propose": 1.0,
            "propose_box": 1.0,
            "classify": 1.0,
            "refine_box": 1.0,
            "mask": 1.0,
            "keypoints": 0.25,
        }
    )
    together: float = 0.4
    rotation_deg: float = 15.0
    things: float = 0.7

    def check(self) -> None:
        """Raises UsageError naming the first invalid field."""
        PyramidConfig.check(self)
        _ = [PARTS[name] for name in self.augment], [LOSSES[name] for name in self.losses]
        check_weights(self.augment, self.losses)
        check_ranges(self, {"rotation_deg": (0, 180), "together": (0, 1), "things": (0, 1)})
        check_all(
            (
                (self.width % 32 == 0 and self.height % 32 == 0, "width, height: wanted multiples of 32"),
                (
                    64 <= self.height <= self.width <= 1024,
                    "width, height: wanted 64 to 1024, and no more height than width",
                ),
            )
        )


class DetectorTask(PictureTask[DetectorNet, DetectorBatch]):
    """Training of a detector on scenes."""

    def __init__(
        self,
        config: DetectorConfig,
        net: DetectorNet,
        samples: Sequence[DetectionScene],
        held_out: Sequence[DetectionScene] = (),
    ) -> None:
        size, turn = (config.width, config.height), config.rotation_deg
        made = CanvasMaker(samples, *size, config.augment, config.together, rotation_deg=turn, things=config.things)
        super().__init__(config, net, samples, held_out, made)

    @classmethod
    def prepare(cls, config: DetectorConfig, sources: TrainSources) -> DetectorTask:
        """Read and split scenes, initialise the network."""
        return cls(config, build_detector(config), *split_samples(read_scenes(sources.folders, check=sources.check)))

    def to_device(self, batch: DetectorBatch, moment: Moment) -> tuple[Tensor, DetectionTarget]:
        """Pictures [N, 3, H, W] 0..1 and the target."""
        return as_tensors(batch, moment.device)

    def loss(self, net: DetectorNet, inputs: tuple[Tensor, DetectionTarget], moment: Moment) -> Losses:
        """The recipe's losses of all heads."""
        with moment.precision():
            output = forward_heads(net, *inputs, moment.noise())
            return sum_losses(LOSSES, output, inputs[1], self.config.losses)

    def metrics(self, net: DetectorNet) -> Mapping[str, Any]:
        """Recall, precision, IoU and keypoint errors on validation scenes."""
        return detection_figures(DetectorModel(net), self.held_out, self.config.width, self.config.height)

    def export(self, net: DetectorNet, path: Path) -> float:
        """Write `detector.onnx` with a free batch size. Returns the largest difference of face boxes in pixels.

        Raises: TrainingError if the file's outputs differ from the network's.
        """
        size = self.config.width, self.config.height
        shown = [letterbox(scene.picture.astype(np.float32) / 255, *size)[0] for scene in self.held_out[:4]]
        sample = np.rint(np.stack(shown) * 255).astype(np.float32) / np.float32(255)
        return export_checked(
            DetectorModel(net),
            path,
            ("picture", OUTPUTS),
            sample,
            limits={"boxes": PARITY_PX, "scores": PARITY_SHARE},
            example=np.repeat(sample[:1], 2, 0),
            translations=translations(),
            counts=lambda wanted, got: np.maximum(wanted[1], got[1]) > _IS_FACE,
        )


NETWORKS.register("detector")(Network(DetectorConfig(), DetectorTask.prepare, file="detector.onnx", card=("detector",)))


def build_detector(config: DetectorConfig) -> DetectorNet:
    """The recipe's network with random weights."""
    torch.manual_seed(config.seed)
    return DetectorNet(**config.pyramid())


def as_tensors(batch: DetectorBatch, device: torch.device = CPU) -> tuple[Tensor, DetectionTarget]:
    """Pictures [N, 3, H, W] 0..1 and the target, on a device."""
    pictures = torch.from_numpy(batch.pictures).to(device).permute(0, 3, 1, 2).float() / 255
    return pictures, DetectionTarget(*(torch.from_numpy(part).to(device) for part in batch[1:]))
