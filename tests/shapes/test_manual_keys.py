"""Frames that the user has decided."""

from __future__ import annotations

import pytest

from rotopaint_ai.shapes.manual_keys import _is_settled
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys


@pytest.mark.parametrize("by", [(0.0, 0.0), (20.0, 0.0), (0.0, 20.0)])
@pytest.mark.parametrize("is_hand", [True, False])
def test_a_key_on_a_hand_placed_landmark_is_settled(by: tuple[float, float], is_hand: bool) -> None:
    points = tuple(ControlPoint(x, y) for x, y in ((30, 40), (70, 40), (110, 45)))
    hand = {1001: frozenset({"nose"})} if is_hand else {}
    marks = LandmarkKeys(("chin", "nose"), {1001: (Landmark(30, 40), Landmark(70 + by[0], 40 + by[1]))}, hand)
    assert _is_settled(Key(points, "model"), 1001, marks) == (is_hand and by == (0, 0))
    assert _is_settled(Key(points, "human"), 1001, marks)
