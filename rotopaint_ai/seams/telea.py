"""Telea's fast marching, the plain fill that others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.learned import FillModel
from rotopaint_ai.seams.ribbon import Curve

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_RADIUS = 3.0


def paint_telea(
    rgb: Array, hole: Bools, curves: Sequence[Curve], model: FillModel | None
) -> tuple[Array, Mapping[str, float]]:
    """From the matte's rim inwards, whatever runs there; as `cleanplate.FillFunction`."""
    del curves, model
    return fill_telea(rgb, hole), {"telea": 1.0}


def fill_telea(rgb: Array, hole: Bools) -> Array:
    """Telea's fast marching: colours (P, 3) of the hole's pixels, row by row."""
    return inpainted(rgb, hole, _RADIUS, cv2.INPAINT_TELEA)


def inpainted(rgb: Array, hole: Bools, radius: float, how: int) -> Array:
    """One of cv2.inpaint's ways, for plates that are not 8-bit: colours (P, 3) of the hole's pixels, row by row.

    OpenCV is right for 8 bits only, so it fills an 8-bit copy spread over the range of the plate round the
    hole, and the part below its steps is filled as a second 8-bit copy: nothing is clipped, and the error is below
    1/50000 of that range.
    """
    near = cv2.dilate(hole.astype(np.uint8), np.ones((17, 17), np.uint8)) > 0
    rim = rgb[near & ~hole]
    if not len(rim):
        return rgb[hole]
    low, high = float(rim.min()), float(rim.max())
    spread = np.clip((rgb - low) / max(high - low, 1e-8), 0.0, 1.0) * 255.0
    coarse = np.floor(spread)
    fine = (spread - coarse) * 255.0
    mask = hole.astype(np.uint8)
    filled = [
        cv2.inpaint(np.round(part).astype(np.uint8), mask, radius, how).astype(np.float32) for part in (coarse, fine)
    ]
    out: Array = ((filled[0] + filled[1] / 255.0) / 255.0 * (high - low) + low)[hole]
    return out
