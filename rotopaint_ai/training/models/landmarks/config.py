"""The config of a pack's training: landmark network and losses, batches, and the fit of shapes.

Every part of the loss returns one number per landmark, [N, L], in units independent of the crop's size. `total_loss`
averages over the landmarks that are known and inside the crop, weighted by the sheet; hidden landmarks get less weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.models.backbone import PyramidConfig, weighted_sum
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, FINE_STRIDE, HEADS, LandmarkOutput
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer import config as recipes
from rotopaint_ai.training.trainer.config import check_all, check_ranges, check_weights
from rotopaint_ai.training.trainer.task import Losses


class LandmarkTarget(NamedTuple):
    """Labels of a batch: points [N, L, 2] crop px (arbitrary where unknown), visible [N, L], and the weight [N, L] of
    each landmark: 0 where it is unknown or outside the crop."""

    points: Tensor
    visible: Tensor
    weight: Tensor


LandmarkLoss = Callable[[LandmarkOutput, LandmarkTarget], Tensor]
LOSSES: Registry[LandmarkLoss] = Registry("loss")


def make_target(
    landmarks: Tensor, visible: Tensor, weights_L: Tensor, size_px: int, hidden_weight: float
) -> LandmarkTarget:
    """Labels and weights of a batch's landmarks; NaN coordinates and those outside the crop get weight 0."""
    known = torch.isfinite(landmarks).all(2) & torch.isfinite(visible)
    points = torch.where(known[..., None], landmarks, torch.zeros_like(landmarks))
    inside = ((points > 0) & (points < size_px)).all(2)
    seen = torch.where(known, visible, torch.zeros_like(visible)).clamp(0, 1)
    weight = weights_L * (known & inside) * (hidden_weight + (1 - hidden_weight) * seen)
    return LandmarkTarget(points, seen, weight)


def total_loss(
    output: LandmarkOutput, target: LandmarkTarget, parts: Mapping[str, float], norm: Tensor | None = None
) -> Losses:
    """The weighted sum of the parts, and each part's own mean for the log.

    `norm`: the sum of weights to divide by where other ranks have other parts of the batch (None: this batch's own).
    Parts with weight 0 are computed too, because ranks wait for a gradient of every parameter.
    """
    norm = (target.weight.sum() if norm is None else norm).clamp_min(1e-6)
    return weighted_sum({name: (LOSSES[name](output, target) * target.weight).sum() / norm for name in parts}, parts)


@LOSSES.register("coarse_heat")
def coarse_heat(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Cross-entropy of the coarse heat-map against a Gaussian at the true position, with a sigma of one cell."""
    if output.coarse_log is None:
        return torch.zeros_like(target.weight)
    return _cross_entropy(output.coarse_log, target.points / COARSE_STRIDE)


@LOSSES.register("fine_heat")
def fine_heat(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """The same for the fine window, where the true position lies inside it."""
    if output.fine_log is None or output.corner is None:
        return torch.zeros_like(target.weight)
    place = (target.points - output.corner) / FINE_STRIDE
    return _cross_entropy(output.fine_log, place) * _is_in_window(output, target)


def _is_in_window(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    assert output.fine_log is not None
    assert output.corner is not None
    place = (target.points - output.corner) / FINE_STRIDE
    inside = (place > 0.5) & (place < output.fine_log.shape[-1] - 0.5)
    both: Tensor = inside.all(2)
    return both


def _cross_entropy(log_p: Tensor, place: Tensor) -> Tensor:
    """`log_p` [N, L, H, W], `place` [N, L, 2] in cells. The target is separable and never built in two dimensions."""
    xs = torch.arange(log_p.shape[3], device=log_p.device) + 0.5
    ys = torch.arange(log_p.shape[2], device=log_p.device) + 0.5
    along_x = torch.softmax(-0.5 * (xs - place[..., :1]) ** 2, 2)
    along_y = torch.softmax(-0.5 * (ys - place[..., 1:]) ** 2, 2)
    inner = torch.matmul(log_p, along_x[..., None])[..., 0]
    return -(inner * along_y).sum(2)


@LOSSES.register("coarse_place")
def coarse_place(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Smooth L1 distance of the coarse position, in coarse cells."""
    if output.coarse is None:
        return torch.zeros_like(target.weight)
    return _absolute(output.coarse, target.points, COARSE_STRIDE)


@LOSSES.register("place")
def place(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Smooth L1 distance of the final position, in fine cells; 0 where the truth lies outside the fine window."""
    distance = _absolute(output.points, target.points, FINE_STRIDE)
    return distance if output.fine_log is None else distance * _is_in_window(output, target)


def _absolute(points: Tensor, wanted: Tensor, unit_px: float) -> Tensor:
    return torch.as_tensor(F.smooth_l1_loss(points / unit_px, wanted / unit_px, beta=0.05, reduction="none").sum(2))


@LOSSES.register("expected_error")
def expected_error(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Negative log-likelihood of the distance under an exponential distribution whose mean is the expected error.

    The distance is detached, so that points do not get worse to make their errors predictable.
    """
    distance: Tensor = (output.points - target.points).detach().norm(dim=2) + 0.02
    scale: Tensor = output.log_scale.clamp(-5, 6)
    return scale + distance * torch.exp(-scale)


@LOSSES.register("visible")
def visible(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Binary cross-entropy of the visibility."""
    return torch.as_tensor(F.binary_cross_entropy_with_logits(output.visible, target.visible, reduction="none"))


@LOSSES.register("anisotropy")
def anisotropy(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Length of the error in units of the expected error, after whitening by the predicted anisotropy.

    Both errors are detached. A point on an edge errs more along the edge than across it.
    """
    off = (output.points - target.points).detach()
    expected = torch.exp(output.log_scale.detach().clamp(-5, 6))
    ab = output.anisotropy
    length = torch.sqrt((ab * ab).sum(2) + 1e-6)
    cosh, sinh_over_length = torch.cosh(length / 2), torch.sinh(length / 2) / length
    x, y, a, b = off[..., 0], off[..., 1], ab[..., 0] * sinh_over_length, ab[..., 1] * sinh_over_length
    round_x, round_y = cosh * x - (a * x + b * y), cosh * y - (b * x - a * y)
    return torch.as_tensor(torch.sqrt(round_x**2 + round_y**2 + 1e-4) / (expected + 0.02))


@dataclass(frozen=True, slots=True)
class PackConfig(PyramidConfig):
    """The config of a pack's training, apart from the data; fields common to all networks are in `TrainConfig`.

    Sizes in pixels, shares from 0 to 1.
    """

    name: str = "character"
    minutes: float | None = 14.0
    ema: float = 0.998
    threads: int = 0
    depths: tuple[int, ...] = (1, 1, 3, 4)
    input_size: int = 256
    crop_margin: float = 1.3  # crop side / longest side of the landmarks' bounding box ...
    shape_margin: float = 1.15  # ... or / that of the shapes, whichever gives the smaller crop
    # the network
    head: str = "coarse_to_fine"
    fine: int = 16
    window: int = 9
    # the schedule
    small_size: int = 192  # size of the crops at first, which is faster; input_size afterwards
    small_share: float = 0.5  # share of the run at the small size
    eval_limit: int = 400  # held-out samples evaluated during training
    learn_all: float = 0.0  # share of the run, at its end, that also trains on held-out samples
    # batches and losses
    losses: dict[str, float] = field(
        default_factory=lambda: {
            "coarse_heat": 1.0,
            "coarse_place": 0.5,
            "fine_heat": 1.0,
            "place": 1.0,
            "expected_error": 0.1,
            "anisotropy": 0.1,
            "visible": 0.2,
        }
    )
    hidden_weight: float = 0.3
    augment: dict[str, float] = field(
        default_factory=lambda: {
            "occluders": 0.4,
            "shadow": 0.3,
            "tone": 0.8,
            "colour": 0.6,
            "channels": 0.15,
            "coarse": 0.1,
            "blur": 0.15,
            "noise": 0.4,
            "jpeg": 0.15,
        }
    )
    scale_low: float = 0.85
    scale_high: float = 1.35
    shift: float = 0.07
    rotation_deg: float = 25.0
    flip: float = 0.5
    shear: float = 0.1
    perspective: float = 0.3
    elastic: float = 0.0  # share of samples with a smooth elastic deformation
    pose: float = 0.0  # share of samples rotated to another side, by the head's estimated depth
    mirrored: bool = True  # average with the mirrored crop's result, at twice the time
    prior: bool = True  # pull landmarks towards what the keyed frames allow, where that helps
    seam_minutes: float = 0.0  # minutes for tuning the initial pack's seam network; 0 copies it unchanged
    # the shape model
    shape_model: str = "ridge"
    shape_copies: int = 2  # augmented copies of each keyed frame
    shape_noise: float | None = None  # assumed landmark error in the shape fit, share of the face; null: measured

    def check(self) -> None:
        """Raises UsageError for the first invalid field."""
        PyramidConfig.check(self)
        check_ranges(self, _RANGES)
        _ = HEADS[self.head], [PARTS[name] for name in self.augment], [LOSSES[name] for name in self.losses]
        _ = SHAPE_MODELS[self.shape_model]
        check_weights(self.augment, self.losses)
        sizes = {name: getattr(self, name) for name in ("input_size", "small_size")}
        check_all((size % 32 == 0, f"{name} {size}: wanted a multiple of 32") for name, size in sizes.items())
        check_all(
            (
                (self.fine >= 0 and self.fine % 8 == 0, f"fine {self.fine}: wanted a multiple of 8, or 0 for none"),
                (
                    self.window % 2 == 1 and 3 <= self.window <= 15,
                    f"window {self.window}: wanted an odd number from 3 to 15",
                ),
                (0 < self.scale_low <= self.scale_high, "scale_low, scale_high: wanted 0 < low <= high"),
                (0 <= self.learn_all < 1, f"learn_all {self.learn_all}: wanted 0 to below 1"),
                (
                    any(self.losses.get(name) for name in _POSITION_LOSSES),
                    f"losses: none trains landmark positions; wanted one of {', '.join(_POSITION_LOSSES)} above 0",
                ),
            )
        )


_RANGES: Mapping[str, tuple[float, float]] = {
    **{"input_size": (32, 1024), "small_size": (32, 1024), "small_share": (0, 1), "eval_limit": (1, 1_000_000)},
    **{"hidden_weight": (0, 10), "crop_margin": (1, 3), "shape_margin": (1, 3)},
    **{"scale_low": (0.1, 10), "scale_high": (0.1, 10), "shift": (0, 0.5), "rotation_deg": (0, 180)},
    **{"flip": (0, 1), "shear": (0, 1), "perspective": (0, 1), "elastic": (0, 1)},
    **{"pose": (0, 1), "seam_minutes": (0, 60)},
    **{"shape_copies": (0, 100), "shape_noise": (0, 1)},
}
_POSITION_LOSSES = ("coarse_heat", "coarse_place", "fine_heat", "place")  # losses that train positions


def load_pack_config(recipe: str | Path | None = None, overrides: Iterable[str] = ()) -> PackConfig:
    """A pack's config from a recipe file or shipped name (None: `character`), with `key=value` overrides.

    Raises: UsageError naming the recipe, the field, its value and the allowed values.
    """
    recipes.load_plugins(recipe, overrides := tuple(overrides))
    return recipes.load_config(PackConfig(), recipe, overrides)
