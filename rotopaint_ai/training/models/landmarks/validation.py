"""What a network says of held-out samples, while it trains and after.

N samples, L landmarks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Memory, face_side
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import LandmarkNet, Reader
from rotopaint_ai.training.trainer.task import precision


class HeldOutPredictions(NamedTuple):
    """Predictions for upright crops: distance, expected error (uncalibrated), face size, places; crop pixels."""

    distance: npt.NDArray[np.float64]  # [N, L]
    log_scale: npt.NDArray[np.float64]
    visible_logit: npt.NDArray[np.float64]
    visible: npt.NDArray[np.float64]
    face: npt.NDArray[np.float64]  # [N]
    points: npt.NDArray[np.float64]  # [N, L, 2]
    truth: npt.NDArray[np.float64]  # [N, L, 2]
    slant: npt.NDArray[np.float64]  # [N, L, 2] of the errors' spread


class HeldOutError(NamedTuple):
    """How far visible landmarks of held-out samples are off.

    Distances: the mean as a percentage of the face's longest side, and the mean and 95th percentile in pixels of the
    plate.
    """

    percent: float
    px: float
    p95_px: float


CPU = torch.device("cpu")


def as_input(crops: npt.NDArray[np.uint8], device: torch.device = CPU) -> Tensor:
    """8-bit NHWC crops as the float NCHW tensor (channels-last in memory) that the network takes."""
    return torch.from_numpy(crops).to(device).permute(0, 3, 1, 2).float().div_(255)


@torch.no_grad()
def predict_held_out(
    net: LandmarkNet,
    memory: Memory,
    rows: npt.NDArray[np.intp],
    recipe: PackConfig,
    *,
    exact: bool,
    mirror: Sequence[int] | None = None,
) -> HeldOutPredictions:
    """Predictions of upright crops at the recipe's input size; `exact` computes in float32, `mirror` reads them
    mirrored as well, as `nets.Reader` does."""
    device = device_of(net)
    read = Reader(net, mirror).to(device).eval()
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rows), 32):
        chosen = rows[start : start + 32]
        batch = straight_batch(memory, chosen.tolist(), recipe.input_size, recipe.crop_margin)
        with contextlib.nullcontext() if exact else precision(recipe, device):
            said = read(as_input(batch.crops, device))
        points, log_scale, visible, slant = (
            value.cpu() for value in (said.points, said.log_scale, said.visible, said.slant)
        )
        distance = (points - torch.from_numpy(batch.landmarks)).norm(dim=2)
        seen, sides = torch.from_numpy(batch.visible), face_side(batch.landmarks)
        found.append((distance, log_scale, visible, seen, sides, points, batch.landmarks, slant))
    return HeldOutPredictions(
        *(np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in zip(*found))
    )


def seen_error(held: HeldOutPredictions, faces_px: npt.NDArray[np.float64]) -> HeldOutError:
    """Distances of the visible landmarks, where there are any: percent of the face's longest side, and pixels of the
    plate, in which the faces are `faces_px` [N] long.

    Raises: TrainingError where no distance is finite.
    """
    share = held.distance / held.face[:, None]
    seen = np.isfinite(share) & (held.visible > 0.5)
    chosen = seen if seen.any() else np.isfinite(share)
    if not chosen.any():
        raise TrainingError(
            "held-out samples: no landmark of theirs has both a known place and a finite prediction; hold out others "
            "(mine --val SHOT), or lower learning_rate"
        )
    px = (share * faces_px[:, None])[chosen]
    return HeldOutError(float(share[chosen].mean() * 100), float(px.mean()), float(np.percentile(px, 95)))


def device_of(net: torch.nn.Module) -> torch.device:
    """Where a network's weights are."""
    return next(net.parameters()).device
