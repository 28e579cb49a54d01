"""The components of light across a seam, calculated by hand."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.seams import relight


def test_light_is_smoothed_only_along_the_seam_by_a_truncated_gaussian() -> None:
    spot = np.zeros((3, 41), np.float32)
    spot[1, 20] = 1.0
    away = np.arange(-20, 21)
    bell = np.where(abs(away) <= 6, np.exp(-0.5 * (away / 2.0) ** 2), 0.0)
    np.testing.assert_allclose(relight._blur_columns(spot, 2.0), [0 * bell, bell / bell.sum(), 0 * bell], atol=1e-6)
    several = np.stack([spot, 2 * spot, 3 * spot], 1)
    for k in range(3):
        np.testing.assert_array_equal(
            relight._blur_colours(several, 2.0)[:, k], (k + 1) * relight._blur_columns(spot, 2.0)
        )
