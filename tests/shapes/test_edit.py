"""Edits return new documents, change only what they name, and keep human keys."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import edit, edit_transform
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape


def square(x: float, y: float) -> Points:
    corners = [(x, y), (x + 10, y), (x + 10, y + 10), (x, y + 10)]
    return tuple(ControlPoint(a, b, -1, 0, 1, 0) for a, b in corners)


def document(**keys: Key) -> RotoDocument:
    shape = RotoShape("eye", True, "matte", {int(name[1:]): key for name, key in keys.items()})
    marks = LandmarkKeys(("nose", "chin"), {1: (Landmark(1, 2, 3), None)}, {})
    return RotoDocument(100, 80, 1, 20, landmarks=marks, shapes=(shape, RotoShape("other", False)))


def test_moving_points_makes_a_human_key_and_leaves_the_old_document() -> None:
    before = document(f1=Key(square(0, 0)), f11=Key(square(10, 0)))
    after = edit.move_points(before, "eye", 6, {2: (3.0, -1.0)})
    key = after.shape("eye").keys[6]
    assert key.source == "human"
    assert key.points[2] == ControlPoint(18.0, 9.0, -1, 0, 1, 0)
    assert key.points[0] == ControlPoint(5.0, 0.0, -1, 0, 1, 0)
    assert before.shape("eye").frames == (1, 11)
    assert after.shape("other") is before.shape("other")


def test_a_key_inside_a_hold_holds_too() -> None:
    before = document(f1=Key(square(0, 0), "model", "hold"), f11=Key(square(10, 0)))
    after = edit.set_key(before, "eye", 5).shape("eye")
    assert after.keys[5].interpolation == "hold"
    assert all(after.at(f) == before.shape("eye").at(f) for f in range(1, 12))


def test_unknown_and_taken_names_are_reported() -> None:
    before = document(f1=Key(square(0, 0)))
    with pytest.raises(DocumentError, match="'mouth' is not in"):
        edit.remove_shape(before, "mouth")
    with pytest.raises(DocumentError, match="name is taken"):
        edit.add_shape(before, RotoShape("eye", True))


def test_reshape_fades_with_distance() -> None:
    far = tuple(ControlPoint(p.x + 30.3, p.y + 40.1, -0.1, 0.3, 0.1, -0.3) for p in square(0, 0))  # (x + dx) - x != dx
    assert edit_transform.push_points(far, (0.0, 0.0), (4.0, 0.0), 12.0) == far
    points = edit_transform.push_points(square(0, 0), (0.0, 0.0), (4.0, 0.0), 12.0)
    assert points[0][:2] == pytest.approx((4.0, 0.0))
    weight = (1 - (10 / 12) ** 2) ** 2
    assert points[1][:2] == pytest.approx((10 + 4 * weight, 0.0))
    assert points[2] == square(0, 0)[2]


def test_shifting_moves_everything_that_has_a_frame() -> None:
    before = document(f1=Key(square(0, 0)))
    before = edit.place_landmark(edit.set_visible(before, "eye", [2, 3], False), 1, "chin", 5.0, 6.0)
    after = edit.shift_frames(before, 1000)
    assert (after.first_frame, after.last_frame) == (1001, 1020)
    assert after.shape("eye").frames == (1001,)
    assert after.shape("eye").visible == {1002: False, 1003: False}
    assert after.landmarks.keys[1001][1] == Landmark(5.0, 6.0, 0.0)
    assert after.landmarks.hand == {1001: frozenset({"chin"})}
    assert edit.shift_frames(after, -1000) == before


def test_feather_and_visibility() -> None:
    before = document(f1=Key(square(0, 0)))
    assert edit.set_feather(before, "eye", 7.0).shape("eye") == replace(before.shape("eye"), feather_px=7.0)
    with pytest.raises(DocumentError, match="shape 'eye': feather -1 px; it cannot be negative"):
        edit.set_feather(before, "eye", -1.0)
    shown = edit.set_visible(edit.set_visible(before, "eye", [4], False), "eye", [4], True)
    assert shown.shape("eye").visible == {}


def test_first_key_of_an_empty_shape_needs_points() -> None:
    before = document(f1=Key(square(0, 0)))
    with pytest.raises(DocumentError, match="no key yet"):
        edit.set_key(before, "other", 3)
    after = edit.set_key(before, "other", 3, square(1, 1))
    assert after.shape("other").frames == (3,)
    assert math.isclose(after.shape("other").at(3)[0].x, 1)


def test_a_shape_that_was_hidden_throughout_is_seen_from_a_frame_on() -> None:
    before = edit.set_visible(document(f1=Key(square(0, 0))), "eye", range(1, 21), shown=False)
    after = edit.set_lifetime(before, "eye", 5, 9)
    assert edit.lifetime(before, "eye") is None
    assert [frame for frame in range(1, 21) if after.shape("eye").is_visible(frame)] == [5, 6, 7, 8, 9]
