"""Evaluates a pack on a data set: its ONNX files run on crops as in `rotopaint run`, compared with ground truth.

Metrics are JSON values: overall, per landmark, per shape, per shot. Distances are in plate pixels and in percent of the
face's width; mattes are compared by IoU and boundary F. Needs no torch.
Letters: N samples, L landmarks, K shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.shapes import rasterise
from rotopaint_ai.shapes.matte_metrics import (
    TOLERANCES_PX,
    Matte,
    boundary_f,
    intersection_over_union,
    side_by_side,
)
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.sheet import ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, Split
from rotopaint_ai.training.evaluation.error_statistics import (
    calibration_figures,
    jitter_figures,
    known_rank_correlation,
    list_doubts,
    per_frame,
    review_figures,
    round_figure,
    summarise_values,
)
from rotopaint_ai.training.evaluation.gate import trained_frames, was_trained_on
from rotopaint_ai.training.evaluation.predictions import READING, Predictions, predict_samples, true_curve
from rotopaint_ai.watch import StageProgress, ignore_progress, work_in_order

Array = npt.NDArray[np.float64]
_ROWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class MatteFigures:
    """For each evaluated sample and shape, NaN where unknown: IoU [N, K], boundary F [N, K, 3]."""

    iou: Array
    boundary: Array


@dataclass(frozen=True, slots=True)
class _ShapePair:
    """A shape of a sample, predicted and true, in plate pixels, with both widths and the picture's size."""

    row: int
    column: int
    spec: ShapeSpec
    points: tuple[Array, Array]
    widths: tuple[float, float]
    size: tuple[int, int]


def measure_mattes(
    dataset: Dataset,
    predicted: Predictions,
    rows: Sequence[int] | npt.NDArray[np.intp],
    progress: StageProgress,
    workers: Executor | None = None,
) -> MatteFigures:
    """Rasterise the predicted and true shapes of samples and compare them. Open shapes need a known width."""
    shapes = dataset.sheet.shapes
    iou = np.full((len(dataset), len(shapes)), np.nan)
    boundary = np.full((len(dataset), len(shapes), len(TOLERANCES_PX)), np.nan)
    parts = [_pairs_of(dataset, predicted, rows[at : at + _ROWS_AT_ONCE]) for at in range(0, len(rows), _ROWS_AT_ONCE)]
    for part, figures in zip(parts, work_in_order(_compare, parts, COMPARING, progress, workers)):
        for pair, (overlap, edges) in zip(part, figures):
            iou[pair.row, pair.column] = overlap
            boundary[pair.row, pair.column] = edges
    return MatteFigures(iou, boundary)


def _pairs_of(dataset: Dataset, predicted: Predictions, rows: Iterable[int]) -> list[_ShapePair]:
    found = (
        _pair(dataset, predicted, int(row), column, spec)
        for row in rows
        for column, spec in enumerate(dataset.sheet.shapes)
    )
    return [pair for pair in found if pair is not None]


def _pair(dataset: Dataset, predicted: Predictions, row: int, column: int, spec: ShapeSpec) -> _ShapePair | None:
    true = true_curve(dataset, row, spec.name)
    if true is None or spec.name not in predicted.curves:
        return None
    sample, found = dataset.samples[row], predicted.curves[spec.name][row]
    widths = float(predicted.widths[row, column]), float(dataset.truth.width[row, column])
    if not spec.closed and not all(np.isfinite(width) and width > 0 for width in widths):
        return None
    scale = sample.pixel_scale
    size = (max(8, round(sample.width / scale)), max(8, round(sample.height / scale)))
    points = found.astype(np.float64) / scale, true.astype(np.float64) / scale
    return _ShapePair(row, column, spec, points, (widths[0] / scale, widths[1] / scale), size)


def _compare(pairs: list[_ShapePair]) -> list[tuple[float, Array]]:
    """IoU and boundary F [3] of each pair."""
    drawn = (_rasterise_pair(pair) for pair in pairs)
    return [(intersection_over_union(*mattes), boundary_f(*mattes)) for mattes in drawn]


def _rasterise_pair(pair: _ShapePair) -> tuple[Matte, Matte]:
    found, true = (_region(points, pair.spec, width, pair.size) for points, width in zip(pair.points, pair.widths))
    return side_by_side(found, true)


def _region(points: Array, spec: ShapeSpec, width: float, size: tuple[int, int]) -> Region:
    if spec.closed:
        return rasterise.rasterise_closed(points, *size)
    return rasterise.rasterise_open(points, *size, width_px=width, taper=spec.taper)


FACE_WIDTH = "width of the box round all known landmarks"
COMPARING = "comparing mattes"
STAGES: Final[Mapping[str, float]] = {READING: 55, COMPARING: 45}  # share of each stage in the time, in percent
OUTER_EYE_CORNERS = ("eye_right_outer", "eye_left_outer")


@dataclass(frozen=True, slots=True)
class PackEvaluation:
    """The samples, the pack's predictions, and the metrics."""

    dataset: Dataset
    predicted: Predictions
    result: dict[str, Any]


def measure_pack(
    pack: str | Path | None,
    dataset: Dataset,
    *,
    splits: tuple[Split, ...] = ("test",),
    progress: StageProgress = ignore_progress,
    most_mattes: int | None = None,
    eyes: tuple[str, str] | None = None,
    workers: Executor | None = None,
) -> PackEvaluation:
    """Metrics of a pack on some splits of a data set (`test`; if it has no such samples, `val`, else all).

    `most_mattes`, `eyes`: see `pack_metrics`. `workers`: run parts in parallel. `progress` is called with the names of
    STAGES and may raise to stop. Raises: PackError; TrainingError if the pack and the data set share neither landmarks
    nor shapes.
    """
    loaded = load_pack(pack)
    chosen = choose_samples(dataset, splits)
    predicted = predict_samples(open_models(loaded, device="cpu"), chosen, progress, workers)
    result = {
        "pack": loaded.name,
        "dataset": chosen.name,
        "splits": sorted({s.split for s in chosen.samples}),
        "has_learned_them": was_trained_on(loaded.card, chosen),
        "learned_frames": trained_frames(loaded.card, chosen),
        **pack_metrics(chosen, predicted, eyes=eyes, most_mattes=most_mattes, workers=workers, progress=progress),
    }
    result["doubts"] = list_doubts(result)
    return PackEvaluation(chosen, predicted, result)


def choose_samples(dataset: Dataset, splits: tuple[Split, ...]) -> Dataset:
    """The samples of the given splits; if there are none, those of `val`, else all."""
    for wanted in (splits, ("val",), ("train", "val", "test")):
        rows = dataset.rows_of(*cast(Any, wanted))
        if len(rows):
            return dataset.subset(rows)
    raise TrainingError(f"data set '{dataset.name}': no samples to evaluate on")


def pack_metrics(
    dataset: Dataset,
    predicted: Predictions,
    *,
    eyes: tuple[str, str] | None = None,
    most_mattes: int | None = None,
    workers: Executor | None = None,
    progress: StageProgress = ignore_progress,
) -> dict[str, Any]:
    """The metrics of a pack on a data set.

    `eyes`: the two landmarks whose distance normalises `nme_interocular`; by default the outer eye corners, if the
    sheet has them. `most_mattes`: number of evenly spread samples whose mattes are compared; None: all. Raises:
    UsageError.
    """
    sheet = dataset.sheet
    visible = np.nan_to_num(dataset.truth.visible.astype(np.float64), nan=0.0) > 0.5
    distance = np.where(visible, predicted.distance_px, np.nan)
    share = distance / predicted.face_width_px[:, None] * 100
    seams = [k for k, shape in enumerate(sheet.shapes) if shape.role == "seam"]
    others = [k for k, shape in enumerate(sheet.shapes) if shape.role != "seam"]
    rows = np.arange(len(dataset)) if most_mattes is None else evenly_spread(range(len(dataset)), most_mattes)
    mattes = measure_mattes(dataset, predicted, rows, progress, workers)
    known, by_shot = np.isfinite(predicted.distance_px), rows_by_shot(dataset)
    return {
        "n_samples": len(dataset),
        "missing": list(predicted.missing),
        "ms_per_frame": round(predicted.ms_per_frame, 3),
        "face_width": FACE_WIDTH,
        "face_width_px": summarise_values(predicted.face_width_px),
        "landmarks_px": summarise_values(distance),
        "landmarks_percent": summarise_values(share),
        "hidden_landmarks_px": summarise_values(np.where(visible, np.nan, predicted.distance_px)),
        **normalised_errors(dataset, predicted, distance, eyes),
        "seams": _shape_figures(predicted, mattes, seams),
        "other_shapes": _shape_figures(predicted, mattes, others),
        "motion": jitter_figures(dataset, predicted),
        "expected_error": calibration_figures(distance, predicted.expected_px),
        "visible_accuracy": round_figure(
            float((visible == (predicted.seen > 0.5))[known].mean()) if known.any() else None
        ),
        "per_landmark": {
            name: {"px": summarise_values(distance[:, at]), "percent": summarise_values(share[:, at])}
            for at, name in enumerate(sheet.landmark_names)
        },
        "per_shape": {shape.name: _shape_figures(predicted, mattes, [k]) for k, shape in enumerate(sheet.shapes)},
        "per_shot": {shot: _shot_figures(sheet, predicted, distance, mattes, own) for shot, own in by_shot.items()},
    }


def rows_by_shot(dataset: Dataset) -> dict[str, npt.NDArray[np.intp]]:
    """Rows of each shot by its name, prefixed by the character if there are several."""
    several = len({sample.character for sample in dataset.samples}) > 1
    found: dict[str, list[int]] = {}
    for row, sample in enumerate(dataset.samples):
        name = f"{sample.character}/{sample.shot}" if several else sample.shot
        found.setdefault(name, []).append(row)
    return {name: np.array(rows, dtype=np.intp) for name, rows in sorted(found.items())}


def normalised_errors(
    dataset: Dataset, predicted: Predictions, distance: Array, eyes: tuple[str, str] | None
) -> dict[str, Any]:
    """Normalised mean errors in percent: by the face's longest side, and by the distance of the eyes if known.

    Mean over samples of each sample's mean. Raises: UsageError for landmarks that the sheet lacks.
    """
    frames = per_frame(distance)
    result = {"nme_face_size": summarise_values(frames / predicted.face_px * 100)["mean"]}
    names = dataset.sheet.landmark_names
    for name in eyes or ():
        if name not in names:
            raise UsageError(f"--eyes {name}: no such landmark; wanted two of {', '.join(names)}")
    pair = eyes or OUTER_EYE_CORNERS
    if all(name in names for name in pair):
        a, b = (dataset.truth.landmarks[:, names.index(name)].astype(np.float64) for name in pair)
        scale = np.array([sample.pixel_scale for sample in dataset.samples])
        result["nme_interocular"] = summarise_values(frames / (np.linalg.norm(a - b, axis=1) / scale) * 100)["mean"]
    return result


def _shape_figures(predicted: Predictions, mattes: MatteFigures, columns: Sequence[int]) -> dict[str, Any]:
    curves = predicted.curve_px[:, columns]
    share = curves / predicted.face_width_px[:, None] * 100
    result: dict[str, Any] = {
        "px": summarise_values(curves),
        "percent": summarise_values(share),
        **_matte_figures(mattes, columns),
    }
    known = np.isfinite(curves).any(axis=1)
    if not known.any():
        return result
    frames, in_px = np.nanmean(share[known], axis=1), np.nanmean(curves[known], axis=1)
    doubt = np.nanmean(predicted.shape_expected_px[known][:, columns], axis=1)
    return {
        **result,
        "frames_within_3_percent": round_figure(float((frames <= 3.0).mean())),
        "frames_within_1.5_px": round_figure(float((in_px <= 1.5).mean())),
        "rank_correlation_of_frames": round_figure(known_rank_correlation(in_px, doubt)),
        **{name: value for name, value in review_figures(in_px, doubt).items() if name != "frames_shown"},
    }


def _matte_figures(mattes: MatteFigures, columns: Sequence[int]) -> dict[str, Any]:
    iou, boundary = mattes.iou[:, columns], mattes.boundary[:, columns]
    return {
        "matte_iou": summarise_values(iou)["mean"],
        "boundary_f": {f"{px}_px": summarise_values(boundary[..., at])["mean"] for at, px in enumerate(TOLERANCES_PX)},
    }


def _shot_figures(
    sheet: Sheet, predicted: Predictions, distance: Array, mattes: MatteFigures, rows: npt.NDArray[np.intp]
) -> dict[str, Any]:
    return {
        "n_samples": len(rows),
        "landmarks_px": summarise_values(distance[rows]),
        "shapes_px": {
            shape.name: summarise_values(predicted.curve_px[rows, k]) for k, shape in enumerate(sheet.shapes)
        },
        "matte_iou": {
            shape.name: summarise_values(mattes.iou[rows, k])["mean"] for k, shape in enumerate(sheet.shapes)
        },
        "rank_correlation_of_frames": round_figure(
            known_rank_correlation(per_frame(distance[rows]), per_frame(predicted.expected_px[rows]))
        ),
    }
