"""The interpolation between the banks, against the least squares problem that it solves."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import banks


@pytest.mark.parametrize("n_rows", [3, 5, 25])
def test_the_membrane_is_the_least_squares_one(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    light = rng.normal(size=(n_rows, 2, 4)).astype(np.float32)
    trust = (rng.random((n_rows, 4)) > 0.5).astype(np.float32)
    trust[[0, -1]] = 1.0
    found = banks.join(light, trust)
    bend = np.diff(np.eye(n_rows), axis=0)
    for column in range(4):
        weight = np.diag(trust[:, column] + 1e-4)
        for colour in range(2):
            wanted = np.linalg.solve(weight + bend.T @ bend, weight @ light[:, colour, column])
            assert np.allclose(found[:, colour, column], wanted, atol=1e-5)


def test_across_a_gap_it_runs_straight_from_bank_to_bank() -> None:
    light = np.zeros((21, 1, 1), np.float32)
    light[13:] = 1.0
    trust = np.full((21, 1), 1e6, np.float32)
    trust[7:14] = 0.0
    found = banks.join(light, trust)[:, 0, 0]
    assert np.allclose(np.diff(found[6:15]), 1 / 8, atol=2e-3)


def test_an_even_number_of_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="4 rows; wanted an odd number"):
        banks.join(np.zeros((4, 3, 5), np.float32), np.ones((4, 5), np.float32))
