"""Errors of predicted landmarks.

F frames, L landmarks, C components x then y; `counted_FL` is False for hidden and unknown landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotopaint_ai.landmarks.track import Array, Flags


@dataclass(frozen=True, slots=True)
class LandmarkError:
    """Distances of counted landmarks in pixels: mean, median, 95th percentile, and how many were counted."""

    mean_px: float
    median_px: float
    p95_px: float
    n_counted: int


def distances_FL(predicted_FLC: Array, truth_FLC: Array) -> Array:
    """Euclidean distance of each landmark, pixels."""
    return np.asarray(np.linalg.norm(predicted_FLC - truth_FLC, axis=-1))


def landmark_error(predicted_FLC: Array, truth_FLC: Array, counted_FL: Flags) -> LandmarkError:
    """Distances over all counted landmarks of all frames; NaN where none is counted."""
    counted = distances_FL(predicted_FLC, truth_FLC)[counted_FL]
    if counted.size == 0:
        return LandmarkError(float("nan"), float("nan"), float("nan"), 0)
    return LandmarkError(
        float(counted.mean()), float(np.median(counted)), float(np.percentile(counted, 95)), int(counted.size)
    )


def nme(predicted_FLC: Array, truth_FLC: Array, counted_FL: Flags, normaliser_F: Array) -> float:
    """Mean over frames of a frame's mean distance over its normaliser (as a share, not in percent).

    Name the result by its normaliser: `nme_interocular`, `nme_face_size`. Frames without a counted landmark or with a
    normaliser of 0 or less are left out; NaN if none remains.
    """
    count = counted_FL.sum(axis=1)
    usable = (count > 0) & (normaliser_F > 0)
    if not usable.any():
        return float("nan")
    total = np.where(counted_FL, distances_FL(predicted_FLC, truth_FLC), 0.0).sum(axis=1)
    return float((total[usable] / count[usable] / normaliser_F[usable]).mean())


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
