"""Held frames: exposures that occur more than once in a sequence, each time with different grain or compression.

Stop motion is shot on twos and threes. A repeat is the same exposure, so its landmarks must be identical. A face that
is held while the camera moves is no repeat: its plates differ.
Two pictures of the same window are compared after removing a brightness factor (flicker):

1. motion: in a 3 x 3 grid of regions, the part of the difference that a shift along the picture's gradients explains
(one Lucas-Kanade step), relative to what noise would explain. The latter is measured in the same pictures with
gradients from elsewhere, so grain size and compression need no setting;
2. change: in blocks of 16 pixels, the energy of the difference relative to the picture's contrast there; a new mouth or
a blink replaces contrast, grain does not. The noise level is the median over all blocks;
3. likeness: block means must correlate, so that a picture in which everything changed, a dissolve, or one after a blank
frame is not mistaken for noise.

Convention: pictures are grey, float32, display-like, 0..255.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop

Grey = npt.NDArray[np.float32]

# Under pure noise a region's motion statistic is distributed as Exp(1). The largest of nine exceeds 9 in 1 of 1,000
# pairs, their median 2.5 in 6 of 10,000. Real moves of 0.1 px in heavy grain give 11 and 3.9 or more.
MOVED = 9.0
DRIFTED = 2.5
LEAST_SHIFT_PX = 0.03  # a smaller shift does not matter, however significant
# Replaced contrast gives about 1 to 2; on rendered puppets repeats stay below 0.15, with coarse grain added below 0.4.
CHANGED = 0.45
# Correlation of block means, where grain averages out. Repeats of rendered puppets stay above 0.9999, the tests'
# coarsest grain above 0.98. If every block changed, the median block does not measure noise, but this does.
ALIKE = 0.97

_BLOCK = 16
_SMALL_BLOCK = 8
_GRID = 3
_LONGEST_SIDE = 320  # larger windows are averaged down: cheaper, and grain shrinks faster than motion
_NEAR = 0.08  # windows that differ by at most this share of their side count as equal
_TOE = 0.01  # limits the noise of shadows under the square root
_QUANTISATION = 0.01  # a difference with smaller variance is rounding
_FLICKER = 1.5  # contrast that differs by a larger factor is another picture, not another exposure of one
_F_MEDIAN = 0.7  # median of the F distribution with (2, about 250) degrees of freedom


class PictureChange(NamedTuple):
    """How two pictures differ: motion over noise (largest and median region), shift in pixels, and changed contrast."""

    moved: float
    drifted: float
    shift_px: float
    changed: float

    @property
    def is_held(self) -> bool:
        """Whether the difference is only noise and flicker."""
        is_moving = (self.moved > MOVED or self.drifted > DRIFTED) and self.shift_px > LEAST_SHIFT_PX
        return not is_moving and self.changed <= CHANGED


@dataclass(frozen=True, slots=True)
class _Window:
    """The window in which a hold's first exposure is compared, in whole plate pixels."""

    x: int
    y: int
    side: int
    step: int

    @classmethod
    def of(cls, crop: Crop) -> _Window:
        side = crop.side
        step = max(1, ceil(side / _LONGEST_SIDE))
        return cls(floor(crop.x - side / 2), floor(crop.y - side / 2), max(1, ceil(side)), step)

    def is_near(self, other: _Window) -> bool:
        """Whether the other window is close enough to reuse its picture."""
        moved = max(abs(self.x - other.x), abs(self.y - other.y), abs(self.side - other.side))
        return moved <= _NEAR * self.side


class HoldFinder:
    """Decides for each frame whether it repeats the previous exposure.

    Every frame is compared with the first one of the present hold, so that slow motion is detected. Stores two small
    pictures.
    """

    def __init__(self) -> None:
        self._window: _Window | None = None
        self._anchor: Grey | None = None
        self._latest: Grey | None = None

    def is_repeat(self, rgb: npt.NDArray[np.float32], origin: tuple[int, int]) -> bool:
        """Whether a frame (scene-linear, data window at `origin`) repeats the present exposure."""
        if self._window is None or self._anchor is None:
            return False
        self._latest = _grey_window(rgb, origin, self._window)
        return self._latest.shape == self._anchor.shape and compare(self._anchor, self._latest).is_held

    def start(self, rgb: npt.NDArray[np.float32], origin: tuple[int, int], crop: Crop) -> None:
        """Start a new exposure with the last tested frame, compared inside a crop."""
        window = _Window.of(crop)
        if self._window is not None and self._latest is not None and window.is_near(self._window):
            self._anchor, self._latest = self._latest, None
            return
        self._window, self._anchor, self._latest = window, _grey_window(rgb, origin, window), None


def compare(a: Grey, b: Grey) -> PictureChange:
    """Compare two grey pictures of one shape. Pictures below 24 pixels are too small and count as changed."""
    block = _BLOCK if min(a.shape) >= _GRID * 2 * _BLOCK else _SMALL_BLOCK
    height, width = (size - size % block for size in a.shape)
    if min(height, width) < _GRID * _SMALL_BLOCK:
        return PictureChange(0.0, 0.0, 0.0, float("inf"))
    a, b = a[:height, :width], b[:height, :width]
    gain = _gain(a, b)
    if not 1 / _FLICKER < gain < _FLICKER or _likeness(_means(a, block), _means(b, block)) < ALIKE:
        return PictureChange(0.0, 0.0, 0.0, float("inf"))
    difference = np.asarray((b - b.mean()) - gain * (a - a.mean()), dtype=np.float32)
    changed = _largest_change(a, b, difference, block)
    if changed > CHANGED:
        return PictureChange(0.0, 0.0, 0.0, changed)  # motion does not matter then
    return PictureChange(*_shift_statistic(np.asarray((a + b) / 2, dtype=np.float32), difference, block), changed)


def _grey_window(rgb: npt.NDArray[np.float32], origin: tuple[int, int], window: _Window) -> Grey:
    height, width = rgb.shape[:2]
    x0, y0 = max(window.x - origin[0], 0), max(window.y - origin[1], 0)
    x1 = min(window.x + window.side - origin[0], width)
    y1 = min(window.y + window.side - origin[1], height)
    if x1 - x0 < window.step or y1 - y0 < window.step:
        return np.zeros((0, 0), np.float32)
    region = np.asarray(rgb[y0:y1, x0:x1], dtype=np.float32)
    grey = cv2.cvtColor(region, cv2.COLOR_RGB2GRAY)
    size = (x1 - x0) // window.step, (y1 - y0) // window.step
    grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    grey = np.nan_to_num(grey, nan=0.0, posinf=4.0, neginf=0.0)
    return np.asarray(np.sqrt(np.clip(grey, 0.0, 4.0) + _TOE) * 255, dtype=np.float32)


def _gain(a: Grey, b: Grey) -> float:
    """Regression coefficient of `b` on `a`; 1 for pictures without contrast."""
    flat_a, flat_b = a - a.mean(), b - b.mean()
    energy = float(np.vdot(flat_a, flat_a))
    return float(np.vdot(flat_a, flat_b)) / energy if energy > _QUANTISATION * a.size else 1.0


def _likeness(a: Grey, b: Grey) -> float:
    """Correlation of two pictures: 1 if neither has contrast, 0 if only one has."""
    flat_a, flat_b = a - a.mean(), b - b.mean()
    energies = float(np.vdot(flat_a, flat_a)), float(np.vdot(flat_b, flat_b))
    if max(energies) <= _QUANTISATION * a.size:
        return 1.0
    return float(np.vdot(flat_a, flat_b)) / sqrt(max(energies[0] * energies[1], 1e-12))


def _means(picture: Grey, block: int) -> Grey:
    size = (picture.shape[1] // block, picture.shape[0] // block)
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.float32)


def _variances(picture: Grey, block: int) -> Grey:
    spread = _means(picture * picture, block) - _means(picture, block) ** 2
    return np.asarray(np.maximum(spread, 0.0), dtype=np.float32)


def _largest_change(a: Grey, b: Grey, difference: Grey, block: int) -> float:
    halved = [_means(picture, 2) for picture in (a - a.mean(), b - b.mean(), difference)]
    contrast_a, contrast_b, energy = (_variances(picture, block // 2) for picture in halved)
    noise = max(float(np.median(energy)), _QUANTISATION)
    return float((energy / (np.maximum(contrast_a, contrast_b) + 8 * noise)).max())


def _shift_statistic(picture: Grey, difference: Grey, block: int) -> tuple[float, float, float]:
    dx = np.asarray(cv2.Sobel(picture, cv2.CV_32F, 1, 0, scale=1 / 8), dtype=np.float32)
    dy = np.asarray(cv2.Sobel(picture, cv2.CV_32F, 0, 1, scale=1 / 8), dtype=np.float32)
    roll = block * (picture.shape[0] // block // 2)
    statistic, shift, _ = _shifts(difference, dx, dy, block)
    by_chance = _shifts(difference, np.roll(dx, roll, axis=0), np.roll(dy, roll, axis=0), block)[2]
    statistic = statistic / max(by_chance / _F_MEDIAN, 1.0)
    return float(statistic.max()), float(np.median(statistic)), float(shift.max())


def _shifts(difference: Grey, dx: Grey, dy: Grey, block: int) -> tuple[Grey, Grey, float]:
    """Least-squares shift of each region: its statistic, its length, and the median F value of single blocks.

    Blocks are weighted by the inverse of their noise, so that brightness-dependent grain does not hide quiet parts.
    """
    n = block * block
    mean_x, mean_y, mean_d = _means(dx, block), _means(dy, block), _means(difference, block)
    xx = (_means(dx * dx, block) - mean_x**2) * n
    xy = (_means(dx * dy, block) - mean_x * mean_y) * n
    yy = (_means(dy * dy, block) - mean_y**2) * n
    xd = (_means(dx * difference, block) - mean_x * mean_d) * n
    yd = (_means(dy * difference, block) - mean_y * mean_d) * n
    total = np.maximum(_means(difference * difference, block) - mean_d**2, 0.0)
    explained, _ = _solve_shift(xx, xy, yy, xd, yd)
    f_values = (explained / 2) / np.maximum((total * n - explained) / (n - 3), _QUANTISATION)
    weight = 1 / (total + np.median(total) / 2 + _QUANTISATION)
    regions = [_regions(weight * item) for item in (xx, xy, yy, xd, yd)]
    statistic, shift = _solve_shift(*regions)
    return np.asarray(statistic / 2), shift, float(np.median(f_values))


def _solve_shift(xx: Grey, xy: Grey, yy: Grey, xd: Grey, yd: Grey) -> tuple[Grey, Grey]:
    """Explained energy and length of the shift (u, v) that solves the 2 x 2 normal equations of each item."""
    determinant = xx * yy - xy * xy + 1e-6 * (xx + yy) ** 2 + 1e-9
    u = (yy * xd - xy * yd) / determinant
    v = (xx * yd - xy * xd) / determinant
    return np.asarray(np.maximum(u * xd + v * yd, 0.0)), np.asarray(np.hypot(u, v))


def _regions(blocks: Grey) -> Grey:
    rows = np.add.reduceat(blocks, [index * blocks.shape[0] // _GRID for index in range(_GRID)], axis=0)
    both = np.add.reduceat(rows, [index * blocks.shape[1] // _GRID for index in range(_GRID)], axis=1)
    return np.asarray(both, dtype=np.float32)
