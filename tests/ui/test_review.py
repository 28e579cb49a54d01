"""The review loop: where N goes, marks with their holds, the bracket, and which keys a refit has moved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.pipeline.overrides import overrides_of
from rotopaint_ai.project import run_record
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import Spread, State
from rotopaint_ai.shapes.roto import Key, Landmark, RotoShape
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.inspector.frame_tab import FrameTab
from rotopaint_ui.inspector.shapes_tab import ShapesTab
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.review_loop import ReviewLoop, Visits
from rotopaint_ui.session.correction_edits import KeysReply, LandmarkDrag, ShapesReply
from rotopaint_ui.session.key_diff import keys_moved_between
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import read_run_results
from rotopaint_ui.session.spread_reach import SpreadReach
from rotopaint_ui.timeline.timeline import Timeline

from .conftest import move_points


class FakeLive:
    """A live engine that moves every key of the seam by two pixels to the right."""

    def __init__(self) -> None:
        self.asked: list[Spread | None] = []

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        reply({})

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        assert state.document is not None
        self.asked.append(spread)
        moved: dict[int, Key] = {}
        for frame, key in state.document.shape("seam").keys.items():
            if key.source != "human" and (spread is None or spread.first <= frame <= spread.last):
                points = tuple(point._replace(x=point.x + 2) for point in key.points)
                moved[frame] = Key(points, "propagated")
        answer: Mapping[str, Mapping[int, Key]] = {"seam": moved}
        reply(answer)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def loop(session: ShotSession, said: list[str]) -> ReviewLoop:
    loop = ReviewLoop(session, said.append)
    session.listeners.append(loop.refresh)
    session.corrections.live = FakeLive()
    loop.refresh()
    return loop


def correct(session: ShotSession, frame: int, shape: str = "seam") -> None:
    """Move a point of a shape as a person."""
    session.go_to(frame)
    document = move_points(session.document, shape, [frame], {0}, 1, 0)  # type: ignore[arg-type]
    session.edits.push("move points", replace(session.state, document=document))


def test_n_goes_from_worst_to_less_bad_and_skips_what_is_accepted(loop: ReviewLoop, session: ShotSession) -> None:
    assert loop.step(1)
    assert session.frame == 1006  # lost
    loop.accept_and_go_on()
    assert session.frame == 1003  # 2.0 px
    assert session.worst() == [1003, 1005, 1002, 1001]


def test_a_keyed_shape_is_settled_and_the_frame_stays_by_the_others(loop: ReviewLoop, session: ShotSession) -> None:
    """Expected errors of seam and eye: 2.0 and 1.0 px at 1003, 0.5 and 0.25 px at 1002, 1.0 and 0.5 px at 1005."""
    session.compares_all_shapes = True
    assert session.worst() == [1006, 1003, 1005, 1002, 1001]
    correct(session, 1005)
    assert session.worst() == [1006, 1003, 1002, 1005, 1001]  # 0.5 px of the eye, as the seam at 1002
    assert session.review.settled_frames() == set()
    correct(session, 1005, "eye")
    assert session.worst() == [1006, 1003, 1002, 1001]
    assert session.review.settled_frames() == {1005}
    correct(session, 1006)
    assert session.worst()[0] == 1006  # lost, and the eye is not where it should be
    session.review.mark([1006], "accepted")
    assert session.worst() == [1003, 1002, 1001]
    assert session.review.settled_frames() == {1005, 1006}


class Follows(FakeLive):
    """A fake live engine: every dragged landmark moves the seam a pixel down."""

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        seam = question.document.shape("seam").at(question.frame)
        reply({"seam": tuple(p._replace(y=p.y + 1) for p in seam)})


def place(session: ShotSession, frame: int) -> None:
    """Place the nose as a person."""
    session.corrections.live = Follows()
    session.go_to(frame)
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(frame, {0: (30.0, 23.0)})  # on the seam's second point, once that has followed
    session.corrections.finish()


def test_shapes_that_followed_a_landmark_are_settled(loop: ReviewLoop, session: ShotSession, qtbot: QtBot) -> None:
    """At 1003 the run expects an error of 2.0 px on the seam, which follows, and 1.0 px on the eye, which does not."""
    session.compares_all_shapes = True
    timeline = Timeline(session, FrameCache())
    qtbot.addWidget(timeline)
    place(session, 1003)
    assert session.document is not None
    assert session.document.shape("seam").keys[1003].source == "model"  # the next landmark moves it as well
    shapes, frame_tab = ShapesTab(session), FrameTab(session)
    for tab in (shapes, frame_tab):
        qtbot.addWidget(tab)
        tab.refresh()
    assert [shapes.row_of(name).text(3) for name in ("seam", "eye")] == ["followed", "1.00"]
    assert "\u25c6 followed" in {row[2] for row in frame_tab._shape_rows(session.document)}
    assert session.run.error_left(1003, session.review.keyed_frames()) == 1.0
    assert timeline._settled_by_shape()["seam"] == {1003}
    assert timeline._settled_by_shape()["eye"] == frozenset()
    assert loop.reason() == "eye may be 1.0 px off"
    correct(session, 1003, "eye")
    assert session.worst() == [1006, 1005, 1002, 1001]
    assert loop.reason() == ""
    session.edits.undo()
    session.edits.undo()
    assert session.worst()[:2] == [1006, 1003]
    assert timeline._settled_by_shape()["seam"] == frozenset()


def test_no_refit_and_no_spread_is_asked_for_while_a_run_is_under_way(loop: ReviewLoop, session: ShotSession) -> None:
    live, said = FakeLive(), list[str]()
    session.corrections.live = live
    correct(session, 1003, "seam")
    session.message_sent.append(said.append)
    session.runs.take_event({"event": "started", "landmarks": ["nose", "chin"], "shapes": []})
    session.corrections.refit()
    session.corrections.spread(1003, 1001, 1005)
    assert live.asked == []
    assert said == ["The run is under way: look, and edit when it has ended"] * 2
    session.runs.end_live()
    session.corrections.refit()
    assert live.asked == [None]


def test_a_shape_that_moved_along_beside_its_landmark_is_not_settled(loop: ReviewLoop, session: ShotSession) -> None:
    session.corrections.live = Follows()
    session.go_to(1003)
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1003, {0: (30.0, 34.0)})  # far from the seam, which is predicted from it
    session.corrections.finish()
    assert session.review.keyed_frames()["seam"] == frozenset()
    work = overrides_of(session.state)
    assert work.splines.keys() == {1003}  # a run leaves it where it went all the same
    assert work.followed == {1003: {"seam"}}
    assert loop.reason() == "seam may be 2.0 px off"


def test_shapes_that_followed_a_landmark_stay_settled_after_a_run(
    loop: ReviewLoop, session: ShotSession, out: Path
) -> None:
    """A run keeps the artist's shapes (`pipeline.overrides`), so they are not predictions of the models."""
    place(session, 1003)
    session.corrections.live = None
    assert session.document is not None
    documents.write(out / "shapes.roto.json", session.document)
    session.take_run(read_run_results(out))
    assert session.review.keyed_frames()["seam"] == {1003}
    session.take_run(read_run_results(out))
    assert session.review.keyed_frames()["seam"] == {1003}
    assert overrides_of(session.state).splines.keys() == {1003}
    assert overrides_of(session.state).followed == {1003: frozenset()}


def test_what_a_run_found_under_a_hand_is_known_after_it(loop: ReviewLoop, session: ShotSession, out: Path) -> None:
    """Without these predictions the models' error there is unknown, and the correction cannot be spread again."""
    place(session, 1003)
    session.corrections.live = None
    assert session.document is not None
    documents.write(out / "shapes.roto.json", session.document)
    started = {"event": "started", "landmarks": ["nose", "chin"]}
    started |= {"shapes": [{"name": "seam", "closed": False, "role": "seam"}]}
    rows = [[1, 2, 0, 0, 1, 0], [3, 2, -1, 0, 1, 0], [5, 2, -1, 0, 0, 0]]
    under = {"predicted": {"seam": rows}, "predicted_landmarks": [[7, 8, 0.5], None]}
    session.runs.take_event(started)
    session.runs.take_event({"event": "frame", "frame": 1003, **under})
    session.runs.end_live()  # stopped; Run goes on, and tells no more of that frame
    session.runs.take_event(started)
    session.runs.end_live()
    session.take_run(read_run_results(out))
    predicted = session.state.predicted
    assert predicted is not None
    assert [list(p) for p in predicted.shape("seam").keys[1003].points] == rows
    assert predicted.landmarks.keys[1003] == (Landmark(7, 8, 0.5), None)


def test_a_run_carries_on_what_had_been_carried_on_and_no_more(
    loop: ReviewLoop, session: ShotSession, out: Path
) -> None:
    live = session.corrections.live
    assert isinstance(live, FakeLive)
    correct(session, 1003)
    loop.drag(SpreadReach(1003, 1002, 1005), has_let_go=False)
    loop.spread()
    live.asked.clear()
    session.take_run(read_run_results(out))
    (spread,) = live.asked  # and no refit of the shot, which nobody had asked for
    assert spread is not None
    assert (spread.first, spread.last) == (1002, 1005)
    assert session.document is not None
    sources = {frame: key.source for frame, key in session.document.shape("seam").keys.items()}
    assert sources == {1001: "model", 1002: "propagated", 1003: "human", 1005: "propagated", 1006: "model"}
    assert [session.edits.undo(), session.edits.undo()] == ["carry on corrections", "run"]
    loop.refit()
    live.asked.clear()
    session.prepare_run([1006])
    kept = session.document.shape("seam").keys[1002] if session.document is not None else None
    session.take_run(read_run_results(out))
    assert live.asked == [None]  # the shot had been refitted, and no spread reaches there
    assert session.document is not None
    assert session.document.shape("seam").keys[1006].source == "propagated"
    assert session.document.shape("seam").keys[1002] == kept  # that frame was not run


def test_the_error_strip_shows_what_is_left(qtbot: QtBot, session: ShotSession) -> None:
    session.compares_all_shapes = True
    timeline = Timeline(session, FrameCache())
    qtbot.addWidget(timeline)
    timeline.resize(600, 200)
    axis = timeline.axis
    assert axis is not None
    assert timeline._frame_errors(axis)[1003] == 2.0
    correct(session, 1003)
    session.select(None)
    assert timeline._frame_errors(axis)[1003] == 1.0
    assert 1003 not in timeline._settled_by_shape()[""]
    correct(session, 1003, "eye")
    assert 1003 in timeline._settled_by_shape()[""]


def test_the_filter_leaves_marked_frames_in_order(loop: ReviewLoop, session: ShotSession) -> None:
    session.review.mark([1002, 1005], "needs work")
    session.review.mark([1001], "accepted")
    loop.visits = Visits.NEEDS_WORK
    assert loop.frames() == [1002, 1005]
    session.go_to(1003)
    assert loop.step(1)
    assert session.frame == 1005
    assert loop.step(1)
    assert session.frame == 1002  # round again
    assert loop.step(-1)
    assert session.frame == 1005
    loop.visits = Visits.UNMARKED
    assert loop.frames() == [1003, 1006]
    assert loop.summary() == "1 of 5 accepted, 2 need work"


def test_a_mark_means_the_whole_hold_and_again_takes_it_back(loop: ReviewLoop, session: ShotSession) -> None:
    session.run = replace(session.run, held=((1002, 1003),))
    session.go_to(1003)
    loop.mark("accepted")
    assert session.state.marks == {1002: "accepted", 1003: "accepted"}
    loop.mark("accepted")
    assert session.state.marks == {}
    session.edits.undo()
    assert session.state.marks == {1002: "accepted", 1003: "accepted"}


def test_a_frame_that_is_missing_is_not_judged(loop: ReviewLoop, session: ShotSession) -> None:
    session.run = replace(session.run, held=((1003, 1005),))
    for frame in (1001, 1002, 1004, 1006):  # 1004 is not on disk; its hold is
        session.go_to(frame)
        loop.mark("accepted")
    assert list(session.state.marks) == [1001, 1002, 1003, 1005, 1006]
    assert loop.summary() == "5 of 5 accepted"


def test_the_bracket_appears_with_a_correction_and_stays_as_dragged(loop: ReviewLoop, session: ShotSession) -> None:
    assert loop.reach is None
    correct(session, 1003)
    assert loop.reach is not None
    assert loop.reach.frame == 1003
    assert not loop.reach.is_spread
    loop.drag(SpreadReach(1003, 1002, 1005), has_let_go=True)
    session.select("eye")
    assert loop.reach == SpreadReach(1003, 1002, 1005)
    session.go_to(1001)
    assert loop.reach is None


def test_spread_moves_keys_inside_the_bracket_and_no_human_key(
    loop: ReviewLoop, session: ShotSession, said: list[str]
) -> None:
    correct(session, 1005)
    correct(session, 1003)
    before = session.document
    assert before is not None
    loop.drag(SpreadReach(1003, 1002, 1005), has_let_go=False)
    loop.spread()
    after = session.document
    assert after is not None
    keys, old = after.shape("seam").keys, before.shape("seam").keys
    assert keys[1002].points[0].x == old[1002].points[0].x + 2
    assert (keys[1003], keys[1005]) == (old[1003], old[1005])
    assert keys[1001] == old[1001]
    assert loop.reach == SpreadReach(1003, 1002, 1005, is_spread=True)
    assert said[-1] == "Spread: 1 keys of 1 shape moved, most by 2.0 px at 1002. Undo takes it back"
    assert loop.moved is not None
    assert dict(loop.moved.by_frame) == {1002: 2.0}
    session.edits.undo()
    assert session.document == before
    assert loop.moved is None


def test_dragging_a_bracket_that_is_spread_spreads_anew(loop: ReviewLoop, session: ShotSession) -> None:
    correct(session, 1003)
    loop.drag(SpreadReach(1003, 1002, 1005), has_let_go=False)
    loop.spread()
    reach = loop.reach
    assert reach is not None
    loop.drag(reach.with_end("first", 1001), has_let_go=True)
    assert [(each.first, each.last) for each in session.state.spreads] == [(1001, 1005)]


def test_refit_needs_a_correction(loop: ReviewLoop, session: ShotSession, said: list[str]) -> None:
    loop.refit()
    assert said == ["Nothing to learn from yet: correct a few frames first"]
    correct(session, 1003)
    loop.refit()
    assert isinstance(session.corrections.live, FakeLive)
    assert session.corrections.live.asked == [None]
    assert said[-1].startswith("Refit shot: 4 keys of 1 shape moved, most by 2.0 px")


def test_moved_keys_are_measured_at_their_control_points(session: ShotSession) -> None:
    document = session.document
    assert document is not None
    moved = move_points(document, "seam", [1001, 1002], {1}, 3, 4)
    found = keys_moved_between(document, moved)
    assert dict(found.by_frame) == {1001: 5.0, 1002: 5.0}
    assert found.n_keys == 2
    assert found.shapes == {"seam"}
    assert keys_moved_between(document, document).text("Refit") == "Refit: every key already fits, none was moved"


def test_what_failed_is_shown_as_it_was_said(qtbot: QtBot, session: ShotSession) -> None:
    tab = FrameTab(session)
    qtbot.addWidget(tab)
    session.run = replace(session.run, failed={1001: "plate <1001> & co"})
    tab.refresh()
    shown = QTextDocument()
    shown.setHtml(tab._text.text())
    assert "plate <1001> & co" in shown.toPlainText()


def test_the_reason_names_the_place_until_the_curve_lies_elsewhere(session: ShotSession, loop: ReviewLoop) -> None:
    unseen = {1003: {"seam": "lower third", "away": "upper third"}}
    record = RunRecord(errors={1001: {"seam": 0.2}, 1003: {"seam": 2.0}}, unseen=unseen)
    session.run = run_record.from_json(json.loads(json.dumps(run_record.to_json(record))))
    session.go_to(1003)
    assert loop.reason() == "seam may be 2.0 px off; look at seam, lower third"
    session.run = session.run.with_errors({"seam": {1003: 0.4}})  # a correction of another frame has moved it
    assert loop.reason() == "seam may be 0.4 px off"


def test_n_goes_by_the_seams_then_by_what_is_selected_and_seen(session: ShotSession, loop: ReviewLoop) -> None:
    """The eye is worst at 1001, the seam at 1003; at 1006 the face is lost."""
    errors = {1001: {"seam": 0.2, "eye": 9.0}, 1002: {"seam": 0.5, "eye": 0.1}, 1003: {"seam": 2.0, "eye": 0.3}}
    session.run = RunRecord(errors=errors)
    assert loop.visits is Visits.SEAMS
    assert session.worst() == [1003, 1002, 1001]
    session.select("eye")
    assert session.worst() == [1001, 1003, 1002]
    session.go_to(1001)
    loop.refresh()
    assert loop.reason() == "eye may be 9.0 px off"
    session.select(None)
    assert loop.reason() == "seam may be 0.2 px off"
    session.show("seam", False)
    assert session.worst() == [1001, 1003, 1002]
    session.show("seam", True)
    loop.visit(Visits.WORST)
    assert session.worst() == [1001, 1003, 1002]


def after_step(loop: ReviewLoop, session: ShotSession) -> int:
    """The frame that N goes to."""
    assert loop.step(1)
    return session.frame


def test_n_begins_with_the_worst_again_where_other_shapes_are_judged(session: ShotSession, loop: ReviewLoop) -> None:
    errors = {1001: {"seam": 0.2, "eye": 0.9}, 1002: {"seam": 0.5, "eye": 0.1}, 1003: {"seam": 2.0, "eye": 0.3}}
    session.run = RunRecord(errors=errors)
    session.select("eye")
    assert [after_step(loop, session) for _ in range(3)] == [1001, 1003, 1002]
    session.select(None)
    assert session.worst() == [1003, 1002, 1001]
    assert after_step(loop, session) == 1003  # not 1001, which comes after 1002
    session.select("eye")
    assert session.worst() == [1001, 1003, 1002]
    assert after_step(loop, session) == 1001
    session.show("eye", False)
    session.show("seam", False)
    session.select(None)  # nothing but what is hidden is left: the same frames in the same order
    loop.visit(Visits.WORST)
    session.show("eye", True)
    assert session.worst()[0] == 1001 == session.frame
    assert after_step(loop, session) != 1001  # N never stays where it has gone


def test_the_outline_of_the_face_does_not_lead_the_frames_list(qtbot: QtBot, session: ShotSession) -> None:
    session.run = RunRecord(errors={1001: {"seam": 0.2, "eye": 9.0}})
    tab = FrameTab(session)
    qtbot.addWidget(tab)
    tab.refresh()
    group = tab.table.topLevelItem(0)
    assert group is not None
    assert [group.child(row).text(0) for row in range(2)] == ["seam", "eye"]


def test_n_says_that_it_goes_by_what_is_selected(qtbot: QtBot, shot: Panel) -> None:
    shot.session.select("eye")
    qtbot.keyClick(shot.canvas, Qt.Key.Key_N)
    assert shot.status.text.text() == "Frame 1006, face not found; N goes by eye alone, which is selected"
    shot.session.select(None)
    qtbot.keyClick(shot.canvas, Qt.Key.Key_N)
    assert "selected" not in shot.status.text.text()


def test_marks_do_not_hide_why_a_frame_wants_to_be_looked_at(qtbot: QtBot, shot: Panel) -> None:
    """On a screen of 1366 x 768 the count of marks is shortened, not the reason."""
    shot.resize(1366, 700)
    bar = shot.review_bar
    bar.show_reason("seam_left may be 6.1 px off")
    bar.show_summary("10 of 24 accepted, 12 need work, 2 rejected")
    qtbot.waitUntil(lambda: bar.width() > 1300, timeout=20_000)
    qtbot.wait(10)
    assert bar.reason.width() >= bar.reason.fontMetrics().horizontalAdvance(bar.reason.text())
    assert bar.summary.x() > bar.reason.x()


def test_a_frame_that_needed_work_is_worked_on_by_a_correction(qtbot: QtBot, shot: Panel) -> None:
    """Teach sets such marks, and training leaves marked frames out: without this a correction there would be lost to
    it."""
    session = shot.session
    session.edits.push("mark", replace(session.state, marks={1002: "needs work", 1005: "needs work", 1006: "rejected"}))
    assert session.document is not None
    moved = move_points(session.document, "seam", [1002, 1006], range(3), 2, 0)
    session.edits.push("move points", replace(session.state, document=moved))
    assert session.state.marks == {1005: "needs work", 1006: "rejected"}
    session.edits.undo()
    assert session.state.marks == {1002: "needs work", 1005: "needs work", 1006: "rejected"}
    own = RotoShape("mine", True, keys={1002: Key(session.document.shape("eye").at(1002), "human")})
    drawn = replace(session.document, shapes=(*session.document.shapes, own))
    session.edits.push("draw matte", replace(session.state, document=drawn))
    assert session.state.marks[1002] == "needs work"


def test_what_a_person_accepted_or_locked_is_not_moved_by_corrections_of_others(
    loop: ReviewLoop, session: ShotSession, said: list[str]
) -> None:
    correct(session, 1001)
    before = session.state.document
    session.review.mark([1003], "accepted")
    session.corrections.refit()
    assert before is not None
    assert session.state.document is not None
    moved = keys_moved_between(before, session.state.document).by_frame
    assert 1003 not in moved
    assert 1005 in moved
    session.lock("seam", True)
    before = session.state.document
    loop.refit()
    assert session.state.document is not None
    assert not keys_moved_between(before, session.state.document).by_frame
    assert said[-1] == "Refit shot: every key already fits, none was moved"
    assert loop._asked is None


def test_a_landmark_does_not_move_a_locked_shape(session: ShotSession) -> None:
    replies: list[ShapesReply] = []
    session.corrections.live = SimpleNamespace(drag=lambda question, reply: replies.append(reply))  # type: ignore[assignment]
    document = session.state.document
    assert document is not None
    shapes = {name: tuple(p._replace(x=p.x + 3) for p in document.shape(name).at(1001)) for name in ("seam", "eye")}
    session.lock("seam", True)
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1001, {0: (33.0, 22.0)})
    replies.pop()(shapes)
    now = session.state.document
    assert now is not None
    assert now.shape("seam").at(1001) == document.shape("seam").at(1001)
    assert now.shape("eye").at(1001) == shapes["eye"]
