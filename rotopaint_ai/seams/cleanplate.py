"""Clean plates: the seam inside a matte painted away.

Convention: pixels are float32 scene-linear and may lie below 0 or above 1; curves are in the crop's own pixels
(corner origin, centres at +0.5). Only pixels whose matte is above 0 change. The same input gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import UsageError
from rotopaint_ai.seams import grain, light, membrane
from rotopaint_ai.seams.light_table import TABLE
from rotopaint_ai.seams.ribbon import Curve, Ribbon, straighten

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

ROWS_WIDE = 20.0  # a matte wider than this many pixels is worked on in a shrunk copy, where it is this wide
_MARGIN = 16  # pixels of plate kept round the matte, in shrunk pixels
_FLOOR = 0.02  # of the plate's mean: the light below which log light turns into plain light
_TELEA_RADIUS = 3.0


def fill(
    rgb: NDArray[np.floating], matte: NDArray[np.floating], curves: Sequence[Curve], method: str = "auto"
) -> Array:
    """Paint the seam away inside a matte.

    rgb: (H, W, 3) scene-linear. matte: (H, W), 0..1; a soft matte mixes the paint with the plate. curves: one
    (polyline (N, 2), half width) per seam, through the middle of the matte; matte without a curve nearby is filled
    smoothly from its rim. method: a name of METHODS, or `auto` (two-bank).
    Returns: a new (H, W, 3) float32; where the matte is 0, its pixels are those of `rgb`, bit for bit.
    Raises: UsageError for a method that is not available, and for sizes that do not fit together.
    """
    paint = METHODS.get("two-bank" if method == "auto" else method)
    if paint is None:
        raise UsageError(f"clean plate method '{method}': not available; choose one of auto, {', '.join(METHODS)}")
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.shape[:2] != matte.shape:
        raise UsageError(f"clean plate: rgb {rgb.shape} and matte {matte.shape}; wanted (H, W, 3) and (H, W)")
    out = np.array(rgb, np.float32)
    window = _window(matte, curves)
    if window is None:
        return out
    rows, columns = window
    part = np.nan_to_num(out[window], nan=0.0, posinf=65504.0, neginf=-65504.0)
    cover = np.asarray(matte[window], np.float32)
    hole = cover > 0
    shifted = [(np.asarray(line) - (columns.start, rows.start), half) for line, half in curves]
    painted = paint(part, hole, shifted)
    share = np.minimum(cover[hole], 1.0)[:, None]
    out[window][hole] = part[hole] + share * (painted[hole] - part[hole])
    return out


def fill_two_bank(rgb: Array, hole: Bools, curves: Sequence[Curve]) -> Array:
    """Seam light taken off where the plate still shows the face, both banks joined where it does not.

    Along each curve the light of groove and bevels is told from the face's own (`light`); what is left of the face
    is kept, the rest is joined from bank to bank, and grain is carried over from the nearest clean band (`grain`).
    """
    scene = lay(rgb, hole, curves)
    out = rgb.copy()
    owned = np.zeros_like(hole)
    if scene is not None:
        there = scene.ribbon.rows_P, scene.ribbon.columns_P
        answer = light.relight(scene.light_TSC, scene.hole_TS, scene.ribbon.own_TS, TABLE)
        base_keep = scene.ribbon.read(np.concatenate([answer.base_TSC, answer.keep_TS[:, :, None]], 2))
        base, keep = base_keep[:, :3], base_keep[:, 3:]
        here = rgb[there]
        corrected = base + keep * np.log(np.maximum(here, 0.0) + np.float32(scene.floor))
        corrected += (1.0 - keep) * grain.carry(rgb, hole, there, scene.floor)
        out[there] = np.exp(corrected) - np.float32(scene.floor) + keep * np.minimum(here, 0.0)
        owned[there] = True
    left = hole & ~owned
    return membrane.fill(out, left, known=~hole) if left.any() else out


@dataclass(frozen=True, slots=True)
class Straightened:
    """The seams of a crop on one ribbon: its log light (T, S, 3), and where it lies in the matte or off the crop."""

    ribbon: Ribbon
    light_TSC: Array
    hole_TS: Bools
    floor: float
    size: tuple[int, int]


def lay(rgb: Array, hole: Bools, curves: Sequence[Curve]) -> Straightened | None:
    """Straighten a crop along its seams; None where no matte pixel belongs to a curve."""
    floor = _FLOOR * max(float((rgb if hole.all() else rgb[~hole]).mean()), 1e-4)
    step = max(1.0, _width(hole) / ROWS_WIDE)
    size = (max(1, round(rgb.shape[0] / step)), max(1, round(rgb.shape[1] / step)))
    ribbon = straighten(hole, curves, step=step, small_size=size)
    if ribbon is None:
        return None
    light_TSC = np.log(np.maximum(ribbon.sample(_shrunk(rgb, size)), 0.0) + np.float32(floor))
    hole_TS = (ribbon.sample(_shrunk(hole.astype(np.float32), size)) > 0.02) | ~ribbon.inside_TS
    return Straightened(ribbon, light_TSC, hole_TS, floor, size)


def _shrunk(image: Array, size: tuple[int, int]) -> Array:
    if image.shape[:2] == size:
        return image
    out: Array = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
    return out


def fill_telea(rgb: Array, hole: Bools, curves: Sequence[Curve]) -> Array:
    """Telea's fast marching (cv2.inpaint), for plates that are not 8-bit.

    OpenCV's Telea is right for 8 bits only, so it fills an 8-bit copy spread over the range of the plate round the
    hole, and the part below its steps is filled as a second 8-bit copy: nothing is clipped, and the error is below
    1/50000 of that range.
    """
    del curves
    near = cv2.dilate(hole.astype(np.uint8), np.ones((17, 17), np.uint8)) > 0
    rim = rgb[near & ~hole]
    if not len(rim):
        return rgb.copy()
    low, high = float(rim.min()), float(rim.max())
    spread = np.clip((rgb - low) / max(high - low, 1e-8), 0.0, 1.0) * 255.0
    coarse = np.floor(spread)
    fine = (spread - coarse) * 255.0
    mask = hole.astype(np.uint8)
    filled = [
        cv2.inpaint(np.round(part).astype(np.uint8), mask, _TELEA_RADIUS, cv2.INPAINT_TELEA).astype(np.float32)
        for part in (coarse, fine)
    ]
    out = rgb.copy()
    out[hole] = ((filled[0] + filled[1] / 255.0) / 255.0 * (high - low) + low)[hole]
    return out


Paint = Callable[[Array, Bools, Sequence[Curve]], Array]
METHODS: Mapping[str, Paint] = MappingProxyType({"two-bank": fill_two_bank, "telea": fill_telea})


def _window(matte: NDArray[np.floating], curves: Sequence[Curve]) -> tuple[slice, slice] | None:
    """The matte's bounding box with a margin for the banks; None for an empty matte."""
    down, across = np.flatnonzero((matte > 0).any(1)), np.flatnonzero((matte > 0).any(0))
    if not len(down):
        return None
    widest = max([2.0 * float(half) for _, half in curves], default=0.0)
    margin = int(_MARGIN * max(1.0, 1.5 * widest / ROWS_WIDE))
    return (
        slice(max(0, int(down[0]) - margin), int(down[-1]) + 1 + margin),
        slice(max(0, int(across[0]) - margin), int(across[-1]) + 1 + margin),
    )


def _width(hole: Bools) -> float:
    """Width of the matte across its curves, about: twice the distance of its inmost pixels from its rim."""
    padded = np.pad(hole, 1).astype(np.uint8)
    depth = cv2.distanceTransform(padded, cv2.DIST_L2, 3)[1:-1, 1:-1]
    ridge = depth[hole]
    nearly_last = int(0.98 * (len(ridge) - 1))
    return 2.0 * float(np.partition(ridge, nearly_last)[nearly_last])
