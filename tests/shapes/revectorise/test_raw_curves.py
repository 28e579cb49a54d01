"""Smoothed slides of points along a curve."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes.revectorise.raw_curves import _smooth_slides


def test_ends_of_an_open_curve_and_pinned_places_stay() -> None:
    slides = np.random.default_rng(1).normal(0, 2, (2, 40))
    pins, pinned = np.array([15]), np.array([[True], [False]])
    smooth = _smooth_slides(slides, pins, pinned, closed=False)
    assert np.abs(smooth[:, [0, -1]]).max() < 1e-12
    assert abs(smooth[0, 15]) < 1e-12 < abs(smooth[1, 15])
    assert np.abs(np.diff(smooth)).max() < 0.5 * np.abs(np.diff(slides)).max()
