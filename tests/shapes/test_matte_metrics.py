"""Mattes against closed forms: discs of known radii, strips of known widths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotopaint_ai.shapes.matte_metrics import boundary_f, intersection_over_union, side_by_side
from rotopaint_ai.shapes.rasterise import rasterise_closed

HANDLE = 4 / 3 * (math.sqrt(2) - 1)


def ring(radius: float, x: float) -> np.ndarray:
    """Control points of a circle around (x, 64)."""
    k = HANDLE * radius
    points = [[x - radius, 64, 0, k, 0, -k], [x, 64 - radius, -k, 0, k, 0]]
    points += [[x + radius, 64, 0, -k, 0, k], [x, 64 + radius, k, 0, -k, 0]]
    return np.array(points, float)


def disc(radius: float, x: float = 64.0) -> np.ndarray:
    return np.asarray(rasterise_closed(ring(radius, x), 128, 128).paste(128, 128))


def test_concentric_discs() -> None:
    small, large = disc(30), disc(32.5)
    assert intersection_over_union(small, large) == pytest.approx((30 / 32.5) ** 2, abs=2e-3)
    # the boundaries run 2.5 px apart: beyond 1 px, within 3 px
    one, two, three = boundary_f(small, large)
    assert one == 0
    assert 0 < two < 0.9
    assert three == pytest.approx(1.0, abs=0.02)


def test_equal_apart_and_empty() -> None:
    np.testing.assert_array_equal(boundary_f(disc(20), disc(20)), 1)
    assert intersection_over_union(disc(20, 30), disc(20, 95)) == 0
    empty = np.zeros((128, 128), np.float32)
    np.testing.assert_array_equal(boundary_f(empty, disc(20)), 0)
    np.testing.assert_array_equal(boundary_f(empty, empty), 1)
    assert intersection_over_union(empty, empty) == 1


def test_windows_hold_both_mattes_and_change_nothing() -> None:
    one = rasterise_closed(ring(30.0, 50.0), 128, 128)
    other = rasterise_closed(ring(20.0, 90.0), 128, 128)
    pair = side_by_side(one, other)
    assert pair[0].shape == pair[1].shape < (128, 128)
    whole = [np.asarray(region.paste(128, 128)) for region in (one, other)]
    assert intersection_over_union(*pair) == pytest.approx(intersection_over_union(*whole), abs=1e-6)
    np.testing.assert_allclose(boundary_f(*pair), boundary_f(*whole))
    lonely = side_by_side(rasterise_closed(ring(5.0, 400.0), 128, 128), one)  # wholly outside the picture
    assert lonely[0].sum() == 0
    assert lonely[1].sum() == pytest.approx(one.coverage.sum())
