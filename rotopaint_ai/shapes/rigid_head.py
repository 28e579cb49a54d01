"""The seams of a shot as curves on one rigid head: a second estimate of each seam without reading the picture.

A seam is cut into a print: its curve does not bend, it is only seen from other sides. All seams of a shot together are
curves in space, seen in each hold by a camera of its own. A hold's curve binds the head's across its direction alone:
points have no identity along a curve; ends that a person placed bind it along, too. Landmarks are points of the head,
with less weight the more they move on it.

Curves and cameras are found in turns by Gauss-Newton steps, with what lies far off weighed down (iterated reweighting
with Cauchy weights, Holland and Welsch 1977). Nothing tells depth in a shot whose head hardly turns, so that points
start on a ball and stay near it where nothing says else.

The opinion is good at telling which of two curves is right and poor as a curve: see `docs/research/keys.md`.

H holds, L landmarks, M places of a curve, D numbers of a spline (points, then ends of incoming and outgoing tangents),
complex x + iy in the plate. Points in space (., 3) are in face units (root mean square radii of the landmarks), z
towards the camera.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.head_cameras import Cameras, Pull, ball_depth, first_cameras
from rotopaint_ai.shapes.head_poses import HeadPoses
from rotopaint_ai.shapes.samples import basis, open_curve_distance

# Chosen on training shots of two puppets that the shipped pack never saw, by the mean error of visible seams.
ROUNDS = 8
ALONE = 10  # rounds with landmarks only
OFF_MEAN = 0.15  # face units: deviation of a curve from the mean of its observations
LANDMARKS = 10.0  # independent points that all landmarks of a hold count for
DEEP_MARKS, DEEP_CURVES = 1.0, 0.02  # weight of the ball relative to a hold's observations
HAND_PX = 0.3  # deviation of a person's curve across it
HAND_ALONG_PX = 4.0  # deviation of a hand-drawn curve's points along the curve
HAND_END_PX = 0.5  # deviation of its ends
LEAST_PX = 0.5  # least deviation of a predicted curve
MOVED_PX = 0.5  # an end farther than this from the predicted one was placed by a person
TOGETHER = 2.0  # times a run's expected errors: most of a shot's curves err the same way
_PER_SEGMENT = 8
_PLACE = np.array([1, 1j])


@dataclass(frozen=True, slots=True, eq=False)
class KnownCurve:
    """Observations of a curve: its spline in each hold (H, D), its expected error in pixels (H,), in which holds a
    person drew it, and which ends that person placed (H, 2): who corrects a curve often leaves its ends alone."""

    splines_HD: Complex
    noise_px_H: Array
    exact_H: NDArray[np.bool_]
    exact_ends_HE: NDArray[np.bool_]

    @classmethod
    def of(cls, splines_HD: Complex, noise_px_H: Array, exact_H: NDArray[np.bool_], before_HD: Complex) -> KnownCurve:
        """`before_HD`: where the models had the curve."""
        moved = abs(splines_HD - before_HD)[:, [0, splines_HD.shape[1] // 3 - 1]] > MOVED_PX
        return cls(splines_HD, noise_px_H, exact_H, exact_H[:, None] & moved)


def curves_on_head(
    heads: HeadPoses, points_HL: Complex, error_px_HL: Array, known: Sequence[KnownCurve]
) -> list[Complex]:
    """Splines (H, D) of each known curve as a rigid head shows them, near the landmarks `points_HL`."""
    if not known:
        return []
    error = np.maximum(error_px_HL, LEAST_PX)
    cameras, marks = cameras_by_landmarks(heads, points_HL, error_px_HL)
    seen = [_Seen.of(each) for each in known]
    guesses = [curve_in_space(cameras, heads, each.splines_HD) for each in known]
    curves = guesses
    for _ in range(ROUNDS):
        curves = [_fitted_curve(cameras, *each) for each in zip(seen, curves, guesses)]
        pulls = [_by_curve(cameras, each, curve) for each, curve in zip(seen, curves)]
        cameras = cameras.moved(landmark_pull(cameras, marks, points_HL, error), *pulls)
        marks = _fitted_marks(cameras, marks, points_HL, error)
    return [cameras.see(curve) for curve in curves]


def cameras_by_landmarks(heads: HeadPoses, points_HL: Complex, error_px_HL: Array) -> tuple[Cameras, Array]:
    """Cameras, and landmarks in space (L, 3), computed only from the landmarks of all holds."""
    error = np.maximum(error_px_HL, LEAST_PX)
    cameras, marks = first_cameras(heads, points_HL)
    for _ in range(ALONE):
        cameras = cameras.moved(landmark_pull(cameras, marks, points_HL, error))
        marks = _fitted_marks(cameras, marks, points_HL, error)
    return cameras, marks


def is_borne_out(new: Complex, present: Complex, on_head: Complex, least_px: float) -> bool:
    """Whether the head's curve is nearer to a new curve than to the present one, by at least so much."""
    return open_curve_distance(new, present) > open_curve_distance(new, on_head) + least_px


# --- landmarks --------------------------------------------------------------------------------------------------------


def landmark_weights(off: Complex, error_px_HL: Array) -> Array:
    """The weights (H, L), 1 / px^2, of landmarks that deviate by `off` from their positions on the head.

    They are at least as far off as they usually lie off their places, and far fewer than they seem.
    """
    noise = np.sqrt(off.shape[1] / LANDMARKS) * np.maximum(error_px_HL, np.sqrt((abs(off) ** 2).mean(axis=0)))
    return np.asarray(1 / (noise**2 * (1 + abs(off) ** 2 / (2 * np.maximum(noise, 1)) ** 2)))


def landmark_pull(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Pull:
    """How landmarks (L, 3) that are seen at `points_HL` pull cameras."""
    off = points_HL - cameras.see(marks)
    weight = landmark_weights(off, error_px_HL)
    by_camera, _ = cameras.projection_slopes(marks)
    whole = np.einsum("hmci,hm,hmcj->hij", by_camera, weight, by_camera, optimize=True)
    pull = np.einsum("hm,hmi->hi", weight * off.real, by_camera[..., 0, :])
    return whole, pull + np.einsum("hm,hmi->hi", weight * off.imag, by_camera[..., 1, :])


def _fitted_marks(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Array:
    """Landmarks in space, near the ball where little tells their depth."""
    n = len(points_HL)
    _, by_place = cameras.projection_slopes(marks)
    off, weight = points_HL - cameras.see(marks), 1 / error_px_HL**2
    whole = np.diag([1e-3, 1e-3, DEEP_MARKS]) * n
    whole = whole + np.einsum("hmci,hm,hmcj->mij", by_place, weight, by_place, optimize=True)
    right = np.einsum("hm,hmi->mi", weight * off.real, by_place[..., 0, :])
    right = right + np.einsum("hm,hmi->mi", weight * off.imag, by_place[..., 1, :])
    right[:, 2] += DEEP_MARKS * n * (ball_depth(marks[:, :2] @ _PLACE) - marks[:, 2])
    return np.asarray(marks + np.linalg.solve(whole, right[..., None])[..., 0])


# --- curves -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Places of a curve (H, M), the weights (M, D) of its points in each, normals there, and how much places bind it
    across its way and along it (1 / px^2)."""

    weights: Array
    at: Complex
    normal: Complex
    across: Array
    along: Array
    is_exact: NDArray[np.bool_]

    @classmethod
    def of(cls, known: KnownCurve) -> _Seen:
        weights = basis(known.splines_HD.shape[1] // 3, False, _PER_SEGMENT)
        at = known.splines_HD @ weights.T
        way, m = np.gradient(at, axis=1), at.shape[1]
        exact = known.exact_H[:, None]
        noise = np.where(exact, HAND_PX, np.maximum(TOGETHER * known.noise_px_H, LEAST_PX)[:, None])
        along = np.full(m, HAND_ALONG_PX * np.sqrt(m / 4))
        along[[0, -1]] = HAND_END_PX
        across = np.broadcast_to(_PER_SEGMENT / (m * noise**2), at.shape)
        return cls(weights, at, 1j * way / np.maximum(abs(way), 1e-9), across, exact / along**2, known.exact_H)

    def residual(self, cameras: Cameras, curve: Array) -> Complex:
        """The deviations of points from the curve (H, M), rotated so that the real part is across the curve."""
        return np.asarray((self.at - cameras.see(self.weights @ curve)) * self.normal.conj())

    def trusted(self, cameras: Cameras, curve: Array) -> _Seen:
        """Weights of points that no person drew, by their distance from the curve."""
        far = self.residual(cameras, curve).real ** 2 * self.across / 4
        return replace(self, across=np.where(self.is_exact[:, None], self.across, self.across / (1 + far)))

    def ways(self, slopes: Array) -> tuple[Array, Array]:
        """Slopes (H, M, 2, K) across and along the curve (H, M, K)."""
        x, y, (a, b) = slopes[..., 0, :], slopes[..., 1, :], (self.normal.real[..., None], self.normal.imag[..., None])
        return a * x + b * y, a * y - b * x


def curve_in_space(cameras: Cameras, heads: HeadPoses, observed: Complex) -> Array:
    """A curve's points in space, at the mean of its observations."""
    inside = heads.faces(observed).mean(axis=0)
    guess = np.stack([inside.real, inside.imag, ball_depth(inside)], 1)
    left = observed - cameras.see(guess)
    a = (cameras.size[:, None, None] * cameras.turn[:, :2]).reshape(-1, 3)
    b = np.stack([left.real, left.imag], 1).reshape(len(a), -1)
    ridge = np.diag([1e-6, 1e-6, DEEP_CURVES]) * len(observed) * cameras.size.mean() ** 2
    return np.asarray(guess + np.linalg.solve(a.T @ a + ridge, a.T @ b).T)


def _fitted_curve(cameras: Cameras, seen: _Seen, now: Array, guess: Array) -> Array:
    """A curve in space fitted to its observations, near their mean."""
    seen = seen.trusted(cameras, now)
    _, by_place = cameras.projection_slopes(seen.weights @ now)
    off = seen.residual(cameras, now)
    whole, right = np.eye(now.size) / OFF_MEAN**2, (guess - now).ravel() / OFF_MEAN**2
    for slope, weight, part in zip(seen.ways(by_place), (seen.across, seen.along), (off.real, off.imag)):
        of_place = np.einsum("hmi,hm,hmj->mij", slope, weight, slope, optimize=True)
        table = of_place.reshape(-1, 9, 1) * seen.weights[:, None]
        table = (seen.weights.T @ table.reshape(len(table), -1)).reshape(len(now), 3, 3, len(now))
        whole = whole + table.transpose(0, 1, 3, 2).reshape(whole.shape)
        right = right + (seen.weights.T @ np.einsum("hm,hmi->mi", weight * part, slope)).ravel()
    return np.asarray(now + np.linalg.solve(whole, right).reshape(now.shape))


def _by_curve(cameras: Cameras, seen: _Seen, curve: Array) -> Pull:
    seen = seen.trusted(cameras, curve)
    by_camera, _ = cameras.projection_slopes(seen.weights @ curve)
    off = seen.residual(cameras, curve)
    pulls = [
        (np.einsum("hmi,hm,hmj->hij", slope, w, slope, optimize=True), np.einsum("hm,hmi->hi", w * part, slope))
        for slope, w, part in zip(seen.ways(by_camera), (seen.across, seen.along), (off.real, off.imag))
    ]
    return pulls[0][0] + pulls[1][0], pulls[0][1] + pulls[1][1]
