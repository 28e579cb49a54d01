"""Losses of the landmark network, named in the recipe with their weights.

Every part returns one number per landmark, [N, L], in units that do not depend on the crop's size; `total` averages
them over the landmarks that count: those that are known and inside the crop, by the sheet's weights, hidden ones less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rotopaint_ai.training.models.backbone import weighted_sum
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, FINE_STRIDE, LandmarkOutput
from rotopaint_ai.training.registry import Registry


class LandmarkTarget(NamedTuple):
    """What a batch should give: points [N, L, 2] crop px (anything where unknown), visible [N, L], and the weight
    [N, L] of each landmark: 0 where it is unknown or outside the crop."""

    points: Tensor
    visible: Tensor
    weight: Tensor


Part = Callable[[LandmarkOutput, LandmarkTarget], Tensor]
LOSSES: Registry[Part] = Registry("loss")


def make_target(
    landmarks: Tensor, visible: Tensor, weights_L: Tensor, size_px: int, hidden_weight: float
) -> LandmarkTarget:
    """Weigh a batch's landmarks; NaN coordinates and those outside the crop get weight 0."""
    known = torch.isfinite(landmarks).all(2) & torch.isfinite(visible)
    points = torch.where(known[..., None], landmarks, torch.zeros_like(landmarks))
    inside = ((points > 0) & (points < size_px)).all(2)
    seen = torch.where(known, visible, torch.zeros_like(visible)).clamp(0, 1)
    weight = weights_L * (known & inside) * (hidden_weight + (1 - hidden_weight) * seen)
    return LandmarkTarget(points, seen, weight)


def total(
    output: LandmarkOutput, target: LandmarkTarget, parts: Mapping[str, float], norm: float | None = None
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the parts, and each part's own mean for the log.

    `norm` is the weight to divide by where other ranks hold other parts of the batch (None: this batch's own). A part
    that counts for nothing is worked out all the same: ranks wait for a gradient of every weight.
    """
    norm = max(float(target.weight.sum()) if norm is None else norm, 1e-6)
    return weighted_sum({name: (LOSSES[name](output, target) * target.weight).sum() / norm for name in parts}, parts)


@LOSSES.register("coarse_heat")
def coarse_heat(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Cross entropy of the coarse heat-map against a Gaussian of one cell at the true place."""
    if output.coarse_log is None:
        return torch.zeros_like(target.weight)
    return _cross_entropy(output.coarse_log, target.points / COARSE_STRIDE)


@LOSSES.register("fine_heat")
def fine_heat(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """The same for the fine window, where the true place lies inside it."""
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
    """`log_p` [N, L, H, W], `place` [N, L, 2] in cells. Separable, so the target is never built in two dimensions."""
    xs = torch.arange(log_p.shape[3], device=log_p.device) + 0.5
    ys = torch.arange(log_p.shape[2], device=log_p.device) + 0.5
    along_x = torch.softmax(-0.5 * (xs - place[..., :1]) ** 2, 2)
    along_y = torch.softmax(-0.5 * (ys - place[..., 1:]) ** 2, 2)
    inner = torch.matmul(log_p, along_x[..., None])[..., 0]
    return -(inner * along_y).sum(2)


@LOSSES.register("coarse_place")
def coarse_place(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Distance of the coarse place along each axis, in coarse cells."""
    if output.coarse is None:
        return torch.zeros_like(target.weight)
    return _absolute(output.coarse, target.points, COARSE_STRIDE)


@LOSSES.register("place")
def place(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Distance of the final place along each axis, in fine cells; a window that misses the truth is let off."""
    distance = _absolute(output.points, target.points, FINE_STRIDE)
    return distance if output.fine_log is None else distance * _is_in_window(output, target)


def _absolute(points: Tensor, wanted: Tensor, unit_px: float) -> Tensor:
    return torch.as_tensor(F.smooth_l1_loss(points / unit_px, wanted / unit_px, beta=0.05, reduction="none").sum(2))


@LOSSES.register("expected_error")
def expected_error(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Negative log-likelihood of the distance under an exponential law whose mean is the expected error.

    The distance carries no gradient: a point must not be made worse to make its error easier to foretell.
    """
    distance: Tensor = (output.points - target.points).detach().norm(dim=2) + 0.02
    scale: Tensor = output.log_scale.clamp(-5, 6)
    return scale + distance * torch.exp(-scale)


@LOSSES.register("visible")
def visible(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Cross entropy of being seen."""
    return torch.as_tensor(F.binary_cross_entropy_with_logits(output.visible, target.visible, reduction="none"))


@LOSSES.register("anisotropy")
def anisotropy(output: LandmarkOutput, target: LandmarkTarget) -> Tensor:
    """Length of the error, in units of the expected one, once its anisotropic spread is made round.

    Neither the error nor the expected one carries a gradient. A point on an edge errs along it more than across.
    """
    off = (output.points - target.points).detach()
    expected = torch.exp(output.log_scale.detach().clamp(-5, 6))
    lean = output.anisotropy
    length = torch.sqrt((lean * lean).sum(2) + 1e-6)
    straight, turned = torch.cosh(length / 2), torch.sinh(length / 2) / length
    x, y, a, b = off[..., 0], off[..., 1], lean[..., 0] * turned, lean[..., 1] * turned
    round_x, round_y = straight * x - (a * x + b * y), straight * y - (b * x - a * y)
    return torch.as_tensor(torch.sqrt(round_x**2 + round_y**2 + 1e-4) / (expected + 0.02))
