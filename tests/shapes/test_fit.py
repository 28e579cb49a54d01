"""Curve fits: back to the curve that gave the points, corners and pinned points kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotopaint_ai.errors import FitError
from rotopaint_ai.shapes import bezier, fit
from rotopaint_ai.shapes.bezier import Array


def blob(n: int) -> Array:
    """A smooth closed outline of uneven bend."""
    a = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    r = 60 + 12 * np.cos(2 * a) + 6 * np.sin(3 * a)
    return np.stack((200 + r * np.cos(a), 150 + r * np.sin(a)), axis=1)[:: 400 // n]


def test_a_circle_is_met_as_well_as_cubics_can() -> None:
    a = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    found = fit.fit(np.stack((100 + 50 * np.cos(a), 80 + 50 * np.sin(a)), axis=1), 6, True)
    # the best six-piece cubic circle is within 2.5e-5 of its radius; the points' own chords are 0.003 px off
    assert found.max_px < 0.02
    radius = np.hypot(*(bezier.sample(found.points, True, per_segment=20) - [100, 80]).T)
    assert np.abs(radius - 50).max() < 0.02


def test_an_open_arc_keeps_its_ends_exactly() -> None:
    a = np.linspace(0, np.pi, 100)
    arc = np.stack((50 * np.cos(a), 50 * np.sin(a)), axis=1)
    found = fit.fit(arc, 4, False)
    assert np.allclose(found.points[[0, -1], :2], arc[[0, -1]], atol=1e-9)
    assert found.max_px < 0.03


def test_uneven_outline_gets_points_where_it_bends() -> None:
    found = fit.fit(blob(400), 8, True)
    assert found.mean_px < 0.05
    assert found.max_px < 0.25
    assert len(found.points) == 8


def test_smooth_points_get_collinear_tangents() -> None:
    points = fit.fit(blob(400), 8, True).points
    turn = points[:, 2] * points[:, 5] - points[:, 3] * points[:, 4]
    assert np.abs(turn / (np.hypot(*points[:, 2:4].T) * np.hypot(*points[:, 4:6].T))).max() < 1e-6


def test_corners_of_a_lens_stay_sharp() -> None:
    t = np.linspace(0, np.pi, 80)
    upper = np.stack((100 + 40 * -np.cos(t), 100 - 15 * np.sin(t)), axis=1)
    lower = np.stack((100 + 40 * np.cos(t), 100 + 15 * np.sin(t)), axis=1)
    eye = np.vstack((upper, lower[1:-1]))
    found = fit.fit(eye, 6, True)
    assert found.max_px < 0.4
    assert np.hypot(*(found.points[:, :2] - [140, 100]).T).min() < 0.3


def test_pinned_points_lie_where_they_were_put() -> None:
    outline = blob(400)
    pins = {2: outline[100], 5: outline[260]}
    found = fit.fit(outline, 8, True, pinned=pins)
    assert np.allclose(found.points[2, :2], outline[100])
    assert np.allclose(found.points[5, :2], outline[260])
    assert found.mean_px < 0.1


def test_resampling_keeps_the_curve() -> None:
    first = fit.fit(blob(400), 12, True).points
    again = fit.resample(first, 9, True)
    mean, worst = bezier.curve_distance(first, again, True)
    assert len(again) == 9
    assert mean < 0.05
    assert worst < 0.3


def test_noise_is_averaged_not_followed() -> None:
    random = np.random.default_rng(1)
    clean = blob(400)
    found = fit.fit(clean + random.normal(0, 0.3, clean.shape), 10, True)
    gaps = bezier.distance_to_polyline(clean, bezier.flatten(found.points, True, 0.01), True)
    assert gaps.mean() < 0.2


@pytest.mark.parametrize(("points", "n"), [(np.zeros((1, 2)), 4), (np.zeros((0, 2)), 4), (np.eye(2), 1)])
def test_too_little_is_refused(points: Array, n: int) -> None:
    with pytest.raises(FitError, match="wanted"):
        fit.fit(points, n, True)


def test_a_missed_tolerance_is_refused_with_its_distance() -> None:
    with pytest.raises(FitError, match="px off"):
        fit.fit(blob(400), 3, True, tolerance_px=0.01)


def test_length_is_that_of_the_outline() -> None:
    a = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    found = fit.fit(np.stack((30 * np.cos(a), 30 * np.sin(a)), axis=1), 5, True)
    assert bezier.length(found.points, True) == pytest.approx(60 * math.pi, rel=1e-3)
