"""Grain and fine texture carried into the matte from the nearest clean band.

Convention: log light, so that grain keeps its strength relative to the light it stands on.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
Index = NDArray[Any]  # intp

_SIGMA = 1.0  # px; what is finer than this counts as grain and texture
_LIMIT = 2.5  # in standard deviations of the band: a freckle or a lash in the band is not carried over
_BAND = 6  # px of plate round the matte that count as the band


def carry(rgb: Array, hole: Bools, there: tuple[Index, Index], floor: float) -> Array:
    """Detail (P, 3), in log light, for the matte pixels `there`: that of the pixel mirrored in the matte's rim.

    The mirror keeps neighbours neighbours, so grain keeps its own texture; each colour's strength is that of the band.
    """
    outside = _clean(hole)
    if not outside.any():
        return np.zeros((len(there[0]), 3), np.float32)
    rows, columns = _mirror(outside, there)
    tone = np.log(np.maximum(rgb, 0.0) + np.float32(floor))
    detail = tone - cv2.GaussianBlur(tone, (5, 5), _SIGMA)
    band = outside & (cv2.dilate(hole.astype(np.uint8), np.ones((2 * _BAND + 5, 2 * _BAND + 5), np.uint8)) > 0)
    spread = 1.4826 * np.median(np.abs(detail[band]), axis=0) if band.any() else np.zeros(3, np.float32)
    found: Array = detail[rows, columns]
    found *= outside[rows, columns][:, None]
    return np.clip(found, -_LIMIT * spread, _LIMIT * spread)


def _clean(hole: Bools) -> Bools:
    """Pixels whose detail is not touched by the matte's rim."""
    out: Bools = cv2.dilate(hole.astype(np.uint8), np.ones((5, 5), np.uint8)) == 0
    return out


def _mirror(outside: Bools, there: tuple[Index, Index]) -> tuple[Index, Index]:
    """Each matte pixel reflected in the nearest clean pixel, on the crop."""
    seeds = np.where(outside, 0, 255).astype(np.uint8)
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    of_label = np.zeros(int(labels.max()) + 1, np.intp)
    of_label[labels[outside]] = np.flatnonzero(outside)
    rim_rows, rim_columns = np.divmod(of_label[labels[there]], outside.shape[1])
    rows = np.clip(2 * rim_rows - there[0], 0, outside.shape[0] - 1)
    columns = np.clip(2 * rim_columns - there[1], 0, outside.shape[1] - 1)
    return rows, columns
