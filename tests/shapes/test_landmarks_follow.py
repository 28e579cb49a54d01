"""Landmarks move with the control points they lie on; hand-placed landmarks, and those elsewhere, stay."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape

FRAMES = range(1, 21)


def line(y: float) -> Key:
    return Key((ControlPoint(10, y), ControlPoint(20, y), ControlPoint(30, y)))


def document() -> RotoDocument:
    """A line that moves down by a pixel a frame, with a landmark on its middle point and one 8 px below it."""
    shape = RotoShape("seam", False, "seam", {frame: line(float(frame)) for frame in FRAMES})
    marks = {frame: (Landmark(20, frame, 1.0), Landmark(20, frame + 8, 1.0)) for frame in FRAMES}
    return RotoDocument(64, 48, 1, 20, landmarks=LandmarkKeys(("on", "beside"), marks), shapes=(shape,))


def test_landmarks_follow_where_their_points_were_moved() -> None:
    before = document()
    seam = before.shape("seam")
    keys = {**seam.keys, 5: line(7.5), 6: line(8.5)}
    after = RotoDocument(64, 48, 1, 20, landmarks=before.landmarks, shapes=(seam.with_keys(keys),))
    found = with_landmarks(before, after).landmarks.keys
    places = {frame: [(mark.x, mark.y) for mark in found[frame] if mark is not None] for frame in (4, 5, 6)}
    assert places == {4: [(20, 4), (20, 12)], 5: [(20, 7.5), (20, 13)], 6: [(20, 8.5), (20, 14)]}


def test_a_landmark_that_a_person_placed_stays() -> None:
    before = document()
    marks = LandmarkKeys(before.landmarks.names, before.landmarks.keys, {5: frozenset({"on"})})
    seam = before.shape("seam")
    moved = seam.with_keys({**seam.keys, 5: line(7.5), 6: line(8.5)})
    after = RotoDocument(64, 48, 1, 20, landmarks=marks, shapes=(moved,))
    found = with_landmarks(before, after).landmarks.keys
    assert found[5] == before.landmarks.keys[5]
    assert found[6][0] == Landmark(20, 8.5, 1.0)


def test_a_landmark_follows_its_point_though_a_solved_seam_has_left_it_a_little() -> None:
    before = document()
    seam = before.shape("seam")
    solved = seam.with_keys({frame: line(frame + 0.8) for frame in FRAMES})
    before = replace(before, shapes=(solved,))
    after = replace(before, shapes=(solved.with_keys({**solved.keys, 5: line(9.8)}),))
    on, beside = with_landmarks(before, after).landmarks.keys[5]
    assert (on, beside) == (Landmark(20, 9.0, 1.0), Landmark(20, 13, 1.0))
