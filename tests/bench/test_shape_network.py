"""The published network per shape: shapes re-vectorised after their points slid along them, and its loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from module_file import module_at
from rotopaint_ai.shapes.bezier import curve_distance

shape_network = module_at(Path(__file__).parents[2] / "benchmarks" / "shape_network.py")
HANDLE = 50 * 4 / 3 * np.tan(np.pi / 16)  # eight cubics with these tangents are a circle of radius 50 within 0.001 px


def _circle() -> np.ndarray:
    angles = np.arange(8) * np.pi / 4
    places = 50 * np.stack((np.cos(angles), np.sin(angles)), axis=1)
    ahead = HANDLE * np.stack((-np.sin(angles), np.cos(angles)), axis=1)
    return np.concatenate((places, -ahead, ahead), axis=1)


def test_points_slide_along_their_curve_and_the_curve_stays() -> None:
    circle = _circle()
    slid = shape_network.slide_along(circle, True, np.random.default_rng(4))
    assert np.linalg.norm(slid[:, :2] - circle[:, :2], axis=1).max() > 5
    assert np.linalg.norm(slid[:, :2], axis=1) == pytest.approx([50] * 8, abs=0.002)
    assert curve_distance(slid, circle, True)[1] < 0.1


def test_corners_and_the_ends_of_open_curves_do_not_slide() -> None:
    corner = np.array([(0, 0, 0, 0, 10, 0), (30, 0, -10, 0, 0, 10), (30, 30, 0, -10, 0, 0)], float)
    assert shape_network.slide_along(corner, False, np.random.default_rng(4)) == pytest.approx(corner)


def test_a_tangent_counts_by_its_relative_error_and_all_numbers_by_the_l1_norm() -> None:
    wanted = torch.tensor([[[[0.3, 0.2], [0.0, 0.0], [0.1, 0.0]], [[torch.nan] * 2] * 3]])
    found = torch.tensor([[[[0.3, 0.2], [0.0, 0.0], [0.1, 0.02]], [[0.5] * 2] * 3]])
    by_hand = 0.02 / 0.1 + shape_network.WHOLE * 0.02 / 6
    assert float(shape_network.measure_loss(found, wanted)) == pytest.approx(by_hand, rel=1e-5)
