"""Cameras of a rigid head in each hold of a shot, and their initial estimate from landmarks.

H holds, L landmarks, M points, complex x + iy in the plate. Points in space (., 3) are in face units (root mean square
radius of the landmarks), z towards the camera.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.head_poses import HeadPoses

# Chosen on training shots of two puppets that the shipped pack never saw, by the mean error of visible seams.
BALL = 1.6  # radius of the ball that approximates a face of unknown depth
TURN = 1.0  # radians: standard deviation of a head's rotation from its mean pose
ZOOM = 10.0  # standard deviation of a step in log size
PERSPECTIVE = 0.08  # size of the face over its distance
STEP = 0.3  # radians: largest rotation in one step

Pull = tuple[Array, Array]  # normal equations (H, 6, 6) and (H, 6) of steps in log size, rotation and shift


@dataclass(frozen=True, slots=True, eq=False)
class Cameras:
    """Size (H,), rotation (H, 3, 3) and shift (H, 2) of the head in each hold."""

    size: Array
    turn: Array
    shift: Array

    def see(self, points: Array) -> Complex:
        """Project points in space (M, 3) to the plate (H, M)."""
        y = points @ self.turn.transpose(0, 2, 1)
        flat = self.size[:, None, None] * y[..., :2] / (1 - PERSPECTIVE * y[..., 2:])
        at = self.shift[:, None] + flat
        return np.asarray(at[..., 0] + 1j * at[..., 1])

    def facing(self, points: Array) -> Array:
        """Cosine of the angle between the view and the normal of a ball at points (M, 3) of it: (H, M)."""
        away = points + np.array([0.0, 0.0, BALL])
        normal = away / np.linalg.norm(away, axis=1, keepdims=True)
        return np.asarray((normal @ self.turn.transpose(0, 2, 1))[..., 2])

    def projection_slopes(self, points: Array) -> tuple[Array, Array]:
        """Jacobians of projected points by cameras (H, M, 2, 6) and by points in space (H, M, 2, 3)."""
        ways = [self.slopes_along(points, np.full((len(self.size), len(points)), way)) for way in (1.0, 1j)]
        by_camera, by_place = (np.stack(each, axis=2) for each in zip(*ways))
        return by_camera, by_place

    def slopes_along(self, points: Array, way: Complex) -> tuple[Array, Array]:
        """Derivatives of projected points along unit directions (H, M), by cameras (H, M, 6) and by points in space (H,
        M, 3)."""
        x, y, z = np.moveaxis(points @ self.turn.transpose(0, 2, 1), -1, 0)
        near = 1 / (1 - PERSPECTIVE * z)
        a, b = (self.size[:, None] * near * each for each in (way.real, way.imag))
        grows = a * x + b * y
        c = PERSPECTIVE * near * grows
        spins = y * c - z * b, z * a - x * c, x * b - y * a
        by_camera = np.stack([grows, *spins, way.real, way.imag], axis=-1)
        return by_camera, np.stack([a, b, c], axis=-1) @ self.turn

    def spread(self) -> float:
        """Root mean square angle, radians, between the head's rotations and their mean."""
        cosine = np.clip((np.trace(self._from_mean(), axis1=1, axis2=2) - 1) / 2, -1.0, 1.0)
        return float(np.sqrt((np.arccos(cosine) ** 2).mean()))

    def _from_mean(self) -> Array:
        """The head's rotations (H, 3, 3) from their mean."""
        left, _, right = np.linalg.svd(self.turn.mean(axis=0))
        return np.asarray(self.turn @ (left @ right).T)

    def reframed(self, scale: float, turn: Array, origin: Array) -> Cameras:
        """The cameras of points q (M, 3) of another frame; `scale * turn @ q + origin` are the points of this one.

        Exact up to the perspective of a head of another scale.
        """
        away = self.turn @ origin
        size = self.size / (1 - PERSPECTIVE * away[:, 2])
        return Cameras(scale * size, self.turn @ turn, self.shift + size[:, None] * away[:, :2])

    def moved(self, *pulls: Pull) -> Cameras:
        """All cameras after one step, given normal equations and the prior."""
        whole, pull = (np.sum(parts, axis=0) for parts in zip(self.usual_pose(), *pulls))
        return self.stepped(np.linalg.solve(whole, pull[..., None])[..., 0])

    def stepped(self, step: Array) -> Cameras:
        """All cameras after a step (H, 6) in log size, rotation and shift, limited in length."""
        spin = step[:, 1:4]
        spin = spin * np.minimum(1, STEP / np.maximum(np.linalg.norm(spin, axis=1), 1e-9))[:, None]
        size = self.size * np.exp(np.clip(step[:, 0], -0.2, 0.2))
        return Cameras(size, rotations(spin) @ self.turn, self.shift + step[:, 4:])

    def leaning(self) -> Array:
        """How far the head is turned from its mean pose about the x and y axes (H, 2), in units of TURN."""
        lean = self._from_mean()
        return np.stack([lean[:, 1, 2] - lean[:, 2, 1], lean[:, 2, 0] - lean[:, 0, 2]], axis=1) / (2 * TURN)

    def usual_pose(self) -> Pull:
        """Normal equations of the prior: rotations near the shot's mean."""
        pull = np.zeros((len(self.size), 6))
        pull[:, 1:3] = self.leaning() / TURN
        return np.tile(np.diag([ZOOM**-2, TURN**-2, TURN**-2, 1e-6, 1e-9, 1e-9]), (len(pull), 1, 1)), pull


def first_cameras(heads: HeadPoses, points_HL: Complex) -> tuple[Cameras, Array]:
    """Landmarks on a ball, and the small rotations of it that fit them best."""
    faces = heads.faces(points_HL)
    mean = faces.mean(axis=0)
    flat, depth = np.stack([mean.real, mean.imag, np.ones(len(mean))], 1), ball_depth(mean)
    off = np.concatenate([(faces - mean).real, (faces - mean).imag])
    off = off - (flat @ np.linalg.lstsq(flat, off.T, rcond=None)[0]).T
    deep = depth - depth.mean()
    x, y = (off @ deep / max(float(deep @ deep), 1e-9)).reshape(2, -1)
    unit = heads.factor_H / abs(heads.factor_H)
    turn = np.zeros((len(faces), 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = unit.real
    turn[:, 0, 1], turn[:, 1, 0], turn[:, 2, 2] = -unit.imag, unit.imag, 1
    turn = turn @ rotations(np.clip(np.stack([-y, x, 0 * x], 1), -0.6, 0.6))
    shift = np.stack([heads.shift_H.real, heads.shift_H.imag], 1)
    return Cameras(np.abs(heads.factor_H), turn, shift), np.stack([mean.real, mean.imag, depth], 1)


def ball_depth(face: Complex) -> Array:
    """Depth of points of a frontal face that is approximated by a ball."""
    return np.asarray(np.sqrt(np.maximum(BALL**2 - abs(face) ** 2, 0.1)) - BALL)


def _cross_matrices(by: Array) -> Array:
    """Matrices (..., 3, 3) of the cross product with vectors (..., 3)."""
    x, y, z = np.moveaxis(by, -1, 0)
    none = np.zeros_like(x)
    return np.moveaxis(np.array([[none, -z, y], [z, none, -x], [-y, x, none]]), (0, 1), (-2, -1))


def rotations(by: Array) -> Array:
    """Rotations (H, 3, 3) about vectors (H, 3) by angles equal to their lengths (Rodrigues 1840)."""
    angle = np.maximum(np.linalg.norm(by, axis=1), 1e-12)[:, None, None]
    across = _cross_matrices(by / angle[:, 0])
    return np.asarray(np.eye(3) + np.sin(angle) * across + (1 - np.cos(angle)) * across @ across)
