"""The head's pose in each hold of a shot: position, rotation in the picture plane, and size.

H holds, L landmarks. Points are complex numbers x + iy in plate space, pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.similarity import fit_similarity

_ROUNDS = 4


@dataclass(frozen=True, slots=True, eq=False)
class HeadPoses:
    """The pose of each hold: a point z of the mean face lies at `factor_H * z + shift_H` on the plate."""

    factor_H: Complex
    shift_H: Complex

    def faces(self, points_HL: Complex) -> Complex:
        """Points of each hold with the pose of the head removed."""
        return np.asarray((points_HL - self.shift_H[:, None]) / self.factor_H[:, None])

    def looks_apart(self, points_HL: Complex) -> Array:
        """Root mean square distance of the points between every two holds (H, H), in sizes of the head."""
        faces = self.faces(points_HL)
        return np.asarray(np.sqrt((abs(faces[:, None] - faces) ** 2).mean(axis=2)))


def head_poses(points_HL: Complex) -> HeadPoses:
    """Poses from all landmarks of all holds, hidden ones included as predicted.

    Generalised Procrustes analysis (Gower 1975).
    """
    mean = points_HL[0]
    poses = HeadPoses(np.ones(len(points_HL), complex), np.zeros(len(points_HL), complex))
    for _ in range(_ROUNDS):
        mean = mean - mean.mean()
        mean = mean / max(float(np.sqrt((abs(mean) ** 2).mean())), 1e-9)
        poses = HeadPoses(*fit_similarity(np.broadcast_to(mean, points_HL.shape), points_HL))
        mean = poses.faces(points_HL).mean(axis=0)
    return poses
