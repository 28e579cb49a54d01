"""Measure how visible a seam is, as a number per frame.

Dimensions: T rows across, S columns along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.ribbon import WideCurve, resample, sample_normals

Array = NDArray[Any]  # float32

_ALONG_SIGMA = 4.0  # px: shorter structures along the seam count as texture
_ACROSS_SIGMA = 0.7  # px
_BAND = 8  # rows beside the seam whose texture is the reference
_FLOOR = 0.02  # share of the mean light, as in `cleanplate`
FAINT, COVERED = 0.8, 0.5  # scores; clean renders without the seam score 0.9 to 2, plates 3 and more
_HIDDEN = 0.5  # coverage by what stands in front above which a seam and its banks cannot be measured
STATIONS = 16  # stretches of a seam whose contrast is compared over time
_QUIET = 0.002  # log light: invisible curvature, which avoids a division by zero on a perfectly flat bank


def score(rgb: NDArray[np.floating], curves: Sequence[WideCurve]) -> float:
    """The visibility of seams in a frame: 1 when no stronger than the texture beside them, larger the more they show.

    rgb: (H, W, 3) scene-linear; curves: (polyline (N, 2), half width) in the crop's own pixels, corner origin.

    The ratio of two root mean squares, within the seam and beside it, of the light's second difference along the
    curve's normal, after smoothing along the curve. Both a groove and a step in shade bend the light. Exposure drops
    out. Each seam is weighted by its length inside the picture. Returns 1.0 when no seam lies in the picture.
    """
    return look(rgb, curves).score


@dataclass(frozen=True, slots=True)
class Visibility:
    """The visibility of a frame's seams, and their contrast with the face beside them.

    score: see `score`. scores: one for each seam, in the order of the curves: the larger of its mean and its median
    along the seam. (Rods and hair bend the light more than a seam, but not along half of it.) contrast: log light
    inside the seam minus beside it, STATIONS values for each seam, from end to end; None where a station is outside the
    picture.
    """

    score: float
    scores: tuple[float, ...]
    contrast: tuple[tuple[float | None, ...], ...]


def look(rgb: NDArray[np.floating], curves: Sequence[WideCurve], held: Sequence[Array | None] = ()) -> Visibility:
    """Scores and contrast of a frame; `rgb` and `curves` as in `score`.

    held: for each curve the coverage (H, W) by what stands in front, or None; there a seam counts as outside the
    picture.
    """
    tone = tone_of(rgb)
    bands = [
        _Band.of(tone, line, half, front) if len(line) >= 2 else None
        for (line, half), front in zip(curves, held or [None] * len(curves))
    ]
    contrast = tuple(band.contrast() if band is not None else (None,) * STATIONS for band in bands)
    bending = [band.bending() if band is not None else None for band in bands]
    lasting = [band.bending(lasting=True) if band is not None else None for band in bands]
    scores = tuple(max(_score([each]), _score([last])) for each, last in zip(bending, lasting))
    return Visibility(_score(bending), scores, contrast)


def strength(score: float) -> float:
    """The opacity of a seam's paint: full, but lower where the seam is less visible than the texture beside it.

    A seam far less visible than the texture beside it is occluded or absent; paint there would only damage hair, a hand
    or a prop. The value falls from 1 at a score of FAINT to 0 at COVERED.
    """
    share = min(1.0, max(0.0, (score - COVERED) / (FAINT - COVERED)))
    return round(share * share * (3.0 - 2.0 * share), 4)


def flicker(frames: Sequence[Sequence[Sequence[float | None]]]) -> float | None:
    """How much the seams' contrast changes from one frame to the next: root mean square, log light.

    frames: the `contrast` of frames in order, each exposure once. Light that moves over the face changes seam and banks
    alike and drops out; what remains is a flickering seam or fill. None for fewer than two frames with seams.
    """
    steps = [
        (b - a) ** 2
        for first, second in pairwise(frames)
        for one, other in zip(first, second)
        for a, b in zip(one, other)
        if a is not None and b is not None
    ]
    return math.sqrt(sum(steps) / len(steps)) if steps else None


def _score(found: Sequence[tuple[float, float, int] | None]) -> float:
    parts = [part for part in found if part is not None]
    total = sum(length for _, _, length in parts)
    if total == 0:
        return 1.0
    seam = sum(inside * length for inside, _, length in parts) / total
    beside = sum(outside * length for _, outside, length in parts) / total
    return float(np.sqrt((seam + _QUIET**2) / (beside + _QUIET**2)))


def tone_of(rgb: NDArray[np.floating]) -> Array:
    """Log light (H, W) of scene-linear pixels (H, W, 3): the mean over colours plus a floor of the picture's mean."""
    r, g, b = np.moveaxis(np.asarray(rgb, np.float32), 2, 0)
    luma = np.nan_to_num((r + g + b) / np.float32(3.0), posinf=65504.0, neginf=0.0)
    luma = np.maximum(luma, 0.0)
    tone: Array = np.log(luma + np.float32(_FLOOR * max(float(luma.mean()), 1e-4)))
    return tone


@dataclass(frozen=True, slots=True)
class _Band:
    """The tone (T, S) across a seam at each of its points, and which columns are inside the picture."""

    profile_TS: Array
    whole_S: NDArray[np.bool_]
    half: float
    reach: int

    @classmethod
    def of(cls, tone: Array, line: NDArray[np.floating], half: float, front: Array | None) -> _Band:
        reach = int(np.ceil(half)) + _BAND + 2
        points = resample(line)
        profile_TS, inside_TS = profiles(tone, points, reach)
        whole_S = np.asarray(inside_TS.all(0))
        if front is not None:
            whole_S &= profiles(front, points, reach)[0].max(0) < _HIDDEN
        return cls(profile_TS, whole_S, half, reach)

    def bending(self, *, lasting: bool = False) -> tuple[float, float, int] | None:
        """Mean square second difference within the seam and beside it, and the number of columns inside the picture.

        lasting: of each row the median along the seam, not the mean.
        """
        if not self.whole_S.any():
            return None
        smooth = cv2.GaussianBlur(self.profile_TS[:, self.whole_S], (0, 0), sigmaX=_ALONG_SIGMA, sigmaY=_ACROSS_SIGMA)
        bend = (smooth[2:] - 2.0 * smooth[1:-1] + smooth[:-2]) ** 2
        within = np.abs(np.arange(1 - self.reach, self.reach)) <= self.half + 1.0
        rows = np.median(bend, axis=1) if lasting else bend.mean(1)
        return float(rows[within].mean()), float(np.median(rows[~within])), int(self.whole_S.sum())

    def contrast(self) -> tuple[float | None, ...]:
        """Tone within the seam minus beside it, in STATIONS equal stretches along the seam."""
        away = np.abs(np.arange(-self.reach, self.reach + 1))
        apart = self.profile_TS[away <= self.half].mean(0) - self.profile_TS[away > self.half + 2.0].mean(0)
        edges = np.linspace(0, len(apart), STATIONS + 1).astype(int)
        found = []
        for first, end in pairwise(edges):
            usable = self.whole_S[first:end]
            found.append(round(float(apart[first:end][usable].mean()), 4) if usable.any() else None)
        return tuple(found)


def profiles(tone: Array, points: Array, reach: int) -> tuple[Array, NDArray[np.bool_]]:
    """Light (T, S) across the curve at each of its points (S, 2), and which samples are inside the picture."""
    x, y = sample_normals(points, np.arange(-reach, reach + 1, dtype=np.float32))
    height, width = tone.shape
    inside = (x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)
    return cv2.remap(tone, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), inside
