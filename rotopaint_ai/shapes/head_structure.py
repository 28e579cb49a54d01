"""Depth of a character's landmarks: a rigid head reconstructed from keyed frames in different poses.

Every keyed frame is a view of one head under a scaled rotation (weak perspective), so joint motion of the landmarks
determines the third coordinate (Tomasi & Kanade, "Shape and motion from image streams", 1992). Views and positions are
solved alternately, starting from a half ellipsoid, which also regularises depth where the head never turned. Landmarks
that move by themselves, such as lips and lids, get less weight.
Letters: n samples, L landmarks. Head space: x right, y down, z towards the viewer of a frontal face; unit: the root
mean square distance of the landmarks from their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

Array64 = npt.NDArray[np.float64]

FEWEST_SAMPLES = 8
FEWEST_LANDMARKS = 8
MOST_SAMPLES = 400  # evenly spread; more samples do not improve the result
_ROUNDS = 40
_UPGRADES = 20  # rounds with the metric upgrade; the rest converge without it
_USUAL_DEPTH = 0.6  # depth of the half ellipsoid at its middle, as a share of a face's half size
_TOWARDS_USUAL = 3e-4  # weight of the half ellipsoid relative to one sample
_LEAST_MISS = 0.01
_LEAST_WIDTH = 1e-3  # share of a face's longer side: flatter faces are left out


@dataclass(frozen=True, slots=True)
class RigidStructure:
    """Positions [L, 3] of the landmarks in head space, and their rigidity [L] (weights with mean 1)."""

    places: Array64
    weight: Array64

    def view(self, landmarks_LC: npt.NDArray[np.floating]) -> tuple[Array64, Array64, float]:
        """Pose of the head for landmarks [L, 2] (NaN: unknown): rotation (3, 3), centre (2,), and pixels per unit."""
        known = np.isfinite(landmarks_LC).all(axis=1)
        weight = np.where(known, self.weight, 0.0)[None]
        faces = np.where(known[:, None], landmarks_LC, 0.0)[None].astype(np.float64)
        affine, middles = affine_views(faces, self.places, weight)
        turns, scales = nearest_turns(affine)
        return turns[0], middles[0], float(scales[0])

    def depths(self, landmarks_LC: npt.NDArray[np.floating]) -> Array64:
        """The depth [L] of each landmark towards the viewer, in the landmarks' pixels."""
        turn, _, scale = self.view(landmarks_LC)
        return cast(Array64, scale * (self.places @ turn[2]))


def fit_structure(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> RigidStructure | None:
    """The rigid structure of keyed frames [n, L, 2], NaN where unknown; `mirror` adds the mirrored frames.

    None with too few frames or landmarks, or with a landmark that is unknown in all frames.
    """
    even = even_faces(landmarks_NLC, mirror)
    return None if even is None else solve_structure(*even)


def even_faces(
    landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None
) -> tuple[Array64, npt.NDArray[np.bool_]] | None:
    """Normalise faces [n, L, 2]: centred, size 1, unknown positions 0. Also returns which are known [n, L].

    `mirror` adds the mirrored faces. None as in `fit_structure`.
    """
    known = np.isfinite(landmarks_NLC).all(axis=2)
    usable = (known.mean(axis=1) > 0.5) & _have_width(landmarks_NLC, known)
    if usable.sum() < FEWEST_SAMPLES or landmarks_NLC.shape[1] < FEWEST_LANDMARKS:
        return None
    rows = np.flatnonzero(usable)[:: -(-int(usable.sum()) // MOST_SAMPLES)]
    faces, known = landmarks_NLC[rows].astype(np.float64), known[rows]
    if mirror is not None:
        image = faces[:, list(mirror)] * np.array([-1.0, 1.0])
        faces, known = np.concatenate([faces, image]), np.concatenate([known, known[:, list(mirror)]])
    if not known.any(axis=0).all():
        return None
    faces = np.where(known[..., None], faces, 0.0)
    count = known.sum(axis=1)[:, None]
    faces = np.where(known[..., None], faces - (faces.sum(axis=1) / count)[:, None], 0.0)
    return faces / np.sqrt((faces**2).sum(axis=(1, 2)) / count[:, 0])[:, None, None], known


def choose_structure(
    train_NLC: npt.NDArray[np.floating], val_NLC: npt.NDArray[np.floating], mirror: Sequence[int]
) -> RigidStructure | None:
    """The structure of keyed frames [n, L, 2], with or without mirrored ones, whichever fits validation frames [m, L,
    2].

    The mirror image of a lopsided head is a different head. None as in `fit_structure`.
    """
    even, own = (fit_structure(train_NLC, order) for order in (mirror, None))
    if even is None or own is None:
        return even
    return even if _miss(even, val_NLC) <= _miss(own, val_NLC) else own


def _miss(structure: RigidStructure, landmarks_NLC: npt.NDArray[np.floating]) -> float:
    """Median distance between landmarks and the projected head, in sizes of the face."""
    off = [np.zeros(0)]
    for landmarks in landmarks_NLC[np.isfinite(landmarks_NLC).all(axis=2).sum(axis=1) >= FEWEST_LANDMARKS]:
        turn, middle, scale = structure.view(landmarks)
        away = np.linalg.norm(landmarks - middle - scale * structure.places @ turn[:2].T, axis=1) / max(scale, 1e-9)
        off.append(away[np.isfinite(away)])
    every = np.concatenate(off)
    return float(np.median(every)) if len(every) else 0.0


def _have_width(landmarks_NLC: npt.NDArray[np.floating], known: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which faces are more than a point or a line."""
    low = np.where(known[..., None], landmarks_NLC, np.inf).min(axis=1)
    reach = np.where(known[..., None], landmarks_NLC, -np.inf).max(axis=1) - low
    return np.asarray(reach.min(axis=1) > _LEAST_WIDTH * np.maximum(reach.max(axis=1), 1e-9))


def solve_structure(faces: Array64, known: npt.NDArray[np.bool_]) -> RigidStructure:
    """The rigid structure of faces from `even_faces`."""
    usual = _half_ellipsoid(faces, known)
    places, weight = usual, np.ones(len(usual))
    for at in range(_ROUNDS):
        affine, middles = affine_views(faces, places, known * weight)
        if at < _UPGRADES:
            places = places @ _metric(affine).T
            affine, middles = affine_views(faces, places, known * weight)
        turns, scales = nearest_turns(affine)
        sight = turns[:, :2] * scales[:, None, None]
        places = _places(faces - middles[:, None], sight, known * weight, usual)
        off = faces - middles[:, None] - np.einsum("nck,lk->nlc", sight, places)
        miss = np.sqrt((known * (off**2).sum(axis=2)).sum(axis=0) / known.sum(axis=0))
        weight = 1 / (miss**2 + _LEAST_MISS**2)
        weight = weight / weight.mean()
    return RigidStructure(places - (weight[:, None] * places).mean(axis=0), weight)


def _half_ellipsoid(faces: Array64, known: npt.NDArray[np.bool_]) -> Array64:
    """Mean positions with the depth of a half ellipsoid [L, 3]."""
    flat = faces.sum(axis=0) / known.sum(axis=0)[:, None]
    flat = flat - flat.mean(axis=0)
    reach = np.abs(flat).max(axis=0)
    square = np.minimum(((flat / reach) ** 2).sum(axis=1), 1.0)
    depth = _USUAL_DEPTH * float(reach.mean()) * np.sqrt(1 - square)
    return np.concatenate([flat, (depth - depth.mean())[:, None]], axis=1)


def affine_views(faces: Array64, places: Array64, weights: Array64) -> tuple[Array64, Array64]:
    """Weighted least-squares affine views [n, 2, 3] of positions onto faces [n, L, 2], and the images of the origin [n,
    2].

    `places`: [L, 3], or each sample's own [n, L, 3]. `weights`: [n, L].
    """
    total = np.maximum(weights.sum(axis=1), 1e-9)[:, None]
    middle_of_faces = (weights[..., None] * faces).sum(axis=1) / total
    middle_of_places = (weights[..., None] * places).sum(axis=1) / total
    away = places - middle_of_places[:, None]
    weighed = away * weights[..., None]
    inside = np.einsum("nlj,nlk->njk", weighed, away)
    inside = inside + 1e-6 * np.trace(inside, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    cross = np.einsum("nlj,nlc->njc", weighed, faces - middle_of_faces[:, None])
    affine = np.linalg.solve(inside, cross).transpose(0, 2, 1)
    return affine, middle_of_faces - np.einsum("nck,nk->nc", affine, middle_of_places)


def nearest_turns(affine: Array64) -> tuple[Array64, Array64]:
    """Rotations [n, 3, 3] and scales [n] nearest to affine views [n, 2, 3]."""
    left, sizes, right = np.linalg.svd(affine, full_matrices=False)
    sight = left @ right
    return np.concatenate([sight, np.cross(sight[:, 0], sight[:, 1])[:, None]], axis=1), sizes.mean(axis=1)


def _metric(affine: Array64) -> Array64:
    """The linear map (3, 3) of positions after which views [n, 2, 3] are closest to scaled rotations; regularised to I.

    Source: the metric constraints of Tomasi & Kanade, their symmetric matrix by linear least squares.
    """
    x, y = affine[:, 0], affine[:, 1]
    one, two = np.triu_indices(3)
    double = np.where(one == two, 1.0, 2.0)

    def product(a: Array64, b: Array64) -> Array64:
        return (a[:, one] * b[:, two] + a[:, two] * b[:, one]) / 2 * double

    same = np.array(one == two, np.float64)
    size = np.sqrt(np.mean((x**2).sum(axis=1) + (y**2).sum(axis=1)) / 2)
    rows = np.concatenate([product(x, x) - product(y, y), product(x, y), product(x, x) + product(y, y)]) / size**2
    wanted = np.concatenate([np.zeros(2 * len(x)), rows[2 * len(x) :] @ same])
    hold = np.sqrt(_TOWARDS_USUAL * len(x))
    solved = np.linalg.lstsq(
        np.concatenate([rows, hold * np.eye(6)]), np.concatenate([wanted, hold * same]), rcond=None
    )
    square = np.zeros((3, 3))
    square[one, two] = square[two, one] = solved[0]
    values, vectors = np.linalg.eigh(square)
    half = vectors * np.sqrt(np.clip(values, 0.1, 10.0)) @ vectors.T
    return cast(Array64, np.linalg.inv(half))


def _places(faces: Array64, sight: Array64, weights: Array64, usual: Array64) -> Array64:
    """Positions [L, 3] that best explain faces [n, L, 2] under views [n, 2, 3]."""
    inside = np.einsum("nl,ncj,nck->ljk", weights, sight, sight)
    cross = np.einsum("nl,ncj,nlc->lj", weights, sight, faces)
    hold = _TOWARDS_USUAL * weights.sum(axis=0)
    inside = inside + hold[:, None, None] * np.eye(3)
    return cast(Array64, np.linalg.solve(inside, (cross + hold[:, None] * usual)[..., None])[..., 0])
