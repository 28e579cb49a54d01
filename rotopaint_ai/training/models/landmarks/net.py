"""The landmark network: a pyramid and a registered head; how a pack reads with it; and the head that ships.

A new head is a subclass of `LandmarkNet` with `locate`, and a row of `HEADS`; a recipe asks for it by `head: name`. The
one that ships has a coarse heat-map at stride 4, which sees the whole crop: its mean (soft-argmax) says where each
landmark is to within a pixel or so. A fine heat-map of twice the resolution is evaluated only in a small window around
that place, on features that join the sharp early layer with the pyramid's knowledge of what is where.

Letters: N batch, C channels, H rows, W columns, L landmarks, S side of the crop in pixels.
Crop space: pixels 0..S, origin at the outer corner of the top-left pixel. A map of stride s has its cell (i, j) at crop
place ((j + 0.5) s, (i + 0.5) s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.training.models.backbone import ConvNorm, PyramidNet, conv_blocks
from rotopaint_ai.training.registry import Registry

Build = Callable[[int, Any], "LandmarkNet"]  # of the number of landmarks and the recipe's config
HEADS: Registry[Build] = Registry("landmark head")


class LandmarkOutput(NamedTuple):
    """What the network says of a batch; coordinates in crop pixels. Heat-maps are None where a head has none."""

    points: Tensor  # [N, L, 2] final landmarks
    log_scale: Tensor  # [N, L] logarithm of the expected distance in crop pixels
    visible: Tensor  # [N, L] logit
    anisotropy: Tensor  # [N, L, 2] of the errors' spread, as `anisotropy_of` gives it; 0 is round
    coarse: Tensor | None = None  # [N, L, 2] before refinement
    coarse_log: Tensor | None = None  # [N, L, H, W] log-probabilities of the coarse heat-map
    fine_log: Tensor | None = None  # [N, L, p, p] log-probabilities of the fine window
    corner: Tensor | None = None  # [N, L, 2] top-left corner of the fine windows


class LandmarkNet(PyramidNet):
    """Crops to landmarks: a pyramid, and a head that a subclass adds.

    Parameters that belong to single landmarks have the landmark as their first axis and names that end in
    `_of_landmark`: `pretrained` carries them over from another layout by name.
    """

    def blocks(self) -> tuple[nn.Module, ...]:
        """The convolutional blocks, each of which can be computed again from its input."""
        return tuple(conv_blocks(self))

    def forward(self, crop_NCHW: Tensor, jitter: Tensor | None = None) -> LandmarkOutput:
        """`crop_NCHW`: display-referred 0..1. `jitter`: [N, L, 2] crop px, for a head that refines a first place: so
        much it is off in training, as at run time."""
        output = self.locate(*self.read_pyramid(crop_NCHW), jitter)
        return LandmarkOutput(*(None if part is None else part.float() for part in output))  # type: ignore[arg-type]

    def locate(self, features: Sequence[Tensor], neck: Tensor, jitter: Tensor | None) -> LandmarkOutput:
        """Landmarks from the backbone's features at strides 2 to 32 and the pyramid's [N, neck, S / 4, S / 4].

        Under mixed precision both are bfloat16; places want float32.
        """
        raise NotImplementedError


class Reading(NamedTuple):
    """The decoded output of the network for a batch; coordinates in crop pixels."""

    points: Tensor  # [N, L, 2]
    log_scale: Tensor  # [N, L] logarithm of the expected distance
    visible: Tensor  # [N, L] logit
    anisotropy: Tensor  # [N, L, 2]


class Reader(nn.Module):
    """Reads crops [N, 3, S, S] as they are and mirrored: what a network does to one side it undoes on the other.

    `mirror`: the order of landmarks in a mirrored picture; None reads once. Where half of a crop's landmarks lie
    further apart in the two than `agree` of its side, the mirrored one speaks of something else and does not count.
    """

    agree = 0.05
    order: Tensor

    def __init__(self, net: LandmarkNet, mirror: Sequence[int] | None) -> None:
        super().__init__()
        self.net, self.reads_mirrored = net, mirror is not None
        self.register_buffer("order", torch.tensor(mirror or (), dtype=torch.long))

    def forward(self, crop_NCHW: Tensor) -> Reading:
        """Of both readings the mean."""
        if not self.reads_mirrored:
            output = self.net(crop_NCHW)
            return Reading(output.points, output.log_scale, output.visible, output.anisotropy)
        output = self.net(torch.cat((crop_NCHW, torch.flip(crop_NCHW, (3,)))))
        halves = [
            part.unflatten(0, (2, -1)) for part in (output.points, output.log_scale, output.visible, output.anisotropy)
        ]
        straight, mirrored = (Reading(*(half[at] for half in halves)) for at in (0, 1))
        other = self._turned_back(mirrored, crop_NCHW.shape[3])
        apart = (other.points - straight.points).norm(dim=2) > self.agree * crop_NCHW.shape[3]
        share = 0.5 * (apart.float().mean(1) < 0.5).float()[:, None, None]
        return Reading(*(_blend(one, two, share) for one, two in zip(straight, other)))

    def _turned_back(self, mirrored: Reading, side: int) -> Reading:
        points, log_scale, visible, anisotropy = (part.index_select(1, self.order) for part in mirrored)
        turned = torch.stack((side - points[..., 0], points[..., 1]), 2)
        return Reading(turned, log_scale, visible, torch.stack((anisotropy[..., 0], -anisotropy[..., 1]), 2))


def _blend(one: Tensor, two: Tensor, share: Tensor) -> Tensor:
    """From one tensor [N, L, ...] so far to the other as `share` [N, 1, 1] says."""
    return one + (share if one.dim() == 3 else share[..., 0]) * (two - one)


class CropModel(nn.Module):
    """The graph that a pack ships: NHWC crops in, landmarks, calibrated expected errors and visibilities out.

    `prior` draws landmarks [N, L, 2] by their expected errors, visibilities [N, L] and anisotropies [N, L, 2]
    towards what the character's face can do, and gives the errors that are left, which `left` calibrates.
    `mirror`: as `Reader` has it.
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
        """The network that it reads with."""
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


def mean_place(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Soft-argmax of [N, L, H, W] logits, in cells with the centre of the first at 0.5.

    Returns the mean place [N, L, 2] (x, y), its spread [N, L] (root of the variances' sum) and the log-probabilities.
    Source: Sun et al., "Integral Human Pose Regression" (2018), equation 1.
    """
    n, n_landmarks, height, width = logits.shape
    log_p = F.log_softmax(logits.float().flatten(2), dim=2).view(n, n_landmarks, height, width)
    p = log_p.exp()
    x, y = _Axis.of(p, 3), _Axis.of(p, 2)
    return torch.stack((x.mean, y.mean), 2), torch.sqrt(x.variance + y.variance + 1e-4), log_p


class _Axis(NamedTuple):
    """One axis of maps [N, L, H, W] of probabilities."""

    mean: Tensor  # [N, L] in cells, with the centre of the first at 0.5
    away: Tensor  # [N, L, W or H] of each cell from it
    variance: Tensor  # [N, L]

    @classmethod
    def of(cls, p: Tensor, dim: int) -> _Axis:
        """Columns (`dim` 3) or rows (2)."""
        cells = torch.arange(p.shape[dim], device=p.device, dtype=p.dtype) + 0.5
        along = p.sum(5 - dim)
        mean = (along * cells).sum(2)
        away = cells - mean[..., None]
        return cls(mean, away, (along * away**2).sum(2))


def anisotropy_of(log_p: Tensor) -> Tensor:
    """How much further [N, L, H, W] log-probabilities spread one way than across it, and which way: [N, L, 2].

    (a, b) of the symmetric matrix [[a, b], [b, -a]] whose exponential is their covariance over the root of its
    determinant: its length is the logarithm of the ratio of the two deviations, and twice the angle of the longer one
    is its own.
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
    """Bilinear values [N, C, A, B] of an [N, C, H, W] map of some stride at crop places [N, A, B, 2]; edges go on."""
    # shares of the map's width and height, in float32: in bf16 the grid would only tell places a pixel apart
    x, y = points[..., 0] / (features.shape[3] * stride), points[..., 1] / (features.shape[2] * stride)
    grid = torch.stack((x, y), -1) * 2 - 1
    return F.grid_sample(features.float(), grid, padding_mode="border", align_corners=False)


class CoarseToFineNet(LandmarkNet):
    """Landmarks by two heat-maps, with the error to be expected of each and whether it is seen."""

    def __init__(self, n_landmarks: int, *, neck: int = 48, fine: int = 16, window: int = 9, **pyramid: Any) -> None:
        """`fine`: channels at stride 2, 0 leaves the refinement out. `window`: cells on a side of the fine window.
        The rest as `LandmarkNet` has it."""
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
        """As `LandmarkNet.locate`; `jitter` is added to where the fine windows stand."""
        logits = F.conv2d(neck, self.heat_of_landmark[..., None, None])
        place, spread, coarse_log = mean_place(logits)
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
        # whole rows of channels-last memory: ten times faster than grid_sample, and no interpolation blurs the map
        cells = fine.permute(0, 2, 3, 1).reshape(-1, fine.shape[1]).index_select(0, rows.flatten())
        patches = cells.view(n, n_landmarks, self.window**2, -1)
        logits = torch.matmul(patches, self.fine_of_landmark.to(patches.dtype)[..., None])
        logits = logits.view(n, n_landmarks, self.window, self.window) + self._fade(centre, corner)
        place, spread, fine_log = mean_place(logits)
        return corner + place * FINE_STRIDE, spread, fine_log, corner

    def _fade(self, centre: Tensor, corner: Tensor) -> Tensor:
        """Logarithm [N, L, p, p] of a weight that falls to nothing over the window's outermost cells.

        The window stands on whole cells and hops as its centre moves; a cell that comes or goes then weighs nothing, so
        that landmarks do not hop with it (nor differ between two machines' arithmetic).
        """
        steps = torch.arange(self.window, device=centre.device, dtype=centre.dtype) + 0.5
        away = (steps - ((centre - corner) / FINE_STRIDE)[..., None]).abs()  # [N, L, 2, p]
        weight = torch.log((self.window / 2 - away).clamp(1e-6, 1.0))
        return weight[:, :, 1, :, None] + weight[:, :, 0, None, :]

    def _window_rows(self, centre: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Rows [N, L, p * p] of the windows' cells in a flattened [N * H * W, C] map, and the windows' corners (px)."""
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
        signs = torch.stack((spread.detach().log(), fine_spread.detach().log(), (moved + 0.1).log()), 2)
        hidden = F.relu(self.local(torch.cat((at, signs), 2)) + self.local_of_landmark)
        log_scale, visible = self.verdict(hidden).float().unbind(2)
        return log_scale, visible, self.lean(hidden).float()


@HEADS.register("coarse_to_fine")
def build_coarse_to_fine(n_landmarks: int, config: Any) -> LandmarkNet:
    """The head that ships."""
    return CoarseToFineNet(n_landmarks, fine=config.fine, window=config.window, **config.pyramid())
