"""Paint a seam from its two banks, in the ribbon that straightens it.

Pixels are float32 scene-linear. Curves are in the crop's own pixels (corner origin, centres at +0.5).

Dimensions: H, W rows and columns of a crop; h, w of the shrunk one; T rows across, S columns along; P matte pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import banks, harmonic_fill, learned_fill
from rotopaint_ai.seams import grain as grains
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.ribbon import Ribbon, WideCurve, build_ribbon, interpolate

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_FLOOR = 0.02  # share of the plate's mean light, below which log light becomes linear
_SOME = 4  # every fourth row of a crop is read to measure its mean light
_TOUCH = 5  # of 255: a sample with less matte coverage counts as clear
_NO_DETAIL, _ALL_DETAIL = 0.4, 0.8  # shares of the plate up to which none and from which all of its detail is kept


def paint_auto(
    rgb: Array, hole: Bools, curves: Sequence[WideCurve], model: LearnedFill | None
) -> tuple[Array, Mapping[str, float]]:
    """Colours of the hole's pixels by the network, or from both banks where there is none; a
    `cleanplate.FillFunction`."""
    if model is None:
        return paint_two_bank(rgb, hole, curves, None)
    return _paint(rgb, hole, curves, model), {"learned": 1.0}


def paint_two_bank(
    rgb: Array, hole: Bools, curves: Sequence[WideCurve], model: LearnedFill | None
) -> tuple[Array, Mapping[str, float]]:
    """Colours of the hole's pixels from both banks, joined across what looks like a valley; a
    `cleanplate.FillFunction`."""
    del model
    return _paint(rgb, hole, curves, None), {"two-bank": 1.0}


def _paint(rgb: Array, hole: Bools, curves: Sequence[WideCurve], model: LearnedFill | None) -> Array:
    """Remove the seam's light where the plate still shows the face; interpolate between the banks elsewhere.

    Returns: colours (P, 3) of the hole's pixels, row by row.

    Along each curve, `learned_fill` separates the light of groove and bevels from the face's own light. The face's part
    is kept, the rest is blended from bank to bank. `grain` copies grain from the nearest clean strip.
    """
    at = np.flatnonzero(hole)
    scene = straighten(rgb, hole, curves)
    if scene is None:
        return np.asarray(np.take(harmonic_fill.fill(rgb, hole, ~hole).reshape(-1, 3), at, axis=0))
    fields, mirror = _fields(scene, base_and_keep(scene, model))
    y, x = np.divmod(at.astype(np.int32), np.int32(hole.shape[1]))
    height, width = scene.ribbon.size
    down = (y + np.float32(0.5)) * np.float32(height / hole.shape[0]) - np.float32(0.5)
    across = (x + np.float32(0.5)) * np.float32(width / hole.shape[1]) - np.float32(0.5)
    light_and_keep = cv2.transpose(interpolate(fields, across, down))
    keep, floor = light_and_keep[3], np.float32(scene.floor)
    here = cv2.transpose(grains.texels(grains.pixels(rgb).take(at)))
    under = np.minimum(here, 0.0) if here.min() < 0.0 else None
    light_CP = np.log(np.maximum(here, 0.0, out=here) + floor)
    light_CP *= keep
    light_CP += light_and_keep[:3]
    away_x, away_y = cv2.transpose(interpolate(mirror, across, down)) + np.float32(0.5)
    grains.add(rgb, hole, light_CP, x + away_x, y + away_y, keep, floor)
    out: Array = np.exp(light_CP, out=light_CP)
    out -= floor
    if under is not None:
        out += keep * under
    return np.asarray(cv2.transpose(out))


def base_and_keep(scene: StraightenedSeams, model: LearnedFill | None) -> Array:
    """Base and keep of the ribbon's samples (T, S, 4): a base per colour, and the share of the own light that is kept.

    Filled log light = base + keep * own log light. Outside the matte base is 0 and keep 1.
    """
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    if model is not None:
        return learned_fill.repaint(known, scene.ribbon, scene.hole_TS, scene.floor, model)
    own_TS1 = scene.ribbon.own_TS[..., None]
    return np.concatenate([known.face.transpose(0, 2, 1) * own_TS1, (~own_TS1).astype(np.float32)], 2)


def _fields(scene: StraightenedSeams, painted_TSC: Array) -> tuple[Array, Array]:
    """Base and keep (h, w, 4) in the shrunk crop, and the offset (h, w, 2) to each pixel's grain source.

    Zero outside the matte. An offset points to the pixel whose grain is copied, in pixels of the full crop.
    """
    ribbon = scene.ribbon
    fields = np.zeros((*ribbon.size, 4), np.float32)
    fields.reshape(-1, 4)[ribbon.at_P] = _without_faint_detail(ribbon.read(painted_TSC), scene)
    if len(ribbon.left_P):
        fields.reshape(-1, 4)[ribbon.left_P, :3] = _smooth_light(scene)
    column = np.rint(ribbon.along_P).astype(np.intp)
    up = _mirror_rows(scene, column) - ribbon.across_P
    steps = np.stack([ribbon.map_x_TS[1] - ribbon.map_x_TS[0], ribbon.map_y_TS[1] - ribbon.map_y_TS[0]], 1)
    mirror = np.zeros((*ribbon.size, 2), np.float32)
    mirror.reshape(-1, 2)[ribbon.at_P] = np.take(steps, column, axis=0) * (up * np.float32(ribbon.step))[:, None]
    return fields, mirror


def _without_faint_detail(painted_PC: Array, scene: StraightenedSeams) -> Array:
    """Base and keep (P, 4) of the shrunk crop's matte pixels; where keep is small, the plate's light moves to the base.

    The paint is the same in the shrunk crop. The full crop is sharper: there a small share of the plate would show the
    core of a hairline, which the shrunk one does not have.
    """
    keep = painted_PC[:, 3:]
    kept = keep * np.clip((keep - _NO_DETAIL) / (_ALL_DETAIL - _NO_DETAIL), 0.0, 1.0)
    own = np.log(np.maximum(scene.small[..., :3].reshape(-1, 3)[scene.ribbon.at_P], 0.0) + np.float32(scene.floor))
    return np.concatenate([painted_PC[:, :3] + (keep - kept) * own, kept], 1)


def _smooth_light(scene: StraightenedSeams) -> Array:
    """Log light (P, 3) of the shrunk crop's matte pixels without a curve nearby, filled from their rim."""
    ribbon = scene.ribbon
    y, x = np.divmod(ribbon.left_P, ribbon.size[1])
    top, left, end, right = (int(v) for v in (y.min(), x.min(), y.max() + 1, x.max() + 1))
    margin = harmonic_fill.MARGIN + min(end - top, right - left) // 2
    window = slice(max(0, top - margin), end + margin), slice(max(0, left - margin), right + margin)
    hole = np.zeros(scene.small[window].shape[:2], bool)
    y, x = y - window[0].start, x - window[1].start
    hole[y, x] = True
    light = np.ascontiguousarray(scene.small[window][..., :3])
    smooth = harmonic_fill.fill(light, hole, ribbon.cover[window] == 0)[y, x]
    return np.asarray(np.log(np.maximum(smooth, 0.0) + np.float32(scene.floor)))


@dataclass(frozen=True, slots=True)
class StraightenedSeams:
    """The seams of a crop in one ribbon: log light (T, S, 3), and which samples lie in the matte or outside the
    crop."""

    ribbon: Ribbon
    light_TSC: Array
    hole_TS: Bools
    floor: float
    small: Array


def straighten(rgb: Array, hole: Bools, curves: Sequence[WideCurve]) -> StraightenedSeams | None:
    """Straighten a crop (H, W, 3) along its seams; None where no matte pixel belongs to a curve."""
    ribbon = build_ribbon(hole, curves)
    if ribbon is None:
        return None
    small = cv2.cvtColor(ribbon.shrink(rgb), cv2.COLOR_RGB2RGBA)  # OpenCV samples four channels faster than three
    some, clear = small[::_SOME], (ribbon.cover[::_SOME] == 0).view(np.uint8)
    floor = _FLOOR * max(float(np.mean(cv2.mean(some, clear if clear.any() else None)[:3])), 1e-4)
    light_TSC = ribbon.sample(small)
    np.maximum(light_TSC, 0.0, out=light_TSC)
    light_TSC += np.float32(floor)
    np.log(light_TSC, out=light_TSC)
    hole_TS = (ribbon.sample(ribbon.cover) > _TOUCH) | ~ribbon.inside_TS
    return StraightenedSeams(ribbon, light_TSC[..., :3], hole_TS, floor, small)


def _mirror_rows(scene: StraightenedSeams, column_P: Array) -> Array:
    """Fractional rows of the ribbon from which matte pixels copy grain: mirrored at the nearer edge of the matte, and
    two pixels further out.

    Neighbours stay neighbours, so the grain keeps its texture. Rows may lie outside the ribbon.
    """
    across, centre = scene.ribbon.across_P, scene.ribbon.centre
    clear = ~scene.hole_TS
    above = (centre - np.argmax(clear[centre::-1], axis=0))[column_P]
    below = (centre + np.argmax(clear[centre:], axis=0))[column_P]
    out = 2.0 / scene.ribbon.step
    rows = np.where(across - above < below - across, 2 * above - out - across, 2 * below + out - across)
    return np.asarray(rows, np.float32)
