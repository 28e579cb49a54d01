"""Elements of kept nodes: whether they stay as they were, and where edited ones stand within their layers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rotopaint_ai.exchange.nuke_rebuild import _is_as_before, _rows_within
from rotopaint_ai.shapes.layers import Matrix
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape

A = (ControlPoint(1.0, 2.0), ControlPoint(3.0, 4.0))
B = (ControlPoint(1.0, 2.0), ControlPoint(3.0, 5.0))


def _shape(**keys: Key) -> RotoShape:
    return RotoShape("seam", closed=False, keys={int(frame[1:]): key for frame, key in keys.items()})


def test_one_pose_is_the_same_at_any_frame_and_several_are_not() -> None:
    one, later, other = _shape(f1=Key(A, "human")), _shape(f7=Key(A, "model")), _shape(f7=Key(B, "human"))
    two, moved = _shape(f1=Key(A, "human"), f5=Key(B, "human")), _shape(f2=Key(A, "human"), f5=Key(B, "human"))
    assert _is_as_before(one, later)
    assert not _is_as_before(one, other)
    assert not _is_as_before(two, moved)
    assert not _is_as_before(one, two)
    assert _is_as_before(two, replace(two))
    assert not _is_as_before(two, replace(two, width_px=2.0))


def test_points_handles_and_feather_go_through_a_matrix_in_nukes_space() -> None:
    """By hand: a quarter turn counter-clockwise, twice as large, 10 to the right; Nuke's y runs up from 100."""
    matrix: Matrix = (0.0, -2.0, 10.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    points = (ControlPoint(30.0, 80.0, 1.0, 2.0, -3.0, 4.0),)  # (30, 20) in Nuke, which goes to (-30, 60)
    feather = (ControlPoint(5.0, -6.0, 0.5, 0.0, 0.0, 0.25),)  # its end, (35, 26), goes to (-42, 70): (-42, 30) of ours
    made, ends = _rows_within(points, feather, matrix, 100)
    # a step (x, y) of ours is (x, -y) of Nuke's, which goes to (2 y, 2 x): (2 y, -2 x) of ours
    assert made[0] == pytest.approx((-30.0, 40.0, 4.0, -2.0, 8.0, 6.0))
    assert ends[0] == pytest.approx((-12.0, -10.0, 0.0, -1.0, 0.5, 0.0))
