"""Measures of landmarks: size of the face, noise over time, rank correlation of errors.

F frames, L landmarks, C components x then y.
"""

from __future__ import annotations

import numpy as np

from rotopaint_ai.landmarks.track import Array


def face_size_F(points_FLC: Array) -> Array:
    """Longest side of the landmarks' bounding box in each frame: the product's `face size`."""
    return np.asarray((points_FLC.max(axis=1) - points_FLC.min(axis=1)).max(axis=1))


def jitter_px(points_FLC: Array) -> float:
    """Root mean square of the second difference over time, over sqrt(6): the noise of a still or evenly moving point.

    Independent noise of standard deviation s in each component gives a second difference of variance 6 s^2.
    """
    if len(points_FLC) < 3:
        return 0.0
    second = points_FLC[2:] - 2 * points_FLC[1:-1] + points_FLC[:-2]
    return float(np.sqrt((second**2).mean() / 6))


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rank correlation of two equally long rows (ties share their mean rank); NaN for fewer than 2."""
    if len(a) < 2:
        return float("nan")
    rank_a, rank_b = (_mean_ranks(row) - (len(row) - 1) / 2 for row in (a, b))
    spread = float(np.sqrt((rank_a**2).sum() * (rank_b**2).sum()))
    return float((rank_a * rank_b).sum() / spread) if spread > 0 else float("nan")


def _mean_ranks(row: Array) -> Array:
    _, inverse, counts = np.unique(row, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    return np.asarray((last - (counts - 1) / 2)[inverse])
