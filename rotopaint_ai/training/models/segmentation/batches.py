"""Batches for the second opinion: face crops moved and made harder, with the coverage of seam and face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.training.data.augment import PARTS, STRAIGHT, Geometry, nominal_crop, random_matrix, warp_picture
from rotopaint_ai.training.models.segmentation.views import SegmentationView

Array = npt.NDArray[Any]
Random = np.random.Generator


class Crops(NamedTuple):
    """Crops [N, S, S, 3] of 8 bit, coverage of seam and face [N, S, S] from 0 to 1."""

    pictures: Array
    seam: Array
    face: Array


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts crops of `size_px` from views; `parts`: photometric parts and their probabilities."""

    views: Sequence[SegmentationView]
    size_px: int
    margin: float
    geometry: Geometry
    parts: Mapping[str, float]

    def batch(self, rows: Sequence[int], draw: Random | Sequence[Random]) -> Crops:
        """Crops of some views, drawn from one generator in turn or each from its own."""
        draws = [draw] * len(rows) if isinstance(draw, Random) else draw
        made = [self.one(self.views[row], rng) for row, rng in zip(rows, draws)]
        return Crops(*(np.stack(part) for part in zip(*made)))

    def one(self, view: SegmentationView, rng: Random) -> tuple[Array, Array, Array]:
        """One crop, its seam and its face."""
        crop = nominal_crop(view.landmarks.astype(np.float32), self.margin)
        matrix, _ = random_matrix(crop, self.size_px, self.geometry, rng)
        picture = warp_picture(view.picture, matrix, self.size_px)
        seam = warp_picture(view.seam, matrix, self.size_px, cv2.BORDER_CONSTANT) / np.float32(255)
        face = drawn(moved(view.outline, matrix), self.size_px)
        for name, probability in self.parts.items():
            if rng.random() < probability:
                picture, hidden = PARTS[name](picture, rng)
                seam = seam if hidden is None else np.where(hidden, np.float32(0), seam)
        return picture, seam.astype(np.float32), face


def straight(views: Sequence[SegmentationView], size_px: int, margin: float) -> Cutter:
    """Cuts the nominal crops, as `run` does."""
    return Cutter(views, size_px, margin, STRAIGHT, {})


def moved(points: Array, matrix: Array) -> Array:
    """Points (P, 2) through a 3 x 3 matrix."""
    at = points @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray(at[:, :2] / at[:, 2:])


def drawn(outline: Array, size_px: int) -> Array:
    """Coverage (S, S) of a polygon."""
    face = np.zeros((size_px, size_px), np.uint8)
    cv2.fillPoly(face, [np.round((outline - 0.5) * 16).astype(np.int32)], 255, lineType=cv2.LINE_AA, shift=4)
    return face / np.float32(255)
