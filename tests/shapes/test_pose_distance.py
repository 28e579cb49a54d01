"""Distances between poses of a face, against closed forms."""

from __future__ import annotations

import cmath
from collections.abc import Sequence

import pytest

from rotopaint_ai.shapes.pose_distance import SAME_POSE, PoseDistances, pose_distance
from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys

TRIANGLE = [cmath.exp(2j * cmath.pi * k / 3) for k in range(3)]


def row(places: Sequence[complex | None]) -> tuple[Landmark | None, ...]:
    return tuple(None if z is None else Landmark(z.real, z.imag) for z in places)


def test_shift_turn_and_size_make_no_other_pose() -> None:
    moved = [3 - 4j + 2.5 * cmath.exp(0.7j) * z for z in TRIANGLE]
    assert pose_distance(row(TRIANGLE), row(moved)) == pytest.approx(0, abs=1e-6)


def test_a_mirrored_triangle_is_as_far_as_can_be() -> None:
    # the sum of the cube roots of 1 is 0: no similarity with its mirror image
    assert pose_distance(row(TRIANGLE), row([z.conjugate() for z in TRIANGLE])) == pytest.approx(1)


def test_the_angle_between_two_shapes() -> None:
    # a mean of two shapes that have nothing in common lies 60 degrees off the one that counts for a half of the other
    mixed = [z + cmath.sqrt(3) * z.conjugate() for z in TRIANGLE]
    assert pose_distance(row(TRIANGLE), row(mixed)) == pytest.approx(3**0.5 / 2)


def test_what_either_hides_is_left_out() -> None:
    a, b = [*TRIANGLE, 9 + 1j, None], [*TRIANGLE, None, 1 + 1j]
    assert pose_distance(row(a), row(b)) == pytest.approx(0, abs=1e-6)
    assert pose_distance(row(TRIANGLE), row([1, 2j, None])) == 1.0
    assert pose_distance((), ()) == 1.0


def test_three_points_on_a_line_of_which_one_moves_off_it() -> None:
    # round their middles (-1, 0, 1) and (-1 - 0.1i, -0.1i, 1 + 0.2i): product 2 + 0.3i, squares 2 and 2.06
    found = pose_distance(row([0, 1, 2]), row([0, 1, 2 + 0.3j]))
    assert found == pytest.approx((1 - 4.09 / (2 * 2.06)) ** 0.5)


def test_landmarks_in_one_place_are_like_no_pose() -> None:
    assert pose_distance(row([5, 5, 5]), row(TRIANGLE)) == 1.0
    assert pose_distance(row(TRIANGLE), row([5, 5, 5])) == 1.0


def test_novelty_is_of_the_nearest_corrected_pose() -> None:
    mirrored = [z.conjugate() for z in TRIANGLE]
    poses = PoseDistances(LandmarkKeys(("a", "b", "c"), {1: row(TRIANGLE), 2: row(mirrored), 3: row(TRIANGLE)}))
    assert poses.novelty(1, ()) == 1.0
    assert poses.novelty(3, (2,)) == 1.0
    assert poses.novelty(3, (2, 1)) == pytest.approx(SAME_POSE, abs=1e-6)
    assert poses.novelty(4, (1,)) == 1.0  # its pose is unknown
