"""The landmark network: a pyramid and a registered head; how a pack reads with it.

A new head is a subclass of `LandmarkNet` with `locate`, and a row of `HEADS`; a recipe asks for it by `head: name`.

Letters: N batch, C channels, H rows, W columns, L landmarks, S side of the crop in pixels.
Crop space: pixels 0..S, origin at the outer corner of the top-left pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rotopaint_ai.training.models.backbone import PyramidNet, conv_blocks
from rotopaint_ai.training.registry import Registry

Build = Callable[[int, Any], "LandmarkNet"]  # of the number of landmarks and the recipe's config
HEADS: Registry[Build] = Registry("landmark head")


class LandmarkOutput(NamedTuple):
    """What the network says of a batch; coordinates in crop pixels. Heat-maps are None where a head has none."""

    points: Tensor  # [N, L, 2] final landmarks
    log_scale: Tensor  # [N, L] logarithm of the expected distance in crop pixels
    visible: Tensor  # [N, L] logit
    anisotropy: Tensor  # [N, L, 2] of the errors' spread, as `coarse_to_fine.anisotropy_of` gives it; 0 is round
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
    """What is made of the network's answers for a batch; coordinates in crop pixels."""

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
