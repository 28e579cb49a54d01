"""Propagate a correction to other frames when the models' errors depend on the pose.

Trained models err in poses that training did not include: the error is the same wherever the face around the shape
looks the same, and unrelated to the error in other poses. So a correction spreads, in face space, to frames whose
landmarks near the shape look similar (a Gaussian process on the errors, Rasmussen and Williams, "Gaussian Processes for
Machine Learning", eq. 2.25). Frames unlike every corrected one do not change.
Convention: H holds, N of them corrected (rows `at_N` of H), L landmarks, P control points of a shape. Points are
complex numbers x + iy in plate space; a spline is its 3 P points.
"""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes.facespace import TOO_FEW, Array, Complex, FaceSpace, Rows

# Fitted to corrections of rendered shots, and of validation shots of two puppets of another renderer. Shares of the
# models' squared error.
NEAR = 0.7  # correlation of frames whose face looks the same around the shape
SAME = 0.05  # correlation of all frames of a shot
OWN = (0.05, 0.4)  # variance of a single frame alone: small or considerable
PRIOR = (0.3, 0.1)  # prior probability of each of these
ALIKE = 0.02  # share of the face's size: landmarks within this distance count as similar
ROUND = 0.6  # share of the face's size: landmarks within this distance of the shape are compared

_EXACT = 1e-4  # share of the error that a human key may be off


def likeness(space: FaceSpace, rows_H: Rows, splines: Complex, at_N: Rows) -> Array:
    """Similarity (H, N), 0 to 1, of the face around a shape between holds and corrected holds.

    It comes from the residual of the best similarity transform between two frames' landmarks, weighted by their
    distance to the shape's `splines` (H, 3 P); landmarks hidden in either frame are left out.
    """
    points = space.points_FL[rows_H]
    seen = ~np.isnan(points)
    size_H: Array = np.abs(space.factor_F[rows_H])
    z = np.where(seen, points - np.nanmean(points, axis=1, keepdims=True), 0)
    a, both = z[at_N], seen[at_N].astype(float)
    weight = seen * _weights_by_distance(points, splines, size_H)
    total = np.maximum(weight @ both.T, 1e-9)  # sums over the landmarks that are visible in both frames
    sum_a, sum_b = weight @ a.T, (weight * z) @ both.T
    var_a = weight @ (abs(a) ** 2).T - abs(sum_a) ** 2 / total
    var_b = (weight * abs(z) ** 2) @ both.T - abs(sum_b) ** 2 / total
    product = (weight * z.conj()) @ a.T - sum_b.conj() * sum_a / total
    both_vary = np.sqrt(np.maximum(var_a, 1e-9) * np.maximum(var_b, 1e-9))
    apart = np.maximum(both_vary - abs(product) ** 2 / both_vary, 0) / total / np.outer(size_H, size_H[at_N])
    is_known = seen @ both.T >= TOO_FEW
    alike = np.where(is_known, np.exp(-apart / (2 * ALIKE**2)), 0.0)
    alike[at_N, np.arange(len(at_N))] = 1.0
    return np.asarray(alike)


def kernel(alike: Array, turn_H: Complex, scale_H: Array, at_N: Rows) -> Complex:
    """Covariance (H, N) of the models' errors, rotated and scaled with the head, without the variance of single
    holds."""
    sized = scale_H * turn_H
    return np.asarray((SAME + NEAR * alike) * np.outer(sized, sized[at_N].conj()))


def surprise(covariance_NN: Complex, errors: Complex) -> float:
    """Negative log likelihood per point of errors (N, 3 P) under a covariance, up to its unknown scale.

    The scale is the most likely one, so a single hold is equally likely under every covariance.
    """
    n = len(errors)
    inside = np.real((errors.conj() * np.linalg.solve(covariance_NN, errors)).sum(axis=0)).mean()
    return float(n * np.log(max(inside / n, 1e-12)) + np.linalg.slogdet(covariance_NN)[1])


def with_own(covariance_NN: Complex, own_N: Array) -> Complex:
    """A covariance of corrected holds plus their own variances, positive definite for any similarity."""
    values, vectors = np.linalg.eigh(covariance_NN)
    sound = (vectors * np.maximum(values, 0)) @ vectors.conj().T
    return np.asarray(sound + np.diag(own_N + _EXACT * own_N.mean()))


def _weights_by_distance(points: Complex, splines: Complex, size_H: Array) -> Array:
    """Weight of each landmark (L,) for a shape, by its mean distance from the shape's points."""
    at = splines[:, : splines.shape[1] // 3]
    apart = abs(points[:, :, None] - at[:, None]).min(axis=2) / size_H[:, None]
    known = ~np.isnan(apart)
    usual = np.where(known, apart, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(np.where(known.any(axis=0), np.exp(-(usual**2) / (2 * ROUND**2)), 0.0))
