"""Loose square pictures of faces, cut from plates for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.plates import Frame
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.training.mining.outline import Array

FACE_SHARE = 0.62  # face box / picture
_LEAST_PX = 16
_PIXEL_FOR_PIXEL = 1.12


@dataclass(frozen=True, slots=True)
class Cut:
    """A square of the plate and the picture made of it: plate point p lies at `(p - (x, y)) * scale` in the picture."""

    x: float
    y: float
    side: float
    size: int

    @property
    def scale(self) -> float:
        """Picture pixels per plate pixel."""
        return self.size / self.side

    def points(self, points: Array) -> Array:
        """Plate points (..., 2) in the picture."""
        return np.asarray((points - np.array([self.x, self.y])) * self.scale)

    def spline(self, points_P6: Array) -> Array:
        """Control points (P, 6) in the picture."""
        moved = points_P6 * self.scale
        moved[:, :2] -= np.array([self.x, self.y]) * self.scale
        return np.asarray(moved)


def frame_cut(points: Array, *, size: int, face_share: float = FACE_SHARE) -> Cut:
    """The square around points (N, 2) whose box takes up `face_share` of it, on whole pixels.

    A face smaller than the picture wants keeps its own pixels: the picture is then smaller, never enlarged.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    side = float(np.ceil(max(longest / face_share, _LEAST_PX)))
    if size < side <= size * _PIXEL_FOR_PIXEL:  # a slightly tighter picture keeps the plate's own pixels
        side = float(size)
    x, y = np.floor((low + high) / 2 - side / 2)
    return Cut(float(x), float(y), side, min(size, int(side)))


def picture(frame: Frame, where: Cut) -> npt.NDArray[np.uint8]:
    """The picture (size, size, 3) RGB, display-referred 8 bit; beyond the plate its edge goes on."""
    around = int(np.ceil(where.side * 0.05)) + 4
    x, y = int(where.x) - around, int(where.y) - around
    wide = int(where.side) + 2 * around
    rgb, origin = frame.region(x, y, wide, wide)
    if not rgb.size:  # the face lies beyond the data window: all that is left is its nearest edge
        rgb, origin = frame.rgb, frame.origin
    middle = Crop(where.x + where.side / 2, where.y + where.side / 2, where.side)
    display = to_display(np.asarray(cut(np.asarray(rgb, np.float32), origin, middle, where.size), np.float32))
    return np.round(np.clip(display, 0.0, 1.0) * 255).astype(np.uint8)
