"""Rows between keys, against cubic polynomials and by hand."""

from __future__ import annotations

import pytest

from rotopaint_ai.shapes.between import ease, hermite, interpolate_linear, spline_slopes


def test_straight_rows_and_eases_by_hand() -> None:
    assert interpolate_linear([[1.0, 8.0]], [[3.0, 0.0]], 0.25) == [[1.5, 6.0]]
    assert [ease(u) for u in (0.0, 0.25, 0.5, 1.0)] == [0.0, 0.15625, 0.5, 1.0]


@pytest.mark.parametrize("u", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_a_cubic_is_reproduced_at_every_parameter(u: float) -> None:
    def value(t: float) -> float:
        return 2.0 - 3.0 * t + 0.5 * t**2 - 0.25 * t**3

    def slope(t: float) -> float:
        return -3.0 + t - 0.75 * t**2

    first, span = 4.0, 5.0
    at = [[[row(first + t)]] for t in (0.0, span) for row in (value, slope)]
    assert hermite(at[0], at[2], at[1], at[3], u, span)[0][0] == pytest.approx(value(first + u * span), abs=1e-9)


def test_slopes_of_a_smooth_move_by_hand() -> None:
    before, here, after = [[1.0, 0.0, 0.0]], [[3.0, 1.0, 8.0]], [[13.0, 0.0, 8.5]]
    # central over 2 + 5 frames: 12 / 7; a turning point; 8.5 / 7 is more than three times the flatter side, 0.1
    assert spline_slopes(before, here, after, 2.0, 5.0)[0] == pytest.approx([12.0 / 7.0, 0.0, 0.3])
    assert spline_slopes([[0.0]], [[-8.0]], [[-8.5]], 2.0, 5.0)[0] == pytest.approx([-0.3])
    assert spline_slopes([[1.0, 4.0]], [[1.2, 6.0]], [[11.2, 6.0]], 2.0, 5.0)[0] == pytest.approx([0.3, 0.0])
    assert spline_slopes(None, here, after, 2.0, 5.0)[0] == pytest.approx([2.0, -0.2, 0.1])
    assert spline_slopes(before, here, None, 2.0, 5.0)[0] == pytest.approx([1.0, 0.5, 4.0])
    assert spline_slopes(None, here, None, 2.0, 5.0)[0] == [0.0, 0.0, 0.0]
