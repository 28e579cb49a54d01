"""The pose of a head in each hold."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.shapes.head_poses import HeadPoses, head_poses


def test_poses_undo_shift_turn_and_size() -> None:
    face = np.random.default_rng(4).normal(0, 1, (30, 2)) @ (1, 1j)
    poses = head_poses(face * np.exp([[0.1j], [0.4j]]) * [[1], [3]] + [[5], [7j]])
    assert poses.factor_H[1] / poses.factor_H[0] == pytest.approx(3 * np.exp(0.3j))
    faces = poses.faces(face * np.exp([[0.1j], [0.4j]]) * [[1], [3]] + [[5], [7j]])
    assert faces[0] == pytest.approx(faces[1])
    assert faces.mean() == pytest.approx(0, abs=1e-9)
    assert (abs(faces) ** 2).mean() == pytest.approx(1)
    assert poses.looks_apart(face * np.exp([[0.1j], [0.4j]]) * [[1], [3]] + [[5], [7j]]) == pytest.approx(0, abs=1e-9)


def test_looks_lie_as_far_apart_as_their_points_do_in_the_mean() -> None:
    poses = HeadPoses(np.array([2.0, 1j]), np.array([3.0, 4j]))
    points = np.array([[3.0, 5.0], [4j, 5j]])  # faces 0, 1 and 0, 1
    points[1, 1] += 2j  # and 3
    assert poses.looks_apart(points) == pytest.approx(np.array([[0, np.sqrt(2)], [np.sqrt(2), 0]]))
