"""Clean plates: paint the seam inside a matte away.

Pixels are float32 scene-linear and may be below 0 or above 1. Curves are in the crop's own pixels (corner origin,
centres at +0.5). Only pixels whose matte is above 0 change. The same input gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import fills
from rotopaint_ai.errors import UsageError
from rotopaint_ai.seams import grain as grains
from rotopaint_ai.seams import harmonic_fill
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.ribbon import WideCurve, shrinkage

Array = NDArray[Any]  # float32
Index = NDArray[Any]  # intp
Bools = NDArray[Any]  # bool

FillFunction = Callable[[Array, Bools, Sequence[WideCurve], LearnedFill | None], tuple[Array, Mapping[str, float]]]

_MARGIN = 16  # margin of plate round the matte, in shrunk pixels
FAINTEST = 1 / 1024  # lower coverage is a rounding error or the end of a feather, and changes nothing


@dataclass(frozen=True, slots=True)
class PaintedCrop:
    """A crop with its seam painted away, and the share of the seam's length that each method painted."""

    rgb: Array
    chosen: Mapping[str, float]


def fill(
    rgb: NDArray[np.floating],
    matte: NDArray[np.floating],
    curves: Sequence[WideCurve],
    method: str = fills.DEFAULT,
    model: LearnedFill | None = None,
    *,
    grain: float = 1.0,
) -> Array:
    """The pixels of `paint`, without the shares of its methods."""
    return paint(rgb, matte, curves, method, model, grain=grain).rgb


def paint(
    rgb: NDArray[np.floating],
    matte: NDArray[np.floating],
    curves: Sequence[WideCurve],
    method: str = fills.DEFAULT,
    model: LearnedFill | None = None,
    *,
    grain: float = 1.0,
) -> PaintedCrop:
    """Paint the seam away inside a matte.

    rgb: (H, W, 3) scene-linear. matte: (H, W), 0..1; a soft matte mixes the paint with the plate. curves: one (polyline
    (N, 2), half width) per seam, through the middle of the matte; matte without a curve nearby is filled smoothly from
    its rim. method: a fill's name (`fills.FILLS`). model: a pack's learned fill. grain: the share of the paint's grain
    that remains.

    Returns: a new (H, W, 3) float32. Where the matte is below 1/1024, the pixels are those of `rgb`, bit for bit.

    Raises: UsageError for a method that is not available, and for sizes that do not match.
    """
    function: FillFunction = fills.find_fill(method).load()
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.shape[:2] != matte.shape:
        raise UsageError(f"clean plate: rgb {rgb.shape} and matte {matte.shape}; wanted (H, W, 3) and (H, W)")
    out = np.array(rgb, np.float32)
    window = window_of(matte, curves)
    if window is None:
        return PaintedCrop(out, {})
    part, cover = np.ascontiguousarray(rgb[window], np.float32), np.asarray(matte[window], np.float32)
    if not np.isfinite(sum(cv2.sumElems(part))):
        part = _without_infinities(part)
    hole = cover > FAINTEST
    at = np.flatnonzero(hole)
    corner = window[1].start, window[0].start
    moved = [(np.asarray(line) - corner, half) for line, half in curves]
    paint_P, chosen = function(part, hole, moved, model)
    if grain < 1.0:
        paint_P = grains.smooth_grain(part, paint_P, hole, grain)
    _composite_paint(out, paint_P, part, cover, at, corner)
    return PaintedCrop(out, chosen)


def _without_infinities(part: Array) -> Array:
    """A window whose pixels that are not finite are filled from those around them."""
    broken: Bools = np.logical_not(np.isfinite(part).all(axis=2))
    return harmonic_fill.fill(np.nan_to_num(part, posinf=0.0, neginf=0.0), broken, np.logical_not(broken))


def _composite_paint(out: Array, paint_P: Array, part: Array, cover: Array, at: Index, corner: tuple[int, int]) -> None:
    """Composite the paint of a window's pixels `at` over a picture in place, weighted by the matte's coverage."""
    share = np.take(cover, at)
    if share.min() < 1.0:
        before = np.take(part.reshape(-1, 3), at, axis=0)
        paint_P = before + np.minimum(share, 1.0)[:, None] * (paint_P - before)
    if cover.shape != out.shape[:2]:
        y, x = np.divmod(at.astype(np.int32), np.int32(cover.shape[1]))
        at = (y + corner[1]) * np.intp(out.shape[1]) + (x + corner[0])
    np.put(grains.pixels(out), at, grains.pixels(np.ascontiguousarray(paint_P, np.float32)))


def window_of(matte: NDArray[np.floating], curves: Sequence[WideCurve]) -> tuple[slice, slice] | None:
    """The matte's bounding box with a margin for the banks; None for an empty matte.

    A box that fills most of the crop is extended to the whole crop, which saves a copy.
    """
    left, top, width, height = cv2.boundingRect((matte > FAINTEST).view(np.uint8))
    if not width:
        return None
    widest = max([2.0 * float(half) for _, half in curves], default=0.0)
    margin = int(_MARGIN * shrinkage(widest))
    rows, columns = (max(0, top - margin), top + height + margin), (max(0, left - margin), left + width + margin)
    if 2 * (rows[1] - rows[0]) * (columns[1] - columns[0]) > matte.size:
        rows, columns = (0, matte.shape[0]), (0, matte.shape[1])
    return slice(*rows), slice(*columns)
