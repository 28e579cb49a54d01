"""Measure the reach of a seam's groove and bevels on either side of its curve, by a small fitted network.

The network is fitted to rendered characters whose seam coverage is known (`scripts/fit_widths.py`). Its inputs are the
light across the curve at one position, and the usual light along the whole seam. Flipped inputs give the width of the
other side. Its unit is a step, a share of the face's size, so that a seam looks the same at video size and at 4K.

Dimensions: T rows across the curve, S positions along it, F features. Side 0 is left of the curve's direction (y down).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import visibility
from rotopaint_ai.seams.ribbon import resample, sample_normals
from rotopaint_ai.seams.width_table import NUMBERS
from rotopaint_ai.shapes.roto import Landmark, RotoShape

Array = NDArray[Any]  # float32

STEPS_PER_FACE = 320.0  # steps per longest side of the face, across and along
ROWS = 17  # steps sampled on either side
REACH = 14.0  # steps: the widest half of a seam in the fitted samples
N_FEATURES = 6 * ROWS
UNITS = 24
USUAL, COVERING = 0, 1  # the network's outputs: the median, and the 90 % quantile
LEAST_PLACES = 12
SHARE = 0.9  # share of a seam's positions that one width covers
SHOWS = 1.5  # visibility above which a seam counts as visible; clean renders score 0.9 to 2
_BESIDE_PX = 12  # more than the margin that `visibility` compares with
_FLOOR = 0.02  # share of the mean light, as in `visibility`
_ALONG_SIGMA = 4.0  # positions: shorter structures along the seam count as texture
_STEEPEST = 8.0  # slopes are clipped to this many times the usual slope
_LEAST_SLOPE = 1e-3  # log light per step


@dataclass(frozen=True, slots=True, eq=False)
class WidthTable:
    """Weights (n_in, n_out) and biases of the network's three layers, from features to USUAL and COVERING, in steps."""

    weights: tuple[Array, Array, Array]
    biases: tuple[Array, Array, Array]

    def __call__(self, features: Array) -> Array:
        """Outputs (S, 2) in steps for features (S, F)."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            features = np.maximum(features @ weight + bias, 0.0)
        return np.asarray(np.clip(features @ self.weights[-1] + self.biases[-1], 0.0, REACH), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class SeamReach:
    """The reach of a seam at each position of its curve, pixels: `usual` and `covering` (2, S), one row a side.

    `inside` (S,): positions whose surroundings lie in the picture; values at other positions are not valid.
    """

    usual: Array
    covering: Array
    inside: NDArray[np.bool_]

    @property
    def full_px(self) -> float | None:
        """One width about the curve that covers nine of ten positions; None where too few positions are valid."""
        if self.inside.sum() < LEAST_PLACES:
            return None
        return 2.0 * float(np.quantile(self.usual.max(0)[self.inside], SHARE))


def width_table(numbers: str) -> WidthTable:
    """A table from base-85 text of little-endian float16: weights (inputs x outputs) and biases of each layer in
    turn."""
    flat = np.frombuffer(base64.b85decode(numbers), "<f2").astype(np.float32)
    shapes = [shape for pair in pairwise((N_FEATURES, UNITS, UNITS, 2)) for shape in (pair, pair[1:])]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    a, b, c, d, e, f = (part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True))
    return WidthTable((a, c, e), (b, d, f))


@cache
def shipped_table() -> WidthTable:
    """The shipped table."""
    return width_table(NUMBERS)


def strip(grey: Array, line: NDArray[np.floating], step: float) -> tuple[Array, NDArray[np.bool_]] | None:
    """Square root of light (T, S) across a curve at a spacing of `step`, and the positions wholly in the picture (S,).

    grey: (H, W) square root of luminance; line (N, 2) in its pixels, corner origin. None for a curve with few
    positions.
    """
    points = resample(np.asarray(line) / step)
    if len(points) < LEAST_PLACES:
        return None
    x, y = (
        (v + 0.5) * np.float32(step) - np.float32(0.5)
        for v in sample_normals(points, np.arange(-ROWS, ROWS + 1, dtype=np.float32))
    )
    height, width = grey.shape
    inside = np.asarray(((x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)).all(0))
    return _sample(grey, x, y, step), inside


def _sample(grey: Array, x: Array, y: Array, step: float) -> Array:
    """Bilinear samples of a part of a picture, blurred where a step is more than a pixel."""
    height, width = grey.shape
    left, top = (int(np.clip(np.floor(v.min()) - 2, 0, n - 1)) for v, n in ((x, width), (y, height)))
    right, bottom = (int(np.clip(np.ceil(v.max()) + 3, 1, n)) for v, n in ((x, width), (y, height)))
    part: Array = grey[top : max(bottom, top + 1), left : max(right, left + 1)].astype(np.float32)
    if step > 1.3:
        part = cv2.GaussianBlur(part, (0, 0), 0.4 * step)
    out: Array = cv2.remap(part, x - left, y - top, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return out


def features(strip_TS: Array, inside_S: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Features (S, F) of the positions of a strip for the side below its middle row, and for the side above.

    Slopes of the log light across, relative to the usual slope along the seam; then the steepness of each row, median
    and mean.
    """
    light = strip_TS.astype(np.float32) ** 2
    tone = np.log(light + np.float32(_FLOOR * max(float(light.mean()), 1e-4)))
    smooth = cv2.GaussianBlur(tone, (0, 0), sigmaX=_ALONG_SIGMA, sigmaY=0.6, borderType=cv2.BORDER_REPLICATE)
    slope = np.diff(smooth, axis=0)
    steep = np.abs(slope[:, inside_S] if inside_S.any() else slope)
    middle, mean = np.median(steep, 1), steep.mean(1)
    scale = float(middle.mean()) + _LEAST_SLOPE
    rows = np.clip(slope / scale, -_STEEPEST, _STEEPEST).T
    usual = np.log(middle / scale + 0.05), np.log(mean / (float(mean.mean()) + _LEAST_SLOPE) + 0.05)
    return _join(rows, *usual), _join(-rows[:, ::-1], *(row[::-1] for row in usual))


def _join(rows: Array, middle: Array, mean: Array) -> Array:
    along = np.broadcast_to(np.concatenate([middle, mean]), (len(rows), 2 * rows.shape[1]))
    return np.ascontiguousarray(np.hstack([rows, along]), np.float32)


def face_px(shapes: Iterable[RotoShape], frame: int, landmarks: Sequence[Landmark | None] = ()) -> float:
    """Longest side of the bounding box of a face's landmarks, else of all its shapes at a frame; 0 without any."""
    points = [(mark.x, mark.y) for mark in landmarks if mark is not None]
    points = points or [(p.x, p.y) for shape in shapes if shape.keys for p in shape.at(frame)]
    return float(np.ptp(np.array(points), axis=0).max()) if points else 0.0


def measure_width(grey: Array, line: NDArray[np.floating], face_px: float) -> SeamReach | None:
    """The reach of a seam on either side of its curve; None for a curve that is too short to measure.

    grey: (H, W) square root of scene-linear luminance; line (N, 2) in its pixels, corner origin; face_px: the longest
    side of the face's bounding box, in the same pixels.
    """
    step = face_px / STEPS_PER_FACE
    found = strip(grey, line, step) if step > 0 else None
    if found is None:
        return None
    table = shipped_table()
    below, above = (table(rows) * np.float32(step) for rows in features(*found))
    both = np.stack([above, below])
    return SeamReach(both[..., USUAL], both[..., COVERING], found[1])


def shape_width(rgb: NDArray[np.floating], line: NDArray[np.floating], face_px: float) -> float | None:
    """One width for a whole seam, as `SeamReach.full_px`; None where no seam is visible.

    rgb: (H, W, 3) scene-linear; line (N, 2) in the crop's own pixels, corner origin.
    """
    found = measure_width(root_light(rgb), line, face_px)
    full = None if found is None else found.full_px
    return None if full is None or visibility.score(rgb, [(line, full / 2)]) < SHOWS else full


def visible_widths(grey: Array, line: NDArray[np.floating], face_px: float) -> Array | None:
    """Full widths (S,) along a seam, pixels; None where no seam is visible. Arguments as in `measure_width`."""
    found = measure_width(grey, line, face_px)
    if found is None or found.inside.sum() < LEAST_PLACES:
        return None
    full = found.usual.sum(0)[found.inside]
    near, corner = _around(grey, line, float(full.max()) + _BESIDE_PX)
    light = np.repeat((near * near)[..., None], 3, axis=2)
    return full if visibility.score(light, [(line - corner, float(np.median(full)) / 2)]) >= SHOWS else None


def _around(grey: Array, line: NDArray[np.floating], by_px: float) -> tuple[Array, NDArray[np.intp]]:
    """The part of a picture around a line, and its corner (x, y)."""
    low = np.maximum(np.floor(line.min(0) - by_px), 0).astype(np.intp)
    high = np.ceil(line.max(0) + by_px).astype(np.intp)
    return grey[low[1] : high[1], low[0] : high[0]], low


def root_light(rgb: NDArray[np.floating]) -> Array:
    """Square root (H, W) of the luminance of scene-linear pixels; negative luminance counts as 0."""
    luma = cv2.cvtColor(np.ascontiguousarray(rgb, np.float32), cv2.COLOR_RGB2GRAY)
    return np.asarray(np.sqrt(np.maximum(np.nan_to_num(luma, posinf=65504.0), 0.0)), np.float32)
