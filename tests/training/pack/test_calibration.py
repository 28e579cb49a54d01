"""Calibration and rank correlation against cases with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.training.pack.select import calibrate, rank_correlation


def test_calibration_finds_the_law_that_made_the_errors() -> None:
    rng = np.random.default_rng(0)
    said = rng.normal(0.5, 1.0, 20_000)
    distance = rng.exponential(np.exp(0.7 + 0.5 * said))
    distance[:10] = np.nan
    a, b = calibrate(distance, said)
    assert abs(a - 0.7) < 0.05
    assert abs(b - 0.5) < 0.03


def test_calibration_keeps_the_mean_even_where_the_power_is_limited() -> None:
    rng = np.random.default_rng(0)
    said = rng.normal(0, 1, 5000)
    distance = rng.exponential(3.0, 5000)  # has nothing to do with what was said
    a, b = calibrate(distance, said)
    assert b == 0.3
    assert abs(np.mean(np.exp(a + b * said)) - 3.0) < 0.3


def test_few_samples_leave_the_network_as_it_is() -> None:
    assert calibrate(np.ones(3), np.zeros(3)) == (0.0, 1.0)


def test_rank_correlation_by_hand() -> None:
    # ranks 0 1 2 3 against 0 2 1 3: 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15) = 0.8
    assert rank_correlation(np.array([1, 2, 3, 4.0]), np.array([10, 30, 20, 1000.0])) == pytest.approx(0.8)
    assert rank_correlation(np.array([1, 2, np.nan, 4.0]), np.array([3, 2, 9, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(np.array([1.0, 1.0]), np.array([1.0, 2.0])) == 0.0
    # equal values share ranks: (0, 1.5, 1.5, 3) with itself
    assert rank_correlation(np.array([1, 2, 2, 3.0]), np.array([5, 6, 6, 9.0])) == pytest.approx(1.0)
