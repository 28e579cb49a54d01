"""What a network says of held-out samples, while it trains and after.

N samples, L landmarks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.bezier import sample
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Picture, Truth, write_picture
from rotopaint_ai.training.data.memory import Memory, face_side
from rotopaint_ai.training.evaluation.contact_sheets import FOUND, TRUE, contact_sheet, draw_curve, draw_points
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import LandmarkNet, Reader
from rotopaint_ai.training.models.shape_fit import ShapeGraph, fit_shapes
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
    anisotropy: npt.NDArray[np.float64]  # [N, L, 2] of the errors' spread


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
            output = read(as_input(batch.crops, device))
        points, log_scale, visible, anisotropy = (
            value.cpu() for value in (output.points, output.log_scale, output.visible, output.anisotropy)
        )
        distance = (points - torch.from_numpy(batch.landmarks)).norm(dim=2)
        seen, sides = torch.from_numpy(batch.visible), face_side(batch.landmarks)
        found.append((distance, log_scale, visible, seen, sides, points, batch.landmarks, anisotropy))
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


_NOISE = 0.005  # of the face: what the fit for the preview guards against

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Splines:
    """Shapes from landmarks, for drawing."""

    sheet: Sheet
    model: ShapeGraph

    @classmethod
    def of(cls, sheet: Sheet, truth: Truth) -> Splines | None:
        """Fitted on the samples to learn from; None where there are no shapes, or too few samples of one."""
        try:
            fits = fit_shapes(sheet, truth, noise_L=np.full(len(sheet.landmarks), _NOISE)) if sheet.shapes else ()
        except TrainingError:
            return None
        return cls(sheet, ShapeGraph(sheet, fits).eval()) if fits else None

    @torch.no_grad()
    def draw(self, crop: Picture, landmarks: Array, colour: tuple[int, int, int]) -> None:
        """Draw the shapes of landmarks (L, 2) into a crop."""
        points = self.model(torch.from_numpy(landmarks[None]))[0][0].numpy()
        for shape, slot in zip(self.sheet.shapes, self.sheet.point_rows().values()):
            draw_curve(crop, sample(points[slot], shape.closed), shape.closed, colour)


@torch.no_grad()
def write_preview(
    path: Path,
    net: LandmarkNet,
    memory: Memory,
    rows: npt.NDArray[np.intp],
    recipe: PackConfig,
    splines: Splines | None = None,
) -> None:
    """Draw some held-out samples, what the network finds on them and the truth."""
    net.eval()
    batch = straight_batch(memory, rows.tolist(), recipe.input_size, recipe.crop_margin)
    found = net(as_input(batch.crops, device_of(net))).points.cpu().numpy()
    tiles = [_tile(*each, splines) for each in zip(batch.crops, found, batch.landmarks)]
    write_picture(path, contact_sheet(tiles))


def _tile(crop: Picture, found: Array, true: Array, splines: Splines | None) -> Picture:
    tile = crop.copy()
    if splines is not None:
        if np.isfinite(true).all():
            splines.draw(tile, true, TRUE)
        splines.draw(tile, found, FOUND)
    off = np.linalg.norm(found - true, axis=1)
    return draw_points(tile, found, true, f"{np.nanmean(off):.1f} px of the crop")
