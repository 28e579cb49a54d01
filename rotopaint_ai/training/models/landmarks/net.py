"""The landmark network: a small pyramid, a coarse heat-map at stride 4, and a sparse fine one at stride 2.

The coarse heat-map sees the whole crop; its mean (soft-argmax) says where each landmark is to within a pixel or so. The
fine heat-map has twice the resolution and is evaluated only in a small window around that place, on features that join
the sharp early layer with the pyramid's knowledge of what is where.

Letters: N batch, C channels, H rows, W columns, L landmarks, S side of the crop in pixels.
Crop space: pixels 0..S, origin at the outer corner of the top-left pixel; a map of stride s has its cell (i, j) at
((j + 0.5) s, (i + 0.5) s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.landmarks.detect import AGREE
from rotopaint_ai.training.registry import Registry

COARSE_STRIDE = 4
FINE_STRIDE = 2
MEAN, SPREAD = 0.45, 0.25  # of display-referred pixels; only brings the input near zero mean and unit spread

Backbone = Callable[[Sequence[int], Sequence[int]], nn.Module]
BACKBONES: Registry[Backbone] = Registry("backbone")


class ConvNorm(nn.Sequential):
    """Convolution, batch normalisation and, unless `act` is False, a ReLU."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(n_out),
        ]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if act else []))


class Residual(nn.Module):
    """Two dense 3 x 3 convolutions beside a skip connection (He et al. 2016, the basic block).

    One that keeps the shape does nothing at first (Goyal et al. 2017, section 5.1), so that a deeper network starts
    where a shallower one ended.
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        last = ConvNorm(n_out, n_out, 3, act=False)
        self.body = nn.Sequential(ConvNorm(n_in, n_out, 3, stride), last)
        same = n_in == n_out and stride == 1
        self.skip = nn.Identity() if same else ConvNorm(n_in, n_out, 1, stride, act=False)
        if same:
            nn.init.zeros_(cast(Tensor, last[1].weight))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class Inverted(nn.Module):
    """Widen by 1 x 1, filter depthwise, narrow by 1 x 1 (Sandler et al. 2018, the inverted residual)."""

    def __init__(self, n_in: int, n_out: int, stride: int, widen: int = 3) -> None:
        super().__init__()
        wide = n_in * widen
        self.body = nn.Sequential(
            ConvNorm(n_in, wide, 1), ConvNorm(wide, wide, 3, stride, groups=wide), ConvNorm(wide, n_out, 1, act=False)
        )
        self.keeps_shape = n_in == n_out and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.keeps_shape else y


class Pyramid(nn.Module):
    """Features at strides 2, 4, 8, 16, 32: a stem and four stages of one kind of block."""

    def __init__(
        self, widths: Sequence[int], depths: Sequence[int], block: Callable[[int, int, int], nn.Module]
    ) -> None:
        super().__init__()
        self.stem = ConvNorm(3, widths[0], 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(block(n_in, n_out, 2), *(block(n_out, n_out, 1) for _ in range(depth - 1)))
            for n_in, n_out, depth in zip(widths[:-1], widths[1:], depths, strict=True)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        features = [self.stem(x)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features


@BACKBONES.register("dense")
def build_dense(widths: Sequence[int], depths: Sequence[int]) -> nn.Module:
    """A pyramid of dense residual blocks: more arithmetic, which a CPU in bf16 does well."""
    return Pyramid(widths, depths, Residual)


@BACKBONES.register("depthwise")
def build_depthwise(widths: Sequence[int], depths: Sequence[int]) -> nn.Module:
    """A pyramid of inverted residuals: little arithmetic, bound by memory."""
    return Pyramid(widths, depths, Inverted)


class Prediction(NamedTuple):
    """What the network says of a batch; coordinates in crop pixels."""

    points: Tensor  # [N, L, 2] final landmarks
    coarse: Tensor  # [N, L, 2] before refinement
    log_scale: Tensor  # [N, L] logarithm of the expected distance in crop pixels
    visible: Tensor  # [N, L] logit
    coarse_log: Tensor  # [N, L, H, W] log-probabilities of the coarse heat-map
    fine_log: Tensor | None  # [N, L, p, p] log-probabilities of the fine window
    corner: Tensor  # [N, L, 2] top-left corner of the fine windows
    slant: Tensor  # [N, L, 2] of the errors' spread, as `slant_of` gives it


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


def slant_of(log_p: Tensor) -> Tensor:
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
    size = points.new_tensor([features.shape[3] * stride, features.shape[2] * stride])
    # the grid stays in float32: in bf16 it would only tell places a pixel apart
    return F.grid_sample(features.float(), points / size * 2 - 1, padding_mode="border", align_corners=False)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, (ConvNorm, Residual, Inverted)):
            yield child
        else:
            yield from _blocks(child)


def top_down(laterals: nn.ModuleList, smooth: nn.ModuleList, features: Sequence[Tensor]) -> Tensor:
    """The pyramid's path from the coarsest feature to the finest one, at the finest one's size [N, neck, H, W]."""
    path: Tensor | None = None
    for feature, lateral, even in zip(reversed(features), reversed(laterals), reversed(smooth)):
        here = lateral(feature)
        path = even(here if path is None else here + F.interpolate(path, scale_factor=2.0, mode="nearest"))
    assert path is not None
    return path


class LandmarkNet(nn.Module):
    """Crops to landmarks, with the error to be expected of each and whether it is seen.

    Parameters that belong to single landmarks have the landmark as their first axis and names that end in
    `_of_landmark`: `warmstart` carries them over from another layout by name.
    """

    def __init__(
        self,
        n_landmarks: int,
        *,
        backbone: str = "dense",
        widths: Sequence[int] = (16, 32, 64, 96, 128),
        depths: Sequence[int] = (1, 1, 1, 1),
        neck: int = 48,
        fine: int = 16,
        window: int = 9,
    ) -> None:
        """`neck`: channels of the pyramid's top-down path. `fine`: channels at stride 2, 0 leaves the refinement out.
        `window`: cells on a side of the fine window."""
        super().__init__()
        self.window = window
        self.backbone = BACKBONES[backbone](widths, depths)
        self.laterals = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths[1:])
        self.smooth = nn.ModuleList(ConvNorm(neck, neck) for _ in widths[1:])
        self.heat_of_landmark = nn.Parameter(torch.randn(n_landmarks, neck) * neck**-0.5)
        self.has_fine = fine > 0
        if self.has_fine:
            self.sharp = nn.Conv2d(widths[0], fine, 1)
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

    def blocks(self) -> tuple[nn.Module, ...]:
        """The convolutional blocks, each of which can be computed again from its input."""
        return tuple(_blocks(self))

    def forward(self, crop_NCHW: Tensor, jitter: Tensor | None = None) -> Prediction:
        """`crop_NCHW`: display-referred 0..1. `jitter`: [N, L, 2] crop px added to where the fine windows stand, so
        that training shows them misses of the coarse heat-map."""
        x = (crop_NCHW - MEAN) / SPREAD
        features = self.backbone(x)
        neck = top_down(self.laterals, self.smooth, features[1:])
        logits = F.conv2d(neck, self.heat_of_landmark[..., None, None])
        place, spread, coarse_log = mean_place(logits)
        coarse = place * COARSE_STRIDE
        centre = coarse.detach() if jitter is None else coarse.detach() + jitter
        points, fine_spread, fine_log, corner = coarse, spread, None, centre
        if self.has_fine:
            points, fine_spread, fine_log, corner = self._refine(features[0], neck, centre)
        heat = slant_of((coarse_log if fine_log is None else fine_log).detach())
        log_scale, visible, lean = self._judge(neck, coarse, points, spread, fine_spread)
        slant = self.lean_of_heat * heat + lean
        return Prediction(points, coarse, log_scale, visible, coarse_log, fine_log, corner, slant)

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

    def _judge(
        self, neck: Tensor, coarse: Tensor, points: Tensor, spread: Tensor, fine_spread: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        at = sample_map(neck, points.detach()[:, :, None], COARSE_STRIDE)[..., 0].transpose(1, 2)
        moved = (points - coarse).detach().norm(dim=2)
        signs = torch.stack((spread.detach().log(), fine_spread.detach().log(), (moved + 0.1).log()), 2)
        hidden = F.relu(self.local(torch.cat((at, signs), 2)) + self.local_of_landmark)
        log_scale, visible = self.verdict(hidden).float().unbind(2)
        return log_scale, visible, self.lean(hidden).float()


class Reading(NamedTuple):
    """What is made of the network's answers for a batch; coordinates in crop pixels."""

    points: Tensor  # [N, L, 2]
    log_scale: Tensor  # [N, L] logarithm of the expected distance
    visible: Tensor  # [N, L] logit
    slant: Tensor  # [N, L, 2]


class Reader(nn.Module):
    """Reads crops [N, 3, S, S] as they are and mirrored: what a network does to one side it undoes on the other.

    `mirror`: the order of landmarks in a mirrored picture; None reads once. Where half of a crop's landmarks lie
    further apart in the two than `agree` of its side, the mirrored one speaks of something else and does not count.
    """

    agree = AGREE
    order: Tensor

    def __init__(self, net: LandmarkNet, mirror: Sequence[int] | None) -> None:
        super().__init__()
        self.net, self.reads_mirrored = net, mirror is not None
        self.register_buffer("order", torch.tensor(mirror or (), dtype=torch.long))

    def forward(self, crop_NCHW: Tensor) -> Reading:
        """Of both readings the mean."""
        if not self.reads_mirrored:
            said = self.net(crop_NCHW)
            return Reading(said.points, said.log_scale, said.visible, said.slant)
        said = self.net(torch.cat((crop_NCHW, torch.flip(crop_NCHW, (3,)))))
        halves = [part.unflatten(0, (2, -1)) for part in (said.points, said.log_scale, said.visible, said.slant)]
        straight, mirrored = (Reading(*(half[at] for half in halves)) for at in (0, 1))
        other = self._turned_back(mirrored, crop_NCHW.shape[3])
        apart = (other.points - straight.points).norm(dim=2) > self.agree * crop_NCHW.shape[3]
        share = 0.5 * (apart.float().mean(1) < 0.5).float()[:, None, None]
        return Reading(*(_between(one, two, share) for one, two in zip(straight, other)))

    def _turned_back(self, mirrored: Reading, side: int) -> Reading:
        points, log_scale, visible, slant = (part.index_select(1, self.order) for part in mirrored)
        turned = torch.stack((side - points[..., 0], points[..., 1]), 2)
        return Reading(turned, log_scale, visible, torch.stack((slant[..., 0], -slant[..., 1]), 2))


def _between(one: Tensor, two: Tensor, share: Tensor) -> Tensor:
    """From one tensor [N, L, ...] so far to the other as `share` [N, 1, 1] says."""
    return one + (share if one.dim() == 3 else share[..., 0]) * (two - one)


class CropModel(nn.Module):
    """The graph that a pack ships: NHWC crops in, landmarks, calibrated expected errors and visibilities out.

    `prior` draws landmarks [N, L, 2] by their expected errors and visibilities [N, L] and the slants [N, L, 2] of those
    errors towards what the character's face can do, and gives the errors that are left, which `left` calibrates.
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
        said = self.read(crop.permute(0, 3, 1, 2))
        points, error = said.points, torch.exp(self.calibration[0] + self.calibration[1] * said.log_scale)
        seen = torch.sigmoid(said.visible)
        if self.prior is not None:
            points, remaining = self.prior(points, error, seen, said.slant)
            error = torch.exp(self.left[0] + self.left[1] * torch.log(remaining))
        return points, error, seen
