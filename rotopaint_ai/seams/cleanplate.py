"""Clean plates: the seam inside a matte painted away.

Convention: pixels are float32 scene-linear and may lie below 0 or above 1; curves are in the crop's own pixels
(corner origin, centres at +0.5). Only pixels whose matte is above 0 change. The same input gives the same output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import UsageError
from rotopaint_ai.seams import choice, membrane
from rotopaint_ai.seams import grain as grains
from rotopaint_ai.seams.learned import FillModel
from rotopaint_ai.seams.ribbon import Curve, Ribbon, interpolate, shrinkage, straighten

Array = NDArray[Any]  # float32
Index = NDArray[Any]  # intp
Bools = NDArray[Any]  # bool

_MARGIN = 16  # pixels of plate kept round the matte, in shrunk pixels
_FLOOR = 0.02  # of the plate's mean: the light below which log light turns into plain light
_TELEA_RADIUS = 3.0
_SOME = 4  # rows of a crop from one that tells how bright it is to the next
_TOUCH = 5  # of 255: a sample that the matte reaches less than this is clear of it
_NOTHING = 1 / 1024  # a matte fainter than this is a rounding error or the last of a feather, and changes nothing


@dataclass(frozen=True, slots=True)
class Painted:
    """A crop with its seam painted away, and the share of the seam's length that each method painted."""

    rgb: Array
    chosen: Mapping[str, float]


def fill(
    rgb: NDArray[np.floating],
    matte: NDArray[np.floating],
    curves: Sequence[Curve],
    method: str = "auto",
    model: FillModel | None = None,
    *,
    grain: float = 1.0,
) -> Array:
    """Paint the seam away inside a matte; `paint` without what it chose."""
    return paint(rgb, matte, curves, method, model, grain=grain).rgb


def paint(
    rgb: NDArray[np.floating],
    matte: NDArray[np.floating],
    curves: Sequence[Curve],
    method: str = "auto",
    model: FillModel | None = None,
    *,
    grain: float = 1.0,
) -> Painted:
    """Paint the seam away inside a matte.

    rgb: (H, W, 3) scene-linear. matte: (H, W), 0..1; a soft matte mixes the paint with the plate. curves: one
    (polyline (N, 2), half width) per seam, through the middle of the matte; matte without a curve nearby is filled
    smoothly from its rim. method: a name of METHODS, or `auto`: two-bank, and `model`, where there is one, for the
    stretches that look hard (`choice`). model: a pack's learned fill. grain: the share of the paint's grain that stays.
    Returns: a new (H, W, 3) float32; where the matte is 0, or below 1/1024, the pixels are those of `rgb`, bit for bit.
    Raises: UsageError for a method that is not available, and for sizes that do not fit together.
    """
    check_method(method, has_model=model is not None)
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.shape[:2] != matte.shape:
        raise UsageError(f"clean plate: rgb {rgb.shape} and matte {matte.shape}; wanted (H, W, 3) and (H, W)")
    out = np.array(rgb, np.float32)
    window = window_of(matte, curves)
    if window is None:
        return Painted(out, {})
    part, cover = np.ascontiguousarray(rgb[window], np.float32), np.asarray(matte[window], np.float32)
    if not np.isfinite(sum(cv2.sumElems(part))):
        part = np.nan_to_num(part, nan=0.0, posinf=65504.0, neginf=-65504.0)
    hole = cover > _NOTHING
    at = np.flatnonzero(hole)
    corner = window[1].start, window[0].start
    moved = [(np.asarray(line) - corner, half) for line, half in curves]
    chosen: Mapping[str, float] = {"telea": 1.0}
    if method == "telea":
        paint_P = fill_telea(part, hole)
    else:
        paint_P, chosen = _fill_banks(part, hole, at, moved, choice.METHODS[method], model)
    if grain < 1.0:
        paint_P = grains.smoothed(part, paint_P, hole, grain)
    _lay_in(out, paint_P, part, cover, at, corner)
    return Painted(out, chosen)


def check_method(method: str, *, has_model: bool) -> None:
    """Raises UsageError for a way of filling that is not available."""
    if method not in METHODS:
        raise UsageError(f"clean plate method '{method}': not available; choose one of {', '.join(METHODS)}")
    if method == "learned" and not has_model:
        raise UsageError(
            "clean plate method 'learned': the model pack has no fill.onnx; take --method two-bank, or a pack with one"
        )


def _lay_in(out: Array, paint_P: Array, part: Array, cover: Array, at: Index, corner: tuple[int, int]) -> None:
    """Mix the paint of a window's pixels `at` into a picture, as far as the matte covers them."""
    share = np.take(cover, at)
    if share.min() < 1.0:
        before = np.take(part.reshape(-1, 3), at, axis=0)
        paint_P = before + np.minimum(share, 1.0)[:, None] * (paint_P - before)
    if cover.shape != out.shape[:2]:
        y, x = np.divmod(at.astype(np.int32), np.int32(cover.shape[1]))
        at = (y + corner[1]) * np.intp(out.shape[1]) + (x + corner[0])
    np.put(grains.pixels(out), at, grains.pixels(np.ascontiguousarray(paint_P, np.float32)))


def _fill_banks(
    rgb: Array, hole: Bools, at: Index, curves: Sequence[Curve], relight: choice.Relight, model: FillModel | None
) -> tuple[Array, Mapping[str, float]]:
    """Seam light taken off where the plate still shows the face, both banks joined where it does not.

    Returns: colours (P, 3) of the hole's pixels, row by row, and the share of the length that each method took.

    Along each curve the light of groove and bevels is told from the face's own (`light`, `learned`); what is left of
    the face is kept, the rest is joined from bank to bank, and grain is carried over from the nearest clean band
    (`grain`).
    """
    scene = lay(rgb, hole, curves)
    if scene is None:
        return np.asarray(np.take(membrane.fill(rgb, hole, ~hole).reshape(-1, 3), at, axis=0)), {}
    relit_TSC, chosen = relight(scene.light_TSC, scene.hole_TS, scene.ribbon.own_TS, scene.floor, model)
    fields, mirror = _fields(scene, relit_TSC)
    y, x = np.divmod(at.astype(np.int32), np.int32(hole.shape[1]))
    height, width = scene.ribbon.size
    down = (y + np.float32(0.5)) * np.float32(height / hole.shape[0]) - np.float32(0.5)
    across = (x + np.float32(0.5)) * np.float32(width / hole.shape[1]) - np.float32(0.5)
    relit = cv2.transpose(interpolate(fields, across, down))
    keep, floor = relit[3], np.float32(scene.floor)
    here = cv2.transpose(grains.texels(grains.pixels(rgb).take(at)))
    under = np.minimum(here, 0.0) if here.min() < 0.0 else None
    light_CP = np.log(np.maximum(here, 0.0, out=here) + floor)
    light_CP *= keep
    light_CP += relit[:3]
    away_x, away_y = cv2.transpose(interpolate(mirror, across, down)) + np.float32(0.5)
    grains.add(rgb, hole, light_CP, x + away_x, y + away_y, keep, floor)
    out: Array = np.exp(light_CP, out=light_CP)
    out -= floor
    if under is not None:
        out += keep * under
    return cv2.transpose(out), chosen


def _fields(scene: Straightened, relit_TSC: Array) -> tuple[Array, Array]:
    """On the shrunk crop: base and keep (h, w, 4) of `light`, and the way (h, w, 2) to the pixel whose grain to carry.

    Zero outside the matte; the way is in pixels of the full crop.
    """
    ribbon = scene.ribbon
    fields = np.zeros((*ribbon.size, 4), np.float32)
    fields.reshape(-1, 4)[ribbon.at_P] = ribbon.read(relit_TSC)
    if len(ribbon.left_P):
        fields.reshape(-1, 4)[ribbon.left_P, :3] = _smooth_light(scene)
    column = np.rint(ribbon.along_P).astype(np.intp)
    up = _mirrored(scene, column) - ribbon.across_P
    steps = np.stack([ribbon.map_x_TS[1] - ribbon.map_x_TS[0], ribbon.map_y_TS[1] - ribbon.map_y_TS[0]], 1)
    mirror = np.zeros((*ribbon.size, 2), np.float32)
    mirror.reshape(-1, 2)[ribbon.at_P] = np.take(steps, column, axis=0) * (up * np.float32(ribbon.step))[:, None]
    return fields, mirror


def _smooth_light(scene: Straightened) -> Array:
    """Log light (P, 3) of the shrunk crop's matte pixels that no curve runs near, from their rim."""
    ribbon = scene.ribbon
    y, x = np.divmod(ribbon.left_P, ribbon.size[1])
    top, left, end, right = (int(v) for v in (y.min(), x.min(), y.max() + 1, x.max() + 1))
    margin = membrane.MARGIN + min(end - top, right - left) // 2
    window = slice(max(0, top - margin), end + margin), slice(max(0, left - margin), right + margin)
    hole = np.zeros(scene.small[window].shape[:2], bool)
    y, x = y - window[0].start, x - window[1].start
    hole[y, x] = True
    light = np.ascontiguousarray(scene.small[window][..., :3])
    smooth = membrane.fill(light, hole, ribbon.cover[window] == 0)[y, x]
    return np.asarray(np.log(np.maximum(smooth, 0.0) + np.float32(scene.floor)))


@dataclass(frozen=True, slots=True)
class Straightened:
    """The seams of a crop on one ribbon: its log light (T, S, 3), and where it lies in the matte or off the crop."""

    ribbon: Ribbon
    light_TSC: Array
    hole_TS: Bools
    floor: float
    small: Array


def lay(rgb: Array, hole: Bools, curves: Sequence[Curve]) -> Straightened | None:
    """Straighten a crop (H, W, 3) along its seams; None where no matte pixel belongs to a curve."""
    ribbon = straighten(hole, curves)
    if ribbon is None:
        return None
    small = cv2.cvtColor(ribbon.shrink(rgb), cv2.COLOR_RGB2RGBA)  # four channels are sampled faster than three
    some, clear = small[::_SOME], (ribbon.cover[::_SOME] == 0).view(np.uint8)
    floor = _FLOOR * max(float(np.mean(cv2.mean(some, clear if clear.any() else None)[:3])), 1e-4)
    light_TSC = ribbon.sample(small)
    np.maximum(light_TSC, 0.0, out=light_TSC)
    light_TSC += np.float32(floor)
    np.log(light_TSC, out=light_TSC)
    hole_TS = (ribbon.sample(ribbon.cover) > _TOUCH) | ~ribbon.inside_TS
    return Straightened(ribbon, light_TSC[..., :3], hole_TS, floor, small)


def _mirrored(scene: Straightened, column_P: Array) -> Array:
    """Rows (fractional) of the matte pixels reflected in the nearer rim of the matte, two full pixels out.

    The mirror keeps neighbours neighbours, so that grain keeps its own texture. Rows may lie beyond the ribbon's own.
    """
    across, centre = scene.ribbon.across_P, scene.ribbon.centre
    clear = ~scene.hole_TS
    above = (centre - np.argmax(clear[centre::-1], axis=0))[column_P]
    below = (centre + np.argmax(clear[centre:], axis=0))[column_P]
    out = 2.0 / scene.ribbon.step
    rows = np.where(across - above < below - across, 2 * above - out - across, 2 * below + out - across)
    return np.asarray(rows, np.float32)


def fill_telea(rgb: Array, hole: Bools) -> Array:
    """Telea's fast marching (cv2.inpaint), for plates that are not 8-bit.

    OpenCV's Telea is right for 8 bits only, so it fills an 8-bit copy spread over the range of the plate round the
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
        cv2.inpaint(np.round(part).astype(np.uint8), mask, _TELEA_RADIUS, cv2.INPAINT_TELEA).astype(np.float32)
        for part in (coarse, fine)
    ]
    out: Array = ((filled[0] + filled[1] / 255.0) / 255.0 * (high - low) + low)[hole]
    return out


METHODS = ("auto", "two-bank", "learned", "telea")


def window_of(matte: NDArray[np.floating], curves: Sequence[Curve]) -> tuple[slice, slice] | None:
    """The matte's bounding box with a margin for the banks; None for an empty matte.

    Where that is most of the crop it is the whole crop, which need not be copied.
    """
    left, top, width, height = cv2.boundingRect((matte > _NOTHING).view(np.uint8))
    if not width:
        return None
    widest = max([2.0 * float(half) for _, half in curves], default=0.0)
    margin = int(_MARGIN * shrinkage(widest))
    rows, columns = (max(0, top - margin), top + height + margin), (max(0, left - margin), left + width + margin)
    if 2 * (rows[1] - rows[0]) * (columns[1] - columns[0]) > matte.size:
        rows, columns = (0, matte.shape[0]), (0, matte.shape[1])
    return slice(*rows), slice(*columns)
