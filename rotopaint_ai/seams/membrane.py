"""A smooth fill of any hole from its rim, for matte that no curve runs through."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool


def fill(rgb: Array, hole: Bools, *, known: Bools) -> Array:
    """Replace `hole` by a smooth blend of `known` pixels around it; other pixels come back as they are.

    Pull and push over an image pyramid (Gortler et al., "The Lumigraph", 1996, section 3.4): known light is averaged
    down until no hole is left, then interpolated back up into the holes. HDR and negative values pass through.
    Returns `rgb` unchanged where nothing is known.
    """
    if not known.any():
        return rgb.copy()
    weight = known.astype(np.float32)[:, :, None]
    filled = _pull_push(rgb * weight, weight)
    out = rgb.copy()
    out[hole] = filled[hole]
    return out


def _pull_push(weighted: Array, weight: Array) -> Array:
    """Light (h, w, 3) everywhere, from light times weight and weight (h, w, 1)."""
    height, width = weight.shape[:2]
    if (weight > 0.99).all() or min(height, width) < 2:
        return np.asarray(weighted / np.maximum(weight, 1e-6), np.float32)
    small = (max(1, (width + 1) // 2), max(1, (height + 1) // 2))
    both = cv2.resize(cv2.GaussianBlur(np.concatenate([weighted, weight], 2), (3, 3), 0.8), small)
    gain = np.minimum(1.0, 2.0 * both[:, :, 3:]) / np.maximum(both[:, :, 3:], 1e-6)
    below = _pull_push(both[:, :, :3] * gain, both[:, :, 3:] * gain)
    up = cv2.resize(below, (width, height), interpolation=cv2.INTER_LINEAR)
    return weighted + (1.0 - weight) * up
