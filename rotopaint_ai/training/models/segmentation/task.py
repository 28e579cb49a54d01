"""`rotopaint train FRONTS --recipe segmentation --out PACK`: trains the segmentation network and puts it into a pack.

python -m rotopaint_ai.stage dataset FRONTS --characters 270 --seed 170000 --size 512 --reach 1.3 --looks 1 --fronts
rotopaint train FRONTS --recipe segmentation --out PACK
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.inference.pack import SEGMENTATION
from rotopaint_ai.training.data.augment import PARTS, STRAIGHT, Geometry
from rotopaint_ai.training.data.dataset_checks import split_samples
from rotopaint_ai.training.models.backbone import (
    ConvNorm,
    PictureTask,
    PyramidConfig,
    PyramidNet,
    sum_losses,
)
from rotopaint_ai.training.models.segmentation.views import (
    CLASSES,
    CropMaker,
    Crops,
    SegmentationView,
    read_views,
    segmentation_figures,
)
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.config import check_all, check_ranges, check_weights
from rotopaint_ai.training.trainer.onnx_export import as_arrays, export_checked
from rotopaint_ai.training.trainer.task import NETWORKS, Losses, Moment, Network, TrainSources, to_tensor

STRIDE = 2  # stride of the logits, which are upsampled to the crop


class SegmentationOutput(NamedTuple):
    """Logits of the classes [N, 2, S, S] and of their edges [N, S, S]."""

    classes: Tensor
    edges: Tensor


class GatedConv(nn.Module):
    """Gates the shape stream by attention from both streams (equations 1 and 2).

    alpha = sigmoid(1 x 1 convolutions of both), shape' = W (shape * alpha + shape). As in the authors' code, the
    regular stream is reduced to one channel before it is upsampled.
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
    """A residual block of the shape stream, followed by its gate."""

    def __init__(self, shape: int, regular: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvNorm(shape, shape), ConvNorm(shape, shape, act=False))
        self.gate = GatedConv(shape, regular)

    def forward(self, shape: Tensor, regular: Tensor) -> Tensor:
        return torch.as_tensor(self.gate(F.relu(shape + self.body(shape)), regular))


class GatedNet(PyramidNet):
    """Crops to class and edge logits."""

    def __init__(self, *, neck: int = 48, shape: int = 16, **pyramid: Any) -> None:
        """`shape`: channels of the shape stream. The rest as in `PyramidNet`."""
        super().__init__(neck=neck, **pyramid)
        widths = self.widths
        self.begin = nn.Conv2d(widths[0] + 1, shape, 1)
        self.steps = nn.ModuleList(_Step(shape, width) for width in widths[1:4])
        self.edge = nn.Conv2d(shape, 1, 1)
        self.fuse = nn.Sequential(ConvNorm(neck + shape + widths[0] + 1, 32, 1), ConvNorm(32, 32))
        self.classify = nn.Conv2d(32, len(CLASSES), 1)

    def blocks(self) -> tuple[nn.Module, ...]:
        """Parts that support activation checkpointing."""
        return (*self.backbone.children(), *self.steps, self.fuse)

    def forward(self, crop_NCHW: Tensor) -> SegmentationOutput:
        """`crop_NCHW`: display-referred 0..1."""
        features, path = self.read_pyramid(crop_NCHW)
        shape = self.begin(torch.cat((features[0], light_slope(crop_NCHW, features[0])), 1))
        for step, feature in zip(self.steps, features[1:4]):
            shape = step(shape, feature)
        edges = self.edge(shape)
        wide = F.interpolate(path, scale_factor=2.0, mode="nearest")
        fused = self.fuse(torch.cat((wide, shape, features[0], torch.sigmoid(edges)), 1))
        return SegmentationOutput(_to_full_size(self.classify(fused)).float(), _to_full_size(edges).float()[:, 0])


def light_slope(crop: Tensor, like: Tensor) -> Tensor:
    """Gradient magnitude of the picture's luminance [N, 1, H, W] at the size of `like`; replaces the paper's Canny
    edges."""
    light = F.avg_pool2d(crop.mean(1, keepdim=True), STRIDE)
    across, down = F.pad(light, (1, 1, 0, 0), "replicate"), F.pad(light, (0, 0, 1, 1), "replicate")
    dx, dy = across[..., 2:] - across[..., :-2], down[:, :, 2:] - down[:, :, :-2]
    return (4 * torch.sqrt(dx**2 + dy**2 + 1e-6)).to(like.dtype)


def _to_full_size(logits: Tensor) -> Tensor:
    return F.interpolate(logits, scale_factor=float(STRIDE), mode="bilinear", align_corners=False)


class SegmentationGraph(nn.Module):
    """The exported graph."""

    def __init__(self, net: GatedNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`crop` [N, S, S, 3] display-referred 0..1 -> coverage [N, S, S] by front, skin and edges."""
        output = self.net(crop.permute(0, 3, 1, 2))
        front, skin = output.classes.sigmoid().unbind(1)
        return front, skin, output.edges.sigmoid()


SURE_EDGE = 0.8  # edge probability above which the classes are also supervised there


class SegmentationTarget(NamedTuple):
    """Coverage [N, 2, S, S] by what stands in front and by skin, and the edges [N, S, S] of both, 0 to 1."""

    classes: Tensor
    edges: Tensor


SegmentationLoss = Callable[[SegmentationOutput, SegmentationTarget], Tensor]
LOSSES: Registry[SegmentationLoss] = Registry("segmentation loss")


def segmentation_target(classes: Tensor) -> SegmentationTarget:
    """A target from coverages [N, 2, S, S]."""
    return SegmentationTarget(classes, (boundary(classes) > 0.2).any(1).to(classes.dtype))


def boundary(classes: Tensor) -> Tensor:
    """Edge strength [N, 2, S, S] of each pixel: the gradient of smoothed coverage over root 2 (equation 5)."""
    smooth = F.avg_pool2d(F.pad(classes, (1, 1, 1, 1), "replicate"), 3, 1)
    across, down = F.pad(smooth, (1, 1, 0, 0), "replicate"), F.pad(smooth, (0, 0, 1, 1), "replicate")
    dx, dy = (across[..., 2:] - across[..., :-2]) / 2, (down[:, :, 2:] - down[:, :, :-2]) / 2
    return torch.sqrt(dx**2 + dy**2 + 1e-8) * 2**0.5


@LOSSES.register("classes")
def classes(output: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of both classes."""
    return F.binary_cross_entropy_with_logits(output.classes, target.classes)


@LOSSES.register("overlap")
def overlap(output: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """1 - Dice of what stands in front, over a batch: thin things hardly affect a mean over pixels (Milletari et al.,
    2016)."""
    found, true = output.classes[:, 0].sigmoid(), target.classes[:, 0]
    return 1 - (2 * (found * true).sum() + 1) / (found.sum() + true.sum() + 1)


@LOSSES.register("edges")
def edges(output: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of the edges, balanced between edge and other pixels (equation 3)."""
    share = target.edges.mean().clamp(0.01, 0.99)
    weight = torch.where(target.edges > 0.5, 1 - share, share)
    plain = F.binary_cross_entropy_with_logits(output.edges, target.edges, reduction="none")
    return (plain * weight).sum() / weight.sum()


@LOSSES.register("own_edges")
def own_edges(output: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """L1 distance between predicted and true class edges, where either has one (equation 6)."""
    found, true = boundary(output.classes.sigmoid()), boundary(target.classes)
    either = (found.detach() > 0.1) | (true > 0.1)
    return ((found - true).abs() * either).sum() / either.sum().clamp(min=1)


@LOSSES.register("at_edges")
def at_edges(output: SegmentationOutput, target: SegmentationTarget) -> Tensor:
    """Cross entropy of the classes where the shape stream is confident of an edge (equation 7)."""
    sure = (output.edges.detach().sigmoid() > SURE_EDGE)[:, None]
    plain = F.binary_cross_entropy_with_logits(output.classes, target.classes, reduction="none")
    return (plain * sure).sum() / (2 * sure.sum()).clamp(min=1)


OUTPUTS = (*CLASSES, "edges")
PARITY = 0.001


@dataclass(frozen=True, slots=True)
class SegmentationConfig(PyramidConfig):
    """Training of a segmentation network: crop, network, augmentation, losses."""

    task: str = "segmentation"
    name: str = "segmentation"
    eval_every: int = 50
    input_size: int = 384
    crop_margin: float = 1.3
    shape: int = 16  # channels of the shape stream
    batch: int = 8
    augment: dict[str, float] = field(
        default_factory=lambda: {
            "occluders": 0.2,
            "shadow": 0.3,
            "tone": 0.8,
            "colour": 0.5,
            "channels": 0.1,
            "blur": 0.2,
            "coarse": 0.2,
            "noise": 0.4,
            "jpeg": 0.3,
        }
    )
    losses: dict[str, float] = field(
        default_factory=lambda: {"classes": 1.0, "overlap": 0.5, "edges": 1.0, "own_edges": 0.5, "at_edges": 0.2}
    )
    scale_low: float = 0.75
    scale_high: float = 1.2
    shift: float = 0.12
    rotation_deg: float = 25.0

    def check(self) -> None:
        """Raises UsageError naming the first invalid field."""
        PyramidConfig.check(self)
        _ = [PARTS[name] for name in self.augment], [LOSSES[name] for name in self.losses]
        check_weights(self.augment, self.losses)
        check_ranges(self, {"crop_margin": (1, 3), "shift": (0, 1), "rotation_deg": (0, 180)})
        check_all(
            (
                (self.input_size % 32 == 0 and 64 <= self.input_size <= 1024, "input_size: wanted a multiple of 32"),
                (self.shape > 0 and self.shape % 8 == 0, f"shape {self.shape}: wanted a multiple of 8"),
                (
                    0.1 <= self.scale_low <= self.scale_high <= 4,
                    "scale_low, scale_high: wanted 0.1 <= low <= high <= 4",
                ),
            )
        )


class SegmentationTask(PictureTask[GatedNet, Crops]):
    """Training of a segmentation network on views."""

    captures = True

    def __init__(
        self,
        config: SegmentationConfig,
        net: GatedNet,
        samples: Sequence[SegmentationView],
        held_out: Sequence[SegmentationView] = (),
    ) -> None:
        geometry = Geometry((config.scale_low, config.scale_high), config.shift, config.rotation_deg, 0.5, 0.1, 0.3)
        cutter = CropMaker(samples, config.input_size, config.crop_margin, geometry, config.augment)
        super().__init__(config, net, samples, held_out, cutter)

    @classmethod
    def prepare(cls, config: SegmentationConfig, sources: TrainSources) -> SegmentationTask:
        """Read and split views, initialise the network."""
        return cls(config, build_segmentation(config), *split_samples(read_views(sources.folders, check=sources.check)))

    def to_device(self, batch: Crops, moment: Moment) -> tuple[Tensor, SegmentationTarget]:
        """Crops [N, 3, S, S] 0..1 and the target."""
        pictures, covered = (to_tensor(part, moment.device).permute(0, 3, 1, 2).float() / 255 for part in batch)
        return pictures, segmentation_target(covered)

    def loss(self, net: GatedNet, inputs: tuple[Tensor, SegmentationTarget], moment: Moment) -> Losses:
        """The recipe's losses of classes and edges."""
        with moment.precision():
            return sum_losses(LOSSES, net(inputs[0]), inputs[1], self.config.losses)

    def metrics(self, net: GatedNet) -> Mapping[str, Any]:
        """Boundary F and IoU on validation views."""
        return segmentation_figures(
            as_arrays(SegmentationGraph(net)), self.held_out, self.config.input_size, self.config.crop_margin
        )

    def export(self, net: GatedNet, path: Path) -> float:
        """Write `matte.onnx` with a free batch size. Returns the largest difference of `front` on real crops.

        Raises: TrainingError if the file's outputs differ from the network's.
        """
        straight = CropMaker(self.held_out, self.config.input_size, self.config.crop_margin, STRAIGHT, {})
        rows = range(min(4, len(self.held_out)))
        crops = straight.batch(rows, np.random.default_rng(0)).pictures
        sample = crops.astype(np.float32) / np.float32(255)
        model = SegmentationGraph(net)
        return export_checked(model, path, ("crop", OUTPUTS), sample, limits={"front": PARITY})


NETWORKS.register("segmentation")(
    Network(SegmentationConfig(), SegmentationTask.prepare, file=SEGMENTATION, card=("matte",))
)


def build_segmentation(config: SegmentationConfig) -> GatedNet:
    """The recipe's network with random weights."""
    torch.manual_seed(config.seed)
    return GatedNet(**config.pyramid(), shape=config.shape)
