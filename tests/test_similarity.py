"""The similarity between two sets of points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotopaint_ai.similarity import fit_similarity, similarity_of

FACE = np.array([0, 4, 1 + 3j, -2 + 1j, 3 - 2j])


@given(
    st.floats(0.1, 10), st.floats(-3, 3), st.complex_numbers(max_magnitude=1000, allow_nan=False, allow_infinity=False)
)
def test_a_moved_face_gives_its_move_back(size: float, turn: float, shift: complex) -> None:
    factor = size * np.exp(1j * turn)
    assert fit_similarity(FACE, factor * FACE + shift) == pytest.approx((factor, shift), abs=1e-6)
    assert similarity_of(list(zip(FACE, factor * FACE + shift))) == pytest.approx((factor, shift), abs=1e-6)


def test_points_without_weight_have_no_say_and_each_row_is_its_own() -> None:
    target = np.stack([2j * FACE + 5, FACE - 1])
    target[0, 2], target[1, 4] = 100, -100
    weight = np.array([[1, 1, 0, 1, 1], [1, 2, 3, 4, 0]])
    factor, shift = fit_similarity(np.broadcast_to(FACE, target.shape), target, weight)
    assert factor == pytest.approx([2j, 1])
    assert shift == pytest.approx([5, -1])


def test_one_point_gives_no_scale() -> None:
    factor, shift = fit_similarity(FACE, FACE + 3, np.array([0, 0, 1.0, 0, 0]))
    assert (factor, shift) == (1, 3)
    assert similarity_of([(1 + 1j, 5)]) == (1, 4 - 1j)
    assert similarity_of([]) == (1, 0)
