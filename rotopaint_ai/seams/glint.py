"""Bright lines in a matte that belong to the seam: light through the gap, or bare print at its edge.

The tables of `relight` treat bright samples as face, because folds and lips are glossy. Between smooth banks, however,
a face has no thin bright line along the seam, so such a line counts as seam.

Dimensions: T rows across, S columns along.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_LINE = np.ones((7, 1), np.uint8)  # rows: lines are thinner than this
_AROUND = np.ones((3, 3), np.uint8)
_EVERY = 4  # every fourth column is examined; smoothing spans more columns than that
_TIMES = 3.0  # a line must be this many times as strong as the lines beside the seam; at twice that it is certain
_SMOOTH = 0.02  # log light: banks whose lines are fainter than this are smooth
_LEAST = 0.002  # log light: least assumed strength of the banks' lines
_FAR = 4.0  # sigma of the blur along the banks, in examined columns


def lines(far: Array, hole_TS: Bools) -> Array | None:
    """Probability (T, S), 0 to 1, that a sample belongs to such a bright line; None without a line.

    far: log light (T, S), smoothed along the seam; hole_TS: samples in the matte or outside the crop.
    """
    n_columns, few, hole = far.shape[1], np.ascontiguousarray(far[:, ::_EVERY]), hole_TS[:, ::_EVERY]
    ridge: Array = cv2.morphologyEx(few, cv2.MORPH_TOPHAT, _LINE)
    clear = (~hole).astype(np.float32)
    power, count = (_blur_along(row) for row in ((ridge * ridge * clear).sum(0), clear.sum(0)))
    bank_lines = np.sqrt(power / np.maximum(count, np.float32(1e-3))) + np.float32(_LEAST)
    smooth = np.clip((_SMOOTH - bank_lines) / np.float32(0.3 * _SMOOTH), 0.0, 1.0)
    if not smooth.any():
        return None
    found = np.clip(ridge / (np.float32(_TIMES) * bank_lines) - 1.0, 0.0, 1.0) * (smooth * hole)
    if not found.any():
        return None
    whole = np.repeat(cv2.dilate(found.astype(np.float32), _AROUND), _EVERY, axis=1)[:, :n_columns]
    return np.asarray(whole * hole_TS)


def _blur_along(row_S: Array) -> Array:
    width = 2 * round(2 * _FAR) + 1
    return np.asarray(cv2.GaussianBlur(row_S[None], (width, 1), _FAR, borderType=cv2.BORDER_REPLICATE)[0])
