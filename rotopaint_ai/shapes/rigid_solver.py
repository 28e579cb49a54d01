"""The seams of a printed head as one rigid thing, solved over all poses of a shot.

A seam is cut into a print: its curve does not bend, it is only seen from other sides. All seams of a shot together are
curves in space, seen in each hold by a camera of its own (on shots of two renderers even affine cameras leave 0.15 to
0.64 px). What is said of a curve in a hold binds it across its way, as nobody can say which point of a curve is which;
a person's ends bind it along, too. Landmarks are points of the head with places of their own, the less worth the more
they move on it.

Curves and cameras are found in turns by Gauss-Newton steps, with what lies far off weighed down (iterated reweighting
with Cauchy weights, Holland and Welsch 1977). No picture tells depth in a shot whose head hardly turns, so that points
start on a ball and stay near it where nothing says else.

H holds, L landmarks, D numbers of a spline (points, then ends of incoming and outgoing tangents), M places of a curve.
Points in space (., 3) are in face units (root mean square radii of the landmarks), z towards the camera.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.shot_solver import HeadPoses

# Chosen on training shots of two puppets that the shipped pack never saw, by the mean error of visible seams.
ROUNDS = 8
ALONE = 10  # rounds with landmarks alone
SAID = 0.15  # how far off the models' mean curve may be
LANDMARKS = 10.0  # independent points that all landmarks of a hold count for
BALL = 1.6  # radius of the ball that a face is before anything tells its depth
DEEP_MARKS, DEEP_CURVES = 1.0, 0.02  # weight of that ball beside what a hold says
TURN = 1.0  # radians that a head is turned from its usual pose
ZOOM = 10.0  # and by how much it grows in one step
PERSPECTIVE = 0.08  # size of the face over its distance
STEP = 0.3  # radians of one step at most
_PLACE = np.array([1, 1j])


@dataclass(frozen=True, slots=True, eq=False)
class SeenCurve:
    """Places of a curve of a hold: the weights of its points (M, D) in each, where they lie, and the curve's normals
    there (M,), how far off they may be across it and along it (M,) in pixels; `is_exact`: a person has said so."""

    weights: Array
    at: Complex
    normal: Complex
    across_px: Array
    along_px: Array
    is_exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cameras:
    """Size (H,), rotation (H, 3, 3) and shift (H, 2) of the head; doubt (H, 6, 6) of log size, turn and shift."""

    size: Array
    turn: Array
    shift: Array
    doubt: Array

    def see(self, hold: int, points: Array) -> Complex:
        """Points in space (M, 3) on the plate (M,)."""
        y = points @ self.turn[hold].T
        flat = self.size[hold] * y[:, :2] / (1 - PERSPECTIVE * y[:, 2:])
        return np.asarray((self.shift[hold] + flat) @ _PLACE)

    def slopes(self, hold: int, points: Array) -> tuple[Array, Array]:
        """How points on the plate move with the camera (M, 2, 6) and with the points in space (M, 2, 3)."""
        y = points @ self.turn[hold].T
        size, near, zero = self.size[hold], 1 / (1 - PERSPECTIVE * y[:, 2]), np.zeros(len(y))
        by_y = np.zeros((len(y), 2, 3))
        by_y[:, 0, 0] = by_y[:, 1, 1] = size * near
        by_y[:, :, 2] = size * PERSPECTIVE * y[:, :2] * (near * near)[:, None]
        spin = np.array([[zero, y[:, 2], -y[:, 1]], [-y[:, 2], zero, y[:, 0]], [y[:, 1], -y[:, 0], zero]])
        by_camera = np.zeros((len(y), 2, 6))
        by_camera[:, :, 0] = size * y[:, :2] * near[:, None]
        by_camera[:, :, 1:4] = by_y @ spin.transpose(2, 0, 1)
        by_camera[:, 0, 4] = by_camera[:, 1, 5] = 1
        return by_camera, by_y @ self.turn[hold]


@dataclass(frozen=True, slots=True, eq=False)
class RigidShot:
    """A shot solved: cameras, each curve's points in space (D, 3), and the landmarks' (L, 3)."""

    cameras: Cameras
    curves: Sequence[Array]
    marks: Array

    def spline(self, hold: int, curve: int) -> Complex:
        """A curve as a hold shows it."""
        return self.cameras.see(hold, self.curves[curve])

    def deviation_px(self, hold: int, curve: int) -> float:
        """How far off a camera's doubt lets a curve be, root mean square."""
        by_camera, _ = self.cameras.slopes(hold, self.curves[curve])
        return float(np.sqrt(np.einsum("mci,ij,mcj->m", by_camera, self.cameras.doubt[hold], by_camera).mean()))


def solve_rigid(
    heads: HeadPoses,
    points_HL: Complex,
    error_px_HL: Array,
    said: Sequence[Complex],
    seen: Sequence[Sequence[SeenCurve]],
    start: RigidShot | None = None,
) -> RigidShot:
    """Curves and cameras of a shot. `said`: the models' splines (H, D) of each curve; `seen[curve][hold]`: what else is
    known of it; `start`: a solution from which to go on."""
    share = np.sqrt(points_HL.shape[1] / LANDMARKS)
    if start is None:
        start = _from_landmarks(heads, points_HL, error_px_HL, share, said)
    cameras, curves, marks = start.cameras, list(start.curves), start.marks
    guesses = [_said_in_space(cameras, heads, each) for each in said]
    for _ in range(ROUNDS):
        loose = [[_weights(cameras, h, curve, item) for h, item in enumerate(row)] for curve, row in zip(curves, seen)]
        curves = [_curve(cameras, *each) for each in zip(seen, loose, curves, guesses)]
        noise = share * _noise(cameras, marks, points_HL, error_px_HL)
        cameras = _stepped(cameras, marks, points_HL, noise, list(zip(curves, seen, loose)))
        marks = _marks(cameras, marks, points_HL, error_px_HL)
    return RigidShot(cameras, curves, marks)


# --- where it starts --------------------------------------------------------------------------------------------------


def _from_landmarks(
    heads: HeadPoses, points_HL: Complex, error_px_HL: Array, share: float, said: Sequence[Complex]
) -> RigidShot:
    marks, cameras = _first(heads, points_HL)
    for _ in range(ALONE):
        noise = share * _noise(cameras, marks, points_HL, error_px_HL)
        cameras = _stepped(cameras, marks, points_HL, noise, [])
        marks = _marks(cameras, marks, points_HL, error_px_HL)
    return RigidShot(cameras, [_said_in_space(cameras, heads, each) for each in said], marks)


def _first(heads: HeadPoses, points_HL: Complex) -> tuple[Array, Cameras]:
    """Landmarks on a ball, and the small turns of it that they look most like."""
    faces = (points_HL - heads.shift_H[:, None]) / heads.factor_H[:, None]
    mean = faces.mean(axis=0)
    flat, depth = np.stack([mean.real, mean.imag, np.ones(len(mean))], 1), _depth(mean)
    off = np.concatenate([(faces - mean).real, (faces - mean).imag])
    off = off - (flat @ np.linalg.lstsq(flat, off.T, rcond=None)[0]).T
    deep = depth - depth.mean()
    x, y = (off @ deep / max(float(deep @ deep), 1e-9)).reshape(2, -1)
    unit = heads.factor_H / abs(heads.factor_H)
    turn = np.zeros((len(faces), 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = unit.real
    turn[:, 0, 1], turn[:, 1, 0], turn[:, 2, 2] = -unit.imag, unit.imag, 1
    turn = turn @ np.array([_turned(each) for each in np.clip(np.stack([-y, x, 0 * x], 1), -0.6, 0.6)])
    shift = np.stack([heads.shift_H.real, heads.shift_H.imag], 1)
    marks = np.stack([mean.real, mean.imag, depth], 1)
    return marks, Cameras(np.abs(heads.factor_H), turn, shift, np.zeros((len(faces), 6, 6)))


def _depth(face: Complex) -> Array:
    """Of points of a face seen from the front, taken for a ball."""
    return np.asarray(np.sqrt(np.maximum(BALL**2 - abs(face) ** 2, 0.1)) - BALL)


def _said_in_space(cameras: Cameras, heads: HeadPoses, said: Complex) -> Array:
    """A curve's points in space as the models' splines have them."""
    inside = ((said - heads.shift_H[:, None]) / heads.factor_H[:, None]).mean(axis=0)
    guess = np.stack([inside.real, inside.imag, _depth(inside)], 1)
    left = said - np.array([cameras.see(h, guess) for h in range(len(said))])
    a = (cameras.size[:, None, None] * cameras.turn[:, :2]).reshape(-1, 3)
    b = np.stack([left.real, left.imag], 1).reshape(len(a), -1)
    ridge = np.diag([1e-6, 1e-6, DEEP_CURVES]) * len(said) * cameras.size.mean() ** 2
    return np.asarray(guess + np.linalg.solve(a.T @ a + ridge, a.T @ b).T)


# --- one round --------------------------------------------------------------------------------------------------------


def _curve(
    cameras: Cameras, row: Sequence[SeenCurve], loose: Sequence[Array], now: Array, guess: Array
) -> NDArray[np.float64]:
    """A curve in space from all that was seen of it, near the models' mean."""
    whole, right = np.eye(now.size) / SAID**2, (guess - now).ravel() / SAID**2
    for hold, (item, weight) in enumerate(zip(row, loose)):
        if len(item.at):
            places = item.weights @ now
            _, by_place = cameras.slopes(hold, places)
            off = item.at - cameras.see(hold, places)
            for way, sigma in _ways(item):
                bend = way.real[:, None] * by_place[:, 0] + way.imag[:, None] * by_place[:, 1]
                table = (item.weights[:, :, None] * bend[:, None]).reshape(len(off), -1)
                whole += table.T @ (table * (weight / sigma**2)[:, None])
                right += table.T @ (weight / sigma**2 * np.real(off * way.conj()))
    return np.asarray(now + np.linalg.solve(whole, right).reshape(now.shape))


def _ways(item: SeenCurve) -> tuple[tuple[Complex, Array], ...]:
    across = (item.normal, item.across_px)
    return (across, (1j * item.normal, item.along_px)) if item.is_exact else (across,)


def _stepped(
    cameras: Cameras,
    marks: Array,
    points_HL: Complex,
    noise_HL: Array,
    curves: Sequence[tuple[Array, Sequence[SeenCurve], Sequence[Array]]],
) -> Cameras:
    """Every camera one step nearer to what its hold says."""
    size, turn, shift = cameras.size.copy(), cameras.turn.copy(), cameras.shift.copy()
    doubt = np.empty((len(size), 6, 6))
    left, _, right = np.linalg.svd(cameras.turn.mean(axis=0))
    for hold in range(len(size)):
        whole, pull = _usual_pose(cameras.turn[hold], left @ right)
        by_marks, by_pull = _said_by_landmarks(cameras, hold, marks, points_HL[hold], noise_HL[hold])
        whole, pull = whole + by_marks, pull + by_pull
        for curve, row, loose in curves:
            if len(row[hold].at):
                by_curve, by_pull = _said_by_curve(cameras, hold, curve, row[hold], loose[hold])
                whole, pull = whole + by_curve, pull + by_pull
        doubt[hold] = np.linalg.inv(whole)
        step = doubt[hold] @ pull
        size[hold] *= np.exp(np.clip(step[0], -0.2, 0.2))
        turn[hold] = _turned(step[1:4] * min(1.0, STEP / max(float(np.linalg.norm(step[1:4])), 1e-9))) @ turn[hold]
        shift[hold] += step[4:]
    return Cameras(size, turn, shift, doubt)


def _usual_pose(turn: Array, mean: Array) -> tuple[Array, Array]:
    """Weight and pull of the shot's mean pose."""
    lean = turn @ mean.T
    pull = np.array([0, lean[1, 2] - lean[2, 1], lean[2, 0] - lean[0, 2], 0, 0, 0]) / (2 * TURN**2)
    return np.diag([ZOOM**-2, TURN**-2, TURN**-2, 1e-6, 1e-9, 1e-9]), pull


def _said_by_landmarks(
    cameras: Cameras, hold: int, marks: Array, points_L: Complex, noise_L: Array
) -> tuple[Array, Array]:
    by_camera, _ = cameras.slopes(hold, marks)
    off = points_L - cameras.see(hold, marks)
    weight = 1 / (noise_L**2 * (1 + abs(off) ** 2 / (2 * np.maximum(noise_L, 1)) ** 2))
    whole = np.einsum("mci,m,mcj->ij", by_camera, weight, by_camera)
    return whole, (weight * off.real) @ by_camera[:, 0] + (weight * off.imag) @ by_camera[:, 1]


def _said_by_curve(cameras: Cameras, hold: int, curve: Array, item: SeenCurve, weight: Array) -> tuple[Array, Array]:
    places = item.weights @ curve
    by_camera, _ = cameras.slopes(hold, places)
    off = item.at - cameras.see(hold, places)
    whole, pull = np.zeros((6, 6)), np.zeros(6)
    for way, sigma in _ways(item):
        table = way.real[:, None] * by_camera[:, 0] + way.imag[:, None] * by_camera[:, 1]
        whole += table.T @ (table * (weight / sigma**2)[:, None])
        pull += table.T @ (weight / sigma**2 * np.real(off * way.conj()))
    return whole, pull


def _marks(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Array:
    """Landmarks in space, near the ball."""
    n = len(points_HL)
    whole = np.tile(np.diag([1e-3, 1e-3, DEEP_MARKS]) * n, (len(marks), 1, 1))
    right = np.zeros_like(marks)
    right[:, 2] = DEEP_MARKS * n * (_depth(marks[:, :2] @ _PLACE) - marks[:, 2])
    for hold in range(n):
        _, by_place = cameras.slopes(hold, marks)
        off, weight = points_HL[hold] - cameras.see(hold, marks), 1 / error_px_HL[hold] ** 2
        whole += np.einsum("mci,m,mcj->mij", by_place, weight, by_place)
        right += by_place[:, 0] * (weight * off.real)[:, None] + by_place[:, 1] * (weight * off.imag)[:, None]
    return np.asarray(marks + np.linalg.solve(whole, right[..., None])[..., 0])


def _noise(cameras: Cameras, marks: Array, points_HL: Complex, error_px_HL: Array) -> Array:
    """Expected errors (H, L), at least as large as a landmark usually lies off its place on the head."""
    off = points_HL - np.array([cameras.see(hold, marks) for hold in range(len(points_HL))])
    return np.asarray(np.maximum(error_px_HL, np.sqrt((abs(off) ** 2).mean(axis=0))))


def _weights(cameras: Cameras, hold: int, curve: Array, item: SeenCurve) -> Array:
    """Weights of places (M,) by how far off the curve they lie."""
    if item.is_exact or not len(item.at):
        return np.ones(len(item.at))
    off = np.real((item.at - cameras.see(hold, item.weights @ curve)) * item.normal.conj())
    return np.asarray(1 / (1 + (off / (2 * item.across_px)) ** 2))


def _turned(by: Array) -> Array:
    """Rotation about a vector by its length (Rodrigues 1840)."""
    angle = max(float(np.linalg.norm(by)), 1e-12)
    x, y, z = by / angle
    across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * across + (1 - np.cos(angle)) * across @ across)
