"""Marks on a rigid head that several holds share: their part of the bundle adjustment.

A mark is a detail on hair, ears or skin that was found again in other holds (`landmarks/shared_marks.py`). It is
accurate to half a pixel where landmarks err by several, so marks determine how the head is turned. Some lie on moving
parts, such as lids and shadows: outliers get less weight (Cauchy weights, Holland and Welsch 1977).
H holds, K marks, O observations of marks. Complex x + iy in the plate, pixels; points in space (K, 3) are in face
units, z towards the camera.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rotopaint_ai.landmarks.mark_search import ExpectedMarks
from rotopaint_ai.landmarks.shared_marks import SharedMarks
from rotopaint_ai.shapes.facespace import Array
from rotopaint_ai.shapes.head_cameras import BALL, PERSPECTIVE, Cameras, Pull, ball_depth
from rotopaint_ai.shapes.head_poses import HeadPoses

# Chosen on training shots of two puppets that the shipped pack never saw and on four rendered shots.
NOISE_PX = 0.35  # standard deviation of an observation
DEEP = 2e-4  # weight of the ball prior relative to one observation
FIRST_DEEP = 0.02  # the same while cameras are inaccurate
LONGEST_STEP = 0.3  # largest step of a mark in space
_FIRST_ROUNDS, _FIRST_FAR_PX = 4, 8.0  # while cameras are inaccurate
_AT_ONCE = 512  # marks eliminated at once: memory against calls
_PLACE = np.array([1, 1j])


@dataclass(frozen=True, slots=True, eq=False)
class Marks3D:
    """Marks in space (K, 3), and their prior depths (K,)."""

    places: Array
    usual_depth: Array

    def stepped(self, steps: Array) -> Marks3D:
        """Marks after steps (K, 3), limited in length."""
        length = np.linalg.norm(steps, axis=1, keepdims=True)
        return replace(self, places=self.places + steps * np.minimum(1, LONGEST_STEP / np.maximum(length, 1e-9)))


NO_MARKS = Marks3D(np.zeros((0, 3)), np.zeros(0))


def first_marks(cameras: Cameras, heads: HeadPoses, marks: SharedMarks) -> Marks3D:
    """Initial positions of marks, from inaccurate cameras."""
    inside = (marks.at - heads.shift_H[marks.hold]) / heads.factor_H[marks.hold]
    parts = [np.bincount(marks.mark, each, marks.count) for each in (inside.real, inside.imag)]
    x, y = parts / np.bincount(marks.mark, minlength=marks.count)
    found = Marks3D(np.stack([x, y, ball_depth(x + 1j * y)], axis=1), ball_depth(x + 1j * y))
    still = np.zeros((len(cameras.size), 6))
    for _ in range(_FIRST_ROUNDS):
        found = found.stepped(MarkEquations.of(cameras, found, marks, _FIRST_FAR_PX, FIRST_DEEP).steps(still))
        found = replace(found, usual_depth=ball_depth(found.places[:, :2] @ _PLACE))
    return found


def expected_marks(cameras: Cameras, marks: Marks3D) -> ExpectedMarks:
    """The projections of marks, on a surface oriented like a sphere at their positions."""
    outwards = marks.places + (0.0, 0.0, BALL)
    outwards = outwards / np.linalg.norm(outwards, axis=1, keepdims=True)
    one = np.cross(outwards, (0.0, 1.0, 0.0))
    one = one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-9)
    _, by_place = cameras.projection_slopes(marks.places)
    ways = [(by_place @ way[:, :, None])[..., 0] @ _PLACE for way in (one, np.cross(outwards, one))]
    facing = (cameras.turn[:, 2] @ outwards.T) if len(outwards) else np.zeros((len(cameras.size), 0))
    return ExpectedMarks(cameras.see(marks.places), np.stack(ways, axis=-1), facing)


@dataclass(frozen=True, slots=True, eq=False)
class MarkEquations:
    """Normal equations of the observations.

    Cameras (O, 6, 6) and (O, 6), cameras with marks (O, 6, 3), the inverse of the marks' block (K, 3, 3), and (K, 3).
    """

    marks: SharedMarks
    cameras: Array
    camera_pull: Array
    both: Array
    inverse: Array
    mark_pull: Array

    @classmethod
    def of(
        cls,
        cameras: Cameras,
        found: Marks3D,
        marks: SharedMarks,
        far_px: float,
        deep: float = DEEP,
        noise_px: float = NOISE_PX,
    ) -> MarkEquations:
        """`far_px`: the residual at which an observation's weight is halved."""
        mark, n = marks.mark, len(found.places)
        off, by_camera, by_place = _sights(cameras, found.places, marks)
        weight = 1 / (noise_px**2 * (1 + abs(off / far_px) ** 2))
        apart = np.stack([off.real, off.imag], axis=1)
        to_camera, to_place = by_camera * weight[:, None, None], by_place * weight[:, None, None]
        whole, pull = np.zeros((n, 3, 3)), np.zeros((n, 3))
        np.add.at(whole, mark, to_place.transpose(0, 2, 1) @ by_place)
        np.add.at(pull, mark, (to_place * apart[..., None]).sum(axis=1))
        bound = np.array([1e-6, 1e-6, deep]) * float((cameras.size**2).mean()) / noise_px**2
        pull[:, 2] += bound[2] * (found.usual_depth - found.places[:, 2])
        return cls(
            marks,
            to_camera.transpose(0, 2, 1) @ by_camera,
            (to_camera * apart[..., None]).sum(axis=1),
            to_camera.transpose(0, 2, 1) @ by_place,
            np.asarray(np.linalg.inv(whole + np.diag(bound)), np.float64),
            pull,
        )

    def pull(self, n_holds: int) -> Pull:
        """The normal equations of cameras for fixed marks."""
        whole, pull = np.zeros((n_holds, 6, 6)), np.zeros((n_holds, 6))
        np.add.at(whole, self.marks.hold, self.cameras)
        np.add.at(pull, self.marks.hold, self.camera_pull)
        return whole, pull

    def eliminated(self, n_holds: int) -> tuple[Array, Array]:
        """The normal equations (H, 6, H, 6) and (H, 6) of cameras with marks eliminated, which couples the cameras."""
        mark, hold = self.marks.mark, self.marks.hold
        own, pull = self.pull(n_holds)
        through = self.both @ self.inverse[mark]
        np.subtract.at(pull, hold, (through @ self.mark_pull[mark][..., None])[..., 0])
        whole, every = np.zeros((n_holds, 6, n_holds, 6)), np.arange(n_holds)
        whole[every, :, every] = own
        for start in range(0, len(self.inverse), _AT_ONCE):
            part = slice(*np.searchsorted(mark, (start, start + _AT_ONCE)))
            at = hold[part], slice(None), mark[part] - start
            left, right = np.zeros((2, n_holds, 6, _AT_ONCE, 3))
            left[at], right[at] = through[part], self.both[part]
            whole -= (left.reshape(6 * n_holds, -1) @ right.reshape(6 * n_holds, -1).T).reshape(whole.shape)
        return whole, pull

    def damped(self, damping: float) -> MarkEquations:
        """The equations with the marks' part of the diagonal grown by a share."""
        whole = np.linalg.inv(self.inverse) * (1 + damping * np.eye(3))
        return replace(self, inverse=np.asarray(np.linalg.inv(whole), np.float64))

    def steps(self, camera_steps: Array) -> Array:
        """Steps of the marks (K, 3), given those of the cameras (H, 6)."""
        pull = self.mark_pull.copy()
        moved = camera_steps[self.marks.hold][:, None] @ self.both
        np.subtract.at(pull, self.marks.mark, moved[:, 0])
        return np.asarray((self.inverse @ pull[..., None])[..., 0])


def _sights(cameras: Cameras, places: Array, marks: SharedMarks) -> tuple[Array, Array, Array]:
    """The residuals of observations (O,), and their derivatives by cameras (O, 2, 6) and by marks (O, 2, 3)."""
    turn, size = cameras.turn[marks.hold], cameras.size[marks.hold]
    x, y, z = np.moveaxis((turn @ places[marks.mark][..., None])[..., 0], -1, 0)
    near = 1 / (1 - PERSPECTIVE * z)
    grown = size * near
    seen = cameras.shift[marks.hold] @ _PLACE + grown * (x + 1j * y)
    none, one = np.zeros_like(x), np.ones_like(x)
    across, down = PERSPECTIVE * near * grown * x, PERSPECTIVE * near * grown * y
    by_camera = np.stack(
        [
            np.stack([grown * x, y * across, z * grown - x * across, -y * grown, one, none], axis=1),
            np.stack([grown * y, y * down - z * grown, -x * down, x * grown, none, one], axis=1),
        ],
        axis=1,
    )
    by_place = np.stack([np.stack([grown, none, across], axis=1), np.stack([none, grown, down], axis=1)], axis=1)
    return marks.at - seen, by_camera, by_place @ turn
