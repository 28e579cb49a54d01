"""Seams as curves on one rigid head: recovered on undrawn frames, and used to choose between two curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotopaint_ai.shapes.head_cameras import PERSPECTIVE, Cameras
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve, _fit_marks, curves_on_head, is_borne_out
from rotopaint_ai.shapes.samples import open_curve_distance

Array = np.ndarray[Any, Any]
N_HOLDS = 12
DRAWN = (0, 4, 8)


def turned(yaw: float, pitch: float) -> Array:
    c, s, d, t = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]) @ np.array([[1, 0, 0], [0, d, -t], [0, t, d]])


@pytest.fixture(scope="module")
def head() -> tuple[Cameras, Array, Array]:
    """Poses of a turning head, its landmarks and a curve on it, off any sphere."""
    k = np.arange(N_HOLDS)
    turn = np.array([turned(0.3 * np.sin(each), 0.2 * np.cos(0.7 * each)) for each in k])
    shift = np.stack([200 + 3.0 * k, 150 - 2.0 * k], 1)
    at = np.random.default_rng(1).uniform(-1.2, 1.2, (30, 2))
    marks = np.concatenate([at, 0.3 - 0.5 * (at**2).sum(axis=1, keepdims=True)], 1)
    ends = np.array([(-1.0, 0.1, -0.5), (0.0, 0.3, 0.5), (1.0, 0.0, -0.4)])
    away = np.array([0.3, 0.05, 0.15])
    curve = np.concatenate([ends, ends - away, ends + away])
    return Cameras(np.full(N_HOLDS, 60.0), turn, shift), marks, curve


def test_a_curve_drawn_in_three_poses_distinguishes_right_from_wrong_in_the_others(
    head: tuple[Cameras, Array, Array],
) -> None:
    cameras, marks, curve = head
    draw = np.random.default_rng(2)
    points = cameras.see(marks)
    points = points + draw.normal(0, 0.5, (*points.shape, 2)) @ (1, 1j)
    true = cameras.see(curve)
    exact = np.isin(np.arange(N_HOLDS), DRAWN)
    said = np.where(exact[:, None], true, true + 3 + 5j)
    heads = head_poses(points)
    known = KnownCurve.of(said, np.full(N_HOLDS, 4.0), exact, said)
    (found,) = curves_on_head(heads, points, np.full(points.shape, 0.5), [known])
    others = np.flatnonzero(~exact)
    assert np.mean([open_curve_distance(said[h], true[h]) for h in others]) > 3
    assert np.mean([open_curve_distance(found[h], true[h]) for h in others]) < 1.5
    assert all(is_borne_out(true[h], said[h], found[h], 0.5) for h in others)
    assert not any(is_borne_out(said[h], true[h], found[h], 0.5) for h in others)


def test_a_curve_that_hardly_moves_is_not_borne_out() -> None:
    line = np.concatenate([np.linspace(0, 40, 3), np.linspace(-5, 35, 3), np.linspace(5, 45, 3)]).astype(complex)
    assert is_borne_out(line, line + 1j, line, 0.9)
    assert not is_borne_out(line, line + 1j, line, 1.1)
    assert not is_borne_out(line, line + 1j, line + 2j, 0.0)


def test_slopes_are_those_of_small_steps(head: tuple[Cameras, Array, Array]) -> None:
    cameras, _, curve = head
    by_camera, by_place = cameras.projection_slopes(curve)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        there = (cameras.see(curve + step) - cameras.see(curve)) / 1e-6
        assert there == pytest.approx(by_place[..., 0, k] + 1j * by_place[..., 1, k], abs=1e-3)
    larger = Cameras(cameras.size * np.exp(1e-6), cameras.turn, cameras.shift)
    there = (larger.see(curve) - cameras.see(curve)) / 1e-6
    assert there == pytest.approx(by_camera[..., 0, 0] + 1j * by_camera[..., 1, 0], abs=1e-3)
    spun = np.array([turned(1e-6, 0.0)]) @ cameras.turn
    there = (Cameras(cameras.size, spun, cameras.shift).see(curve) - cameras.see(curve)) / 1e-6
    assert there == pytest.approx(by_camera[..., 0, 2] + 1j * by_camera[..., 1, 2], abs=1e-3)
    assert PERSPECTIVE > 0


def test_observations_of_a_landmark_are_weighted_by_the_squares_of_their_errors() -> None:
    """Two holds of one pose: 0 px with an error of 1, and 3 px with one of 2; mean (0 * 1 + 3 / 4) / (1 + 1 / 4) px."""
    cameras = Cameras(np.full(2, 100.0), np.tile(np.eye(3), (2, 1, 1)), np.zeros((2, 2)))
    found = _fit_marks(cameras, np.zeros((1, 3)), np.array([[0.0], [3.0 + 3.0j]]), np.array([[1.0], [2.0]]))
    assert 100 * found[0] == pytest.approx([0.6, 0.6, 0], abs=1e-4)


def test_an_end_is_human_where_a_person_drew_it_off_the_prediction() -> None:
    """Three points and six tangents: in the first hold the first end moves by 1 px, the last by 0.5 px, tangents by
    more."""
    before = np.arange(9) * (3 + 2j) + np.zeros((3, 1))
    drawn = before.copy()
    drawn[0, 0] += 1j
    drawn[0, 2] += 0.5
    drawn[0, 3:] += 9
    drawn[1, [0, 2]] += 3
    drawn[2, 2] += 0.6
    known = KnownCurve.of(drawn, np.ones(3), np.array([True, False, True]), before)
    assert known.exact_ends_HE.tolist() == [[True, False], [False, False], [False, True]]
