"""Label errors planted into the stage's own sample shot: what was done is listed truly, and mining finds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.mining import oddness, planted
from rotopaint_ai.training.mining.join import Joined, join
from rotopaint_ai.training.mining.mine import MineOrder, vectorise
from rotopaint_ai.training.mining.plant import CALLED, SINGLE, STRETCHES, plant_single, plant_stretches
from rotopaint_ai.training.mining.propose import Plan

SAMPLE = Path(__file__).parents[3] / "models" / "rotopaint_models" / "sample"


SHAPES = ("eye_right", "eye_left", "mouth_outer", "seam_bridge")


@pytest.fixture(scope="module")
def good() -> Joined:
    """Four shapes and the landmarks of the sample shot, as the stage drew them."""
    whole = join((SAMPLE / "truth.roto.json",), str(SAMPLE / "plate.####.exr"))
    rows = [
        replace(row, truth=replace(row.truth, shapes={name: row.truth.shapes[name] for name in SHAPES}))
        for row in whole.rows
    ]
    return replace(whole, rows=tuple(rows))


def test_planted_errors_are_what_they_are_called(good: Joined) -> None:
    planted_ = plant_single(good, 3, per_shot=20)
    assert {error.kind for error in planted_.errors} == set(SINGLE)
    frames = sorted(error.frames[0] for error in planted_.errors)
    assert np.diff(frames).min() >= 3
    before = {row.frame: row.truth for row in good.rows}
    after = {row.frame: row.truth for row in planted_.joined.rows}
    for error in planted_.errors:
        old, new = before[error.frames[0]], after[error.frames[0]]
        if error.kind == "twisted":
            (name,) = error.about
            a, b = old.shapes[name].points, new.shapes[name].points
            assert bezier.curve_distance(a, b, True)[1] < 1e-6
            assert not np.allclose(a, b)
        if error.kind == "swapped shapes":
            one, other = error.about
            assert new.shapes[one] is old.shapes[other]
        if error.kind == "jumped landmark":
            moved = [name for name in old.landmarks if old.landmarks[name] != new.landmarks[name]]
            assert moved == list(error.about)
    untouched = set(before) - set(frames)
    assert all(before[frame] is after[frame] for frame in untouched)
    assert plant_single(good, 3, per_shot=20).errors == planted_.errors
    assert set(CALLED) == set(SINGLE) | set(STRETCHES)


def test_stretches_keep_landmarks_and_take_the_roto_of_other_frames(good: Joined) -> None:
    planted_ = plant_stretches(good, 0, kinds=("shifted shot",))
    (error,) = planted_.errors
    assert len(error.frames) == len(good.rows)
    old, new = good.rows[5].truth, planted_.joined.rows[5].truth
    assert new.landmarks == old.landmarks
    neighbours = [good.rows[4].truth.shapes, good.rows[6].truth.shapes]
    assert any(new.shapes is shapes for shapes in neighbours)


def test_most_planted_errors_of_single_frames_are_found(good: Joined) -> None:
    wrong = plant_single(good, 1, per_shot=8)
    found = planted.findings_without_pictures(wrong.joined)
    tallies = {kind: planted._Tally() for kind in SINGLE}
    right, alarms, said = Counter[str](), Counter[str](), list[str]()
    planted._count(wrong, found, tallies, right, alarms, said)
    assert len(wrong.errors) >= 6
    assert sum(t.found for t in tallies.values()) >= len(wrong.errors) - 1, said
    assert sum(t.named for t in tallies.values()) >= len(wrong.errors) - 2, said
    assert alarms.total() <= 1, said


def test_a_shape_that_comes_a_frame_late_is_named(good: Joined) -> None:
    truth = vectorise(good, MineOrder((), Path("x")))
    half = np.arange(len(truth.rows) // 2, len(truth.rows))
    plans = [_late(plan, half) if plan.shape.name == "seam_bridge" else plan for plan in truth.plans]
    for changed, wanted in ((truth, set()), (replace(truth, plans=tuple(plans)), {"seam_bridge"})):
        face = oddness.learn(changed, set())
        assert face is not None
        found = oddness.late_shapes(face, changed, half, set())
        assert {each.about for each in found} == wanted
    assert found[0].text == "whole shot: 1 frame late against the rest of the face"


def _late(plan: Plan, rows: np.ndarray) -> Plan:
    """A plan whose shape stands, in some rows, where it was the row before."""
    points = plan.points_FP6.copy()
    points[rows] = plan.points_FP6[rows - 1]
    return replace(plan, points_FP6=points)
