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

_SIGMA = 0.8  # px; what is finer than this counts as grain and texture
_LIMIT = 2.5  # in standard deviations of the band: a freckle or a lash in the band is not carried over


def carry(rgb: Array, hole: Bools, x: Array, y: Array, floor: float) -> Array:
    """Detail (P, 3) at places in the crop (corner origin), as log light: each pixel against its 3 x 3 neighbourhood.

    Places in the matte, off the crop, or whose neighbourhood is cut by either give none. Each colour's strength is
    limited by that of all places together.
    """
    height, width = hole.shape
    columns, rows = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    usable = (columns > 0) & (rows > 0) & (columns < width - 1) & (rows < height - 1)
    at = np.where(usable, rows * width + columns, 0)
    usable &= np.take(cv2.dilate(hole.view(np.uint8), np.ones((3, 3), np.uint8)), at) == 0
    around = np.take(cv2.GaussianBlur(rgb, (3, 3), _SIGMA).reshape(-1, 3), at, axis=0)
    here = np.take(rgb.reshape(-1, 3), at, axis=0)
    detail: Array = np.log((np.maximum(here, 0.0) + floor) / (np.maximum(around, 0.0) + floor))
    detail *= usable[:, None]
    if not usable.any():
        return detail
    limit = _LIMIT * 1.4826 * np.median(np.abs(detail[usable][:: 1 + len(at) // 2000]), axis=0)
    return np.clip(detail, -limit, limit)
