"""Contact sheets of the worst samples: points and curves found (green) and true (red)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, around, cut
from rotopaint_ai.shapes.bezier import sample
from rotopaint_ai.training.data.dataset import Dataset, Picture
from rotopaint_ai.training.evaluation.drawing import FOUND, TRUE, contact_sheet, draw_curve, draw_points
from rotopaint_ai.training.evaluation.expected import per_frame
from rotopaint_ai.training.evaluation.predictions import Predictions, true_curve

N_WORST = 24
_COLUMNS = 6


def worst_rows(said: Predictions, n: int = N_WORST) -> npt.NDArray[np.intp]:
    """Samples with the largest landmark error in percent of the face, worst first."""
    share = per_frame(said.distance_px) / said.face_px
    return np.argsort(-np.nan_to_num(share), kind="stable")[:n]


def worst_cases(dataset: Dataset, said: Predictions, *, n: int = N_WORST, size_px: int = 320) -> Picture:
    """The worst samples side by side with their frame, true and expected error."""
    tiles = [_case(dataset, said, int(row), size_px) for row in worst_rows(said, n)]
    return contact_sheet(tiles, columns=min(_COLUMNS, len(tiles)))


def _case(dataset: Dataset, said: Predictions, row: int, size_px: int) -> Picture:
    true = dataset.truth.landmarks[row]
    crop = around(true[np.isfinite(true).all(axis=1)].astype(np.float64))
    crop = replace(crop, side=crop.side * 1.1)
    picture = cut(dataset.picture(row).astype(np.float32), (0, 0), crop, size_px).clip(0, 255).astype(np.uint8)
    for spec in dataset.sheet.shapes:
        curves = (
            true_curve(dataset, row, spec.name),
            said.curves[spec.name][row] if spec.name in said.curves else None,
        )
        for points, colour in zip(curves, (TRUE, FOUND)):
            if points is not None:
                line = np.asarray(crop.to_crop(sample(points, spec.closed), size_px))
                draw_curve(picture, line, spec.closed, colour)
    return draw_points(
        picture, _at(crop, said.landmarks[row], size_px), _at(crop, true, size_px), _text(dataset, said, row)
    )


def _at(crop: Crop, points: npt.NDArray[np.floating], size_px: int) -> npt.NDArray[np.float32]:
    return np.asarray(crop.to_crop(points, size_px), np.float32)


def _text(dataset: Dataset, said: Predictions, row: int) -> str:
    s = dataset.samples[row]
    true, told = (float(per_frame(values[row : row + 1])[0]) for values in (said.distance_px, said.expected_px))
    return f"{s.shot} {s.frame}\n{true:.1f} px off, {told:.1f} expected"
