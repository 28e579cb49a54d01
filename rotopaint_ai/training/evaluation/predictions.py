"""A pack's predictions for a data set's samples, in the data set's order of landmarks and shapes.

Landmarks and shapes are matched by name, so that packs with other sheets can be compared on one data set; what a pack
lacks is NaN. Distances are in plate pixels (picture pixels over the sample's `pixel_scale`).
Letters: N samples, L landmarks and K shapes of the data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, crop_around, cut
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.landmarks.detect import read_pictures
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.dataset import Array, Dataset, Picture
from rotopaint_ai.training.data.memory import face_bounds
from rotopaint_ai.watch import StageProgress, work_in_order

Array64 = npt.NDArray[np.float64]

READING = "reading pictures"
_BATCH = 16
_FEWEST = 3  # fewest landmarks that a pack and a data set must share


@dataclass(frozen=True, slots=True)
class Predictions:
    """A pack's predictions for N samples, and their errors.

    `landmarks`, `curves`, `widths`: picture pixels; everything that ends in `_px`: plate pixels. NaN where the ground
    truth is unknown or the pack lacks the landmark or shape.
    """

    landmarks: Array64  # [N, L, 2]
    expected_px: Array64  # [N, L] expected distance
    seen: Array64  # [N, L] probability of being visible
    distance_px: Array64  # [N, L]
    curves: Mapping[str, Array64]  # by shape: control points [N, P, 6] of the pack's sheet
    widths: Array64  # [N, K] full width of open shapes
    shape_expected_px: Array64  # [N, K]
    curve_px: Array64  # [N, K] symmetric mean distance of curves
    face_px: Array64  # [N] longest side of the bounding box of all known landmarks
    face_width_px: Array64  # [N] width of that box
    ms_per_frame: float
    missing: tuple[str, ...]  # landmarks and shapes of the data set that the pack lacks


@dataclass(frozen=True, slots=True)
class _Columns:
    """The indices of the data set's landmarks and shapes in the pack; -1 where the pack lacks them."""

    landmarks: npt.NDArray[np.intp]
    shapes: npt.NDArray[np.intp]
    missing: tuple[str, ...]


def predict_samples(
    models: Models, dataset: Dataset, progress: StageProgress, workers: Executor | None = None
) -> Predictions:
    """Run a pack on the nominal crop of every sample, as in a run that tracks the face.

    `workers`: run parts in parallel; each opens the pack from its folder. Raises: TrainingError if the pack and the
    data set share fewer than 3 landmarks and no shape.
    """
    columns = _match(models.pack.sheet, dataset, models.pack.name)
    starts = range(0, len(dataset), _BATCH)
    parts = [dataset.subset(np.arange(start, min(start + _BATCH, len(dataset)))) for start in starts]
    here = workers is None
    answer = partial(_predict_part, models) if here else partial(_predict_part_elsewhere, models.pack.folder.absolute())
    answers = list(work_in_order(answer, parts, READING, progress, workers))
    frames, shapes = ([each for some in kind for each in some] for kind in zip(*answers))
    return _as_predictions(dataset, models.pack.sheet, columns, frames, shapes, models.measure_ms())


_Answer = tuple[list[FrameLandmarks], list[FrameShapes]]


def _predict_part_elsewhere(pack: Path, part: Dataset) -> _Answer:
    return _predict_part(_models_of(pack), part)


@lru_cache(maxsize=2)  # a gate uses two
def _models_of(pack: Path) -> Models:
    return open_models(load_pack(pack), device="cpu")


def _predict_part(models: Models, part: Dataset) -> _Answer:
    rows = range(len(part))
    read = _read_crops(models, [part.picture(row) for row in rows], [_true_crop(models, part, row) for row in rows])
    return read, ShapePredictor(models.pack.sheet, models.predict_shapes)(read)


def _match(sheet: Sheet, dataset: Dataset, pack: str) -> _Columns:
    names = {name: row for row, name in enumerate(sheet.landmark_names)}
    specs = {(shape.name, shape.closed): row for row, shape in enumerate(sheet.shapes)}
    theirs = dataset.sheet
    ours, own = _own_points(sheet), _own_points(theirs)
    alike = [name not in own or ours.get(name) == own[name] for name in theirs.landmark_names]
    landmarks = np.array(
        [names.get(name, -1) if same else -1 for name, same in zip(theirs.landmark_names, alike)], dtype=np.intp
    )
    shapes = np.array([specs.get((shape.name, shape.closed), -1) for shape in theirs.shapes], dtype=np.intp)
    missing = [name for name, row in zip(theirs.landmark_names, landmarks) if row < 0]
    if len(names) and (landmarks >= 0).sum() < _FEWEST and (shapes < 0).all():
        raise TrainingError(
            f"pack '{pack}' and data set '{dataset.name}': no shape and {int((landmarks >= 0).sum())} landmarks in "
            f"common ({', '.join(missing[:3])} are not in the pack); evaluate on one that was mined with the sheet of "
            "its training data (mine --sheet DATASET/sheet.yaml)"
        )
    missing += [shape.name for shape, row in zip(theirs.shapes, shapes) if row < 0]
    return _Columns(landmarks, shapes, tuple(missing))


def _own_points(sheet: Sheet) -> dict[str, tuple[object, ...]]:
    """Landmarks that are just control points of a shape, each with the layout that numbers them.

    In another layout the same number is another point. `mine` names them `<shape>_p<point>` if a source has landmarks,
    else `<shape>_<point>`.
    """
    numbered = {
        name: (shape.name, shape.n_points, tuple(sorted(shape.on_landmarks.items())), f"{shape.name}_p{point}" == name)
        for shape in sheet.shapes
        for point, name in shape.on_landmarks.items()
        if name in (f"{shape.name}_p{point}", f"{shape.name}_{point}")
    }
    if set(numbered) == set(sheet.landmark_names):
        return {name: layout[:-1] for name, layout in numbered.items()}
    return {name: layout[:-1] for name, layout in numbered.items() if layout[-1]}


def _true_crop(models: Models, dataset: Dataset, row: int) -> Crop:
    points = dataset.truth.landmarks[row].astype(np.float64)
    return crop_around(points[np.isfinite(points).all(axis=1)], margin=models.pack.crop_margin)


def _read_crops(models: Models, pictures: list[Picture], crops: list[Crop]) -> list[FrameLandmarks]:
    size = models.pack.input_size
    cuts = [
        cut(picture.astype(np.float32) / np.float32(255), (0, 0), crop, size) for picture, crop in zip(pictures, crops)
    ]
    found = read_pictures(cuts, crops, models.detect, size)
    return [
        FrameLandmarks(
            frame=row,
            points_LC=reading.points_LC,
            expected_error_px_L=reading.error_L,
            visible_L=reading.visible_L,
            hand_L=np.zeros(len(reading.points_LC), dtype=bool),
            held_from=row,
            crop=crop,
        )
        for row, (crop, reading) in enumerate(zip(crops, found))
    ]


def _as_predictions(
    dataset: Dataset,
    sheet: Sheet,
    columns: _Columns,
    frames: list[FrameLandmarks],
    shapes: list[FrameShapes],
    ms_per_frame: float,
) -> Predictions:
    scale = np.array([s.pixel_scale for s in dataset.samples])

    def of_landmarks(name: str) -> Array64:
        return _take_columns(np.stack([getattr(frame, name) for frame in frames]), columns.landmarks)

    def of_shapes(name: str) -> Array64:
        return _take_columns(np.stack([getattr(each, name) for each in shapes]), columns.shapes)

    points = of_landmarks("points_LC")
    low, high = face_bounds(dataset.truth.landmarks)
    rows = sheet.point_rows()
    curves = {
        shape.name: np.stack([item.points_PK[rows[shape.name]] for item in shapes])
        for shape, row in zip(dataset.sheet.shapes, columns.shapes)
        if row >= 0
    }
    return Predictions(
        landmarks=points,
        expected_px=of_landmarks("expected_error_px_L") / scale[:, None],
        seen=of_landmarks("visible_L"),
        distance_px=np.linalg.norm(points - dataset.truth.landmarks, axis=2) / scale[:, None],
        curves=curves,
        widths=of_shapes("width_px_S"),
        shape_expected_px=of_shapes("expected_error_px_S") / scale[:, None],
        curve_px=picture_curve_distances(dataset, curves) / scale[:, None],
        face_px=(high - low).max(axis=1) / scale,
        face_width_px=(high[:, 0] - low[:, 0]) / scale,
        ms_per_frame=ms_per_frame,
        missing=columns.missing,
    )


def _take_columns(values: Array64, columns: npt.NDArray[np.intp]) -> Array64:
    """Columns of [N, X, ...] in another order; NaN for index -1."""
    out = np.full((len(values), len(columns), *values.shape[2:]), np.nan)
    known = columns >= 0
    out[:, known] = values[:, columns[known]]
    return out


def true_curve(dataset: Dataset, row: int, shape: str) -> Array | None:
    """A sample's true control points (P, 6) in its picture; None if unknown."""
    points = dataset.truth.points[row, dataset.sheet.point_rows()[shape]]
    return points if np.isfinite(points).all() else None


def picture_curve_distances(dataset: Dataset, curves: Mapping[str, Array64]) -> Array64:
    """[N, K] symmetric mean distance in picture pixels between predicted and true curves, NaN where one is unknown."""
    distances = np.full((len(dataset), len(dataset.sheet.shapes)), np.nan)
    for column, shape in enumerate(dataset.sheet.shapes):
        for row in range(len(dataset)) if shape.name in curves else ():
            true = true_curve(dataset, row, shape.name)
            if true is not None:
                distances[row, column] = curve_distance(curves[shape.name][row], true, shape.closed)[0]
    return distances
