"""Curves fitted to samples of their segments: the fit returns the curve that was sampled."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.fit import fit_segments


def test_fit_of_a_cubic_is_the_cubic() -> None:
    t = np.linspace(0, 1, 25)[:, None]
    p0, p1, p2, p3 = np.array([[0.0, 0], [10, 0], [20, 0], [30, 0]])  # evenly paced, so chord length is its parameter
    cubic = (1 - t) ** 3 * p0 + 3 * (1 - t) ** 2 * t * p1 + 3 * (1 - t) * t**2 * p2 + t**3 * p3
    points = fit_segments(cubic[None], closed=False)
    np.testing.assert_allclose(points, [[0, 0, 0, 0, 10, 0], [30, 0, -10, 0, 0, 0]], atol=1e-9)


def test_a_ring_is_met_and_its_joints_stay_in_place() -> None:
    a = np.linspace(0, 2 * np.pi, 6 * 24 + 1)
    ring = np.stack((100 + 50 * np.cos(a), 80 + 50 * np.sin(a)), axis=1)
    samples = np.stack([ring[24 * k : 24 * (k + 1) + 1] for k in range(6)])
    points = fit_segments(samples, closed=True)
    np.testing.assert_array_equal(points[:, :2], ring[:-1:24])
    radius = np.hypot(*(bezier.sample(points, True, per_segment=20) - [100, 80]).T)
    assert np.abs(radius - 50).max() < 0.03


def test_a_cusp_stays_a_cusp() -> None:
    t = np.linspace(0, 1, 25)
    there, back = np.stack((t * 10, t * 0), axis=1), np.stack((10 - t * 10, t * 6), axis=1)
    points = fit_segments(np.stack((there, back)), closed=False)
    np.testing.assert_allclose(points[1, 2:], [-10 / 3, 0, -10 / 3, 2], atol=1e-9)


def test_samples_in_one_place_give_a_point_without_tangents() -> None:
    points = fit_segments(np.full((1, 9, 2), 7.0), closed=False)
    np.testing.assert_allclose(points, [[7, 7, 0, 0, 0, 0]] * 2, atol=1e-9)
