"""Feather lines edited point by point: the affected frames, and the outward direction."""

from __future__ import annotations

import pytest

from rotopaint_ai.seams.matte import seam_curves
from rotopaint_ai.shapes.edit_feather import clear_feather, outward_offset, pull_feather
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape, StrokeWidth

SQUARE = (ControlPoint(0, 0), ControlPoint(10, 0), ControlPoint(10, 10), ControlPoint(0, 10))


def document(*keys: int) -> RotoDocument:
    shape = RotoShape("box", True, keys={frame: Key(SQUARE) for frame in keys})
    return RotoDocument(64, 48, 1, 9, shapes=(shape,))


def offset(made: RotoDocument, frame: int, index: int) -> tuple[float, float]:
    return made.shape("box").feather_at(frame)[index][:2]


def test_the_first_feather_line_enters_every_key_and_a_later_edit_keys_its_frames() -> None:
    made = pull_feather(document(1, 5, 9), "box", [5], {0: (-3.0, -4.0)})
    assert [offset(made, frame, 0) for frame in (1, 5, 9)] == [(-3, -4)] * 3
    assert {key.source for key in made.shape("box").keys.values()} == {"model"}
    made = pull_feather(made, "box", [3], {0: (-2.0, 0.0)})
    assert made.shape("box").frames == (1, 3, 5, 9)
    assert offset(made, 3, 0) == (-5, -4)
    assert offset(made, 2, 0) == (-4, -4)  # half way between the keys
    assert made.shape("box").keys[3].source == "human"
    made = clear_feather(made, "box", [3], [0])
    assert offset(made, 3, 0) == (0, 0)
    assert not clear_feather(made, "box", [3]).shape("box").has_feather_line


@pytest.mark.parametrize("points", [SQUARE, SQUARE[::-1]])
def test_out_is_out_whichever_way_the_points_go(points: tuple[ControlPoint, ...]) -> None:
    at = points.index(ControlPoint(10, 10))
    assert outward_offset(points, at, 2.0) == pytest.approx((2**0.5, 2**0.5))


def test_a_fill_asks_beyond_the_widest_side_of_a_seam() -> None:
    rows = (StrokeWidth(2.0, 3.0), StrokeWidth(7.0, 1.0))
    key = Key((ControlPoint(5, 5), ControlPoint(20, 5)), widths=rows)
    seam = RotoShape("seam", False, "seam", {1: key}, width_px=4.0, feather_px=0.5)
    assert [half for _, half in seam_curves([seam], 1)] == [7.5]
