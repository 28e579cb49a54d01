"""A shape's control points and width from landmarks, in closed form.

A similarity aligns the landmarks to their mean over the samples. In that frame a control point is its mean position,
plus the motion of nearby landmarks, plus a ridge regression of the remainder; tangents are regressed the same way. The
ridge treats each landmark's expected error as noise on its input, so inaccurate landmarks get smaller weights.
Letters: n samples, M landmarks and P control points of the shape. Similarities are complex factors: z -> r (z - c)
rotates, scales and translates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.revectorise.mean_face import as_complex, as_plain
from rotopaint_ai.similarity import fit_similarity

Array = npt.NDArray[np.float64]

_EXACT = 3e-4  # share of the face; keeps the ridge solvable when landmarks are exact
_NEAR = 0.06  # share of a shape's size within which landmarks move a control point along


@dataclass(frozen=True, slots=True)
class ShapeFit:
    """One shape's regression in the aligned frame of its landmarks (their root mean square radius is 1)."""

    rows: tuple[int, ...]  # of the sheet's landmarks
    mean: Array  # [M, 2] aligned landmarks
    slope: Array  # [2 M, 6 P] control points from landmark offsets
    offset: Array  # [6 P] control points of the mean landmarks
    width_slope: Array  # [2 M] logarithm of width from landmark offsets
    width_offset: float  # logarithm of width of the mean landmarks; -inf if the shape has no width


def fit_shape(
    rows: Sequence[int], landmarks: Array, points: Array, width: Array, noise_M: Array, sides: Array
) -> ShapeFit:
    """Fit a shape's control points [n, P, 6] and widths [n] to its landmarks [n, M, 2], all in pixels of the samples.

    `rows`: its landmarks in the sheet. `width`: NaN where unknown. `noise_M`: standard deviation per axis of each
    landmark's error, as a share of the face, whose longest side in pixels is `sides` [n].
    """
    mean = _procrustes_mean(landmarks)
    centre, turn = _alignment(landmarks, mean)
    offsets = _to_aligned(landmarks, centre, turn) - mean
    aligned = _points_to_aligned(points, centre, turn)
    n = len(points)
    # noise in aligned units: a share of the face, whose size is known in pixels and in aligned units
    noise = np.repeat(np.maximum(noise_M, _EXACT) * np.median(sides * np.abs(turn)), 2)
    x = offsets.reshape(n, -1)
    carried = _carry(mean, aligned[..., :2].mean(axis=0))
    y = aligned.reshape(n, -1)
    slope, offset = _ridge(x, y - x @ carried, noise)
    known = np.isfinite(width) & (width > 0)
    width_slope, width_offset = np.zeros(x.shape[1]), -np.inf
    if known.any():
        logs = np.log(width[known] * np.abs(turn[known]))[:, None]
        found, level = _ridge(x[known], logs, noise * 4)  # widths depend on the pose only weakly
        width_slope, width_offset = found[:, 0], float(level[0])
    return ShapeFit(tuple(rows), mean, slope + carried, offset, width_slope, width_offset)


def _ridge(x: Array, y: Array, noise: Array) -> tuple[Array, Array]:
    """Least squares of y on noisy x: a ridge whose penalty is the noise covariance. Returns slope and offset."""
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    x0, y0 = x - x_mean, y - y_mean
    slope = np.linalg.solve(x0.T @ x0 + np.diag(len(x) * noise**2), x0.T @ y0)
    return slope, y_mean - x_mean @ slope


def _carry(mean: Array, places: Array) -> Array:
    """[2 M, 6 P]: each control point moves with its three nearest landmarks, weighted by inverse square distance.

    A point on a landmark moves with that landmark alone. Tangents do not change.
    """
    squares = ((places[:, None] - mean) ** 2).sum(axis=2) + (_NEAR * np.ptp(mean)) ** 2 / 16
    nearest = np.argsort(squares, axis=1)[:, :3]
    weights = np.zeros_like(squares)
    np.put_along_axis(weights, nearest, np.take_along_axis(squares, nearest, 1) ** -2, 1)
    weights /= weights.sum(axis=1, keepdims=True)
    carry = np.zeros((len(mean), 2, len(places), 6))
    for axis in range(2):
        carry[:, axis, :, axis] = weights.T
    return carry.reshape(2 * len(mean), -1)


def _alignment(landmarks: Array, mean: Array) -> tuple[npt.NDArray[np.complex128], npt.NDArray[np.complex128]]:
    """Centres and complex factors that align each sample's landmarks [n, M, 2] to a centred `mean`."""
    z = as_complex(landmarks)
    return z.mean(axis=1), fit_similarity(z, np.broadcast_to(as_complex(mean), z.shape))[0]


def _procrustes_mean(landmarks: Array) -> Array:
    """Mean of the samples after mutual alignment, centred, with root mean square radius 1 (generalised Procrustes)."""
    mean = landmarks[0]
    for _ in range(5):
        mean = mean - mean.mean(axis=0)
        mean = mean / np.sqrt((mean**2).sum(axis=1).mean())
        centre, turn = _alignment(landmarks, mean)
        mean = _to_aligned(landmarks, centre, turn).mean(axis=0)
    mean = mean - mean.mean(axis=0)
    return cast(Array, mean / np.sqrt((mean**2).sum(axis=1).mean()))


def _to_aligned(places: Array, centre: npt.NDArray[np.complex128], turn: npt.NDArray[np.complex128]) -> Array:
    return as_plain((as_complex(places) - centre[:, None]) * turn[:, None])


def _points_to_aligned(points: Array, centre: npt.NDArray[np.complex128], turn: npt.NDArray[np.complex128]) -> Array:
    place = _to_aligned(points[..., :2], centre, turn)
    tangents = [as_plain(as_complex(points[..., at : at + 2]) * turn[:, None]) for at in (2, 4)]
    return np.concatenate([place, *tangents], axis=-1)
