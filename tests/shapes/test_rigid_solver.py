"""Seams as curves on one rigid head: found again from one pose, and from creases across their way alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotopaint_ai.shapes.rigid_solver import PERSPECTIVE, Cameras, RigidShot, SeenCurve, solve_rigid
from rotopaint_ai.shapes.samples import basis
from rotopaint_ai.shapes.shot_solver import head_poses

Array = np.ndarray[Any, Any]
N_HOLDS = 12
WEIGHTS = basis(3, False, 8)


def turned(yaw: float, pitch: float) -> Array:
    c, s, d, t = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]) @ np.array([[1, 0, 0], [0, d, -t], [0, t, d]])


@pytest.fixture(scope="module")
def head() -> tuple[Cameras, Array, Array]:
    """Poses of a turning head, its landmarks and a curve on it, away from any ball."""
    k = np.arange(N_HOLDS)
    turn = np.array([turned(0.3 * np.sin(each), 0.2 * np.cos(0.7 * each)) for each in k])
    shift = np.stack([200 + 3.0 * k, 150 - 2.0 * k], 1)
    at = np.random.default_rng(1).uniform(-1.2, 1.2, (30, 2))
    marks = np.concatenate([at, 0.3 - 0.5 * (at**2).sum(axis=1, keepdims=True)], 1)
    ends = np.array([(-1.0, 0.1, -0.5), (0.0, 0.3, 0.5), (1.0, 0.0, -0.4)])
    away = np.array([0.3, 0.05, 0.15])
    curve = np.concatenate([ends, ends - away, ends + away])
    return Cameras(np.full(N_HOLDS, 60.0), turn, shift, np.zeros((N_HOLDS, 6, 6))), marks, curve


def across(true: Array, *, exact: bool) -> SeenCurve:
    at = WEIGHTS @ true
    way = np.gradient(at)
    along = np.full(len(at), 10.0)
    along[[0, -1]] = 0.3
    return SeenCurve(WEIGHTS, at, 1j * way / abs(way), np.full(len(at), 0.3), along, exact)


def off(found: Array, true: Array) -> float:
    dense = basis(3, False, 100)
    distance = abs((WEIGHTS @ found)[:, None] - dense @ true)
    return float(distance.min(axis=1).mean())


def test_a_curve_drawn_in_three_poses_is_found_in_the_others(head: tuple[Cameras, Array, Array]) -> None:
    cameras, marks, curve = head
    draw = np.random.default_rng(2)
    points = np.array([cameras.see(h, marks) for h in range(N_HOLDS)])
    points = points + draw.normal(0, 1.0, (*points.shape, 2)) @ (1, 1j)
    true = np.array([cameras.see(h, curve) for h in range(N_HOLDS)])
    said = true + 6 + 4j
    none = SeenCurve(np.zeros((0, 9)), np.zeros(0, complex), np.zeros(0, complex), np.zeros(0), np.zeros(0), False)
    row = [across(true[h], exact=True) if h in (0, 4, 8) else none for h in range(N_HOLDS)]
    heads = head_poses(points, np.arange(N_HOLDS, dtype=float))
    found = solve_rigid(heads, points, np.ones(points.shape), [said], [row])
    others = [h for h in range(N_HOLDS) if h not in (0, 4, 8)]
    assert np.mean([off(said[h], true[h]) for h in others]) > 4
    assert np.mean([off(found.spline(h, 0), true[h]) for h in others]) < 1.5
    seen = [each if each is not none else across(true[h], exact=False) for h, each in enumerate(row)]
    again = solve_rigid(heads, points, np.ones(points.shape), [said], [seen], found)
    assert np.mean([off(again.spline(h, 0), true[h]) for h in others]) < 0.5
    ends = [abs(again.spline(h, 0)[[0, 2]] - true[h][[0, 2]]).max() for h in others]
    assert np.mean(ends) < 2.5  # nothing but the head says where an end lies
    assert again.deviation_px(1, 0) < found.deviation_px(1, 0)


def test_slopes_are_those_of_small_steps(head: tuple[Cameras, Array, Array]) -> None:
    cameras, marks, curve = head
    by_camera, by_place = cameras.slopes(3, curve)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        there = (cameras.see(3, curve + step) - cameras.see(3, curve)) / 1e-6
        assert there == pytest.approx(by_place[:, 0, k] + 1j * by_place[:, 1, k], abs=1e-3)
    larger = Cameras(cameras.size * np.exp(1e-6), cameras.turn, cameras.shift, cameras.doubt)
    there = (larger.see(3, curve) - cameras.see(3, curve)) / 1e-6
    assert there == pytest.approx(by_camera[:, 0, 0] + 1j * by_camera[:, 1, 0], abs=1e-3)
    assert PERSPECTIVE > 0
    assert RigidShot(cameras, [curve], marks).spline(3, 0) == pytest.approx(cameras.see(3, curve))
