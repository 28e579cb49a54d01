"""Expected errors that mean pixels: fitted on held-out samples once the network is trained.

Letters: N samples, L landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks import metrics

POWER_LIMITS = (0.3, 2.0)
_FLOOR_PX = 0.02
_FEWEST = 50


def calibrate(distance: npt.NDArray[np.floating[Any]], log_scale: npt.NDArray[np.floating[Any]]) -> tuple[float, float]:
    """`a`, `b` such that exp(a + b log_scale) is the mean distance to expect, by maximum likelihood under an
    exponential law (Newton's steps on its two parameters). NaN distances are left out; with few left, (0, 1).

    The law has fat tails, so one wild miss moves the fit little.
    """
    known = np.isfinite(distance) & np.isfinite(log_scale)
    d, s = np.maximum(distance[known], _FLOOR_PX), log_scale[known]
    if len(d) < _FEWEST:
        return 0.0, 1.0
    design = np.stack((np.ones_like(s), s), 1)
    theta = np.array([np.log((d / np.exp(s)).mean()), 1.0])
    for _ in range(50):
        ratio = d * np.exp(-(design @ theta).clip(-20, 20))
        gradient = design.T @ (1 - ratio)
        curvature = (design * ratio[:, None]).T @ design + np.eye(2) * 1e-6
        step = np.linalg.solve(curvature, gradient).clip(-0.5, 0.5)
        theta = theta - step
        if np.abs(step).max() < 1e-8:
            break
    power = float(np.clip(theta[1], *POWER_LIMITS))
    return float(np.log((d * np.exp(-power * s)).mean())), power


def rank_correlation(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> float:
    """Spearman's rank correlation of two runs of numbers, pairs with NaN left out; 0 where one does not vary."""
    known = np.isfinite(a) & np.isfinite(b)
    rho = metrics.rank_correlation(a[known], b[known])
    return rho if np.isfinite(rho) else 0.0
