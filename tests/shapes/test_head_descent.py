"""Damped steps of a head's bundle adjustment settle, also where a head hardly turns."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.landmarks.shared_marks import SharedMarks
from rotopaint_ai.shapes import head_descent
from rotopaint_ai.shapes.head_bundle import Head, HeadBuild, HeadFacts, ObservedMarks, first_head, observe_curves
from rotopaint_ai.shapes.head_cameras import Cameras, ball_depth, rotations
from rotopaint_ai.shapes.head_descent import damped_step
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.samples import open_curve_distance

Array = np.ndarray[Any, Any]
N_HOLDS = 14


def start(turned: float) -> tuple[Head, HeadFacts, Array]:
    """The initial head of a shot whose head turns by up to an angle, its observations, and the true curves (H, D).

    A person drew the curve in two holds of nearly the same view; in the others it is 4 px off.
    """
    draw, k = np.random.default_rng(7), np.arange(N_HOLDS)
    turn = rotations(turned * np.stack([0.3 * np.sin(k), k / N_HOLDS, 0.1 * np.cos(k)], axis=1))
    cameras = Cameras(np.full(N_HOLDS, 110.0), turn, np.stack([300 + 2.0 * k, 250 - k], axis=1))
    flat: Array = draw.uniform(-0.9, 0.9, 150) + 1j * draw.uniform(-0.9, 0.9, 150)
    spots: Array = np.stack([flat.real, flat.imag, ball_depth(flat) + draw.normal(0, 0.1, 150)], axis=1)
    seen = cameras.see(spots)
    points = seen[:, :30] + draw.normal(0, 2.5, (N_HOLDS, 30, 2)) @ (1, 1j)
    marks = seen[:, 30:] + draw.normal(0, 0.4, (N_HOLDS, 120, 2)) @ (1, 1j)
    marks[:, ::4] += draw.normal(0, 3, marks[:, ::4].shape)  # these move independently
    mark, hold = np.nonzero(draw.random((120, N_HOLDS)) < 0.6)
    at = np.stack([np.full(5, -0.8), np.linspace(-0.6, 0.6, 5), np.full(5, -0.3)], axis=1)
    way = np.gradient(at, axis=0) / 3
    true = cameras.see(np.concatenate([at, at - way, at + way]))
    drawn = np.isin(k, (6, 8))
    known = KnownCurve.of(true + np.where(drawn, 0, 4)[:, None], np.full(N_HOLDS, 4.0), drawn, true + 4)
    poses, error, shared = (
        head_poses(points),
        np.full(points.shape, 2.5),
        SharedMarks(mark, hold, marks[hold, mark], 120),
    )
    head = first_head(poses, points, error, [known], HeadBuild(None, (), ()), shared)
    facts = HeadFacts(points, error, (), HeadBuild(None, (), ()), ObservedMarks(shared, 0.6))
    return head, replace(facts, seen=observe_curves([known], np.abs(poses.factor_H), head.splines())), true


@pytest.mark.parametrize("turned", [0.05, 0.15, 0.6])
def test_steps_settle(turned: float) -> None:
    head, facts, true = start(turned)
    for _ in range(25):
        head = damped_step(head, facts)
    after = damped_step(head, facts)
    moved = [abs(a - b).max() for a, b in zip(head.splines(), after.splines())]
    assert max(moved) < 0.2
    assert np.mean([open_curve_distance(a, b) for a, b in zip(after.splines()[0], true)]) < 1.5


def test_no_step_fits_worse() -> None:
    head, facts, _ = start(0.05)
    noise = np.full(facts.points_HL.shape, 3.0)
    misfits = []
    for _ in range(12):
        misfits.append(head_descent._misfit(head, facts, noise, 110.0**2))
        head = damped_step(head, facts)
    assert all(b <= a * (1 + 1e-3) for a, b in pairwise(misfits))  # landmarks' noise follows each head
    assert misfits[-1] < misfits[0]


def test_a_step_that_fits_worse_is_damped_more(monkeypatch: pytest.MonkeyPatch) -> None:
    head, facts, _ = start(0.15)
    worse = iter((1.0, 2.0, 2.0, 0.5))  # before, and after each try
    monkeypatch.setattr(head_descent, "_misfit", lambda *_: next(worse))
    taken = damped_step(head, facts)
    assert taken.damping == pytest.approx(head.damping * head_descent.GROWN**2 * head_descent.EASED)
    monkeypatch.setattr(head_descent, "_misfit", lambda found, *_: 1.0 if found is head else 2.0)
    stays = damped_step(head, facts)
    assert stays.points is head.points
    assert stays.damping > head.damping
