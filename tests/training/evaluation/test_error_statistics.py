"""Expected errors compared with actual ones: known distributions, and counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotopaint_ai.training.evaluation.error_statistics import (
    best_rank_correlation,
    calibration_figures,
    known_rank_correlation,
    list_doubts,
    per_frame,
    reliability,
    review_figures,
)


def test_bins_of_a_believable_pack_lie_on_the_diagonal() -> None:
    rng = np.random.default_rng(0)
    said = rng.uniform(0.5, 4.0, (4000, 10))
    true = rng.rayleigh(said * np.sqrt(2 / np.pi))  # mean of a Rayleigh distribution: sigma * sqrt(pi / 2)
    bins = reliability(true, said)
    assert len(bins) == 10
    assert sum(b["count"] for b in bins) == 40_000
    for b in bins:
        assert b["true_px"] == pytest.approx(b["expected_px"], rel=0.05)
    got = known_rank_correlation(true.ravel(), said.ravel())
    assert got == pytest.approx(best_rank_correlation(said.ravel()), abs=0.02)


def test_equal_expected_errors_cannot_rank_anything() -> None:
    assert best_rank_correlation(np.full(500, 2.0)) is None
    assert known_rank_correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None  # too few


def test_bad_frames_among_those_shown_first() -> None:
    true = np.array([0.5] * 16 + [3.0, 4.0, 5.0, 1.0])
    said = np.array([0.1] * 16 + [9.0, 0.2, 0.3, 8.0])
    # 20 frames: 2 are shown, rows 16 and 19; three frames are bad, one of them is among the two
    found = review_figures(true, said)
    assert found == {
        "frames_worse_than_2_px": 3,
        "frames_shown": 2,
        "of_them_in_worst_tenth_shown": 0.3333,
        "of_those_that_fit": 0.5,
    }
    assert review_figures(np.ones(20), said)["of_them_in_worst_tenth_shown"] is None


def test_landmarks_that_do_not_count_do_not_count() -> None:
    true = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [2.0, 2.0, np.nan]])
    np.testing.assert_array_equal(per_frame(true), [2.0, np.nan, 2.0])
    said = np.full_like(true, 2.0)
    figures = calibration_figures(true, said)
    assert (figures["mean_true_px"], figures["mean_expected_px"]) == (2.0, 2.0)
    assert sum(b["count"] for b in figures["reliability"]) == 4


def _result(n: int, true_NL: np.ndarray, expected_NL: np.ndarray, percent: float = 0.5) -> dict[str, Any]:
    figures = calibration_figures(true_NL, expected_NL)
    return {"n_samples": n, "expected_error": figures, "landmarks_percent": {"mean": percent}}


def test_a_badly_trained_pack_reports_it() -> None:
    rng = np.random.default_rng(3)
    size = np.linspace(0.5, 4.0, 40)
    good = rng.rayleigh(np.repeat(size[:, None], 30, axis=1)) * np.sqrt(2 / np.pi)
    expected = np.repeat(size[:, None], 30, axis=1)
    assert list_doubts(_result(40, good, expected)) == []
    (unranked,) = list_doubts(_result(40, good, rng.permutation(expected)))
    assert "expected errors do not find the bad frames" in unranked
    (sure_of_itself,) = list_doubts(_result(40, good, expected / 2))
    assert sure_of_itself.endswith("px off where 1.1 px are expected")
    (bad,) = list_doubts(_result(40, good, expected, percent=9.0))
    assert bad == "landmarks are 9.0 % of the face off: badly trained, or it knows no such face"
    (few,) = list_doubts(_result(1, good[:1], expected[:1]))
    assert few == "measured on 1 sample: these figures say little"
