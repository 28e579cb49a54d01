"""How much a seam shows, as a number per frame.

Dimensions: T rows across, S columns along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.ribbon import Curve, resample

Array = NDArray[Any]  # float32

_ALONG_SIGMA = 4.0  # px: what does not run on along the seam for about this far is texture, not seam
_ACROSS_SIGMA = 0.7  # px
_BAND = 8  # rows beside the seam whose texture it is compared with
_FLOOR = 0.02  # of the mean light, as in `cleanplate`
_QUIET = 0.002  # log light: bending that nobody sees, so that a perfectly flat bank does not divide by nothing


def score(rgb: NDArray[np.floating], curves: Sequence[Curve]) -> float:
    """How much seams show in a frame: 1 when no more than the texture beside them, larger the more they show.

    rgb: (H, W, 3) scene-linear; curves: (polyline (N, 2), half width) in the crop's own pixels, corner origin.
    It is the root mean square of the light's second difference along the curve's normal (a groove's ridge and a shade
    step both bend the light), within the seam over beside it, after smoothing along the curve. Exposure drops out.
    The length of each seam on the picture is its weight. Returns 1.0 when no seam lies on the picture.
    """
    tone = _tone(rgb)
    found = [_bending(tone, line, half) for line, half in curves if len(line) >= 2]
    parts = [part for part in found if part is not None]
    total = sum(length for _, _, length in parts)
    if total == 0:
        return 1.0
    seam = sum(inside * length for inside, _, length in parts) / total
    beside = sum(outside * length for _, outside, length in parts) / total
    return float(np.sqrt((seam + _QUIET**2) / (beside + _QUIET**2)))


def _tone(rgb: NDArray[np.floating]) -> Array:
    luma = np.nan_to_num(np.asarray(rgb, np.float32).mean(2), posinf=65504.0, neginf=0.0)
    luma = np.maximum(luma, 0.0)
    tone: Array = np.log(luma + np.float32(_FLOOR * max(float(luma.mean()), 1e-4)))
    return tone


def _bending(tone: Array, line: NDArray[np.floating], half: float) -> tuple[float, float, int] | None:
    """Mean square second difference within the seam and beside it, and the number of columns on the picture."""
    points = resample(line)
    reach = int(np.ceil(half)) + _BAND + 2
    profile_TS, inside_TS = _profiles(tone, points, reach)
    whole = inside_TS.all(0)
    if not whole.any():
        return None
    smooth = cv2.GaussianBlur(profile_TS[:, whole], (0, 0), sigmaX=_ALONG_SIGMA, sigmaY=_ACROSS_SIGMA)
    bend = (smooth[2:] - 2.0 * smooth[1:-1] + smooth[:-2]) ** 2
    across = np.abs(np.arange(1 - reach, reach))
    within = across <= half + 1.0
    return float(bend[within].mean()), float(np.median(bend[~within].mean(1))), int(whole.sum())


def _profiles(tone: Array, points: Array, reach: int) -> tuple[Array, NDArray[np.bool_]]:
    """Light (T, S) across the curve at each of its points (S, 2), and which samples lie on the picture."""
    tangents = np.gradient(cv2.GaussianBlur(points, (1, 13), 2.0, borderType=cv2.BORDER_REPLICATE), axis=0)
    tangents /= np.maximum(np.hypot(tangents[:, 0], tangents[:, 1]), 1e-6)[:, None]
    offsets = np.arange(-reach, reach + 1, dtype=np.float32)[:, None]
    x = (points[:, 0] - offsets * tangents[:, 1] - 0.5).astype(np.float32)
    y = (points[:, 1] + offsets * tangents[:, 0] - 0.5).astype(np.float32)
    height, width = tone.shape
    inside = (x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)
    return cv2.remap(tone, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), inside
