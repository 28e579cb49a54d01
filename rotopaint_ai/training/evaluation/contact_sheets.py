"""Contact sheets of the worst samples: predictions in green, ground truth in red."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import crop_around, cut
from rotopaint_ai.shapes.bezier import sample
from rotopaint_ai.training.data.dataset import Array, Dataset, Picture
from rotopaint_ai.training.evaluation.error_statistics import per_frame
from rotopaint_ai.training.evaluation.predictions import Predictions, true_curve

FOUND, TRUE, TEXT = (60, 255, 60), (255, 60, 60), (255, 255, 255)
_SUB = 4  # bits of sub-pixel precision in cv2
N_WORST, _COLUMNS, _TILE_PX = 24, 6, 320  # layout of the sheet of worst cases


def draw_points(crop: Picture, found: Array, true: Array, text: str) -> Picture:
    """The crop with lines from the true points to the predicted ones, and a text; unknown points are left out."""
    drawn = crop.copy()
    for at, point in enumerate(found):
        if not np.isfinite(point).all():
            continue
        if np.isfinite(true[at]).all():
            cv2.line(drawn, _to_fixed_point(true[at]), _to_fixed_point(point), TRUE, 1, cv2.LINE_AA, _SUB)
        cv2.circle(drawn, _to_fixed_point(point), 1 << _SUB, FOUND, -1, cv2.LINE_AA, _SUB)
    for line, words in enumerate(text.splitlines()):
        _draw_text(drawn, words, (4, 14 + 14 * line))
    return drawn


def _draw_text(picture: Picture, words: str, at: tuple[int, int]) -> None:
    # a shadow instead of an outline, because thicker letters are wider too
    for colour, off in (((0, 0, 0), 1), (TEXT, 0)):
        place = (at[0] + off, at[1] + off)
        cv2.putText(picture, words, place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, colour, 1, cv2.LINE_AA)


def draw_curve(crop: Picture, line: npt.NDArray[np.floating[Any]], closed: bool, colour: tuple[int, int, int]) -> None:
    """Draw a polyline (N, 2) of crop pixels into a crop."""
    fixed = ((line - 0.5) * (1 << _SUB)).round().astype(np.int32)
    cv2.polylines(crop, [fixed], closed, colour, 1, cv2.LINE_AA, _SUB)


def contact_sheet(tiles: Sequence[Picture], columns: int) -> Picture:
    """Tile pictures of one size, row by row; the last row is filled with black."""
    columns = min(columns, len(tiles))
    blank = np.zeros_like(tiles[0])
    filled = [*tiles, *([blank] * (-len(tiles) % columns))]
    rows = [np.concatenate(filled[at : at + columns], axis=1) for at in range(0, len(filled), columns)]
    return cast(Picture, np.concatenate(rows))


def _to_fixed_point(point: npt.NDArray[np.floating[Any]]) -> tuple[int, int]:
    x, y = ((point.clip(-1000, 4000) - 0.5) * (1 << _SUB)).round().astype(int)
    return int(x), int(y)


def worst_rows(predicted: Predictions) -> npt.NDArray[np.intp]:
    """Samples with the largest error in percent of the face, worst first."""
    share = per_frame(_errors_shown(predicted)[0]) / predicted.face_px
    return np.argsort(-np.nan_to_num(share), kind="stable")[:N_WORST]


def _errors_shown(predicted: Predictions) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """True and expected errors in pixels (N, L or K): of landmarks, or of curves where no landmark was measured."""
    if np.isfinite(predicted.distance_px).any():
        return predicted.distance_px, predicted.expected_px
    return predicted.curve_px, predicted.shape_expected_px


def worst_cases(dataset: Dataset, predicted: Predictions) -> Picture:
    """The worst samples as one picture, each with its frame, true error and expected error."""
    return contact_sheet([_draw_sample(dataset, predicted, int(row)) for row in worst_rows(predicted)], _COLUMNS)


def _draw_sample(dataset: Dataset, predicted: Predictions, row: int) -> Picture:
    true = dataset.truth.landmarks[row]
    crop = crop_around(true[np.isfinite(true).all(axis=1)].astype(np.float64))
    crop = replace(crop, side=crop.side * 1.1)
    picture = cut(dataset.picture(row).astype(np.float32), (0, 0), crop, _TILE_PX).clip(0, 255).astype(np.uint8)
    for spec in dataset.sheet.shapes:
        curves = (
            true_curve(dataset, row, spec.name),
            predicted.curves[spec.name][row] if spec.name in predicted.curves else None,
        )
        for points, colour in zip(curves, (TRUE, FOUND)):
            if points is not None:
                line = np.asarray(crop.to_crop(sample(points, spec.closed), _TILE_PX))
                draw_curve(picture, line, spec.closed, colour)
    found, known = (np.asarray(crop.to_crop(each, _TILE_PX), np.float32) for each in (predicted.landmarks[row], true))
    return draw_points(picture, found, known, _sheet_caption(dataset, predicted, row))


def _sheet_caption(dataset: Dataset, predicted: Predictions, row: int) -> str:
    s = dataset.samples[row]
    true, expected = (float(per_frame(values[row : row + 1])[0]) for values in _errors_shown(predicted))
    found = [f"{value:.1f} {word}" for value, word in ((true, "px off"), (expected, "expected")) if np.isfinite(value)]
    return f"{s.shot} {s.frame}\n{', '.join(found)}"
