"""Mattes against closed forms: discs of known radii, strips of known widths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotopaint_ai.shapes.rasterise import rasterise_closed
from rotopaint_ai.training.evaluation.mattes import boundary_f, intersection_over_union

HANDLE = 4 / 3 * (math.sqrt(2) - 1)


def disc(radius: float, x: float = 64.0) -> np.ndarray:
    k = HANDLE * radius
    points = [[x - radius, 64, 0, k, 0, -k], [x, 64 - radius, -k, 0, k, 0]]
    points += [[x + radius, 64, 0, -k, 0, k], [x, 64 + radius, k, 0, -k, 0]]
    return np.asarray(rasterise_closed(np.array(points, float), 128, 128).paste(128, 128))


def test_concentric_discs() -> None:
    small, large = disc(30), disc(32.5)
    assert intersection_over_union(small, large) == pytest.approx((30 / 32.5) ** 2, abs=2e-3)
    # the boundaries run 2.5 px apart: out of reach at 1 px, within it at 3 px
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
