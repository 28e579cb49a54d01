"""Which frames the report opens on."""

from __future__ import annotations

from rotopaint_ai.pipeline.manifest import N_LOST, N_WORST, choose_pictured, choose_worst, ordinary_frames
from rotopaint_ai.pipeline.record_store import FrameRecord

SEAMS = frozenset({"seam_left", "seam_right"})


def _record(frame: int, left: float, outline: float, after: float | None = None, **more: object) -> FrameRecord:
    errors = {"seam_left": left, "seam_right": 0.1, "face_outline": outline}
    return FrameRecord(frame, "done", errors=errors, seam_after=after, **more)  # type: ignore[arg-type]


def test_the_outline_of_the_face_names_no_frame_where_there_are_seams() -> None:
    records = [_record(1, 1.0, 9.0), _record(2, 3.0, 1.0), _record(3, 2.0, 5.0)]
    assert choose_worst(records, SEAMS) == [2, 3, 1]
    assert records[0].worst_shape(SEAMS) == ("seam_left", 1.0)
    assert choose_worst(records, frozenset()) == [1, 3, 2]
    assert records[0].worst_shape(frozenset()) == ("face_outline", 9.0)


def test_of_the_worst_those_come_first_whose_seams_are_still_seen() -> None:
    """Errors 2, 3 and 2.5 px times visibilities 4, 0.5 (below 1 counts as 1) and 1: 8, 3 and 2.5."""
    records = [_record(1, 2.5, 0, 1.0), _record(2, 2.0, 0, 4.0), _record(3, 3.0, 0, 0.5)]
    assert choose_worst(records, SEAMS) == [2, 3, 1]


def test_a_frame_that_has_no_picture_is_not_brought_back_by_what_is_seen() -> None:
    many = [_record(frame, 5.0, 0, 1.0) for frame in range(1, N_WORST + 1)]
    assert 99 not in choose_worst([*many, _record(99, 4.0, 0, 50.0)], SEAMS)


def test_the_first_lost_faces_are_drawn_and_no_more_of_them() -> None:
    frames = range(1, 1001)
    spread = ordinary_frames(frames)
    lost = [FrameRecord(frame, "lost") for frame in frames if frame not in spread][: N_LOST + 3]
    chosen = choose_pictured(lost, frames, SEAMS)
    assert chosen - spread == {record.frame for record in lost[:N_LOST]}
    assert spread < chosen


def test_lost_faces_come_first_and_repeats_of_an_exposure_not_at_all() -> None:
    records = [_record(1, 2.0, 0), _record(2, 2.0, 0, hold=1), FrameRecord(7, "lost")]
    assert choose_worst(records, SEAMS) == [7, 1]
