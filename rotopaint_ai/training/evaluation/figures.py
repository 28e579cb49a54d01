"""The numbers of a pack on a data set as JSON values: of all samples, of each landmark, each shape, each shot.

Letters: N samples, L landmarks, K shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import UsageError
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.evaluation import expected, motion
from rotopaint_ai.training.evaluation.mattes import TOLERANCES_PX, MatteFigures, measure
from rotopaint_ai.training.evaluation.predictions import Predictions
from rotopaint_ai.training.evaluation.spread import rounded, spread

Array = npt.NDArray[np.float64]

FACE_WIDTH = "width of the box round all known landmarks"
OUTER_EYE_CORNERS = ("eye_right_outer", "eye_left_outer")


def metrics(
    dataset: Dataset, said: Predictions, *, eyes: tuple[str, str] | None = None, most_mattes: int | None = None
) -> dict[str, Any]:
    """The numbers of a pack on a data set.

    `eyes`: the two landmarks whose distance normalises `nme_interocular`; the outer eye corners where the sheet names
    them. `most_mattes`: how many samples, evenly spread, get their mattes drawn; None: all. Raises: UsageError.
    """
    sheet = dataset.sheet
    visible = np.nan_to_num(dataset.truth.visible.astype(np.float64), nan=0.0) > 0.5
    distance = np.where(visible, said.distance_px, np.nan)
    share = distance / said.face_width_px[:, None] * 100
    seams = [k for k, shape in enumerate(sheet.shapes) if shape.role == "seam"]
    others = [k for k, shape in enumerate(sheet.shapes) if shape.role != "seam"]
    mattes = measure(dataset, said, _spread_rows(len(dataset), most_mattes))
    known = np.isfinite(said.distance_px)
    return {
        "n_samples": len(dataset),
        "missing": list(said.missing),
        "ms_per_frame": round(said.ms_per_frame, 3),
        "face_width": FACE_WIDTH,
        "face_width_px": spread(said.face_width_px),
        "landmarks_px": spread(distance),
        "landmarks_percent": spread(share),
        "hidden_landmarks_px": spread(np.where(visible, np.nan, said.distance_px)),
        **normalised(dataset, said, distance, eyes),
        "seams": _shapes(sheet, said, mattes, seams),
        "other_shapes": _shapes(sheet, said, mattes, others),
        "motion": motion.figures(dataset, said),
        "expected_error": expected.figures(distance, said.expected_px),
        "visible_accuracy": rounded(float((visible == (said.seen > 0.5))[known].mean()) if known.any() else None),
        "per_landmark": {
            name: {"px": spread(distance[:, at]), "percent": spread(share[:, at])}
            for at, name in enumerate(sheet.landmark_names)
        },
        "per_shape": {shape.name: _shapes(sheet, said, mattes, [k]) for k, shape in enumerate(sheet.shapes)},
        "per_shot": {shot: _shot(sheet, said, distance, mattes, rows) for shot, rows in shots(dataset).items()},
    }


def _spread_rows(n: int, most: int | None) -> npt.NDArray[np.intp]:
    return np.unique(np.linspace(0, n - 1, n if most is None else min(n, most)).round().astype(np.intp))


def shots(dataset: Dataset) -> dict[str, npt.NDArray[np.intp]]:
    """Rows of each shot by its name, with the character before it where there are several."""
    several = len({sample.character for sample in dataset.samples}) > 1
    found: dict[str, list[int]] = {}
    for row, sample in enumerate(dataset.samples):
        name = f"{sample.character}/{sample.shot}" if several else sample.shot
        found.setdefault(name, []).append(row)
    return {name: np.array(rows, dtype=np.intp) for name, rows in sorted(found.items())}


def normalised(dataset: Dataset, said: Predictions, distance: Array, eyes: tuple[str, str] | None) -> dict[str, Any]:
    """Normalised mean errors in percent: by the face's longest side, and by the distance of the eyes where known.

    The mean over samples of each one's mean. Raises: UsageError for landmarks that the sheet does not have.
    """
    frames = expected.per_frame(distance)
    result = {"nme_face_size": rounded(_mean(frames / said.face_px * 100))}
    names = dataset.sheet.landmark_names
    for name in eyes or ():
        if name not in names:
            raise UsageError(f"--eyes {name}: no such landmark; wanted two of {', '.join(names)}")
    pair = eyes or OUTER_EYE_CORNERS
    if all(name in names for name in pair):
        a, b = (dataset.truth.landmarks[:, names.index(name)].astype(np.float64) for name in pair)
        scale = np.array([sample.pixel_scale for sample in dataset.samples])
        result["nme_interocular"] = rounded(_mean(frames / (np.linalg.norm(a - b, axis=1) / scale) * 100))
    return result


def _mean(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _shapes(sheet: Sheet, said: Predictions, mattes: MatteFigures, columns: Sequence[int]) -> dict[str, Any]:
    curves = said.curve_px[:, columns]
    share = curves / said.face_width_px[:, None] * 100
    result: dict[str, Any] = {"px": spread(curves), "percent": spread(share), **_matte_figures(mattes, columns)}
    known = np.isfinite(curves).any(axis=1)
    if not known.any():
        return result
    frames, in_px = np.nanmean(share[known], axis=1), np.nanmean(curves[known], axis=1)
    doubt = np.nanmean(said.shape_expected_px[known][:, columns], axis=1)
    return {
        **result,
        "frames_within_3_percent": rounded(float((frames <= 3.0).mean())),
        "frames_within_1.5_px": rounded(float((in_px <= 1.5).mean())),
        "rank_correlation_of_frames": rounded(expected.rank_correlation(in_px, doubt)),
        **{name: value for name, value in expected.shown_first(in_px, doubt).items() if name != "frames_shown"},
    }


def _matte_figures(mattes: MatteFigures, columns: Sequence[int]) -> dict[str, Any]:
    iou, boundary = mattes.iou[:, columns], mattes.boundary[:, columns]
    return {
        "matte_iou": spread(iou)["mean"],
        "boundary_f": {f"{px}_px": spread(boundary[..., at])["mean"] for at, px in enumerate(TOLERANCES_PX)},
    }


def _shot(
    sheet: Sheet, said: Predictions, distance: Array, mattes: MatteFigures, rows: npt.NDArray[np.intp]
) -> dict[str, Any]:
    return {
        "n_samples": len(rows),
        "landmarks_px": spread(distance[rows]),
        "shapes_px": {shape.name: spread(said.curve_px[rows, k]) for k, shape in enumerate(sheet.shapes)},
        "matte_iou": {shape.name: spread(mattes.iou[rows, k])["mean"] for k, shape in enumerate(sheet.shapes)},
        "rank_correlation_of_frames": rounded(
            expected.rank_correlation(expected.per_frame(distance[rows]), expected.per_frame(said.expected_px[rows]))
        ),
    }
