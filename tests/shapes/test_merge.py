"""Merge a result for some frames into a document with all frames."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ai.shapes.merge import merge
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape


def _key(x: float, n_points: int = 2) -> Key:
    return Key(tuple(ControlPoint(x, float(at)) for at in range(n_points)))


def _document(frames: range, x: float, *, shown: dict[int, bool]) -> RotoDocument:
    shape = RotoShape("seam", False, "seam", {frame: _key(x) for frame in frames}, visible=shown)
    marks = LandmarkKeys(("nose",), {frame: (Landmark(x, 1.0),) for frame in frames})
    return RotoDocument(8, 8, frames[0], frames[-1], landmarks=marks, shapes=(shape,))


def test_requested_frames_are_replaced_and_the_others_stay() -> None:
    before = _document(range(1, 5), 1.0, shown={1: False, 3: False})
    new = _document(range(2, 3), 2.0, shown={2: True})
    merged = merge(before, new, (2, 3))  # the third was requested, and has no result
    shape = merged.shape("seam")
    assert {frame: key.points[0].x for frame, key in shape.keys.items()} == {1: 1.0, 2: 2.0, 4: 1.0}
    assert shape.visible == {1: False, 2: True}
    assert {frame: row[0] for frame, row in merged.landmarks.keys.items()} == {
        1: Landmark(1.0, 1.0),
        2: Landmark(2.0, 1.0),
        4: Landmark(1.0, 1.0),
    }
    assert (merged.first_frame, merged.last_frame) == (1, 4)


def test_what_has_other_points_or_other_names_is_not_mixed() -> None:
    before = _document(range(1, 3), 1.0, shown={})
    other = replace(before.shapes[0], keys={2: _key(2.0, 3)})
    new = replace(before, shapes=(other,), landmarks=LandmarkKeys(("chin",), {2: (Landmark(2.0, 1.0),)}))
    merged = merge(before, new, (2,))
    assert merged.shapes == (other,)
    assert merged.landmarks == new.landmarks
