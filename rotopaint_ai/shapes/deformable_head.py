"""A deformable 3D model of a character's landmarks, estimated from its keyed frames.

Every keyed frame is a view of the head under a scaled rotation (weak perspective). The head deforms by a few modes
(jaw, brows, lids): a face is a rotation of `places + sum of z_k modes_k` with standard normal z. Unlike PCA modes of
2D landmarks, one z moves x and y together, and a rotation takes three numbers instead of two per mode.
Source: Torresani, Hertzmann & Bregler, "Nonrigid structure-from-motion: estimating shape and motion with hierarchical
priors" (2008), section 4: expectation-maximisation with the coefficients as latent variables, from a rigid start.
Letters: n samples, L landmarks, K modes. Head space and units as in `head_structure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.head_structure import (
    RigidStructure,
    affine_views,
    even_faces,
    nearest_turns,
    solve_structure,
)

Array64 = npt.NDArray[np.float64]

MOST_MOTIONS = 32
FEWEST_SAMPLES = 12  # fewer frames are too few to estimate modes
_FRAMES_PER_MOTION = 3
_ROUNDS = 12
_FIRST_MISS = 0.02  # share of the face: initial residual of the modes
_LEAST_MISS = 1e-3
_HOLD_PLACES = 3e-4  # weight of the rigid structure relative to one sample
_HOLD_MOTIONS = 0.1  # pseudo-samples without deformation: unobserved depth motion stays zero


@dataclass(frozen=True, slots=True)
class DeformableModel:
    """Mean shape [L, 3], modes [K, L, 3] scaled to one standard deviation, and the residual variance [L] per axis.

    `mirrored`: whether mirrored faces were used too.
    """

    places: Array64
    modes: Array64
    unexplained: Array64
    mirrored: bool


def fit_head(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> DeformableModel | None:
    """Fit the model to keyed frames [n, L, 2], NaN where unknown; `mirror` adds the mirrored frames.

    Mirrored faces show the same depths under the opposite rotation. The asymmetry of a lopsided head becomes one more
    mode; mean and mode strengths come from the keyed frames alone. None with too few frames or landmarks, or, without
    mirrored ones, if a landmark is never keyed.
    """
    even = _enough_faces(landmarks_NLC, mirror)
    if even is None:
        return None
    faces, known = even
    state = _start_rigid(faces, known, solve_structure(faces, known))
    for _ in range(_ROUNDS):
        state = _em_round(faces, known, state)
    n_own = len(faces) if mirror is None else len(faces) // 2
    places, modes = _of_first(faces[:n_own], known[:n_own], state)
    return DeformableModel(places, modes, state.unexplained, mirror is not None)


def has_head(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> bool:
    """Whether `fit_head` returns a model, without computing it."""
    return _enough_faces(landmarks_NLC, mirror) is not None


def _enough_faces(
    landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None
) -> tuple[Array64, npt.NDArray[np.bool_]] | None:
    even = even_faces(landmarks_NLC, mirror)
    fewest = FEWEST_SAMPLES * (1 if mirror is None else 2)
    return None if even is None or len(even[0]) < fewest else even


def _of_first(faces: Array64, known: npt.NDArray[np.bool_], state: _State) -> tuple[Array64, Array64]:
    """Mean shape and modes from the mean and covariance of the first samples' coefficients alone."""
    first = replace(state, sight=state.sight[: len(faces)], middles=state.middles[: len(faces)])
    moved, covariance = _fit_motions(faces, known, first)
    values, vectors = np.linalg.eigh(np.cov(moved.T, bias=True).reshape(covariance.shape[1:]) + covariance.mean(axis=0))
    modes = np.tensordot((vectors * np.sqrt(np.maximum(values, 0.0))).T, state.modes, 1)
    return state.places + np.tensordot(moved.mean(axis=0), state.modes, 1), modes


@dataclass(frozen=True, slots=True)
class _State:
    """The model, the prior of its mean shape, and the views [n, 2, 3] and centres [n, 2] of the samples."""

    usual: Array64
    places: Array64
    modes: Array64
    unexplained: Array64
    sight: Array64
    middles: Array64


def _start_rigid(faces: Array64, known: npt.NDArray[np.bool_], structure: RigidStructure) -> _State:
    """Start from a rigid head: modes are the principal components of its residuals, placed in each view's plane."""
    sight, middles = _fit_views(faces, structure.places, known * structure.weight)
    off = np.where(known[..., None], faces - middles[:, None] - structure.places @ sight.transpose(0, 2, 1), 0.0)
    lifted = (off @ sight / (sight**2).sum(axis=(1, 2))[:, None, None] * 2).reshape(len(faces), -1)
    n_modes = max(1, min(MOST_MOTIONS, len(faces) // _FRAMES_PER_MOTION, lifted.shape[1] - 1))
    _, sizes, parts = np.linalg.svd(lifted, full_matrices=False)
    modes = parts[:n_modes] * (sizes[:n_modes, None] / np.sqrt(len(faces)))
    unexplained = np.full(faces.shape[1], _FIRST_MISS**2)
    return _State(
        structure.places, structure.places, modes.reshape(-1, *structure.places.shape), unexplained, sight, middles
    )


def _fit_views(faces: Array64, places: Array64, weights: Array64) -> tuple[Array64, Array64]:
    """The first two rows of the scaled rotations [n, 2, 3], and the images of the head's origin [n, 2]."""
    affine, middles = affine_views(faces, places, weights)
    turns, scales = nearest_turns(affine)
    return turns[:, :2] * scales[:, None, None], middles


def _em_round(faces: Array64, known: npt.NDArray[np.bool_], state: _State) -> _State:
    """One round of EM: coefficients, mean shape and modes, views, residual variance."""
    moved, covariance = _fit_motions(faces, known, state)
    places, modes = _fit_shape_and_modes(faces, known, state, moved, covariance)
    shapes = places + np.tensordot(moved, modes, 1)
    weights = known / state.unexplained
    sight, middles = _fit_views(faces, shapes, weights / np.maximum(weights.sum(axis=1), 1e-9)[:, None])
    off = np.where(known[..., None], faces - middles[:, None] - shapes @ sight.transpose(0, 2, 1), 0.0)
    seen = _seen_modes(modes, sight) * known[:, None, :, None]
    spread = np.einsum("nklc,nkm,nmlc->nl", seen, covariance, seen, optimize=True)
    left = ((off**2).sum(axis=2) + spread).sum(axis=0) / known.sum(axis=0) / 2
    return _State(state.usual, places, modes, np.maximum(left, _LEAST_MISS**2), sight, middles)


def _seen_modes(modes: Array64, sight: Array64) -> Array64:
    """The modes projected into each view [n, K, L, 2]."""
    return np.moveaxis(np.tensordot(sight, modes, axes=([2], [2])), 1, 3)


def _fit_motions(faces: Array64, known: npt.NDArray[np.bool_], state: _State) -> tuple[Array64, Array64]:
    """Posterior mean [n, K] and covariance [n, K, K] of each sample's coefficients."""
    seen = _seen_modes(state.modes, state.sight)
    off = faces - state.middles[:, None] - state.places @ state.sight.transpose(0, 2, 1)
    weighed = (seen * (known / state.unexplained)[:, None, :, None]).reshape(*seen.shape[:2], -1)
    inside = weighed @ seen.reshape(*seen.shape[:2], -1).transpose(0, 2, 1) + np.eye(seen.shape[1])
    covariance = np.linalg.inv(inside)
    return np.asarray((covariance @ (weighed @ off.reshape(len(off), -1, 1)))[..., 0]), np.asarray(covariance)


def _fit_shape_and_modes(
    faces: Array64, known: npt.NDArray[np.bool_], state: _State, moved: Array64, covariance: Array64
) -> tuple[Array64, Array64]:
    """Mean shape [L, 3] and modes [K, L, 3] that maximise the expected likelihood, each landmark separately."""
    n, n_parts = len(faces), moved.shape[1] + 1
    parts = np.concatenate([np.ones((n, 1)), moved], axis=1)
    products = parts[:, :, None] * parts[:, None]
    products[:, 1:, 1:] += covariance
    plane = state.sight.transpose(0, 2, 1) @ state.sight
    both = np.einsum("njk,nab->njakb", plane, products).reshape(n, -1)
    inside = (known.T.astype(np.float64) @ both).reshape(-1, 3 * n_parts, 3 * n_parts)
    lifted = np.where(known[..., None], faces - state.middles[:, None], 0.0) @ state.sight
    asked = np.einsum("nlj,na->lja", lifted, parts, optimize=True)
    hold = np.tile([_HOLD_PLACES * n, *[_HOLD_MOTIONS] * (n_parts - 1)], 3)
    asked[:, :, 0] += _HOLD_PLACES * n * state.usual
    solved = np.linalg.solve(inside + np.diag(hold), asked.reshape(len(asked), -1, 1)).reshape(asked.shape)
    return solved[..., 0], np.moveaxis(solved[..., 1:], 2, 0)
