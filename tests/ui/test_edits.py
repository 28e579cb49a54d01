"""Edits of a hand: what moves, what becomes human, what a new run may not touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rotopaint_ai.shapes.roto import ControlPoint, RotoShape
from rotopaint_ui import edits

from .conftest import make_document


def test_moving_points_keys_the_whole_shape_by_hand_at_these_frames_only() -> None:
    before = make_document()
    after = edits.move_points(before, "seam", (1002, 1003), {1}, 3.0, -2.0)
    seam = after.shape("seam")
    assert [frame for frame, key in seam.keys.items() if key.source == "human"] == [1002, 1003]
    assert seam.keys[1002].points[1] == ControlPoint(33, 19, -5, 0, 5, 0)
    assert seam.keys[1002].points[0] == before.shape("seam").keys[1002].points[0]
    assert seam.keys[1001] == before.shape("seam").keys[1001]
    assert after.shape("eye") == before.shape("eye")


def test_a_smooth_tangent_turns_its_opposite_and_keeps_the_opposites_length() -> None:
    after = edits.move_tangent(make_document(), "seam", [1001], 1, handle="out", dx=-5, dy=10, alone=False)
    point = after.shape("seam").keys[1001].points[1]
    assert (point.out_dx, point.out_dy) == (0, 10)
    assert (point.in_dx, point.in_dy) == pytest.approx((0, -5))


@pytest.mark.parametrize("alone", [True, False])
def test_a_corner_stays_a_corner(alone: bool) -> None:
    document = make_document()
    seam = document.shape("seam")
    corner = seam.keys[1001].points[1]._replace(in_dx=0.0, in_dy=-5.0)
    keys = {**seam.keys, 1001: replace(seam.keys[1001], points=(seam.keys[1001].points[0], corner))}
    document = replace(document, shapes=(replace(seam, keys={1001: keys[1001]}),))
    after = edits.move_tangent(document, "seam", [1001], 1, handle="out", dx=1, dy=1, alone=alone)
    point = after.shape("seam").keys[1001].points[1]
    assert point == corner._replace(out_dx=6.0, out_dy=1.0)


def test_a_new_run_keeps_human_keys() -> None:
    mine = edits.move_points(make_document(), "seam", [1002], {0}, 1.0, 1.0)
    new = edits.move_points(make_document(), "seam", [1001, 1002], {0}, -9.0, -9.0)
    merged = edits.with_human_keys(new, mine)
    assert merged.shape("seam").keys[1002] == mine.shape("seam").keys[1002]
    assert merged.shape("seam").keys[1001] == new.shape("seam").keys[1001]


def test_a_run_that_lost_a_shape_or_counts_points_otherwise_does_not_cost_a_persons_work() -> None:
    mine = edits.move_points(make_document(), "seam", [1002], {0}, 1.0, 1.0)
    other = RotoShape("seam", False, "seam", {1001: mine.shape("eye").keys[1001].__class__((ControlPoint(0, 0),))})
    without = replace(mine, shapes=(mine.shape("eye"),))
    assert edits.with_human_keys(replace(mine, shapes=(other,)), mine).shape("seam") == mine.shape("seam")
    assert edits.with_human_keys(without, mine).shape("seam") == mine.shape("seam")
