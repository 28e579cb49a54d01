"""Fill holes smoothly from their rim, for matte without a curve."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_CELL = 8  # px: holes that touch the same or neighbouring cells of this size are filled together
MARGIN = 8  # px of rim around each box, plus half the box's smaller side


def fill(rgb: Array, hole: Bools, known: Bools) -> Array:
    """Replace `hole` by a smooth blend of the `known` pixels around it; other pixels stay unchanged.

    rgb: (H, W, C) float32 in any linear scale; hole, known: (H, W) bool; returns a copy of rgb.

    Pull-push over an image pyramid (Gortler et al., "The Lumigraph", 1996, section 3.4): known light is averaged down
    until no hole is left, then interpolated back up into the holes. HDR and negative values are preserved. A hole
    without known pixels nearby is left unchanged.
    """
    out = rgb.copy()
    for x, y, width, height in _boxes(hole):
        margin = MARGIN + min(width, height) // 2
        window = slice(max(0, y - margin), y + height + margin), slice(max(0, x - margin), x + width + margin)
        weight = known[window].astype(np.float32)[:, :, None]
        if weight.any():
            wanted = hole[window]
            out[window][wanted] = _pull_push(rgb[window] * weight, weight)[wanted]
    return out


def _boxes(hole: Bools) -> list[tuple[int, int, int, int]]:
    """Bounding boxes x, y, width, height of the holes, in whole cells; touching ones are merged."""
    height, width = hole.shape
    wide = np.pad(hole, ((0, -height % _CELL), (0, -width % _CELL)))
    touched = np.asarray(wide.reshape(wide.shape[0] // _CELL, _CELL, -1, _CELL).any((1, 3)))
    cells = touched.view(np.uint8)
    n_parts, _, boxes, _ = cv2.connectedComponentsWithStats(cells)
    found = boxes[1:n_parts, :4] * _CELL
    return [(int(x), int(y), min(int(w), width - x), min(int(h), height - y)) for x, y, w, h in found]


def _pull_push(weighted: Array, weight: Array) -> Array:
    """Light (h, w, 3) everywhere, from weighted light and its weight (h, w, 1)."""
    height, width = weight.shape[:2]
    if (weight > 0.99).all() or min(height, width) < 2:
        return np.asarray(weighted / np.maximum(weight, 1e-6), np.float32)
    small = (max(1, (width + 1) // 2), max(1, (height + 1) // 2))
    both = cv2.resize(cv2.GaussianBlur(np.concatenate([weighted, weight], 2), (3, 3), 0.8), small)
    gain = np.minimum(1.0, 2.0 * both[:, :, 3:]) / np.maximum(both[:, :, 3:], 1e-6)
    below = _pull_push(both[:, :, :3] * gain, both[:, :, 3:] * gain)
    up = cv2.resize(below, (width, height), interpolation=cv2.INTER_LINEAR)
    return weighted + (1.0 - weight) * up
