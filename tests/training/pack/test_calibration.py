"""Calibration and rank correlation against cases with known answers."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.training.pack.select_models import calibrate


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
    distance = rng.exponential(3.0, 5000)  # independent of the expected error
    a, b = calibrate(distance, said)
    assert b == 0.3
    assert abs(np.mean(np.exp(a + b * said)) - 3.0) < 0.3


def test_few_samples_leave_the_network_as_it_is() -> None:
    assert calibrate(np.ones(3), np.zeros(3)) == (0.0, 1.0)
