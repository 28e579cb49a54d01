"""Landmarks of a frame and their measures, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.landmarks.metrics import face_size_F, jitter_px, rank_correlation

from .dots import FACE, frame


def test_a_hand_point_replaces_one_landmark_only() -> None:
    before = frame(1003, FACE)
    edited = before.with_hand({1: (5.0, 6.0)})
    assert tuple(edited.points_LC[1]) == (5, 6)
    assert edited.hand_L.tolist() == [False, True, False]
    np.testing.assert_array_equal(edited.points_LC[0], before.points_LC[0])
    assert not before.hand_L.any()


def test_face_size_and_jitter() -> None:
    np.testing.assert_array_equal(face_size_F(np.stack((FACE, FACE + 1))), [45, 45])
    still = np.random.default_rng(0).normal(0, 0.7, (4000, 5, 2))
    assert jitter_px(still) == pytest.approx(0.7, rel=0.02)
    assert jitter_px(np.arange(20.0)[:, None, None] * np.ones((1, 3, 2))) == pytest.approx(0, abs=1e-9)


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([10.0, 20, 30, 99])) == pytest.approx(1)
    # ranks 0 1 2 3 against 1 0 2 3: 1 - 6 * (1 + 1) / (4 * 15)
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 3, 4])) == pytest.approx(0.8)
    # ties share their mean rank: 0 1.5 1.5 3 against 0 1 2 3
    assert rank_correlation(np.array([1.0, 2, 2, 4]), np.array([1.0, 2, 3, 4])) == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert np.isnan(rank_correlation(np.array([1.0]), np.array([1.0])))
