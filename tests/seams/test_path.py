"""The path of a seam through a network's outputs, calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams.path import (
    JUMP,
    N_OFFSETS,
    OFFSETS,
    StripReading,
    _chain_posteriors,
    likely_offsets,
    slide,
    smooth_path,
)


def kernel(bend: float = 1.0) -> np.ndarray:
    """Likelihood of two neighbouring offsets: a Gaussian that sums to one in the middle of the strip, plus any jump."""
    made = np.array([[np.exp(-0.5 * ((a - b) / bend) ** 2) for b in range(N_OFFSETS)] for a in range(N_OFFSETS)])
    return made / made[:, N_OFFSETS // 2].sum() + JUMP / N_OFFSETS


def test_an_offset_has_the_probability_of_the_paths_through_it() -> None:
    """Three positions: before times here times after for the middle one; the others have both on one side."""
    first, middle, last = emits = np.random.default_rng(3).uniform(0.1, 1.0, (3, N_OFFSETS))
    step = kernel()
    wanted = [
        first * (step @ (middle * (step @ last))),
        middle * (step @ first) * (step @ last),
        last * (step @ (middle * (step @ first))),
    ]
    short = np.random.default_rng(4).uniform(0.1, 1.0, (2, N_OFFSETS))
    found, beside = _chain_posteriors([emits, short], [np.zeros(3), np.zeros(2)])
    np.testing.assert_allclose(found, [each / each.sum() for each in wanted], rtol=1e-9)
    np.testing.assert_allclose(beside, _chain_posteriors([short], [np.zeros(2)])[0], rtol=1e-12)
    np.testing.assert_allclose(beside[0], short[0] * (step @ short[1]) / (short[0] @ step @ short[1]), rtol=1e-9)


def test_the_offset_may_change_by_more_where_the_curve_turns() -> None:
    """A turn of 0.1 radians at the last of three positions: 1 + 20 x 0.1 steps between it and the one before."""
    first, middle, last = emits = np.random.default_rng(3).uniform(0.1, 1.0, (3, N_OFFSETS))
    step, wide = kernel(), kernel(3.0)
    wanted = [
        first * (step @ (middle * (wide @ last))),
        middle * (step @ first) * (wide @ last),
        last * (wide @ (middle * (step @ first))),
    ]
    (found,) = _chain_posteriors([emits], [np.array([0.0, 0.0, 0.1])])
    np.testing.assert_allclose(found, [each / each.sum() for each in wanted], rtol=1e-9)


def test_a_seam_four_steps_off_is_found_between_its_ends_alone() -> None:
    """Four positions beyond either end are invisible."""
    at = int(np.flatnonzero(OFFSETS == 4.5)[0])
    logits = np.zeros((24, N_OFFSETS + 1))
    logits[4:20, at], logits[:4, -1], logits[20:, -1] = 12.0, 12.0, 12.0
    strip = StripReading(logits, np.zeros(24))
    found = smooth_path(strip, expected_error=4.0, beyond=4)
    assert found.moves[4:20] == pytest.approx(np.full(16, 4.5), abs=0.05)
    assert found.seen == 1.0
    assert found.mean_error < 0.05
    assert smooth_path(strip, expected_error=4.0).seen == pytest.approx(16 / 24)
    assert (found.hidden[:4] > 0.99).all()


def test_a_corner_that_the_prediction_cuts_is_followed() -> None:
    """The seam runs 4 steps aside within a pair, at a place where the curve turns by 0.2 radians a pair."""
    true = np.where(np.abs(np.arange(24) - 12) <= 2, 4.5, 0.5)
    logits = -0.5 * (OFFSETS - true[:, None]) ** 2
    logits = np.concatenate([logits, np.full((24, 1), -4.0)], axis=1)
    turn = np.where(np.abs(np.arange(24) - 12) <= 4, 0.2, 0.0)
    corner, straight = (smooth_path(StripReading(logits, each), 2.0).moves for each in (turn, 0 * turn))
    assert np.abs(corner - true).max() < 1.0
    assert np.abs(straight - true).max() > 1.5
    near = likely_offsets([StripReading(logits, each) for each in (turn, 0 * turn)], 4.0)
    assert near[0].mean[13] > near[1].mean[13] + 0.2


def test_a_path_lies_between_traces_where_the_seam_is_invisible() -> None:
    """Faint traces lie 4 steps to one side, then to the other; the likeliest path would jump by more than 5 steps."""
    place, middle = np.arange(40), N_OFFSETS // 2
    logits = np.zeros((40, N_OFFSETS + 1))
    logits[np.abs(place - 20) > 12, middle] = 12.0
    logits[8:33, -1], logits[8:20, middle + 4], logits[20:33, middle - 4] = 4.0, 3.0, 3.0
    moves = smooth_path(StripReading(logits, np.zeros(40)), 3.0).moves
    assert np.abs(np.diff(moves)).max() < 3.5


@pytest.mark.parametrize("further", [-3, -1, 0, 2])
def test_an_end_slides_to_where_the_seam_is_no_longer_seen(further: int) -> None:
    hidden = np.where(np.arange(20) < 14 + further, 0.05, 0.95)
    assert slide(hidden, 6, spread=3.0) == further


def test_an_end_stays_where_the_seam_is_not_seen_up_to_it() -> None:
    assert slide(np.full(20, 0.9), 6, spread=3.0) == 0
