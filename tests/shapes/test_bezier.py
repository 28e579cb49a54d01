"""Bezier arithmetic against closed forms and round trips."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.bezier import Array

from .curves import area, insert

# The exact length of (0,0), (0,1), (1,1), (1,0): B' = (6 t (1-t), 3 (1 - 2t)), so that
# |B'| = 3 sqrt(4 t^2 (1-t)^2 + (1-2t)^2) = 3 (1 - 2t + 2t^2), and the length is 3 (1 - 1 + 2/3) = 2.
ARCH = np.array([[0.0, 0, 0, 0, 0, 1], [1.0, 0, 0, 1, 0, 0]])


def circle(cx: float, cy: float, radius: float, n: int) -> Array:
    """A circle of n cubics (error below 3e-4 of the radius for n = 4, 5e-6 for n = 8)."""
    a = np.arange(n) * 2 * np.pi / n
    k = 4 / 3 * math.tan(math.pi / 2 / n) * radius
    c, s = np.cos(a), np.sin(a)
    return np.stack((cx + radius * c, cy + radius * s, k * s, -k * c, -k * s, k * c), axis=1)


curves = st.lists(
    st.tuples(*[st.floats(-200, 200, width=32)] * 2, *[st.floats(-60, 60, width=32)] * 4), min_size=3, max_size=8
).map(lambda rows: np.array(rows, dtype=float))


def test_length_of_the_arch_is_two() -> None:
    assert bezier.length(ARCH, False) == pytest.approx(2.0, abs=1e-12)


def test_area_and_length_of_a_circle() -> None:
    ring = circle(100, 50, 40, 16)
    assert area(ring) == pytest.approx(math.pi * 1600, rel=1e-7)
    assert bezier.length(ring, True) == pytest.approx(math.pi * 80, rel=1e-7)
    assert area(bezier.reverse(ring, True)) == pytest.approx(-math.pi * 1600, rel=1e-7)


@settings(max_examples=50)
@given(curves, st.booleans(), st.floats(0.05, 0.95))
def test_a_point_more_leaves_the_curve_where_it_was(points: Array, closed: bool, t: float) -> None:
    segment = len(points) - (1 if closed else 2)
    more = insert(points, closed, segment, t)
    cubic = bezier.segments(points, closed)[segment]
    left, right = bezier.segments(more, closed)[segment : segment + 2]
    u = np.linspace(0, 1, 11)
    assert np.allclose(bezier.evaluate(left[None], u), bezier.evaluate(cubic[None], u * t), atol=1e-6)
    assert np.allclose(bezier.evaluate(right[None], u), bezier.evaluate(cubic[None], t + u * (1 - t)), atol=1e-6)
    assert np.allclose(more[0, :2], points[0, :2])


@settings(max_examples=50)
@given(curves, st.booleans())
def test_reversing_twice_changes_nothing(points: Array, closed: bool) -> None:
    assert np.array_equal(bezier.reverse(bezier.reverse(points, closed), closed), points)


def test_reversing_runs_the_same_curve_the_other_way() -> None:
    there = bezier.sample(ARCH + 3.0, False, per_segment=10)
    back = bezier.sample(bezier.reverse(ARCH + 3.0, False), False, per_segment=10)
    assert np.allclose(there, back[::-1])


@settings(max_examples=50)
@given(curves, st.booleans())
def test_segments_and_back(points: Array, closed: bool) -> None:
    points = points.copy()
    if not closed:
        points[0, 2:4] = points[-1, 4:6] = 0
    assert np.allclose(bezier.from_segments(bezier.segments(points, closed), closed), points, atol=1e-9)


def test_flattening_keeps_its_tolerance() -> None:
    ring = circle(0, 0, 150, 4)
    fine = bezier.flatten(ring, True, 1e-6)
    for tolerance in (0.1, 0.01, 0.001):
        line = bezier.flatten(ring, True, tolerance)
        assert bezier.distance_to_polyline(fine, line, True).max() <= tolerance


def test_centred_flattening_keeps_the_area() -> None:
    ring = circle(0, 0, 150, 4)
    line = bezier.flatten(ring, True, 0.05, centred=True)
    plain = bezier.flatten(ring, True, 0.05)

    def shoelace(p: Array) -> float:
        return float((p[:, 0] * np.roll(p[:, 1], -1) - p[:, 1] * np.roll(p[:, 0], -1)).sum() / 2)

    exact = area(ring)
    assert abs(shoelace(line) - exact) < 0.05 * abs(shoelace(plain) - exact)


def test_distance_of_two_rings_is_the_difference_of_their_radii() -> None:
    mean, worst = bezier.curve_distance(circle(0, 0, 30, 8), circle(0, 0, 32.5, 8), True)
    assert mean == pytest.approx(2.5, abs=2e-3)
    assert worst == pytest.approx(2.5, abs=2e-3)


def test_distance_is_symmetric_and_sees_what_one_direction_misses() -> None:
    short = np.array([[0.0, 0, 0, 0, 0, 0], [10.0, 0, 0, 0, 0, 0]])
    long = np.array([[0.0, 0, 0, 0, 0, 0], [30.0, 0, 0, 0, 0, 0]])
    assert bezier.curve_distance(short, long, False) == bezier.curve_distance(long, short, False)
    mean, worst = bezier.curve_distance(short, long, False)
    assert worst == pytest.approx(20.0)
    assert mean == pytest.approx((0 + 20 * 21 / 2 / 31) / 2, abs=0.05)  # of 31 samples 20 lie 1..20 px away


@pytest.mark.parametrize("closed", [False, True])
def test_samples_of_each_segment_stand_in_a_row(closed: bool) -> None:
    """Handles at thirds: even steps of t are even steps along a straight line, and an open one includes its end."""
    ends = np.array([[3.0 * k, 1.0, -1, 0, 1, 0] for k in range(4)])
    line = bezier.sample(ends, closed, per_segment=3)
    np.testing.assert_allclose(line[:10], [(x, 1) for x in range(10)], atol=1e-12)
    assert len(line) == (12 if closed else 10)


def test_spacing_gives_even_steps_and_both_ends() -> None:
    line = bezier.sample(circle(0, 0, 30, 8)[:5], False, spacing=2.0)
    steps = np.hypot(*np.diff(line, axis=0).T)
    assert np.ptp(steps) < 0.01
    assert np.allclose(line[[0, -1]], [[30, 0], [-30, 0]], atol=1e-9)


def test_points_of_the_document_and_arrays() -> None:
    ring = circle(1, 2, 3, 4)
    assert np.array_equal(bezier.as_array(bezier.as_points(ring)), ring)
