"""Crops with the true coverage of seam and face, from rendered shots or data sets whose seams have widths.

Shots contain the visible seam (`seam.####.png`). Data sets contain only its spline, so samples with an occluded seam
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.bezier import flatten
from rotopaint_ai.shapes.matte_metrics import TOLERANCES_PX, boundary_f, intersection_over_union
from rotopaint_ai.shapes.rasterise import rasterise_open
from rotopaint_ai.stage.shot_folder import OUTLINE, TOLERANCE_PX, filmed_faces, read_seam, shots_in
from rotopaint_ai.training.data.augment import (
    STRAIGHT,
    Geometry,
    apply_parts,
    nominal_crop,
    random_matrix,
    rasterise_outline,
    transform_points,
    warp_picture,
)
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.data.dataset_checks import MarkedPicture, split_of_shot

Array = npt.NDArray[Any]
_SEEN = 0.9  # share of a seam's landmarks that must be visible
_ROOM = 0.35  # margin kept around a face, as a share of its side


@dataclass(frozen=True, slots=True)
class SegmentationView(MarkedPicture):
    """A picture with the seam's coverage (H, W) 0..255, the face's outline (P, 2), and the landmarks (L, 2) for
    cropping."""

    seam: Array
    outline: Array
    landmarks: Array

    def arrays(self) -> Iterator[Array]:
        """All arrays, for a fingerprint."""
        yield from (self.picture, self.seam, self.outline, self.landmarks)


def read_views(sources: Sequence[str | Path], *, check: Callable[[], None] = lambda: None) -> list[SegmentationView]:
    """Views of folders: shots, folders of shots, data sets. `check` is called for each view and may raise to stop.

    Raises: TrainingError if there are none.
    """
    found: list[SegmentationView] = []
    for view in (
        view for source in sources for folder in shots_in(Path(source)) or [Path(source)] for view in _views(folder)
    ):
        found.append(view)
        check()
    if not found:
        raise TrainingError(
            f"{', '.join(map(str, sources))}: no pictures with seams whose width is known; wanted shots or a data set"
        )
    return found


def _views(source: Path) -> Iterator[SegmentationView]:
    shots = shots_in(source)
    for shot in shots:
        yield from _of_shot(shot)
    if not shots:
        yield from _of_dataset(read_dataset(source))


def _of_shot(folder: Path) -> Iterator[SegmentationView]:
    for one in filmed_faces(folder):
        seam, marks = read_seam(one.path), np.array(list(one.landmarks.values()))
        if len(marks) >= 5:
            yield _crop_to_face(one.picture, seam, one.outline, marks, one.name, split_of_shot(folder))


def _crop_to_face(
    picture: Array, seam: Array, outline: Array, landmarks: Array, name: str, split: str
) -> SegmentationView:
    """The part of a plate around its face, to save memory."""
    low, high = np.minimum(outline.min(0), landmarks.min(0)), np.maximum(outline.max(0), landmarks.max(0))
    room = _ROOM * float((high - low).max())
    x0, y0 = np.maximum(np.floor(low - room), 0).astype(int)
    x1, y1 = np.minimum(np.ceil(high + room).astype(int), picture.shape[1::-1])
    at = (float(x0), float(y0))
    part = (slice(y0, y1), slice(x0, x1))
    return SegmentationView(picture[part].copy(), split, name, seam[part].copy(), outline - at, landmarks - at)


def _of_dataset(data: Dataset) -> Iterator[SegmentationView]:
    rows = data.sheet.point_rows()
    seams = [k for k, shape in enumerate(data.sheet.shapes) if shape.role == "seam" and not shape.closed]
    names = data.sheet.landmark_names
    for n, sample in enumerate(data.samples):
        on_seams = [names.index(m) for k in seams for m in data.sheet.shapes[k].on_landmarks.values()]
        seen = np.nan_to_num(data.truth.visible[n, on_seams], nan=0.0)
        known = np.isfinite(data.truth.landmarks[n]).all(axis=1)
        width = data.truth.width[n, seams]
        outline = data.truth.points[n, rows[OUTLINE]] if OUTLINE in rows else None
        if (
            not seams
            or not np.isfinite(width).all()
            or seen.mean() < _SEEN
            or outline is None
            or not np.isfinite(outline).all()
            or known.sum() < 5
        ):
            continue
        seam = np.zeros((sample.height, sample.width), np.float32)
        for k in seams:
            _draw_seam(seam, data.truth.points[n, rows[data.sheet.shapes[k].name]], float(data.truth.width[n, k]))
        shape = flatten(outline.astype(float), True, TOLERANCE_PX)
        covered = np.rint(np.minimum(seam, 1) * 255).astype(np.uint8)
        marks = data.truth.landmarks[n][known]
        yield SegmentationView(data.picture(n), sample.split, sample.image, covered, shape, marks)


def _draw_seam(seam: Array, points: Array, width_px: float) -> None:
    if not np.isfinite(points).all() or not np.isfinite(width_px):
        return
    size = seam.shape[1], seam.shape[0]
    region = rasterise_open(points.astype(float), *size, width_px=width_px)
    np.maximum(seam, region.paste(*size), out=seam)


Random = np.random.Generator


class Crops(NamedTuple):
    """Crops [N, S, S, 3] uint8, and coverage of seam and face [N, S, S] from 0 to 1."""

    pictures: Array
    seam: Array
    face: Array


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

    def one(self, view: SegmentationView, rng: Random) -> tuple[Array, Array, Array]:
        """A crop with its seam and face coverage."""
        crop = nominal_crop(view.landmarks.astype(np.float32), self.margin)
        matrix, _ = random_matrix(crop, self.size_px, self.geometry, rng)
        picture = warp_picture(view.picture, matrix, self.size_px)
        seam = warp_picture(view.seam, matrix, self.size_px, cv2.BORDER_CONSTANT) / np.float32(255)
        face = rasterise_outline(transform_points(view.outline, matrix), (self.size_px, self.size_px))
        picture, hidden = apply_parts(picture, self.parts, rng)
        seam = seam if hidden is None else np.where(hidden, np.float32(0), seam)
        return picture, seam.astype(np.float32), face


SURE = 0.5  # probability from which a pixel belongs to a class


def segmentation_figures(
    segment: Callable[[Array], Sequence[Array]], views: Sequence[SegmentationView], size_px: int, margin: float
) -> dict[str, Any]:
    """Metrics on the nominal crops of views, in crop pixels; `segment` has the inputs and outputs of `matte.onnx`."""
    cutter = CropMaker(views, size_px, margin, STRAIGHT, {})
    rng = np.random.default_rng(0)
    rows = [_crop_metrics(segment, *cutter.one(view, rng)) for view in views]
    names = rows[0].keys()
    means = {name: round(float(np.mean([row[name] for row in rows if name in row])), 4) for name in names}
    return {"views": len(rows), **means}


def _crop_metrics(
    segment: Callable[[Array], Sequence[Array]], picture: Array, seam: Array, face: Array
) -> dict[str, float]:
    outputs = [np.asarray(part)[0] for part in segment(picture[None].astype(np.float32) / 255)]
    found: dict[str, float] = {}
    for name, probability, true in (("seam", outputs[0], seam), ("face", outputs[1], face)):
        drawn = (probability >= SURE).astype(np.float32)
        scores = boundary_f(drawn, (true >= 0.5).astype(np.float32))
        found |= {f"{name}_f_{px}_px": float(score) for px, score in zip(TOLERANCES_PX, scores)}
        found[f"{name}_iou"] = intersection_over_union(drawn, (true >= 0.5).astype(np.float32))
    return found
