"""How good a pack is on a data set: the pack's own ONNX files, cut and run as `rotopaint run` does, against the truth.

Distances are in plate pixels (picture pixels over the sample's `pixel_scale`) and in percent of the face's width, which
is the width of the box round all its known landmarks.

Letters: N samples, L landmarks, K shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, around, cut
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.shapes.bezier import curve_distance, sample
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.calibrate import rank_correlation
from rotopaint_ai.training.dataset import Array, Dataset, Picture, Split, face_bounds, write_picture
from rotopaint_ai.training.preview import FOUND, TRUE, contact_sheet, draw_curve, draw_points

FACE_WIDTH = "width of the box round all known landmarks"
_BATCH = 16

Array64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a pack says of N samples and how far off it is. Coordinates in picture pixels; distances in plate pixels."""

    landmarks: Array  # [N, L, 2]
    points: Array  # [N, P, 6]
    expected_px: Array64  # [N, L] expected distance
    seen: Array64  # [N, L] probability
    distance_px: Array64  # [N, L], NaN where the truth is not known
    curve_px: Array64  # [N, K] symmetric mean distance of curves, NaN where not known
    face_width_px: Array64  # [N]
    ms_per_frame: float


def evaluate(
    pack: str | Path | None,
    dataset: Dataset,
    *,
    splits: tuple[Split, ...] = ("test",),
    contact: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Metrics of a pack on some splits of a data set (`test`; `val`, else all, where there is no such sample).

    `contact`: where to write a contact sheet of the worst cases. Raises: PackError; TrainingError when the pack and the
    data set have other landmarks or shapes.
    """
    loaded = load_pack(pack)
    models = open_models(loaded, device="cpu")
    chosen = choose(dataset, splits)
    predictions = predict(models, chosen, check=check)
    result = {
        "pack": loaded.name,
        "dataset": chosen.name,
        "splits": sorted({s.split for s in chosen.samples}),
        **metrics(chosen, predictions),
    }
    if contact is not None:
        write_picture(contact, worst_cases(chosen, predictions))
    return result


def choose(dataset: Dataset, splits: tuple[Split, ...]) -> Dataset:
    """The samples of some splits; of `val`, else all, where there is none."""
    for wanted in (splits, ("val",), ("train", "val", "test")):
        rows = dataset.rows_of(*cast(Any, wanted))
        if len(rows):
            return dataset.subset(rows)
    raise TrainingError(f"data set '{dataset.name}': no samples to evaluate on")


def predict(models: Models, dataset: Dataset, *, check: Callable[[], None] = lambda: None) -> Predictions:
    """Run a pack on the nominal crop of every sample, as it is once a run has settled on the face."""
    fitted = _fit_truth(models, dataset)
    crops = [
        around(points[np.isfinite(points).all(axis=1)], margin=models.pack.crop_margin)
        for points in fitted.truth.landmarks.astype(np.float64)
    ]
    parts = []
    for start in range(0, len(fitted), _BATCH):
        check()
        rows = range(start, min(start + _BATCH, len(fitted)))
        parts.append(_predict_batch(models, [fitted.picture(row) for row in rows], [crops[row] for row in rows]))
    landmarks, expected, seen, points = (np.concatenate(column) for column in zip(*parts))
    scale = np.array([s.pixel_scale for s in fitted.samples])
    low, high = face_bounds(fitted.truth.landmarks)
    distance = np.linalg.norm(landmarks.astype(np.float64) - fitted.truth.landmarks, axis=2)
    return Predictions(
        landmarks=landmarks,
        points=points,
        expected_px=expected.astype(np.float64) / scale[:, None],
        seen=seen.astype(np.float64),
        distance_px=distance / scale[:, None],
        curve_px=_curve_distances(fitted, points) / scale[:, None],
        face_width_px=(high[:, 0] - low[:, 0]) / scale,
        ms_per_frame=_time(models),
    )


def _fit_truth(models: Models, dataset: Dataset) -> Dataset:
    sheet, theirs = models.pack.sheet, dataset.sheet
    if sheet.landmark_names != theirs.landmark_names:
        missing = [name for name in theirs.landmark_names if name not in sheet.landmark_names][:3] or ["order"]
        raise TrainingError(
            f"pack '{models.pack.name}' and data set '{dataset.name}': other landmarks ({', '.join(missing)}); "
            "evaluate on a data set mined with the pack's sheet"
        )
    if [(s.name, s.n_points) for s in sheet.shapes] != [(s.name, s.n_points) for s in theirs.shapes]:
        raise TrainingError(
            f"pack '{models.pack.name}' and data set '{dataset.name}': other shapes or point counts; "
            "evaluate on a data set mined with the pack's sheet"
        )
    return dataset


def _predict_batch(models: Models, pictures: list[Picture], crops: list[Crop]) -> tuple[Array, Array, Array, Array]:
    size = models.pack.input_size
    cuts = [
        cut(picture.astype(np.float32) / np.float32(255), (0, 0), crop, size) for picture, crop in zip(pictures, crops)
    ]
    found = models.detect(np.stack(cuts))
    landmarks = np.stack([crop.to_plate(points, size) for crop, points in zip(crops, found.landmarks_NLC)])
    ratio = np.array([crop.side / size for crop in crops])[:, None]
    shapes = models.predict_shapes(landmarks.astype(np.float32))
    return (
        landmarks.astype(np.float32),
        (found.expected_error_NL * ratio).astype(np.float32),
        found.visible_NL,
        shapes.points_NPK,
    )


def _curve_distances(dataset: Dataset, points: Array) -> Array64:
    slots = dataset.sheet.point_rows()
    distances = np.full((len(dataset), len(dataset.sheet.shapes)), np.nan)
    for row in range(len(dataset)):
        for column, shape in enumerate(dataset.sheet.shapes):
            true = dataset.truth.points[row, slots[shape.name]]
            if np.isfinite(true).all():
                distances[row, column] = curve_distance(points[row, slots[shape.name]], true, shape.closed)[0]
    return distances


def _time(models: Models) -> float:
    """Median milliseconds of both models at batch 1, on the threads that they were opened with."""
    size, n_landmarks = models.pack.input_size, len(models.pack.sheet.landmarks)
    crop, face = np.full((1, size, size, 3), 0.5, np.float32), np.ones((1, n_landmarks, 2), np.float32)
    face[0, :, 0] = np.arange(n_landmarks)
    for session in (models.detect.session, models.predict_shapes.session):
        session._times_ms.clear()
    for _ in range(20):
        models.detect(crop)
        models.predict_shapes(face)
    return float(models.ms_per_frame or 0.0)


def metrics(dataset: Dataset, said: Predictions) -> dict[str, Any]:
    """The numbers of a pack on a data set, as JSON values."""
    sheet = dataset.sheet
    visible = np.nan_to_num(dataset.truth.visible.astype(np.float64), nan=0.0) > 0.5
    distance = np.where(visible, said.distance_px, np.nan)
    share = distance / said.face_width_px[:, None] * 100
    seams = [k for k, shape in enumerate(sheet.shapes) if shape.role == "seam"]
    others = [k for k, shape in enumerate(sheet.shapes) if shape.role != "seam"]
    return {
        "n_samples": len(dataset),
        "ms_per_frame": round(said.ms_per_frame, 3),
        "face_width": FACE_WIDTH,
        "face_width_px": _spread_of(said.face_width_px),
        "landmarks_px": _spread_of(distance),
        "landmarks_percent": _spread_of(share),
        "hidden_landmarks_px": _spread_of(np.where(visible, np.nan, said.distance_px)),
        "seams": _shape_metrics(sheet, said, seams),
        "other_shapes": _shape_metrics(sheet, said, others),
        "expected_error": _expected_metrics(distance, np.where(visible, said.expected_px, np.nan)),
        "visible_accuracy": _rounded(float((visible == (said.seen > 0.5))[np.isfinite(said.distance_px)].mean())),
        "per_landmark": {
            name: {"px": _spread_of(distance[:, at]), "percent": _spread_of(share[:, at])}
            for at, name in enumerate(sheet.landmark_names)
        },
        "per_shape": {shape.name: _shape_metrics(sheet, said, [k]) for k, shape in enumerate(sheet.shapes)},
    }


def _shape_metrics(sheet: Sheet, said: Predictions, columns: list[int]) -> dict[str, Any]:
    curves = said.curve_px[:, columns]
    share = curves / said.face_width_px[:, None] * 100
    known = np.isfinite(curves).any(axis=1)
    if not known.any():
        return {"px": _spread_of(curves), "percent": _spread_of(share)}
    frames, in_px = np.nanmean(share[known], axis=1), np.nanmean(curves[known], axis=1)
    expected = said.expected_px[known][:, _own_landmarks(sheet, columns)].mean(axis=1)
    return {
        "px": _spread_of(curves),
        "percent": _spread_of(share),
        "frames_within_3_percent": _rounded(float((frames <= 3.0).mean())),
        "frames_within_1.5_px": _rounded(float((in_px <= 1.5).mean())),
        "rank_correlation_of_frames": _rounded(rank_correlation(in_px, expected)),
    }


def _own_landmarks(sheet: Sheet, columns: list[int]) -> list[int]:
    """Rows of the landmarks that sit on some shapes; of those that the shapes are predicted from where none does."""
    shapes = [sheet.shapes[column] for column in columns]
    on = {sheet.landmark_row(name) for shape in shapes for name in shape.on_landmarks.values()}
    return sorted(on or {row for shape in shapes for row in sheet.rows_of(shape)})


def _expected_metrics(distance: Array64, expected: Array64) -> dict[str, Any]:
    """Rank correlation per landmark and per frame, and how many of the bad frames stand among those shown first."""
    known = np.isfinite(distance).any(axis=1)
    frame_true, frame_said = np.nanmean(distance[known], axis=1), np.nanmean(expected[known], axis=1)
    n_shown = max(1, round(0.1 * len(frame_true)))
    bad = frame_true > 2.0
    shown = np.zeros(len(frame_true), bool)
    shown[np.argsort(-frame_said)[:n_shown]] = True
    return {
        "rank_correlation": _rounded(rank_correlation(distance.ravel(), expected.ravel())),
        "rank_correlation_of_frames": _rounded(rank_correlation(frame_true, frame_said)),
        "mean_true_px": _spread_of(distance)["mean"],
        "mean_expected_px": _spread_of(expected)["mean"],
        "frames_worse_than_2_px": int(bad.sum()),
        "of_them_in_worst_tenth_shown": _rounded(float((bad & shown).sum() / bad.sum()) if bad.any() else None),
    }


def _spread_of(values: Array64) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {"mean": None, "median": None, "p95": None, "max": None}
    low = np.percentile(known, (50, 95))
    return {
        "mean": _rounded(float(known.mean())),
        "median": _rounded(float(low[0])),
        "p95": _rounded(float(low[1])),
        "max": _rounded(float(known.max())),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 4)


def worst_cases(dataset: Dataset, said: Predictions, *, n: int = 12, size_px: int = 320) -> Picture:
    """Contact sheet of the worst samples by landmark error: points and curves found (green) and true (red)."""
    share = np.nanmean(said.distance_px / said.face_width_px[:, None], axis=1)
    worst = np.argsort(-np.nan_to_num(share))[:n]
    return contact_sheet([_case(dataset, said, int(row), float(share[row]), size_px) for row in worst])


def _case(dataset: Dataset, said: Predictions, row: int, share: float, size_px: int) -> Picture:
    true = dataset.truth.landmarks[row]
    crop = around(true[np.isfinite(true).all(axis=1)].astype(np.float64))
    crop = replace(crop, side=crop.side * 1.1)
    picture = cut(dataset.picture(row).astype(np.float32), (0, 0), crop, size_px).clip(0, 255).astype(np.uint8)
    for name, slot in dataset.sheet.point_rows().items():
        closed = next(shape.closed for shape in dataset.sheet.shapes if shape.name == name)
        for points, colour in ((dataset.truth.points[row, slot], TRUE), (said.points[row, slot], FOUND)):
            if np.isfinite(points).all():
                draw_curve(picture, np.asarray(crop.to_crop(sample(points, closed), size_px)), closed, colour)
    found = np.asarray(crop.to_crop(said.landmarks[row], size_px), np.float32)
    s = dataset.samples[row]
    text = f"{s.character} {s.frame}: {share * 100:.1f} %"
    return draw_points(picture, found, np.asarray(crop.to_crop(true, size_px), np.float32), text)
