"""The face's pose in each frame: the similarity that aligns a frame's features to the mean face.

Features are what all artists agree on whatever points they use: named landmarks, and each shape's centre (the mean
along its arc). Face space: x to the picture's right on an upright face, y down, mirror axis at x = 0, longest side of
the mean face 1. Letters: F frames, K features, L landmarks, C components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.similarity import fit_similarity

Complex = npt.NDArray[np.complex128]
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Faces:
    """Similarities of F frames: a plate point z (complex) lies at `turn * (z - centre)` in face space.

    `mean`: features of the mean face. `misfit`: [F, K] distance of each feature from the mean, in face units.
    `partner`: mirror partners of feature rows.
    """

    turn: Complex
    centre: Complex
    mean: Complex
    misfit: Array
    features_FKC: Array
    partner: Mapping[int, int]

    @property
    def side_px(self) -> Array:
        """The face's longest side in plate pixels, per frame."""
        return np.asarray(1.0 / np.abs(self.turn))

    def to_face(self, points_FNC: Array, rows: npt.NDArray[np.intp]) -> Array:
        """Plate points of some frames in face space."""
        moved = (as_complex(points_FNC) - self.centre[rows, None]) * self.turn[rows, None]
        return as_plain(moved)

    def part(self, rows: slice) -> Faces:
        """The similarities of some frames."""
        return Faces(
            self.turn[rows], self.centre[rows], self.mean, self.misfit[rows], self.features_FKC[rows], self.partner
        )


def as_complex(points: Array) -> Complex:
    """(..., 2) as complex numbers."""
    return np.asarray(points[..., 0] + 1j * points[..., 1])


def as_plain(values: Complex) -> Array:
    """Complex numbers as (..., 2)."""
    return np.stack((values.real, values.imag), axis=-1)


def place_faces(features_FKC: Array, pairs: Sequence[tuple[int, int]], *, extent: Array) -> Faces:
    """Align every frame to the mean face; unknown features are NaN.

    `pairs`: rows of features that mirror each other; they define the mirror axis. Without any the mean picture counts
    as upright. `extent`: [F] the face's longest side in pixels, which sets the unit.
    Source: generalised Procrustes analysis in the plane with complex factors and Cauchy weights per feature, so that a
    jumped point or two swapped shapes do not tilt a frame.
    """
    z = as_complex(features_FKC)
    known = np.isfinite(z)
    weights = known.astype(np.float64)
    z = np.where(known, z, 0)
    mean = _first_mean(z, known)
    for _ in range(_ROUNDS):
        turn, centre = _similarities(z, weights, mean)
        laid = (z - centre[:, None]) * turn[:, None]
        total = np.maximum(weights.sum(axis=0), 1e-9)
        mean = _unit_mean((weights * laid).sum(axis=0) / total, np.asarray(known.any(axis=0)))
        turn, centre = _similarities(z, weights, mean)
        off = np.abs((z - centre[:, None]) * turn[:, None] - mean)
        spread = max(float(np.median(off[known])), 1e-6) * 3
        weights = known / (1.0 + (off / spread) ** 2)
    turn, centre, mean = _upright(turn, centre, mean, pairs)
    unit = float(np.median(np.abs(turn) * extent))
    turn, mean = turn / unit, mean / unit
    misfit = np.where(known, np.abs((z - centre[:, None]) * turn[:, None] - mean), np.nan)
    partner = {one: two for pair in pairs for one, two in (pair, pair[::-1])}
    return Faces(turn, centre, mean, misfit, features_FKC, partner)


def mirrored_misfit(faces: Faces) -> Array:
    """[F] mean distance of frames' features from the mean face when left and right are exchanged."""
    order = np.array([faces.partner.get(row, row) for row in range(faces.features_FKC.shape[1])])
    z = as_complex(faces.features_FKC)[:, order]
    known = np.isfinite(z)
    z = np.where(known, z, 0)
    turn, centre = _similarities(z, known.astype(np.float64), faces.mean)
    off = np.abs((z - centre[:, None]) * turn[:, None] - faces.mean)
    return np.asarray((off * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


def _first_mean(z: Complex, known: npt.NDArray[np.bool_]) -> Complex:
    """The most complete frame; features it lacks start at the mean of the others and converge later."""
    row = int(np.argmax(known.sum(axis=1)))
    mean = np.where(known[row], z[row], z[row][known[row]].mean())
    return _unit_mean(mean, np.asarray(known.any(axis=0)))


def _unit_mean(mean: Complex, known: npt.NDArray[np.bool_]) -> Complex:
    mean = np.where(known, mean, mean[known].mean())
    mean = mean - mean[known].mean()
    return np.asarray(mean / max(float(np.sqrt((np.abs(mean[known]) ** 2).mean())), 1e-9))


def _similarities(z: Complex, weights: Array, mean: Complex) -> tuple[Complex, Complex]:
    """Factors and centres that align each frame to the mean; with one feature the size is undefined."""
    turn, shift = fit_similarity(z, np.broadcast_to(mean, z.shape), weights)
    return turn, -shift / turn


def _upright(
    turn: Complex, centre: Complex, mean: Complex, pairs: Sequence[tuple[int, int]]
) -> tuple[Complex, Complex, Complex]:
    """Rotate the mean face so that pairs mirror at x = 0, keeping the picture's up direction."""
    upright = np.conj(np.median((turn / np.abs(turn)).real) + 1j * np.median((turn / np.abs(turn)).imag))
    spin = upright / max(abs(upright), 1e-9)
    if pairs:
        across = np.array([mean[b] - mean[a] for a, b in pairs]) * spin
        across = across * np.where(across.real < 0, -1, 1)
        across = across.sum() / max(abs(across.sum()), 1e-9)
        spin = spin * np.conj(across)
    mean, turn = mean * spin, turn * spin
    middle = np.mean([(mean[a] + mean[b]).real / 2 for a, b in pairs]) if pairs else mean.real.mean()
    return turn, centre + middle / turn, mean - middle


def typical_curve(face_FMC: Array, n_samples: int) -> Array:
    """The curve of a shape whose extent is closest to the median, thinned to about `n_samples` samples [M, 2]."""
    extent = np.concatenate((face_FMC.min(axis=1), face_FMC.max(axis=1)), axis=1)
    row = int(np.abs(extent - np.median(extent, axis=0)).sum(axis=1).argmin())
    return np.asarray(face_FMC[row, :: max(1, face_FMC.shape[1] // n_samples)])


def mean_places(places_FLC: Array) -> Array:
    """Median positions [L, 2] of landmarks [F, L, 2] in face space; NaN if unknown in all frames."""
    known = np.isfinite(places_FLC[..., 0]).any(axis=0)
    mean = np.full(places_FLC.shape[1:], np.nan)
    mean[known] = np.nanmedian(places_FLC[:, known], axis=0)
    return mean


def turn_to_front(places: Array, left: Array, right: Array) -> Array:
    """Positions [L, 2] of a head [L, 3], rotated so that pairs mirror at x = 0, keeping its up direction.

    The axis from side to side is the principal direction of the pairs' differences.
    """
    apart = right - left
    across = np.linalg.svd(apart)[2][0]
    across = across * (1.0 if across[0] >= 0 else -1.0)
    up = np.array([0.0, 1.0, 0.0]) - across[1] * across
    up = up / max(float(np.linalg.norm(up)), 1e-9)
    middle = ((left + right) / 2 @ across).mean()
    height = places @ up
    return np.stack([places @ across - middle, height - height.mean()], axis=1)
