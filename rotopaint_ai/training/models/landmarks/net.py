"""The landmark network: a pyramid with a registered head, the model that a pack ships, and the default head.

A new head is a subclass of `LandmarkNet` with `locate`, and a row of `HEADS`; a recipe selects it by `head: name`. The
default head has a coarse heat-map at stride 4 over the whole crop. Its mean (soft-argmax) gives each landmark to within
about a pixel. A fine heat-map of twice the resolution is evaluated only in a small window around it. It reads the
backbone's early features, which are sharp, fused with the pyramid's, which have context.

Letters: N batch, C channels, H rows, W columns, L landmarks, S side of the crop in pixels.

Crop space: pixels 0..S, origin at the outer corner of the top-left pixel. A map of stride s has the centre of cell (i,
j) at ((j + 0.5) s, (i + 0.5) s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.training.models.backbone import ConvNorm, PyramidNet, conv_blocks
from rotopaint_ai.training.registry import Registry

BuildHead = Callable[[int, Any], "LandmarkNet"]  # from the number of landmarks and the recipe's config
HEADS: Registry[BuildHead] = Registry("landmark head")


class LandmarkOutput(NamedTuple):
    """The network's output for a batch; coordinates in crop pixels. Heat-maps are None where a head has none.

    Begins with the fields of `Reading`.
    """

    points: Tensor  # [N, L, 2] final landmarks
    log_scale: Tensor  # [N, L] logarithm of the expected distance in crop pixels
    visible: Tensor  # [N, L] logit
    anisotropy: Tensor  # [N, L, 2] of the error's distribution, as in `anisotropy_of`; 0 is isotropic
    coarse: Tensor | None = None  # [N, L, 2] before refinement
    coarse_log: Tensor | None = None  # [N, L, H, W] log-probabilities of the coarse heat-map
    fine_log: Tensor | None = None  # [N, L, p, p] log-probabilities of the fine window
    corner: Tensor | None = None  # [N, L, 2] top-left corner of the fine windows


class LandmarkNet(PyramidNet):
    """Crops to landmarks: a pyramid, and a head that a subclass adds.

    Parameters of single landmarks have the landmark as their first axis and names that end in `_of_landmark`, so that
    `load_pretrained` can copy them to another layout by landmark name.
    """

    def blocks(self) -> tuple[nn.Module, ...]:
        """The convolutional blocks, each of which can be recomputed from its input."""
        return tuple(conv_blocks(self))

    def forward(self, crop_NCHW: Tensor, jitter: Tensor | None = None) -> LandmarkOutput:
        """`crop_NCHW`: display-referred 0..1. `jitter`: [N, L, 2] crop px, an error added to the centre of the fine
        windows in training, because the coarse position is also inexact at run time."""
        output = self.locate(*self.read_pyramid(crop_NCHW), jitter)
        return LandmarkOutput(*(None if part is None else part.float() for part in output))  # type: ignore[arg-type]

    def locate(self, features: Sequence[Tensor], neck: Tensor, jitter: Tensor | None) -> LandmarkOutput:
        """Landmarks from the backbone's features at strides 2 to 32 and the pyramid's [N, neck, S / 4, S / 4].

        Under mixed precision both are bfloat16; positions need float32.
        """
        raise NotImplementedError


class Reading(NamedTuple):
    """The decoded output of the network for a batch; coordinates in crop pixels."""

    points: Tensor  # [N, L, 2]
    log_scale: Tensor  # [N, L] logarithm of the expected distance
    visible: Tensor  # [N, L] logit
    anisotropy: Tensor  # [N, L, 2]


class Reader(nn.Module):
    """Reads crops [N, 3, S, S] as they are and mirrored, and averages both results.

    `mirror`: the order of landmarks in a mirrored picture; None reads once. Where half of a crop's landmarks differ by
    more than `agree` of its side, the mirrored result is ignored.
    """

    agree = 0.05
    order: Tensor

    def __init__(self, net: LandmarkNet, mirror: Sequence[int] | None) -> None:
        super().__init__()
        self.net, self.reads_mirrored = net, mirror is not None
        self.register_buffer("order", torch.tensor(mirror or (), dtype=torch.long))

    def forward(self, crop_NCHW: Tensor) -> Reading:
        """The mean of both results."""
        if not self.reads_mirrored:
            output = self.net(crop_NCHW)
            return Reading(*output[:4])
        output = self.net(torch.cat((crop_NCHW, torch.flip(crop_NCHW, (3,)))))
        halves = [part.unflatten(0, (2, -1)) for part in output[:4]]
        plain, mirrored = (Reading(*(half[at] for half in halves)) for at in (0, 1))
        other = self._unmirror(mirrored, crop_NCHW.shape[3])
        apart = (other.points - plain.points).norm(dim=2) > self.agree * crop_NCHW.shape[3]
        share = 0.5 * (apart.float().mean(1) < 0.5).float()[:, None, None]
        return Reading(*(_blend(one, two, share) for one, two in zip(plain, other)))

    def _unmirror(self, mirrored: Reading, side: int) -> Reading:
        points, log_scale, visible, anisotropy = (part.index_select(1, self.order) for part in mirrored)
        flipped = torch.stack((side - points[..., 0], points[..., 1]), 2)
        return Reading(flipped, log_scale, visible, torch.stack((anisotropy[..., 0], -anisotropy[..., 1]), 2))


def _blend(one: Tensor, two: Tensor, share: Tensor) -> Tensor:
    """Interpolate two tensors [N, L, ...] by `share` [N, 1, 1] of the second."""
    return one + (share if one.dim() == 3 else share[..., 0]) * (two - one)


class CropModel(nn.Module):
    """The graph in a pack: NHWC crops in; landmarks, calibrated expected errors and visibilities out.

    `prior` moves landmarks [N, L, 2] towards positions that the character's face allows, by their expected errors,
    visibilities [N, L] and anisotropies [N, L, 2]. It returns the remaining errors, which `left` calibrates. `mirror`:
    as in `Reader`.
    """

    calibration: Tensor
    left: Tensor

    def __init__(
        self,
        net: LandmarkNet,
        calibration: tuple[float, float] = (0.0, 1.0),
        prior: nn.Module | None = None,
        left: tuple[float, float] = (0.0, 1.0),
        mirror: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.read, self.prior = Reader(net, mirror), prior
        self.register_buffer("calibration", torch.tensor(calibration, dtype=torch.float32))
        self.register_buffer("left", torch.tensor(left, dtype=torch.float32))

    @property
    def net(self) -> LandmarkNet:
        """The landmark network."""
        return self.read.net

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`crop` [N, S, S, 3] display-referred 0..1 -> landmarks [N, L, 2] crop px, expected_error [N, L] crop px,
        visible [N, L] probability."""
        output = self.read(crop.permute(0, 3, 1, 2))
        points, error = output.points, torch.exp(self.calibration[0] + self.calibration[1] * output.log_scale)
        seen = torch.sigmoid(output.visible)
        if self.prior is not None:
            points, remaining = self.prior(points, error, seen, output.anisotropy)
            error = torch.exp(self.left[0] + self.left[1] * torch.log(remaining))
        return points, error, seen


COARSE_STRIDE = 4
FINE_STRIDE = 2


def soft_argmax(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Soft-argmax of [N, L, H, W] logits, in cells with the centre of the first at 0.5.

    Returns the mean position [N, L, 2] (x, y), its deviation [N, L] (root of the sum of variances) and the
    log-probabilities.

    Source: Sun et al., "Integral Human Pose Regression" (2018), equation 1.
    """
    n, n_landmarks, height, width = logits.shape
    log_p = F.log_softmax(logits.float().flatten(2), dim=2).view(n, n_landmarks, height, width)
    p = log_p.exp()
    x, y = _Axis.of(p, 3), _Axis.of(p, 2)
    return torch.stack((x.mean, y.mean), 2), torch.sqrt(x.variance + y.variance + 1e-4), log_p


class _Axis(NamedTuple):
    """Marginal statistics of probability maps [N, L, H, W] along one axis."""

    mean: Tensor  # [N, L] in cells, with the centre of the first at 0.5
    away: Tensor  # [N, L, W or H] offset of each cell from the mean
    variance: Tensor  # [N, L]

    @classmethod
    def of(cls, p: Tensor, dim: int) -> _Axis:
        """Over the columns (`dim` 3) or rows (2)."""
        cells = torch.arange(p.shape[dim], device=p.device, dtype=p.dtype) + 0.5
        along = p.sum(5 - dim)
        mean = (along * cells).sum(2)
        away = cells - mean[..., None]
        return cls(mean, away, (along * away**2).sum(2))


def anisotropy_of(log_p: Tensor) -> Tensor:
    """The anisotropy of [N, L, H, W] log-probabilities and its direction: [N, L, 2].

    (a, b) of the symmetric matrix [[a, b], [b, -a]] whose exponential is the covariance over the root of its
    determinant. Its length is the logarithm of the ratio of the two deviations; its angle is twice that of the longer
    axis.
    """
    p = log_p.exp()
    x, y = _Axis.of(p, 3), _Axis.of(p, 2)
    xy = (torch.matmul(p, x.away[..., None])[..., 0] * y.away).sum(2)
    half, across = (x.variance - y.variance) / 2, (x.variance + y.variance) / 2 + 1e-4
    length = torch.sqrt(half**2 + xy**2 + 1e-12)
    share = (length / across).clamp(max=0.98)
    stretch = torch.log((1 + share) / (1 - share)) / 2 / length
    return torch.stack((half * stretch, xy * stretch), 2)


def sample_map(features: Tensor, points: Tensor, stride: int) -> Tensor:
    """Bilinear values [N, C, A, B] of an [N, C, H, W] map of some stride at crop points [N, A, B, 2]; edges are
    replicated."""
    # shares of the map's width and height, in float32, because bf16 resolves only about a pixel
    x, y = points[..., 0] / (features.shape[3] * stride), points[..., 1] / (features.shape[2] * stride)
    grid = torch.stack((x, y), -1) * 2 - 1
    return F.grid_sample(features.float(), grid, padding_mode="border", align_corners=False)


class CoarseToFineNet(LandmarkNet):
    """Landmarks from two heat-maps, with expected errors and visibilities."""

    def __init__(self, n_landmarks: int, *, neck: int = 48, fine: int = 16, window: int = 9, **pyramid: Any) -> None:
        """`fine`: channels at stride 2; 0 disables the refinement. `window`: side of the fine window in cells. Other
        arguments as in `LandmarkNet`."""
        super().__init__(neck=neck, **pyramid)
        self.window = window
        self.heat_of_landmark = nn.Parameter(torch.randn(n_landmarks, neck) * neck**-0.5)
        self.has_fine = fine > 0
        if self.has_fine:
            self.sharp = nn.Conv2d(self.widths[0], fine, 1)
            self.from_neck = nn.Conv2d(neck, fine, 1)
            self.fuse = ConvNorm(fine, fine)
            self.fine_of_landmark = nn.Parameter(torch.randn(n_landmarks, fine) * fine**-0.5)
        self.local = nn.Linear(neck + 3, 32)
        self.local_of_landmark = nn.Parameter(torch.zeros(n_landmarks, 32))
        self.verdict = nn.Linear(32, 2)
        self.lean = nn.Linear(32, 2)
        nn.init.zeros_(self.lean.weight)
        nn.init.zeros_(self.lean.bias)
        self.lean_of_heat = nn.Parameter(torch.full((1,), 2.0))

    def locate(self, features: Sequence[Tensor], neck: Tensor, jitter: Tensor | None) -> LandmarkOutput:
        """As `LandmarkNet.locate`; `jitter` is added to the centres of the fine windows."""
        logits = F.conv2d(neck, self.heat_of_landmark[..., None, None])
        place, spread, coarse_log = soft_argmax(logits)
        coarse = place * COARSE_STRIDE
        centre = coarse.detach() if jitter is None else coarse.detach() + jitter
        points, fine_spread, fine_log, corner = coarse, spread, None, centre
        if self.has_fine:
            points, fine_spread, fine_log, corner = self._refine(features[0], neck, centre)
        heat = anisotropy_of((coarse_log if fine_log is None else fine_log).detach())
        log_scale, visible, lean = self._rate_landmarks(neck, coarse, points, spread, fine_spread)
        anisotropy = self.lean_of_heat * heat + lean
        return LandmarkOutput(points, log_scale, visible, anisotropy, coarse, coarse_log, fine_log, corner)

    def _refine(self, early: Tensor, neck: Tensor, centre: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        both = self.sharp(early) + F.interpolate(self.from_neck(neck), scale_factor=2.0, mode="nearest")
        fine = self.fuse(F.relu(both))
        rows, corner = self._window_rows(centre.detach(), fine.shape[2], fine.shape[3])
        n, n_landmarks = centre.shape[:2]
        # gathers whole rows of channels-last memory: ten times faster than grid_sample, and without interpolation blur
        cells = fine.permute(0, 2, 3, 1).reshape(-1, fine.shape[1]).index_select(0, rows.flatten())
        patches = cells.view(n, n_landmarks, self.window**2, -1)
        logits = torch.matmul(patches, self.fine_of_landmark.to(patches.dtype)[..., None])
        logits = logits.view(n, n_landmarks, self.window, self.window) + self._window_weight(centre, corner)
        place, spread, fine_log = soft_argmax(logits)
        return corner + place * FINE_STRIDE, spread, fine_log, corner

    def _window_weight(self, centre: Tensor, corner: Tensor) -> Tensor:
        """Logarithm [N, L, p, p] of a weight that falls to zero over the window's outermost cells.

        The window lies on whole cells and jumps by a cell as its centre moves. Cells that enter or leave have weight
        zero, so that landmarks do not jump with it (nor differ between two machines' rounding).
        """
        steps = torch.arange(self.window, device=centre.device, dtype=centre.dtype) + 0.5
        away = (steps - ((centre - corner) / FINE_STRIDE)[..., None]).abs()  # [N, L, 2, p]
        weight = torch.log((self.window / 2 - away).clamp(1e-6, 1.0))
        return weight[:, :, 1, :, None] + weight[:, :, 0, None, :]

    def _window_rows(self, centre: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Indices [N, L, p * p] of the windows' cells in a flattened [N * H * W, C] map, and the windows' corners
        (px)."""
        n, p = centre.shape[0], self.window
        first = torch.floor(centre / FINE_STRIDE).long() - p // 2
        x = first[..., 0].clamp(0, width - p)
        y = first[..., 1].clamp(0, height - p)
        steps = torch.arange(p, device=centre.device)
        inside = (steps[:, None] * width + steps).view(1, 1, p * p)
        picture = torch.arange(n, device=centre.device).view(n, 1) * (height * width)
        rows = (picture + y * width + x)[..., None] + inside
        return rows, torch.stack((x, y), 2).to(centre.dtype) * FINE_STRIDE

    def _rate_landmarks(
        self, neck: Tensor, coarse: Tensor, points: Tensor, spread: Tensor, fine_spread: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        at = sample_map(neck, points.detach()[:, :, None], COARSE_STRIDE)[..., 0].transpose(1, 2)
        moved = (points - coarse).detach().norm(dim=2)
        features = torch.stack((spread.detach().log(), fine_spread.detach().log(), (moved + 0.1).log()), 2)
        hidden = F.relu(self.local(torch.cat((at, features), 2)) + self.local_of_landmark)
        log_scale, visible = self.verdict(hidden).float().unbind(2)
        return log_scale, visible, self.lean(hidden).float()


@HEADS.register("coarse_to_fine")
def build_coarse_to_fine(n_landmarks: int, config: Any) -> LandmarkNet:
    """The default head."""
    return CoarseToFineNet(n_landmarks, fine=config.fine, window=config.window, **config.pyramid())
