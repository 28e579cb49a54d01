"""A run's result in a shot that somebody works on: what stays, what is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rotopaint_ai.project.face_groups import choose_face
from rotopaint_ai.project.merge_run import (
    EditedPredictions,
    drawn_state,
    merge_run,
    partial_run_frames,
    seam_with_settings,
    standing_marks,
    with_earlier_predictions,
)
from rotopaint_ai.project.state import Mark, SeamSettings, State
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape, StrokeWidth


def key(x: float, source: str = "model") -> Key:
    return Key((ControlPoint(x, 0, 0, 0, 0, 0), ControlPoint(x, 9, 0, 0, 0, 0)), source)  # type: ignore[arg-type]


def document(keys: Mapping[int, Key], *, width: float, first: int = 1, last: int = 4) -> RotoDocument:
    seam = RotoShape("seam", False, "seam", keys, width_px=width)
    return RotoDocument(64, 48, first, last, landmarks=LandmarkKeys((), {}), shapes=(seam,))


OLD = document({1: key(1), 2: key(2, "human"), 3: key(3), 4: key(4)}, width=5.0)
PART = document({2: key(20), 3: key(30)}, width=8.0, first=2, last=3)
WHOLE = document({frame: key(10.0 * frame) for frame in range(1, 5)}, width=8.0)


def xs(found: RotoDocument | None) -> dict[int, float]:
    assert found is not None
    return {frame: each.points[0].x for frame, each in found.shapes[0].keys.items()}


def test_a_partial_run_keeps_other_frames_hand_keys_and_the_width() -> None:
    asked = partial_run_frames((2, 3), OLD)
    merged = merge_run(State(document=OLD, predicted=OLD), PART, asked, predicted=PART)
    assert xs(merged.document) == {1: 1, 2: 2, 3: 30, 4: 4}
    assert xs(merged.predicted) == {1: 1, 2: 20, 3: 30, 4: 4}
    assert merged.document is not None
    assert merged.document.shapes[0].width_px == 5.0
    drawn = drawn_state(State(document=OLD), PART, asked).document
    assert drawn is not None
    assert drawn.shapes[0].width_px == 5.0  # so that a print of what was drawn fits what the shot says


def test_a_run_of_all_frames_brings_its_widths_unless_a_person_set_one() -> None:
    asked = partial_run_frames((1, 2, 3, 4), OLD)
    assert asked is None
    for seams, width in (({}, 8.0), ({"seam": SeamSettings(width_px=6.5)}, 6.5)):
        merged = merge_run(State(document=OLD, seams=seams), WHOLE, asked, predicted=WHOLE)
        assert xs(merged.document) == {1: 10, 2: 2, 3: 30, 4: 40}
        assert merged.document is not None
        assert merged.document.shapes[0].width_px == pytest.approx(width)


def test_frames_that_are_not_on_disk_stay_as_they_were() -> None:
    found = document({1: key(10), 4: key(40)}, width=8.0)
    merged = merge_run(State(document=OLD), found, partial_run_frames((1, 4), OLD), predicted=found)
    assert xs(merged.document) == {1: 10, 2: 2, 3: 3, 4: 40}


def test_a_shape_that_somebody_drew_is_none_of_the_models() -> None:
    """A run's document holds it too, but it must not join the face's group or be refitted."""
    badge = replace(OLD.shapes[0], name="badge", keys={1: key(1, "human"), 2: key(2, "propagated")})
    found = replace(WHOLE, shapes=(*WHOLE.shapes, badge))
    before = State(document=replace(OLD, shapes=(*OLD.shapes, badge)), predicted=OLD, face="Anna")
    merged = merge_run(before, found, None)
    assert merged.predicted is not None
    assert merged.document is not None
    assert [shape.name for shape in merged.predicted.shapes] == ["seam"]
    assert {shape.name: shape.layer for shape in merged.document.shapes} == {"seam": Layer("Anna"), "badge": None}
    again = merge_run(replace(merged, predicted=replace(OLD, shapes=(*OLD.shapes, badge.with_keys({})))), found, None)
    assert again.predicted is not None
    assert [shape.name for shape in again.predicted.shapes] == ["seam"]  # of a project that took it for one


def test_a_shape_that_people_keyed_on_all_frames_stays_the_models() -> None:
    keyed = document({frame: key(frame, "human") for frame in range(1, 5)}, width=5.0)
    merged = merge_run(State(document=keyed, predicted=OLD), keyed, None)
    assert merged.predicted is not None
    assert [shape.name for shape in merged.predicted.shapes] == ["seam"]


def test_what_the_models_found_under_a_hand_is_what_they_said() -> None:
    found = replace(WHOLE, shapes=(WHOLE.shapes[0].with_keys({**WHOLE.shapes[0].keys, 2: key(2, "human")}),))
    rows = {frame: (Landmark(frame, 0, 1.0), Landmark(frame, 9, 1.0)) for frame in range(1, 5)}
    found = replace(found, landmarks=LandmarkKeys(("on", "by"), rows, {2: frozenset({"on"})}))
    unknown = merge_run(State(document=OLD, predicted=OLD), found, None).predicted
    assert unknown is not None
    assert xs(unknown) == {1: 10, 3: 30, 4: 40}
    assert unknown.landmarks.keys[2] == (None, Landmark(2, 9, 1.0))  # a face is known there all the same
    row = (Landmark(5, 5, 1.0), Landmark(2, 9, 1.0))
    under = EditedPredictions({"seam": {2: key(20)}}, {2: row})
    known = merge_run(State(document=OLD, predicted=OLD), found, None, edited=under).predicted
    assert known is not None
    assert xs(known) == {1: 10, 2: 20, 3: 30, 4: 40}
    assert known.landmarks.keys == {**rows, 2: row}


def test_shapes_of_another_face_are_none_of_the_models() -> None:
    """A run of the second face also holds the first face's shapes; changing faces must not mix them."""
    both = choose_face(choose_face(State(document=WHOLE, predicted=WHOLE), "Anna", None), "Bo", None)
    assert both.document is not None
    merged = merge_run(both, replace(WHOLE, shapes=(*WHOLE.shapes, *both.document.shapes)), None)
    assert merged.predicted is not None
    assert [shape.name for shape in merged.predicted.shapes] == ["seam"]
    anna = choose_face(merged, "Anna", None)
    assert anna.document is not None
    assert {shape.name: shape.layer and shape.layer.name for shape in anna.document.shapes} == {
        "Bo_seam": "Bo",
        "seam": "Anna",
    }


def test_where_a_run_carried_a_correction_over_what_its_models_said_is_known_beside() -> None:
    before = State(document=document({1: key(9, "human"), 2: key(2)}, width=4.0), predicted=OLD)
    found = document({1: key(9, "human"), 2: key(5, "propagated"), 3: key(6, "propagated"), 4: key(4)}, width=4.0)
    after = merge_run(before, found, None, edited=EditedPredictions({"seam": {1: key(1), 2: key(2)}}))
    assert xs(after.document) == {1: 9, 2: 5, 3: 6, 4: 4}
    assert xs(after.predicted) == {1: 1, 2: 2, 3: 6, 4: 4}
    assert after.predicted is not None
    assert {each.source for each in after.predicted.shapes[0].keys.values()} == {"model"}


def test_a_run_that_went_on_tells_nothing_of_frames_that_it_left() -> None:
    before = State(document=document({1: key(9, "human")}, width=4.0), predicted=OLD)
    found = document({1: key(9, "human"), 2: key(5, "propagated"), 3: key(6, "propagated"), 4: key(4)}, width=4.0)
    assert before.predicted is not None
    under = with_earlier_predictions(EditedPredictions({"seam": {2: key(2)}}), found, before.predicted)
    after = merge_run(before, found, None, edited=under)
    assert xs(after.predicted) == {1: xs(OLD)[1], 2: 2, 3: xs(OLD)[3], 4: 4}


def test_a_hand_set_width_replaces_the_models_and_can_be_reset() -> None:
    rows = {f: (StrokeWidth(f, f, 1.0),) * 2 for f in (1, 2, 3)}
    model = replace(OLD.shapes[0], keys={f: replace(key(f), widths=rows[f]) for f in rows}, width_px=4.0)
    own = replace(key(3, "human"), widths=(StrokeWidth(9.0, 9.0, 1.0),) * 2)
    shape = model.with_keys({**model.keys, 3: own})
    wide = seam_with_settings(shape, model, SeamSettings(width_px=8.0))
    assert (wide.width_px, [wide.keys[f].widths for f in (1, 2, 3)]) == (8.0, [(), (), own.widths])
    assert seam_with_settings(wide, model, SeamSettings()) == shape


def test_a_run_that_moves_an_accepted_frame_takes_its_mark_off() -> None:
    near = document({1: key(1.05), 2: key(20), 3: key(30), 4: key(40)}, width=5.0)
    marks: Mapping[int, Mark] = {1: "accepted", 2: "accepted", 3: "accepted", 4: "needs work"}
    before = State(document=OLD, predicted=OLD, marks=marks)
    merged = merge_run(before, near, None, predicted=near).document
    assert merged is not None
    assert standing_marks(before, merged) == {1: "accepted", 2: "accepted", 4: "needs work"}  # 2 is a person's key
    assert standing_marks(before, OLD) == marks
