"""Label errors injected into the stage's sample shot: the list of them is true, and mining finds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from module_file import module_at
from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.mining.join import JoinedTakes, join_sources
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.outliers import find_late_shapes, fit_face_model
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.vectorise import vectorise

label_errors = module_at(Path(__file__).parents[2] / "benchmarks" / "label_errors.py")
SAMPLE = Path(__file__).parents[2] / "models" / "rotopaint_models" / "sample"


SHAPES = ("eye_right", "eye_left", "mouth_outer", "seam_bridge")


@pytest.fixture(scope="module")
def good() -> JoinedTakes:
    """Four shapes and the landmarks of the sample shot, as the stage wrote them."""
    whole = join_sources((SAMPLE / "truth.roto.json",), str(SAMPLE / "plate.####.exr"))
    rows = [
        replace(row, truth=replace(row.truth, shapes={name: row.truth.shapes[name] for name in SHAPES}))
        for row in whole.rows
    ]
    return replace(whole, rows=tuple(rows))


def test_injected_errors_match_their_kind(good: JoinedTakes) -> None:
    injected = label_errors.inject_single(good, 3, per_shot=20)
    assert {error.kind for error in injected.errors} == set(label_errors.SINGLE)
    frames = sorted(error.frames[0] for error in injected.errors)
    assert np.diff(frames).min() >= 3
    before = {row.frame: row.truth for row in good.rows}
    after = {row.frame: row.truth for row in injected.joined.rows}
    for error in injected.errors:
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
    assert label_errors.inject_single(good, 3, per_shot=20).errors == injected.errors
    assert set(label_errors.CALLED) == set(label_errors.SINGLE) | set(label_errors.STRETCHES)


def test_stretches_keep_landmarks_and_take_the_roto_of_other_frames(good: JoinedTakes) -> None:
    injected = label_errors.inject_stretches(good, 0, kinds=("shifted shot",))
    (error,) = injected.errors
    assert len(error.frames) == len(good.rows)
    old, new = good.rows[5].truth, injected.joined.rows[5].truth
    assert new.landmarks == old.landmarks
    neighbours = [good.rows[4].truth.shapes, good.rows[6].truth.shapes]
    assert any(new.shapes is shapes for shapes in neighbours)


def test_most_injected_errors_of_single_frames_are_found(good: JoinedTakes) -> None:
    wrong = label_errors.inject_single(good, 1, per_shot=8)
    found = label_errors.issues_without_pictures(wrong.joined)
    tallies = {kind: label_errors._Tally() for kind in label_errors.SINGLE}
    right, alarms, said = Counter[str](), Counter[str](), list[str]()
    label_errors._count(wrong, found, tallies, right, alarms, said)
    assert len(wrong.errors) >= 6
    assert sum(t.found for t in tallies.values()) >= len(wrong.errors) - 1, said
    assert sum(t.named for t in tallies.values()) >= len(wrong.errors) - 2, said
    assert alarms.total() <= 1, said


def test_a_shape_that_comes_a_frame_late_is_named(good: JoinedTakes) -> None:
    truth = vectorise(good, MineOptions((), Path("x")))
    half = np.arange(len(truth.rows) // 2, len(truth.rows))
    plans = [_late(plan, half) if plan.shape.name == "seam_bridge" else plan for plan in truth.plans]
    for changed, wanted in ((truth, set()), (replace(truth, plans=tuple(plans)), {"seam_bridge"})):
        face = fit_face_model(changed, set())
        assert face is not None
        found = find_late_shapes(face, changed, half, set())
        assert {each.about for each in found} == wanted
    assert found[0].text == "whole shot: 1 frame late relative to the rest of the face"


def _late(plan: ShapePlan, rows: np.ndarray) -> ShapePlan:
    """A plan whose shape repeats the row before in some rows."""
    points = plan.points_FP6.copy()
    points[rows] = plan.points_FP6[rows - 1]
    return replace(plan, points_FP6=points)
