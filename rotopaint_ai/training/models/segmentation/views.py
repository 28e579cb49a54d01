"""Crops with the true coverage of what stands in front of a face, and of its skin, from the stage's data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.matte_metrics import TOLERANCES_PX, boundary_f, intersection_over_union
from rotopaint_ai.training.data.augment import (
    STRAIGHT,
    Geometry,
    apply_parts,
    nominal_crop,
    random_matrix,
    warp_picture,
)
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.data.dataset_checks import MarkedPicture

Array = npt.NDArray[Any]
CLASSES = ("front", "skin")  # what stands in front of a face or frames it (hand, prop, hair, hat); the face's skin
_LEAST_LANDMARKS = 4  # known landmarks of a picture that can be cropped
_ROOM = 0.35  # margin kept around a face, as a share of its side


@dataclass(frozen=True, slots=True)
class SegmentationView(MarkedPicture):
    """A picture with the coverage of the classes (H, W, 2) 0..255, and the landmarks (L, 2) for cropping."""

    classes: Array
    landmarks: Array

    def arrays(self) -> Iterator[Array]:
        """All arrays, for a fingerprint."""
        yield from (self.picture, self.classes, self.landmarks)


def read_views(sources: Sequence[str | Path], *, check: Callable[[], None] = lambda: None) -> list[SegmentationView]:
    """Views of the stage's data sets. `check` is called for each view and may raise to stop.

    Raises: TrainingError for a data set whose pictures have no coverage of what stands in front.
    """
    found: list[SegmentationView] = []
    for view in (view for source in sources for view in _views(Path(source))):
        found.append(view)
        check()
    if not found:
        raise TrainingError(f"{', '.join(map(str, sources))}: no picture shows a face; wanted a data set of faces")
    return found


def _views(folder: Path) -> Iterator[SegmentationView]:
    data: Dataset = read_dataset(folder)
    for row, sample in enumerate(data.samples):
        marks = data.truth.landmarks[row]
        marks = marks[np.isfinite(marks).all(axis=1)]
        size, place = (sample.height, sample.width), folder / sample.image
        classes = np.stack([_read_cover(place.with_suffix(f".{name}.png"), size) for name in CLASSES], 2)
        if len(marks) >= _LEAST_LANDMARKS:
            yield _crop_to_face(data.picture(row), classes, marks, sample.image, sample.split)


def _read_cover(path: Path, size: tuple[int, int]) -> Array:
    """Coverage (H, W) 0..255 of a picture of this size."""
    cover = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if cover is None:
        raise TrainingError(
            f"{path}: cannot be read; wanted what covers the face, as `python -m rotopaint_ai.stage dataset FOLDER "
            "--fronts` writes it"
        )
    if cover.shape != size:
        got, wanted = (f"{shape[1]}x{shape[0]}" for shape in (cover.shape, size))
        raise TrainingError(f"{path}: is {got}, its picture {wanted}; make the data set again")
    return cover


def _crop_to_face(picture: Array, classes: Array, landmarks: Array, name: str, split: str) -> SegmentationView:
    """The part of a picture around its face, to save memory."""
    low, high = landmarks.min(0), landmarks.max(0)
    room = _ROOM * float((high - low).max())
    x0, y0 = np.maximum(np.floor(low - room), 0).astype(int)
    x1, y1 = np.minimum(np.ceil(high + room).astype(int), picture.shape[1::-1])
    part = (slice(y0, y1), slice(x0, x1))
    at = (float(x0), float(y0))
    return SegmentationView(picture[part].copy(), split, name, classes[part].copy(), landmarks - at)


Random = np.random.Generator


class Crops(NamedTuple):
    """Crops [N, S, S, 3] uint8, and the coverage of the classes [N, S, S, 2], 0..255."""

    pictures: Array
    classes: Array


@dataclass(frozen=True, slots=True)
class CropMaker:
    """Cuts crops of `size_px` from views; `parts`: photometric parts and their probabilities."""

    views: Sequence[SegmentationView]
    size_px: int
    margin: float
    geometry: Geometry
    parts: Mapping[str, float]

    def batch(self, rows: Sequence[int], draw: Random | Sequence[Random]) -> Crops:
        """Random crops of the given rows, from one generator for all or one for each."""
        draws = [draw] * len(rows) if isinstance(draw, Random) else draw
        made = [self.one(self.views[row], rng) for row, rng in zip(rows, draws)]
        return Crops(*(np.stack(part) for part in zip(*made)))

    def one(self, view: SegmentationView, rng: Random) -> tuple[Array, Array]:
        """A crop and the coverage of its classes."""
        crop = nominal_crop(view.landmarks.astype(np.float32), self.margin)
        matrix, _ = random_matrix(crop, self.size_px, self.geometry, rng)
        classes = warp_picture(view.classes, matrix, self.size_px)
        picture, hidden = apply_parts(warp_picture(view.picture, matrix, self.size_px), self.parts, rng)
        if hidden is not None:
            classes[hidden] = (255, 0)
        return picture, classes


SURE = 0.5  # probability from which a pixel belongs to a class
_WHOLLY = 250  # coverage from which a pixel shows nothing but its class


def segmentation_figures(
    segment: Callable[[Array], Sequence[Array]], views: Sequence[SegmentationView], size_px: int, margin: float
) -> dict[str, Any]:
    """Metrics on the nominal crops of views, in crop pixels; `segment` has the inputs and outputs of `matte.onnx`.

    Boundary F and overlap of each class. `false_share`: the share of skin that is taken for something in front.
    """
    cutter = CropMaker(views, size_px, margin, STRAIGHT, {})
    rng = np.random.default_rng(0)
    rows = [_crop_metrics(segment, *cutter.one(view, rng)) for view in views]
    means = {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}
    return {"views": len(rows), **means}


def _crop_metrics(segment: Callable[[Array], Sequence[Array]], picture: Array, classes: Array) -> dict[str, float]:
    outputs = [np.asarray(part)[0] for part in segment(picture[None].astype(np.float32) / 255)]
    found: dict[str, float] = {}
    for k, name in enumerate(CLASSES):
        drawn, true = ((part >= SURE).astype(np.float32) for part in (outputs[k], classes[..., k] / np.float32(255)))
        found |= {f"{name}_f_{px}_px": float(score) for px, score in zip(TOLERANCES_PX, boundary_f(drawn, true))}
        found[f"{name}_iou"] = intersection_over_union(drawn, true)
    bare = classes[..., 1] >= _WHOLLY
    found["false_share"] = float((outputs[0][bare] >= SURE).mean()) if bare.any() else 0.0
    return found
