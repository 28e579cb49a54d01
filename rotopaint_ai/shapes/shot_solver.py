"""A curve of the printed face solved over all poses of a shot at once.

A seam is fixed to the head, so that in face space (shift, turn and size of the head undone) it moves little, and by
where the head is turned. Every hold has said where the curve lies there: a person exactly, the picture well, the models
roughly. The best estimate is closed-form: a Gaussian process over the holds (Rasmussen and Williams, "Gaussian
Processes for Machine Learning", eq. 2.23), with what lies far off its estimate weighed down (iterated reweighting with
Cauchy weights, Holland and Welsch 1977).

H holds, L landmarks, D points of a spline (its control points and the ends of its tangents), Q numbers of a pose.
Points are complex numbers x + iy in plate space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.similarity import fit_similarity

# In units of the face (root mean square radius of its landmarks), chosen on training shots of two puppets that the
# shipped pack never saw and on shots of the stage, by the mean error of visible seams at 1 and 3 corrected frames.
ANYWHERE = 1.0  # how far the curve may lie from the usual one in all holds
TURNED = 1.0  # how far it may move for each unit that the face's look moves
BENT = 0.1  # and for its square
NEARBY = 0.02  # how far it may move otherwise, alike in holds that are near in time or in look
CLOSE_FRAMES, CLOSE_LOOK = 6.0, 0.06
OWN = 0.004  # and in each hold for itself
EXACT = 5e-4  # how far off a person's curve may be
_POSES = {1: 1, 2: 1}  # numbers of a pose that so many exact holds can bear out; 2 with more
_ROUNDS = 4


@dataclass(frozen=True, slots=True, eq=False)
class HeadPoses:
    """Where the head is in each hold: a point of the mean face lies at `factor_H * z + shift_H` in the plate; `time_H`
    the hold's first frame; `look_HQ` the face's look by its strongest components, the strongest first."""

    factor_H: Complex
    shift_H: Complex
    time_H: Array
    look_HQ: Array


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Splines (H, D) and how far off each is likely to be, in pixels (H,)."""

    splines_HD: Complex
    deviation_px_H: Array


def head_poses(points_HL: Complex, time_H: Array) -> HeadPoses:
    """Poses from every landmark of every hold, hidden ones where the model thinks them."""
    mean = points_HL[0]
    factor, shift, faces = np.ones(len(points_HL), complex), np.zeros(len(points_HL), complex), points_HL
    for _ in range(_ROUNDS):
        mean = mean - mean.mean()
        mean = mean / max(float(np.sqrt((abs(mean) ** 2).mean())), 1e-9)
        factor, shift = fit_similarity(np.broadcast_to(mean, points_HL.shape), points_HL)
        faces = (points_HL - shift[:, None]) / factor[:, None]
        mean = faces.mean(axis=0)
    look = faces - mean
    table = np.concatenate([look.real, look.imag], axis=1)
    vectors, sizes, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    return HeadPoses(factor, shift, time_H, (vectors * sizes)[:, :2] / np.sqrt(points_HL.shape[1]))


def solve(heads: HeadPoses, splines_HD: Complex, noise_px_H: Array, exact_H: NDArray[np.bool_]) -> Solution:
    """The curve in every hold, from what each has said of it, `noise_px_H` off; where `exact_H` is set a person has."""
    size = abs(heads.factor_H)
    inside = (splines_HD - heads.shift_H[:, None]) / heads.factor_H[:, None]
    noise = np.where(exact_H, EXACT, noise_px_H / size)
    look = heads.look_HQ[:, : _POSES.get(int(exact_H.sum()), 2)]
    prior, mean = _covariance(look, heads.time_H), inside.mean(axis=0)
    weight = np.ones(len(noise))
    for _ in range(_ROUNDS):
        whole = prior + np.diag((noise / weight) ** 2)
        estimate = mean + prior @ np.linalg.solve(whole, inside - mean)
        off = np.sqrt((abs(inside - estimate) ** 2).mean(axis=1))
        weight = np.where(exact_H, 1.0, 1 / np.sqrt(1 + (off / (2 * noise)) ** 2))
    left = np.diag(prior - prior @ np.linalg.solve(whole, prior))
    return Solution(estimate * heads.factor_H[:, None] + heads.shift_H[:, None], np.sqrt(np.maximum(left, 0.0)) * size)


def _covariance(look_HQ: Array, time_H: Array) -> Array:
    """How much the curve's places in two holds have to do with each other (H, H)."""
    inner = look_HQ @ look_HQ.T
    square = np.diag(inner)
    apart = square[:, None] + square - 2 * inner
    lag = abs(time_H[:, None] - time_H)
    near = (np.exp(-lag / CLOSE_FRAMES) + np.exp(-apart / (2 * CLOSE_LOOK**2))) / 2
    bent = inner**2 / max(float(square.mean()), 1e-9)
    return np.asarray(
        ANYWHERE**2 + TURNED**2 * inner + BENT**2 * bent + NEARBY**2 * near + OWN**2 * np.eye(len(look_HQ))
    )
