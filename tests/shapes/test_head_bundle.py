"""A rigid head in one solve: the consensus of holds, hand-drawn curves, mirror symmetry, and ends of seams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.landmarks.shared_marks import SharedMarks
from rotopaint_ai.shapes import head_descent
from rotopaint_ai.shapes.head_bundle import (
    HeadBuild,
    HeadFacts,
    ObservedCurve,
    ObservedMarks,
    curve_deviations,
    curve_normals,
    equations_of,
    first_head,
    joints_of,
    observe_curves,
)
from rotopaint_ai.shapes.head_cameras import BALL, PERSPECTIVE, Cameras, ball_depth, rotations
from rotopaint_ai.shapes.head_descent import damped_step
from rotopaint_ai.shapes.head_marks import MarkEquations, Marks3D, expected_marks
from rotopaint_ai.shapes.head_poses import HeadPoses, head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.samples import basis, open_curve_distance

Array = np.ndarray[Any, Any]
N_HOLDS = 12
NO_BUILD = HeadBuild(None, (), ())


def straight(start: tuple[float, float, float], end: tuple[float, float, float], n: int) -> Array:
    """A curve in space (3 n, 3) between two points, bulging towards the camera."""
    at = np.linspace(start, end, n)
    at[:, 2] -= 0.2 * (at[:, 0] ** 2 + at[:, 1] ** 2)
    way = np.gradient(at, axis=0) / 3
    return np.concatenate([at, at - way, at + way])


LEFT, RIGHT = straight((0.9, -0.6, 0.0), (0.8, 0.5, 0.0), 5), straight((-0.9, -0.6, 0.0), (-0.8, 0.5, 0.0), 5)
BRIDGE = straight(tuple(RIGHT[2]), tuple(LEFT[2]), 7)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shot() -> tuple[HeadPoses, Array, Array, list[Array]]:
    """Poses, landmarks (H, L), landmarks in the mirror (L,), and the true bridge, right and left side in each hold."""
    k = np.arange(N_HOLDS)
    turn = rotations(np.stack([0.2 * np.cos(0.7 * k), 0.25 * np.sin(k), 0.05 * np.sin(2.0 * k)], axis=1))
    cameras = Cameras(np.full(N_HOLDS, 80.0), turn, np.stack([200 + 3.0 * k, 150 - 2.0 * k], 1))
    half = np.random.default_rng(1).uniform((0.1, -1.1), (1.1, 1.1), (12, 2))
    half = np.concatenate([half, 0.3 - 0.5 * (half**2).sum(axis=1, keepdims=True)], axis=1)
    marks = np.concatenate([half, half * (-1, 1, 1)])
    points = cameras.see(marks)
    points = points + np.random.default_rng(2).normal(0, 0.5, (*points.shape, 2)) @ (1, 1j)
    mirror = np.concatenate([np.arange(12, 24), np.arange(12)])
    return head_poses(points), points, mirror, [cameras.see(c) for c in (BRIDGE, RIGHT, LEFT)]


def solved(shot: tuple[HeadPoses, Array, Array, list[Array]], known: list[KnownCurve], build: HeadBuild) -> list[Array]:
    heads, points, _, _ = shot
    head = first_head(heads, points, np.full(points.shape, 0.5), known, build)
    for _ in range(12):
        told_of_it = observe_curves(known, np.abs(heads.factor_H), head.splines())
        head = damped_step(head, HeadFacts(points, np.full(points.shape, 0.5), told_of_it, build))
    return head.splines()


def off(found: Array, true: Array) -> float:
    """The mean over all holds, pixels."""
    return float(np.mean([open_curve_distance(a, b) for a, b in zip(found, true)]))


def reported(splines: Array, noise_px: float = 1.0) -> KnownCurve:
    return KnownCurve.of(splines, np.full(N_HOLDS, noise_px), np.zeros(N_HOLDS, bool), splines)


def test_the_head_finds_a_curve_that_a_third_of_the_holds_have_wrong(
    shot: tuple[HeadPoses, Array, Array, list[Array]],
) -> None:
    bridge, right, left = shot[3]
    wrong = bridge + np.where(np.arange(N_HOLDS) % 3 == 0, 9j, 0)[:, None]
    found = solved(shot, [reported(wrong), reported(right), reported(left)], NO_BUILD)
    assert off(wrong, bridge) > 2.5
    assert off(found[0], bridge) < 0.8


def test_a_crease_far_beside_a_curve_hardly_pulls_at_it(shot: tuple[HeadPoses, Array, Array, list[Array]]) -> None:
    heads, points, _, curves = shot
    known, error = [reported(each) for each in curves], np.full(points.shape, 0.5)
    head = first_head(heads, points, error, known, NO_BUILD)
    weights = basis(7, False, 8)
    at = head.splines()[0] @ weights.T
    normal, ones = curve_normals(at), np.ones(at.shape)

    def pull(apart_px: float) -> float:
        seen = ObservedCurve(0, weights, at + apart_px * normal, normal, ones, ones)
        with_it, without = (
            equations_of(head, HeadFacts(points, error, each, NO_BUILD))[0].camera_pull for each in ([seen], [])
        )
        return float(np.abs(with_it - without).sum())

    assert pull(10.0) < 0.1 * pull(2.0)


@pytest.mark.parametrize("far_px", [0.7, 3.0, np.inf])
def test_steps_are_judged_by_the_loss_that_they_descend(
    far_px: float, shot: tuple[HeadPoses, Array, Array, list[Array]]
) -> None:
    heads, points, _, curves = shot
    known, error = [reported(each) for each in curves], np.full(points.shape, 0.5)
    head = first_head(heads, points, error, known, NO_BUILD)
    weights = basis(7, False, 8)
    at = head.splines()[0] @ weights.T
    normal = curve_normals(at)
    seen = ObservedCurve(0, weights, at + 2.0 * normal, normal, np.ones(at.shape), np.full(at.shape, far_px))
    with_it, without = (
        equations_of(head, HeadFacts(points, error, each, NO_BUILD))[0].point_pull for each in ([seen], [])
    )
    step = np.zeros_like(head.points)
    step[head.curves[0]] = 1e-5
    moved = replace(head, points=head.points + step)
    fell = head_descent._misfit_of_curve(head, seen) - head_descent._misfit_of_curve(moved, seen)
    assert fell == pytest.approx(2 * float(((with_it - without) * step).sum()), rel=0.01)


def test_a_persons_curve_outweighs_what_all_other_holds_have_wrong_alike(
    shot: tuple[HeadPoses, Array, Array, list[Array]],
) -> None:
    bridge, right, left = shot[3]
    drawn = np.isin(np.arange(N_HOLDS), (2, 7))
    said_of_it = np.where(drawn[:, None], bridge, bridge + 4j)
    known = KnownCurve.of(said_of_it, np.full(N_HOLDS, 3.0), drawn, bridge + 4j)
    alone, keyed = (
        solved(shot, [each, reported(right), reported(left)], NO_BUILD)[0]
        for each in (reported(bridge + 4j, 3.0), known)
    )
    assert off(alone, bridge) > 3
    assert off(keyed, bridge) < 1


def test_curves_that_are_wrong_alike_weigh_little_beside_a_persons_however_sure_they_are(
    shot: tuple[HeadPoses, Array, Array, list[Array]],
) -> None:
    bridge, right, left = shot[3]
    drawn = np.arange(N_HOLDS) == 5
    wrong = bridge + 1.5j
    known = KnownCurve.of(np.where(drawn[:, None], bridge, wrong), np.full(N_HOLDS, 0.5), drawn, wrong)
    assert off(solved(shot, [known, reported(right), reported(left)], NO_BUILD)[0], bridge) < 0.9


def test_one_side_determines_the_other(shot: tuple[HeadPoses, Array, Array, list[Array]]) -> None:
    bridge, right, left = shot[3]
    wrong = left + 6  # in all holds: only the other side corrects it
    known = [reported(bridge, 0.5), reported(right, 0.5), reported(wrong, 4.0)]
    alone = solved(shot, known, NO_BUILD)
    mirrored = solved(shot, known, HeadBuild(shot[2], ((1, 2, False),), ()))
    assert off(alone[2], left) > 4
    assert off(mirrored[2], left) < 3
    assert off(mirrored[1], right) < 0.7


def test_an_end_stays_on_the_curve_that_it_lies_on(shot: tuple[HeadPoses, Array, Array, list[Array]]) -> None:
    bridge, right, left = shot[3]
    size = np.abs(shot[0].factor_H)
    joints = joints_of([bridge, right, left], size)
    assert joints == ((0, 0, 1), (0, 6, 2))
    short = bridge.copy()
    short[:, 0] += 4  # the first point, in all holds
    known = [reported(short, 8.0), reported(right, 0.5), reported(left, 0.5)]
    alone, joined = (solved(shot, known, replace(NO_BUILD, joints=each))[0] for each in ((), joints))
    assert np.mean(abs(joined[:, 0] - bridge[:, 0])) < 0.75 * np.mean(abs(alone[:, 0] - bridge[:, 0]))


def test_nothing_moves_where_all_observations_are_right(shot: tuple[HeadPoses, Array, Array, list[Array]]) -> None:
    curves = shot[3]
    found = solved(shot, [reported(each) for each in curves], HeadBuild(shot[2], ((0, 0, True), (1, 2, False)), ()))
    assert max(off(a, b) for a, b in zip(found, curves)) < 0.7


def test_shared_marks_carry_a_drawn_curve_to_every_hold() -> None:
    """Landmarks that are 3 px off give wrong rotations; marks shared by some holds correct them."""
    draw, k = np.random.default_rng(3), np.arange(N_HOLDS)
    turn = rotations(np.stack([0.2 * np.cos(0.7 * k), 0.25 * np.sin(k), 0.05 * np.sin(2.0 * k)], axis=1))
    cameras = Cameras(np.full(N_HOLDS, 80.0), turn, np.stack([200 + 3.0 * k, 150 - 2.0 * k], 1))
    spots = draw.uniform((-1.2, -1.2, -0.5), (1.2, 1.2, 0.2), (84, 3))
    seen = cameras.see(spots)
    points, marks = seen[:, :24] + draw.normal(0, 3, (N_HOLDS, 24, 2)) @ (1, 1j), seen[:, 24:]
    marks = marks + draw.normal(0, 0.3, (*marks.shape, 2)) @ (1, 1j)
    marks[:, ::10] += draw.normal(0, 9, marks[:, ::10].shape)  # these move independently
    mark, hold = np.nonzero(draw.random((60, N_HOLDS)) < 0.5)
    shared = SharedMarks(mark, hold, marks[hold, mark], 60)
    true = cameras.see(LEFT)
    drawn = np.isin(k, (2, 5))  # rotated one way and the other
    known = KnownCurve.of(true + np.where(drawn, 0, 5)[:, None], np.full(N_HOLDS, 5.0), drawn, true + 5)
    poses, error = head_poses(points), np.full(points.shape, 3.0)
    offs, deviations = [], []
    for each in (None, shared):
        head = first_head(poses, points, error, [known], NO_BUILD, each)
        for far_px in (8, 8, 5, 5, 3, 3, 2, 2, 1, 1, 1, 1):
            seen_marks = each and ObservedMarks(each, far_px)
            told_of_it = observe_curves([known], np.abs(poses.factor_H), head.splines())
            facts = HeadFacts(points, error, told_of_it, NO_BUILD, seen_marks)
            head = damped_step(head, facts)
        offs.append(off(head.splines()[0], true))
        deviations.append(float(curve_deviations(head, facts).mean()))
    assert offs[1] < 0.4 < 1.0 < offs[0]
    assert deviations[1] < deviations[0] / 2
    assert 0.5 < deviations[1] / offs[1] < 2


def test_cameras_come_out_alike_however_many_marks_are_eliminated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, n_holds, n_marks = np.random.default_rng(6), 5, 23
    cameras = Cameras(
        np.full(n_holds, 80.0), rotations(draw.normal(0, 0.2, (n_holds, 3))), draw.uniform(100, 200, (n_holds, 2))
    )
    places = draw.uniform(-1, 1, (n_marks, 3))
    mark, hold = np.nonzero(draw.random((n_marks, n_holds)) < 0.7)
    marks = SharedMarks(mark, hold, cameras.see(places)[hold, mark] + draw.normal(0, 1, len(mark)), n_marks)
    equations = MarkEquations.of(cameras, Marks3D(places, places[:, 2]), marks, 1.0)
    whole, pull = equations.eliminated(n_holds)
    camera_steps = np.linalg.solve(whole.reshape(30, 30) + 1e-3 * np.eye(30), pull.ravel()).reshape(n_holds, 6)
    # the same steps from the equations of cameras and marks together
    both = np.zeros((n_holds, 6, n_marks, 3))
    both[hold, :, mark] = equations.both
    left, right = np.zeros((n_holds, 6, n_holds, 6)), np.zeros((n_marks, 3, n_marks, 3))
    left[range(n_holds), :, range(n_holds)] = equations.pull(n_holds)[0]
    right[range(n_marks), :, range(n_marks)] = np.linalg.inv(equations.inverse)
    across = both.reshape(30, -1)
    together = np.block(
        [[left.reshape(30, 30) + 1e-3 * np.eye(30), across], [across.T, right.reshape(3 * n_marks, -1)]]
    )
    wanted = np.linalg.solve(
        together, np.concatenate([equations.pull(n_holds)[1].ravel(), equations.mark_pull.ravel()])
    )
    np.testing.assert_allclose(camera_steps.ravel(), wanted[:30], rtol=1e-5)
    monkeypatch.setattr("rotopaint_ai.shapes.head_marks._AT_ONCE", 4)
    np.testing.assert_allclose(equations.eliminated(n_holds)[0], whole, atol=1e-6 * abs(whole).max())


def test_marks_are_expected_to_move_as_their_surface_is_turned() -> None:
    draw = np.random.default_rng(4)
    turn = rotations(np.array([(0.0, 0.0, 0.0), (0.2, 0.5, 0.1)]))
    cameras = Cameras(np.array([80.0, 60.0]), turn, np.array([(200.0, 150.0), (180.0, 160.0)]))
    flat = draw.uniform(-0.9, 0.9, 20) + 1j * draw.uniform(-0.9, 0.9, 20)
    places = np.stack([flat.real, flat.imag, ball_depth(flat)], axis=1)
    expected = expected_marks(cameras, Marks3D(places, places[:, 2]))
    np.testing.assert_allclose(expected.at, cameras.see(places))
    outwards = (places + (0, 0, BALL)) / BALL
    np.testing.assert_allclose(expected.facing, (outwards @ turn.transpose(0, 2, 1))[..., 2], atol=1e-9)
    area = (expected.ways[..., 0].conj() * expected.ways[..., 1]).imag
    near = cameras.size[:, None] / (1 - PERSPECTIVE * (places @ turn.transpose(0, 2, 1))[..., 2])
    np.testing.assert_allclose(abs(area), near**2 * expected.facing, rtol=0.15)  # perspective distorts a little
