"""Edits of a hand: what moves, what becomes human, what a new run may not touch."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ai.shapes import manual_keys
from rotopaint_ai.shapes.roto import ControlPoint, RotoShape

from .conftest import make_document, move_points


def test_a_new_run_keeps_human_keys() -> None:
    mine = move_points(make_document(), "seam", [1002], {0}, 1.0, 1.0)
    new = move_points(make_document(), "seam", [1001, 1002], {0}, -9.0, -9.0)
    merged = manual_keys.with_manual_keys(new, mine)
    assert merged.shape("seam").keys[1002] == mine.shape("seam").keys[1002]
    assert merged.shape("seam").keys[1001] == new.shape("seam").keys[1001]


def test_human_keys_outlive_a_run_without_their_shape() -> None:
    mine = move_points(make_document(), "seam", [1002], {0}, 1.0, 1.0)
    other = RotoShape("seam", False, "seam", {1001: mine.shape("eye").keys[1001].__class__((ControlPoint(0, 0),))})
    without = replace(mine, shapes=(mine.shape("eye"),))
    assert manual_keys.with_manual_keys(replace(mine, shapes=(other,)), mine).shape("seam") == mine.shape("seam")
    assert manual_keys.with_manual_keys(without, mine).shape("seam") == mine.shape("seam")
