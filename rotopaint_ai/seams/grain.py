"""Copy grain and fine texture from the nearest clean strip into the matte, as much as the paint lacks.

Grain is relative to the light, so that it keeps its strength from shadow to highlight. It is measured as detail: a
pixel's difference from its 3 x 3 neighbourhood in log light. Nothing is random: every frame's grain comes from its own
pixels, and all frames of a hold get the same grain.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_AROUND = np.ones((3, 3), np.uint8)
_GRAIN_SIGMA = 1.2  # px: detail finer than this counts as grain where the user reduces the grain
_LIMIT = 2.5  # in standard deviations of the strip: freckles and lashes in it are clipped to this
_LOST = 0.8  # pixels that keep more than this share of the plate keep its grain
_ENOUGH = 1000  # samples from which the standard deviation is measured


def add(plate: Array, hole: Bools, light_CP: Array, x: Array, y: Array, keep: Array, floor: np.float32) -> None:
    """Add the missing grain to the paint's log light (3, P), in place.

    plate: (H, W, 3). x, y: for each of the hole's pixels the position in the crop (corner origin) whose grain is
    copied. keep: the share of the plate, and so of its own grain, that each pixel keeps. Variances of independent grain
    add up, so a pixel that keeps a share k gets sqrt(1 - k^2) of the copied grain, and the sum has the strength of the
    grain beside the seam.
    """
    if min(hole.shape) < 3 or not (keep < _LOST).any():
        return
    detail, usable = band(plate, hole, x, y, floor)
    some = np.flatnonzero(usable)
    if not len(some):
        return
    limit = np.float32(_LIMIT) * spread(detail[:, some[:: 1 + len(some) // _ENOUGH]])[:, None]
    detail = np.clip(detail, -limit, limit, out=detail)
    detail *= np.sqrt(np.clip(1.0 - keep * keep, 0.0, 1.0)) * (keep < _LOST)
    light_CP += detail


def band(plate: Array, hole: Bools, x: Array, y: Array, floor: np.float32) -> tuple[Array, Bools]:
    """Detail (3, P) at positions in the crop, and which are valid: outside the matte and its rim, inside the crop."""
    height, width = hole.shape
    columns, rows = x.astype(np.int32), y.astype(np.int32)
    usable = (columns > 0) & (rows > 0) & (columns < width - 1) & (rows < height - 1)
    columns, rows = np.where(usable, columns, 1), np.where(usable, rows, 1)
    at = rows * np.intp(width) + columns
    usable &= cv2.dilate(hole.view(np.uint8), _AROUND).reshape(-1).take(at) == 0
    detail = _detail(plate, at, floor)
    detail *= usable
    return detail, usable


def spread(detail: Array) -> Array:
    """Standard deviation of each colour (3,), estimated by the median, so that a few lashes do not count."""
    middle = detail.shape[1] // 2
    out: Array = np.float32(1.4826) * np.partition(np.abs(detail), middle, axis=1)[:, middle]
    return out


def _detail(plate: Array, at: Array, floor: np.float32) -> Array:
    """Log light (3, P) of pixels relative to their 3 x 3 neighbourhood, weighted 1 2 1 in both directions."""
    smooth = cv2.GaussianBlur(plate, (3, 3), 0)  # weights 1 2 1, faster than a custom filter
    here, around = (texels(pixels(light).take(at)) for light in (plate, smooth))
    for light in (here, around):
        np.maximum(light, 0.0, out=light)
        light += floor
    here /= around
    out: Array = cv2.transpose(here)
    return np.log(out, out=out)


def pixels(plate: Array) -> NDArray[np.void]:
    """Float32 pixels (..., 3) as a flat view whose items are whole pixels, so that one copy moves a pixel."""
    return plate.reshape(-1).view(np.dtype((np.void, 3 * plate.itemsize)))


def texels(some: NDArray[np.void]) -> Array:
    """The float32 pixels (P, 3) of such items (P,); a view."""
    return some.view(np.float32).reshape(-1, 3)


def smooth_grain(rgb: Array, paint_P: Array, hole: Bools, share: float) -> Array:
    """The paint (P, 3) of the hole's pixels, with its difference from a blurred copy scaled by `share`."""
    painted = np.array(rgb, np.float32)
    painted[hole] = paint_P
    smooth: Array = cv2.GaussianBlur(painted, (0, 0), _GRAIN_SIGMA)[hole]
    return smooth + np.float32(share) * (paint_P - smooth)
