"""Seam mattes and curves come only from the seams of a document."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import matte
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape


def shape(name: str, points: list[tuple[float, float]], **extra: object) -> RotoShape:
    key = Key(tuple(ControlPoint(x, y) for x, y in points))
    return RotoShape(name, **({"closed": False, "role": "seam", "keys": {1001: key}, "width_px": 4.0} | extra))  # type: ignore[arg-type]


LEFT = shape("seam_left", [(10.0, 20.0), (30.0, 20.0)])
DOWN = shape("seam_down", [(20.0, 10.0), (20.0, 30.0)], width_px=2.0)
BROW = shape("brow", [(5.0, 5.0), (9.0, 5.0), (9.0, 9.0)], closed=True, role="matte")
HIDDEN = shape("seam_back", [(1.0, 1.0), (9.0, 9.0)], visible={1001: False})
AWAY = shape("seam_away", [(200.0, 20.0), (230.0, 20.0)])
ALL = (LEFT, DOWN, BROW, HIDDEN, AWAY)


def test_mattes_of_visible_seams_only() -> None:
    regions = matte.seam_mattes(ALL, 1001, 64, 48)
    assert list(regions) == ["seam_left", "seam_down"]
    # a stroke 20 long and 4 wide with round ends: 20 x 4 + pi 2^2
    assert regions["seam_left"].coverage.sum() == pytest.approx(80 + 4 * np.pi, rel=0.01)


def test_the_union_is_the_larger_coverage() -> None:
    regions = matte.seam_mattes(ALL, 1001, 64, 48)
    union = matte.seam_matte(ALL, 1001, 64, 48).paste(64, 48)
    assert np.array_equal(union, np.maximum(*(r.paste(64, 48) for r in regions.values())))
    assert matte.seam_matte((BROW,), 1001, 64, 48).is_empty


def test_curves_are_in_the_crops_own_pixels() -> None:
    curves = matte.seam_curves(ALL, 1001, origin=(10, 5))
    line, half = curves[0]
    assert half == 2.0
    assert line[0] == pytest.approx([0.0, 15.0])
    assert line[-1] == pytest.approx([20.0, 15.0])
    assert len(curves) == 3  # the one outside the plate has a curve as well; its matte is empty


def test_a_closed_band_has_a_middle_line() -> None:
    band = shape("seam_band", [(10.0, 20.0), (50.0, 20.0), (50.0, 24.0), (10.0, 24.0)], closed=True)
    ((line, half),) = matte.seam_curves((band,), 1001)
    inner = line[(line[:, 0] > 14) & (line[:, 0] < 46)]
    assert np.abs(inner[:, 1] - 22.0).max() < 1.0
    assert np.ptp(line[:, 0]) > 35
    assert half == pytest.approx(2.0, abs=0.4)


def test_a_seam_ends_where_a_shape_holds_out() -> None:
    """Half of the stroke 20 x 4 lies under the square, with one round end: 10 x 4 + pi 2^2 / 2 remain."""
    corners = [(20.0, 0.0), (60.0, 0.0), (60.0, 40.0), (20.0, 40.0)]
    hand = shape("hand", corners, closed=True, role="matte", subtract=True)
    regions = matte.seam_mattes((LEFT, hand), 1001, 64, 48)
    assert list(regions) == ["seam_left"]
    assert regions["seam_left"].coverage.sum() == pytest.approx(40 + 2 * np.pi, rel=0.01)
