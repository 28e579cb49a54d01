"""How far a seam's probability agrees with a matte, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.training.models.segmentation.agreement import NEAR, agreement


def _bar(row: int, first: int = 20, last: int = 80) -> np.ndarray:  # type: ignore[type-arg]
    picture = np.zeros((100, 100), np.float32)
    picture[row : row + 2, first:last] = 1
    return picture


def test_the_same_seam_agrees_in_full() -> None:
    found = agreement(_bar(40), _bar(40))
    assert found is not None
    assert (found.seen, found.covered, found.score) == (1, 1, 1)


def test_a_seam_a_little_aside_still_agrees_and_one_far_away_does_not() -> None:
    assert pytest.approx(1.2) == NEAR * 100  # pixels of this crop
    near, far = agreement(_bar(41), _bar(40)), agreement(_bar(50), _bar(40))
    assert near is not None
    assert far is not None
    assert near.score == 1
    assert far.score == 0


def test_half_a_seam_is_seen_by_half() -> None:
    found = agreement(_bar(40, last=50), _bar(40))  # 30 of 60 columns, and one more is within reach
    assert found is not None
    assert found.seen == pytest.approx(31 / 60)
    assert found.covered == 1
    assert found.score == pytest.approx(2 * 31 / 60 / (1 + 31 / 60))


def test_no_seam_on_either_side_is_no_disagreement() -> None:
    assert agreement(np.zeros((100, 100)), np.zeros((100, 100))) is None
    lone = agreement(_bar(40), np.zeros((100, 100)))
    assert lone is not None
    assert lone.score == 0
