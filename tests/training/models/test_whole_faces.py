"""Landmarks that nobody keyed are inferred from the others, so that shapes learn turned heads, too."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.training.models.whole_faces import ENOUGH, complete_faces

N, L = 40, 24
HEAD = np.random.default_rng(5).normal(0, 1, (L, 3)) * [1.0, 1.2, 0.6]
ORDER = list(range(L))


def faces(seed: int) -> np.ndarray:
    """Orthographic views [N, L, 2] of a rigid head, turned by up to 35 degrees, in pixels."""
    rng = np.random.default_rng(seed)
    yaw, pitch = rng.uniform(-0.6, 0.6, N), rng.uniform(-0.3, 0.3, N)
    x = np.stack([np.cos(yaw), 0 * yaw, np.sin(yaw)], 1)
    y = np.stack([np.sin(yaw) * np.sin(pitch), np.cos(pitch), -np.cos(yaw) * np.sin(pitch)], 1)
    return HEAD @ np.stack([x, y], 2) * rng.uniform(45, 55, (N, 1, 1)) + rng.uniform(90, 110, (N, 1, 2))


def far_sides_left_out(true: np.ndarray) -> np.ndarray:
    """The third of the landmarks furthest to the left is keyed in no frame but every fourth."""
    keyed = true.copy()
    keyed[np.arange(N) % 4 > 0, : L // 3] = np.nan
    return keyed


def test_what_the_far_side_hides_is_inferred() -> None:
    true = faces(1)
    keyed = far_sides_left_out(true)
    whole = complete_faces(keyed, ORDER)
    left_out = np.isnan(keyed)
    np.testing.assert_array_equal(whole[~left_out], keyed[~left_out])
    assert np.isfinite(whole).all()
    off = np.linalg.norm(whole - true, axis=2)[left_out.all(axis=2)]
    assert np.mean(off) < 1.0  # of faces of some 200 px
    assert np.max(off) < 5.0


def test_it_makes_no_difference_where_in_its_picture_a_face_lies() -> None:
    keyed = far_sides_left_out(faces(1))
    np.testing.assert_allclose(complete_faces(keyed + 3000, ORDER) - 3000, complete_faces(keyed, ORDER), atol=0.2)


def test_a_face_of_which_too_little_is_known_stays_as_it_is() -> None:
    keyed = far_sides_left_out(faces(2))
    keyed[5, : int(L * (1 - ENOUGH)) + 1] = np.nan
    whole = complete_faces(keyed, ORDER)
    np.testing.assert_array_equal(whole[5], keyed[5])
    assert np.isfinite(np.delete(whole, 5, axis=0)).all()


def test_faces_without_gaps_and_too_few_faces_for_a_head_stay_as_they_are() -> None:
    true = faces(3)
    assert complete_faces(true, ORDER) is true
    few = far_sides_left_out(true)[:6]
    np.testing.assert_array_equal(complete_faces(few, ORDER), few)
