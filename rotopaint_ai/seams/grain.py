"""Grain and fine texture carried into the matte from the nearest clean band.

Convention: relative to the light it stands on, so that grain keeps its strength from shadow to highlight.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)
_GRAIN_SIGMA = 1.2  # px: what is finer than this counts as grain
_LIMIT = 2.5  # in standard deviations of the band: a freckle or a lash in the band is not carried over


def carry(rgb: Array, hole: Bools, x: Array, y: Array, floor: np.float32) -> Array:
    """Detail (3, P) at places in the crop (corner origin), as log light: each pixel against its neighbourhood.

    The neighbourhood is the pixel (half) and its four neighbours (an eighth each). Places in the matte, off the crop,
    or whose neighbours are, give none. Each colour's strength is limited by that of all places together.
    """
    height, width = hole.shape
    columns, rows = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    usable = (columns > 0) & (rows > 0) & (columns < width - 1) & (rows < height - 1)
    at = np.where(usable, rows * width + columns, width + 1) if min(height, width) > 2 else np.zeros(len(x), np.intp)
    usable &= np.take(cv2.dilate(hole.view(np.uint8), _CROSS), at) == 0
    flat = rgb.reshape(-1, 3)
    around = np.zeros((len(at), 3), np.float32)
    for beside in (-width, -1, 1, width):
        around += np.take(flat, at + beside, axis=0, mode="clip")
    here = np.take(flat, at, axis=0)
    around = np.float32(0.5) * here + np.float32(0.125) * around
    detail: Array = np.log((np.maximum(here, 0.0) + floor) / (np.maximum(around, 0.0) + floor)).T * usable
    if not usable.any():
        return detail
    limit = _LIMIT * 1.4826 * np.median(np.abs(detail[:, usable][:, :: 1 + len(at) // 2000]), axis=1)[:, None]
    return np.clip(detail, -limit, limit).astype(np.float32)


def smoothed(rgb: Array, paint_P: Array, hole: Bools, share: float) -> Array:
    """The paint (P, 3) of the hole's pixels with only a share of its grain: what differs from its neighbourhood."""
    painted = np.array(rgb, np.float32)
    painted[hole] = paint_P
    smooth: Array = cv2.GaussianBlur(painted, (0, 0), _GRAIN_SIGMA)[hole]
    return smooth + np.float32(share) * (paint_P - smooth)
