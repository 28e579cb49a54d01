"""Frames that the user has decided; the spreads and refits that are repeated after a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rotopaint_ai.project.state import Spread
from rotopaint_ai.shapes.manual_keys import _is_settled, carried_keys, to_carry_on, with_manual_keys
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Key,
    Landmark,
    LandmarkKeys,
    RotoDocument,
    RotoShape,
    Source,
    StrokeWidth,
)

NEAR, FAR = Spread(3, 1, 5), Spread(12, 10, 14)


def _key(source: Source) -> Key:
    return Key((ControlPoint(1.0, 1.0), ControlPoint(2.0, 2.0)), source)


def _document(followed: set[int]) -> RotoDocument:
    keys = {frame: _key("propagated" if frame in followed else "model") for frame in range(1, 21)}
    keys[3] = keys[12] = _key("human")
    return RotoDocument(64, 48, 1, 20, landmarks=LandmarkKeys(), shapes=(RotoShape("seam", False, keys=keys),))


@pytest.mark.parametrize("by", [(0.0, 0.0), (20.0, 0.0), (0.0, 20.0)])
@pytest.mark.parametrize("is_hand", [True, False])
def test_a_key_on_a_hand_placed_landmark_is_settled(by: tuple[float, float], is_hand: bool) -> None:
    points = tuple(ControlPoint(x, y) for x, y in ((30, 40), (70, 40), (110, 45)))
    hand = {1001: frozenset({"nose"})} if is_hand else {}
    marks = LandmarkKeys(("chin", "nose"), {1001: (Landmark(30, 40), Landmark(70 + by[0], 40 + by[1]))}, hand)
    assert _is_settled(Key(points, "model"), 1001, marks) == (is_hand and by == (0, 0))
    assert _is_settled(Key(points, "human"), 1001, marks)


@pytest.mark.parametrize(
    ("followed", "frames", "wanted"),
    [
        ({2, 4, 11}, None, [NEAR, FAR]),
        ({2, 4}, None, [NEAR]),  # the far one was undone: a run does not restore it
        ({2, 4, 11}, range(9, 21), [FAR]),  # a run of some frames leaves the others unchanged
        ({2, 4, 17}, None, [None, NEAR]),  # no spread reaches 17: the shot was refitted
        ({2, 4, 17}, range(1, 9), [NEAR]),
        (set(), None, []),
    ],
)
def test_what_is_carried_on_again(followed: set[int], frames: range | None, wanted: list[Spread | None]) -> None:
    assert to_carry_on(_document(followed), (NEAR, FAR), frames, _document(set())) == wanted


def test_a_shape_that_was_tracked_asks_for_no_refit() -> None:
    """A hand-drawn badge follows its surface from frame to frame, without a model."""
    models = _document(set())
    badge = replace(_document({17}).shapes[0], name="badge")
    assert to_carry_on(replace(models, shapes=(*models.shapes, badge)), (NEAR, FAR), None, models) == []


def test_a_persons_seam_runs_as_the_new_models_seam_and_draws_the_same_curve() -> None:
    row = (ControlPoint(10, 20, 0, 0, 9, -6), ControlPoint(40, 22, -8, 1, 8, 2), ControlPoint(70, 35, -7, -9, 0, 0))
    drawn = Key(row, "human", widths=(StrokeWidth(1, 2), StrokeWidth(3, 4, 5), StrokeWidth(6, 7)))
    mine = RotoDocument(96, 54, 1, 2, shapes=(RotoShape("seam", False, "seam", {1: drawn}),))
    near = tuple(point._replace(y=point.y + 3) for point in row)
    for model, wanted in ((Key(near), drawn), (Key(near).reversed(), drawn.reversed())):
        new = replace(mine, shapes=(RotoShape("seam", False, "seam", {1: model, 2: model}),))
        kept = with_manual_keys(new, mine).shape("seam")
        assert kept.keys == {1: wanted, 2: model}
        one, other = (matte(shape, 1, 96, 54).paste(96, 54) for shape in (mine.shapes[0], kept))
        assert one.sum() > 100
        assert abs(one - other).max() < 1e-5


def test_keys_of_some_frames() -> None:
    keys = {"seam": {1: _key("propagated"), 2: _key("propagated")}}
    assert carried_keys(keys, None, None, _document(set())) == keys
    assert carried_keys(keys, NEAR, {2}, _document(set())) == {"seam": {2: keys["seam"][2]}}


def test_a_run_of_the_whole_shot_carries_open_seams_over_itself() -> None:
    """The run already covers open seams; only an explicit spread and the other shapes remain to be repeated."""
    seam = replace(_document({2, 4, 17}).shapes[0], role="seam")
    before, keys = replace(_document(set()), shapes=(seam,)), {"seam": {17: _key("propagated")}}
    assert to_carry_on(before, (NEAR, FAR), None, before) == [NEAR]
    assert to_carry_on(before, (NEAR, FAR), range(9, 21), before) == [None]
    assert carried_keys(keys, None, None, before) == {}
    assert carried_keys(keys, FAR, None, before) == keys
    assert carried_keys(keys, None, range(9, 21), before) == keys
