"""The open shot without a screen: undo, gestures, worst frames, and what reaches the disk."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project import run_record
from rotopaint_ai.project.state import CropBox, State
from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys, RotoDocument
from rotopaint_ui.services.review_loop import ReviewLoop
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import HAND_NAME, PlateFacts, read_run_results

from .conftest import make_document, move_points, run_json


def drag(session: ShotSession, dx: float) -> None:
    """Drag the seam's first point in three moves."""
    session.edits.begin("move points")
    for part in (0.3, 0.7, 1.0):
        document = session.edits.before_gesture.document
        assert document is not None
        moved = move_points(document, "seam", session.held_frames(), {0}, dx * part, 0)
        session.edits.preview(replace(session.edits.before_gesture, document=moved))
    session.edits.commit()


def opened(facts: PlateFacts, out: Path) -> ShotSession:
    session = ShotSession()
    session.open(facts, out)
    session.take_results(read_run_results(out))
    return session


def x_at(session: ShotSession, frame: int = 1001) -> float:
    assert session.document is not None
    return session.document.shape("seam").at(frame)[0].x


def test_one_gesture_is_one_step_and_undo_redo_go_both_ways(session: ShotSession) -> None:
    drag(session, 4.0)
    drag(session, 1.0)
    assert x_at(session) == 15.0
    assert session.edits.undo() == "move points"
    assert x_at(session) == 14.0
    session.edits.undo()
    assert x_at(session) == 10.0
    assert session.document == make_document()
    assert session.edits.undo() is None
    session.edits.redo()
    session.edits.redo()
    assert x_at(session) == 15.0


def test_a_new_edit_clears_the_redo_steps(session: ShotSession) -> None:
    drag(session, 4.0)
    session.edits.undo()
    drag(session, 2.0)
    assert not session.edits.can_redo


def test_an_aborted_gesture_leaves_nothing(session: ShotSession) -> None:
    session.edits.begin("crop box")
    session.edits.preview(State(session.document, {1001: CropBox(1, 2, 30, 30)}))
    session.edits.abort()
    assert session.state.crops == {}
    assert not session.edits.can_undo


def test_an_edit_in_a_hold_reaches_all_of_it(facts: PlateFacts, out: Path) -> None:
    (out / "run.json").write_text(json.dumps(run_json(held=[[1002, 1003]])))
    session = opened(facts, out)
    session.go_to(1003)
    drag(session, 4.0)
    assert [x_at(session, frame) for frame in (1001, 1002, 1003, 1005)] == [10, 14, 14, 10]


def test_worst_frames_lost_first_then_by_error_of_what_is_not_keyed_by_hand(session: ShotSession) -> None:
    session.compares_all_shapes = True
    loop = ReviewLoop(session, session.say)
    assert session.worst() == [1006, 1003, 1005, 1002, 1001]
    loop.step(1)
    assert session.frame == 1006
    loop.step(1)
    assert session.frame == 1003
    loop.step(-1)
    assert session.frame == 1006
    session.go_to(1005)
    loop.step(1)
    assert session.frame == 1006
    session.go_to(1003)
    drag(session, 2.0)
    assert session.worst() == [1006, 1003, 1005, 1002, 1001]  # the eye, 1.0 px, as the seam at 1005
    session.review.mark([1003], "accepted")
    assert session.worst() == [1006, 1005, 1002, 1001]


def test_of_a_hold_the_first_frame_stands_for_all() -> None:
    run = run_record.RunRecord(errors={1: {"a": 1.0}, 2: {"a": 3.0}, 3: {"a": 2.0}}, held=((1, 2),))
    assert run.worst((1, 2, 3)) == [1, 3]
    assert run.worst((1, 2, 3), settled=frozenset({2})) == [3]
    assert run.worst((1, 2, 3), keyed={"a": frozenset({2})}) == [3]


def test_worst_frames_whose_pose_was_corrected_already_come_later(session: ShotSession) -> None:
    straight, turned = ((10, 10), (30, 10), (20, 30)), ((10, 10), (30, 10), (12, 30))
    poses = {1001: straight, 1002: turned, 1003: straight, 1005: turned}
    document = session.document
    assert document is not None
    rows = {frame: tuple(Landmark(*place) for place in places) for frame, places in poses.items()}
    said = replace(document, landmarks=LandmarkKeys(("a", "b", "c"), rows))
    session.edits.push("run", replace(session.state, document=said, predicted=said))
    session.run = replace(session.run, errors={f: {"seam": e} for f, e in zip(poses, (1.0, 2.0, 4.0, 3.0))})
    assert session.worst() == [1006, 1003, 1005, 1002, 1001]
    session.go_to(1003)
    drag(session, 2.0)
    assert session.worst() == [1006, 1005, 1002, 1001]
    session.go_to(1005)
    drag(session, 2.0)
    assert session.worst() == [1006, 1002, 1001]  # both are like a corrected one: the larger error
    session.run = session.run.with_errors({"seam": {1002: 0.5}})
    assert session.worst() == [1006, 1001, 1002]
    session.edits.undo()
    assert session.worst() == [1006, 1005, 1002, 1001]
    session.run = session.run.with_errors({"seam": {1001: 90.0}})
    assert session.worst() == [1006, 1001, 1005, 1002]  # clearly the largest


def test_save_writes_once_and_marks_human_keys(session: ShotSession, out: Path) -> None:
    assert not session.shapes_file.save()
    drag(session, 4.0)
    assert session.shapes_file.save()
    assert not session.shapes_file.save()
    saved = documents.read(out / "shapes.roto.json")
    assert saved.shape("seam").keys[1001].source == "human"
    assert saved.shape("seam").keys[1001].points[0].x == 14.0


def test_what_another_program_wrote_meanwhile_is_kept(session: ShotSession, out: Path) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    drag(session, 4.0)
    session.shapes_file.save()
    assert not list(out.glob("shapes.other*"))
    theirs = replace(make_document(), fps=77.0)
    documents.write(out / "shapes.roto.json", theirs)
    drag(session, 2.0)
    assert session.shapes_file.save()
    assert documents.read(out / "shapes.other-1.roto.json") == theirs
    assert "was written by another program; its shapes are kept as shapes.other-1.roto.json" in said[-1]
    assert documents.read(out / "shapes.roto.json") == session.document
    drag(session, 2.0)
    session.shapes_file.save()
    assert len(list(out.glob("shapes.other*"))) == 1


def test_undo_goes_on_working_after_saving(session: ShotSession, out: Path) -> None:
    drag(session, 4.0)
    session.shapes_file.save()
    session.edits.undo()
    session.shapes_file.save()
    assert documents.read(out / "shapes.roto.json") == make_document()


def test_a_run_keeps_human_keys_and_is_one_step(session: ShotSession, out: Path) -> None:
    drag(session, 4.0)
    session.shapes_file.save()
    session.prepare_run()
    documents.write(out / "shapes.roto.json", move_points(make_document(), "seam", [1001, 1002], {0}, -5, 0))
    session.take_run(read_run_results(out))
    assert not session.shapes_file.is_saved
    session.shapes_file.save()
    assert (x_at(session, 1001), x_at(session, 1002)) == (14.0, 5.0)
    assert documents.read(out / "shapes.roto.json").shape("seam").keys[1001].source == "human"
    assert not (out / HAND_NAME).exists()
    assert session.edits.undo() == "run"
    assert x_at(session, 1002) == 10.0


def test_a_crash_during_a_run_does_not_cost_human_keys(session: ShotSession, facts: PlateFacts, out: Path) -> None:
    drag(session, 4.0)
    session.shapes_file.save()
    session.prepare_run()
    documents.write(out / "shapes.roto.json", make_document())  # the run wrote its shapes, then everything died
    again = opened(facts, out)
    assert x_at(again) == 14.0
    assert not again.shapes_file.is_saved


def test_a_damaged_document_is_one_line_and_the_plate_opens(facts: PlateFacts, out: Path) -> None:
    (out / "shapes.roto.json").write_text("{")
    session = opened(facts, out)
    trouble = read_run_results(out).trouble
    assert trouble is not None
    assert "shapes.roto.json" in trouble
    assert "\n" not in trouble
    assert session.plate == facts
    assert session.document is None


def test_the_frame_stays_in_the_plate_and_may_stand_on_a_hole(session: ShotSession) -> None:
    session.go_to(1004)
    assert session.frame == 1004
    session.go_to(2000)
    assert session.frame == 1006
    session.go_to(1)
    assert session.frame == 1001


def test_half_a_drag_is_no_step_where_another_shot_opens(session: ShotSession, facts: PlateFacts, out: Path) -> None:
    assert session.state.document is not None
    session.edits.begin("move points")
    session.edits.preview(replace(session.state, document=replace(session.state.document, first_frame=1002)))
    kept = list[RotoDocument | None]()
    session.leaving.append(lambda: kept.append(session.state.document))
    session.open(facts, out)
    assert [None if each is None else each.first_frame for each in kept] == [1001]


def test_live_shapes_are_shown_and_not_kept(session: ShotSession) -> None:
    drag(session, 4.0)
    started = {"event": "started", "width": 64, "height": 48, "first_frame": 1001, "last_frame": 1006}
    started |= {"pixel_aspect": 1.0, "fps": 24.0, "landmarks": ["nose"]}
    started |= {"shapes": [{"name": "seam", "closed": False, "role": "seam", "feather_px": 0.0}]}
    session.runs.take_event(started)
    rows = [[1, 2, 0, 0, 1, 0], [3, 2, 0, 0, 1, 0], [5, 2, -1, 0, 0, 0]]
    event = {"event": "frame", "frame": 1002, "status": "done", "landmarks": [[7, 8, 0.5]], "shapes": {"seam": rows}}
    session.runs.take_event({**event, "expected_error_px": {"seam": 4.0}, "widths": {"seam": 6.0}})
    session.runs.show_live()
    assert session.runs.is_live
    assert session.document is not None
    assert session.document.shape("seam").at(1002)[0].x == 1
    assert session.document.shape("seam").width_px == 6.0
    assert session.document.shape("seam").keys[1001].source == "human"
    assert session.document.landmarks.keys[1002][0] == (7, 8, 0.5)
    assert session.run.error_at(1002) == 4.0
    said = list[str]()
    session.message_sent.append(said.append)
    assert session.must_wait()
    assert said == ["The run is under way: look, and edit when it has ended"]
    session.runs.end_live()
    assert not session.must_wait()
    assert x_at(session) == 14.0
    assert x_at(session, 1002) == 10.0


def test_a_run_that_has_begun_and_not_ended_is_known(out: Path) -> None:
    assert not read_run_results(out).is_cut_off
    job = out / ".rotopaint" / "job.json"
    job.parent.mkdir(exist_ok=True)
    job.write_text("{}")
    record = out / "run.json"
    ended = record.stat().st_mtime_ns
    for begun, is_cut_off in ((ended - 1, False), (ended, False), (ended + 1, True)):
        os.utime(job, ns=(begun, begun))
        assert read_run_results(out).is_cut_off is is_cut_off
    record.unlink()
    assert read_run_results(out).is_cut_off


def test_a_record_that_is_none_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"format": "something"}')
    with pytest.raises(DocumentError, match=r"run\.json: is not a record"):
        run_record.read(path)


def test_the_report_room_and_the_screens_read_one_run_json(out: Path) -> None:
    run = run_record.read(out / "run.json")
    assert run.error_at(1003) == 2.0
    assert run.error_at(1003, "eye") == 1.0
    assert run.error_at(1006) == float("inf")
    assert run.error_at(1004) is None
    assert run.seam[1001] == (2.5, 0.5)
    assert run.device == "CPU (no GPU in this machine)"


def test_a_gesture_that_leads_back_is_no_step_and_leaves_no_trace(session: ShotSession) -> None:
    before = session.state
    session.edits.begin("move points")
    session.edits.preview(replace(before, marks={1001: "accepted"}))
    session.edits.preview(replace(before, marks={}))
    session.edits.commit()
    assert session.state is before
    assert not session.edits.can_undo
