"""Grain and fine texture carried into the matte from the nearest clean band, as much as the paint lacks.

Convention: relative to the light it stands on, so that grain keeps its strength from shadow to highlight. Detail is
what differs from the 3 x 3 neighbourhood, as log light: a pixel's own grain, with the spectrum that it has beside the
seam. Nothing is drawn by chance: every frame's grain comes from its own pixels, and frames of a hold get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

Way = Callable[[Array], tuple[Array, Array]]

_AROUND = np.ones((3, 3), np.uint8)
_GRAIN_SIGMA = 1.2  # px: what is finer than this counts as grain where an artist wants less of it
_LIMIT = 2.5  # in standard deviations of the band: a freckle or a lash in the band is not carried over
_LOST = 0.8  # pixels that keep more than this of the plate keep its grain
_ENOUGH = 1000  # samples that a spread is measured on


def add(rgb: Array, hole: Bools, light_CP: Array, way: Way, keep: Array, floor: np.float32) -> None:
    """Add what the paint lacks in grain to its log light (3, P), in place.

    way: says for some of the hole's pixels the place in the crop (corner origin) whose grain to carry; keep: the share
    of its own grain that each pixel still has. Independent grains add up by their squares, so a pixel that kept a
    share k gets sqrt(1 - k^2) of the band's, which brings both together to the strength beside the seam.
    """
    lost = np.flatnonzero(keep < _LOST)
    if not len(lost) or min(hole.shape) < 3:
        return
    detail, usable = band(rgb, hole, *way(lost), floor)
    if not usable.any():
        return
    some = np.flatnonzero(usable)[:: 1 + len(usable) // _ENOUGH]
    limit = np.float32(_LIMIT) * spread(detail[:, some])[:, None]
    detail = np.clip(detail, -limit, limit, out=detail)
    detail *= np.sqrt(np.clip(1.0 - keep[lost] ** 2, 0.0, 1.0))
    for colour in range(3):
        light_CP[colour, lost] += detail[colour]


def band(rgb: Array, hole: Bools, x: Array, y: Array, floor: np.float32) -> tuple[Array, Bools]:
    """Detail (3, P) at places in the crop, and which places have any: none in the matte, beside it, or off the crop."""
    height, width = hole.shape
    columns, rows = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    usable = (columns > 0) & (rows > 0) & (columns < width - 1) & (rows < height - 1)
    at = np.where(usable, rows * width + columns, width + 1)
    usable &= np.take(cv2.dilate(hole.view(np.uint8), _AROUND), at) == 0
    return _detail(rgb, at, floor) * usable, usable


def spread(detail: Array) -> Array:
    """Standard deviation of each colour (3,), by the median, so that a few lashes do not count."""
    out: Array = (1.4826 * np.median(np.abs(detail), axis=1)).astype(np.float32)
    return out


def _detail(rgb: Array, at: Array, floor: np.float32) -> Array:
    """Log light (3, P) of pixels against the 3 x 3 around each, weighted 1 2 1 both ways."""
    flat, width = rgb.reshape(-1, 3), rgb.shape[1]
    here = np.take(flat, at, axis=0)
    around = np.float32(4.0) * here
    for step, weight in ((1, 2.0), (width, 2.0), (width - 1, 1.0), (width + 1, 1.0)):
        both = np.take(flat, at - step, axis=0)
        both += np.take(flat, at + step, axis=0)
        around += np.float32(weight) * both
    around *= np.float32(1 / 16)
    out: Array = np.log((np.maximum(here, 0.0) + floor) / (np.maximum(around, 0.0) + floor)).T
    return out


def smoothed(rgb: Array, paint_P: Array, hole: Bools, share: float) -> Array:
    """The paint (P, 3) of the hole's pixels with only a share of its grain: what differs from its neighbourhood."""
    painted = np.array(rgb, np.float32)
    painted[hole] = paint_P
    smooth: Array = cv2.GaussianBlur(painted, (0, 0), _GRAIN_SIGMA)[hole]
    return smooth + np.float32(share) * (paint_P - smooth)
