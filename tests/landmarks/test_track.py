"""The track and its measures, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.landmarks.metrics import face_size_F, jitter_px, landmark_error, nme, rank_correlation
from rotopaint_ai.landmarks.track import LandmarkTrack

from .dots import FACE, frame

TRACK = LandmarkTrack(("a", "b", "c"), {1003: frame(1003, FACE + 1), 1001: frame(1001, FACE)})


def test_rows_follow_frame_numbers() -> None:
    assert TRACK.numbers == (1001, 1003)
    np.testing.assert_array_equal(TRACK.points_FLC[1] - TRACK.points_FLC[0], np.ones((3, 2)))
    assert LandmarkTrack(("a",)).points_FLC.shape == (0, 1, 2)


def test_a_hand_point_replaces_one_landmark_only() -> None:
    edited = TRACK.with_hand(1003, {"b": (5.0, 6.0)})
    assert tuple(edited.frames[1003].points_LC[1]) == (5, 6)
    assert edited.frames[1003].hand_L.tolist() == [False, True, False]
    np.testing.assert_array_equal(edited.frames[1003].points_LC[0], TRACK.frames[1003].points_LC[0])
    assert not TRACK.frames[1003].hand_L.any()


def test_unknown_names_and_frames_are_refused() -> None:
    with pytest.raises(UsageError, match="landmark 'nose': not in this track; wanted one of a, b, c"):
        TRACK.with_hand(1001, {"nose": (0.0, 0.0)})
    with pytest.raises(UsageError, match="frame 7: not in this track"):
        TRACK.with_hand(7, {"a": (0.0, 0.0)})


def test_landmark_error_counts_what_it_is_reported_to() -> None:
    truth = np.zeros((2, 2, 2))
    predicted = truth + np.array([3.0, 4.0])
    predicted[1, 1] = 100
    counted = np.array([[True, True], [True, False]])
    result = landmark_error(predicted, truth, counted)
    assert (result.mean_px, result.median_px, result.p95_px, result.n_counted) == (5, 5, 5, 3)
    assert np.isnan(landmark_error(predicted, truth, np.zeros((2, 2), dtype=bool)).mean_px)


def test_nme_is_the_mean_of_frames() -> None:
    truth = np.zeros((3, 2, 2))
    predicted = truth + np.array([3.0, 4.0])
    counted = np.array([[True, True], [True, False], [False, False]])
    assert nme(predicted, truth, counted, np.array([10.0, 50.0, 1.0])) == pytest.approx((0.5 + 0.1) / 2)


def test_face_size_and_jitter() -> None:
    np.testing.assert_array_equal(face_size_F(TRACK.points_FLC), [45, 45])
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
