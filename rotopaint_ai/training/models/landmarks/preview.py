"""The picture that a person watching a training looks at: held-out crops with what is found (green) and true (red).

Splines are drawn through the found landmarks by a shape fit made before training starts, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.bezier import sample
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.data.dataset import Memory, Picture, Truth, write_picture
from rotopaint_ai.training.evaluation.contact_sheets import FOUND, TRUE, contact_sheet, draw_curve, draw_points
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.validation import as_input, device_of
from rotopaint_ai.training.models.shape_fit import ShapeGraph, fit_shapes

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
