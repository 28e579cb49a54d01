"""The seams of a shot as curves on one rigid head: a second estimate of each seam without reading the picture.

A seam is cut into a print: its shape is fixed and only its view changes. All seams of a shot are curves in space, seen
by one camera per hold. An observed curve constrains the head's curve only across its direction, because points have no
identity along a curve; ends that a person placed also constrain it along. Landmarks are points of the head, with less
weight the more they move on it.
Curves and cameras are found alternately by Gauss-Newton steps with Cauchy weights for outliers (Holland and Welsch
1977). In a shot whose head hardly turns, depth is not observable, so points start on a ball and stay near it. This
estimate decides well which of two curves is right, but is inaccurate as a curve: see `docs/research/keys.md`. H holds,
L landmarks, M samples of a curve, D numbers of a spline (points, then ends of incoming and outgoing tangents), complex
x + iy in the plate. Points in space (., 3) are in face units (root mean square radius of the landmarks), z towards the
camera.
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
OFF_MEAN = 0.15  # face units: standard deviation of a curve from the mean of its observations
LANDMARKS = 10.0  # effective number of independent landmarks in a hold
DEEP_MARKS, DEEP_CURVES = 1.0, 0.02  # weight of the ball prior relative to a hold's observations
HAND_PX = 0.3  # standard deviation of a hand-drawn curve across its direction
HAND_ALONG_PX = 4.0  # standard deviation of a hand-drawn curve's points along it
HAND_END_PX = 0.5  # standard deviation of its ends
LEAST_PX = 0.5  # smallest standard deviation of a predicted curve
MOVED_PX = 0.5  # a person placed an end if it is further than this from the predicted one
TOGETHER = 2.0  # factor on expected errors: most of a shot's curves err in the same way
_PER_SEGMENT = 8
_PLACE = np.array([1, 1j])


@dataclass(frozen=True, slots=True, eq=False)
class KnownCurve:
    """Observations of a curve.

    Its spline in each hold (H, D), its expected error in pixels (H,), whether a person drew it, and which ends that
    person placed (H, 2): people often leave the ends of a corrected curve alone.
    """

    splines_HD: Complex
    noise_px_H: Array
    exact_H: NDArray[np.bool_]
    exact_ends_HE: NDArray[np.bool_]

    @classmethod
    def of(cls, splines_HD: Complex, noise_px_H: Array, exact_H: NDArray[np.bool_], before_HD: Complex) -> KnownCurve:
        """`before_HD`: the predicted curves."""
        moved = abs(splines_HD - before_HD)[:, [0, splines_HD.shape[1] // 3 - 1]] > MOVED_PX
        return cls(splines_HD, noise_px_H, exact_H, exact_H[:, None] & moved)


def curves_on_head(
    heads: HeadPoses, points_HL: Complex, error_px_HL: Array, known: Sequence[KnownCurve]
) -> list[Complex]:
    """Splines (H, D) of each known curve as projected from a rigid head, together with the landmarks `points_HL`."""
    if not known:
        return []
    error = np.maximum(error_px_HL, LEAST_PX)
    cameras, marks = cameras_by_landmarks(heads, points_HL, error_px_HL)
    seen = [_ObservedSamples.of(each) for each in known]
    guesses = [curve_in_space(cameras, heads, each.splines_HD) for each in known]
    curves = guesses
    for _ in range(ROUNDS):
        curves = [_fit_curve(cameras, *each) for each in zip(seen, curves, guesses)]
        pulls = [_by_curve(cameras, each, curve) for each, curve in zip(seen, curves)]
        cameras = cameras.moved(landmark_pull(cameras, marks, points_HL, error), *pulls)
        marks = _fit_marks(cameras, marks, points_HL, error)
    return [cameras.see(curve) for curve in curves]


def cameras_by_landmarks(heads: HeadPoses, points_HL: Complex, error_px_HL: Array) -> tuple[Cameras, Array]:
    """Cameras, and landmarks in space (L, 3), computed only from the landmarks of all holds."""
    error = np.maximum(error_px_HL, LEAST_PX)
    cameras, marks = first_cameras(heads, points_HL)
    for _ in range(ALONE):
        cameras = cameras.moved(landmark_pull(cameras, marks, points_HL, error))
        marks = _fit_marks(cameras, marks, points_HL, error)
    return cameras, marks


def is_borne_out(new: Complex, present: Complex, on_head: Complex, least_px: float) -> bool:
    """Whether the head's curve is closer to a new curve than to the present one, by at least `least_px`."""
    return open_curve_distance(new, present) > open_curve_distance(new, on_head) + least_px


# --- landmarks --------------------------------------------------------------------------------------------------------


def landmark_weights(off: Complex, error_px_HL: Array) -> Array:
    """The weights (H, L), 1 / px^2, of landmarks with residuals `off` from their positions on the head."""
    noise = landmark_noise(off, error_px_HL)
    return np.asarray(1 / (noise**2 * (1 + abs(off) ** 2 / (2 * np.maximum(noise, 1)) ** 2)))


def landmark_noise(off: Complex, error_px_HL: Array) -> Array:
    """The standard deviations (H, L) of landmarks, pixels.

    A landmark's error is at least its root mean square residual over the shot, and landmarks err together, so they
    count as fewer than they are.
    """
    least = np.sqrt((abs(off) ** 2).mean(axis=0))
    return np.asarray(np.sqrt(off.shape[1] / LANDMARKS) * np.maximum(error_px_HL, least))


def landmark_pull(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Pull:
    """Normal equations of cameras from landmarks (L, 3) observed at `points_HL`."""
    off = points_HL - cameras.see(marks)
    weight = landmark_weights(off, error_px_HL)
    by_camera, _ = cameras.projection_slopes(marks)
    whole = np.einsum("hmci,hm,hmcj->hij", by_camera, weight, by_camera, optimize=True)
    pull = np.einsum("hm,hmi->hi", weight * off.real, by_camera[..., 0, :])
    return whole, pull + np.einsum("hm,hmi->hi", weight * off.imag, by_camera[..., 1, :])


def _fit_marks(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Array:
    """Landmarks in space, with depth near the ball where it is not observable."""
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
class _ObservedSamples:
    """Observed samples of a curve (H, M), the weights (M, D) from its points, normals, and weights across and along
    it."""

    weights: Array
    at: Complex
    normal: Complex
    across: Array
    along: Array
    is_exact: NDArray[np.bool_]

    @classmethod
    def of(cls, known: KnownCurve) -> _ObservedSamples:
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
        """The deviations of samples from the curve (H, M), rotated so that the real part is across the curve."""
        return np.asarray((self.at - cameras.see(self.weights @ curve)) * self.normal.conj())

    def trusted(self, cameras: Cameras, curve: Array) -> _ObservedSamples:
        """The samples with smaller weights for outliers, except on curves that a person drew."""
        far = self.residual(cameras, curve).real ** 2 * self.across / 4
        return replace(self, across=np.where(self.is_exact[:, None], self.across, self.across / (1 + far)))

    def across_and_along(self, slopes: Array) -> tuple[Array, Array]:
        """Derivatives (H, M, 2, K) across and along the curve (H, M, K)."""
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


def _fit_curve(cameras: Cameras, seen: _ObservedSamples, now: Array, guess: Array) -> Array:
    """A curve in space fitted to its observations, near their mean."""
    seen = seen.trusted(cameras, now)
    _, by_place = cameras.projection_slopes(seen.weights @ now)
    off = seen.residual(cameras, now)
    whole, right = np.eye(now.size) / OFF_MEAN**2, (guess - now).ravel() / OFF_MEAN**2
    for slope, weight, part in zip(seen.across_and_along(by_place), (seen.across, seen.along), (off.real, off.imag)):
        of_place = np.einsum("hmi,hm,hmj->mij", slope, weight, slope, optimize=True)
        table = of_place.reshape(-1, 9, 1) * seen.weights[:, None]
        table = (seen.weights.T @ table.reshape(len(table), -1)).reshape(len(now), 3, 3, len(now))
        whole = whole + table.transpose(0, 1, 3, 2).reshape(whole.shape)
        right = right + (seen.weights.T @ np.einsum("hm,hmi->mi", weight * part, slope)).ravel()
    return np.asarray(now + np.linalg.solve(whole, right).reshape(now.shape))


def _by_curve(cameras: Cameras, seen: _ObservedSamples, curve: Array) -> Pull:
    seen = seen.trusted(cameras, curve)
    by_camera, _ = cameras.projection_slopes(seen.weights @ curve)
    off = seen.residual(cameras, curve)
    pulls = [
        (np.einsum("hmi,hm,hmj->hij", slope, w, slope, optimize=True), np.einsum("hm,hmi->hi", w * part, slope))
        for slope, w, part in zip(seen.across_and_along(by_camera), (seen.across, seen.along), (off.real, off.imag))
    ]
    return pulls[0][0] + pulls[1][0], pulls[0][1] + pulls[1][1]
