"""Measure a seam's width over many keyed frames, independent of how sharp their lens was.

Pictures are straightened along every keyed seam. The relative change of light across the seam, beyond that of the skin
beside it, is summed. This sum is the seam's darkness times its width. Blur does not change it, as with the equivalent
width of a spectral line, whereas the visible width of a dark line in a small picture is that of the blur. The width of
a groove with its bevels grows with the root of the sum.

T positions along, D offsets across, in shares of the face.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.placement import places_along, read_at

Array = NDArray[Any]

FEWEST_PLACES = 120
# Half the width that contains 95 % of a seam's pixels is this times the root of its equivalent width: the median of 207
# seams of rendered characters (`python -m rotopaint_ai.stage seams`, seed 30000); deviation: a factor of 1.7.
_HALF_OF_ROOT = 0.272
_NARROWER = 0.85  # share of that width, because mattes are also widened by the curve's expected error
_LEAST, _MOST = 0.008, 0.05
_SPAN, _STEP = 0.05, 0.001  # range and spacing of the offsets, in shares of the face
_BANKS = (0.022, 0.04)  # offsets of the skin beside a seam, which predicts the light without the seam
_FLOOR = (0.015, 0.025)  # offsets beyond the seam; their change of light is the noise floor
_CORE = 0.02
_CLEAR = 0.01  # relative change of light below which a seam is invisible
_GAMMA = 2.2


def display_grey(picture: NDArray[np.uint8]) -> Array:
    """Display light (H, W), 0..1, of an 8-bit RGB picture."""
    light = cv2.cvtColor((picture.astype(np.float32) / 255) ** _GAMMA, cv2.COLOR_RGB2GRAY)
    return np.asarray(light ** (1 / _GAMMA))


def _offsets() -> Array:
    return np.linspace(-_SPAN, _SPAN, round(2 * _SPAN / _STEP) + 1)


def straight_strip(grey: Array, points: Array, face: float) -> Array | None:
    """The picture straightened along a curve (T, D); None for an unknown curve or one without length."""
    places = places_along(points, face / 160) if np.isfinite(points).all() else None
    return None if places is None else read_at(grey, places.points_at(_offsets() * face) - 0.5)


def strip_width(strip: Array) -> float | None:
    """Full width of a seam's matte as a share of the face, from strips (T, D) of many frames; None where none is
    visible."""
    excess = _light_excess(strip)
    if len(strip) < FEWEST_PLACES or excess.max() < _CLEAR:
        return None
    half = _HALF_OF_ROOT * np.sqrt(float(excess.sum()) * _STEP)
    return float(np.clip(2 * _NARROWER * half, _LEAST, _MOST).round(5))


def _light_excess(strip: Array) -> Array:
    """Relative change of light across a seam (T, D) from a straight line between its banks, beyond that beside the
    seam: (D,).

    Root of the median square over the positions; both sides of the seam are averaged.
    """
    away = np.abs(_offsets())
    line = np.stack([np.ones_like(away), _offsets()], axis=1)
    bank = (away > _BANKS[0]) & (away < _BANKS[1])
    line_fit, *_ = np.linalg.lstsq(line[bank], strip[:, bank].T, rcond=None)
    off = (strip - (line @ line_fit).T) / np.maximum(strip.mean(axis=1, keepdims=True), 1e-3)
    usual = np.sqrt(np.median(off**2, axis=0))
    usual = (usual + usual[::-1]) / 2
    floor = np.median(usual[(away > _FLOOR[0]) & (away < _FLOOR[1])])
    return np.asarray(np.clip(usual - floor, 0, None) * (away < _CORE))
