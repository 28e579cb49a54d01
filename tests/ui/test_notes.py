"""Rejected frames and notes, with real keys: kept in the project, shown on the timeline, visited by N."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.corrected_frames import frames_to_learn_from
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .mouse import CTRL, LEFT, SHIFT

K = Qt.Key


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A panel with the results of a run, in a project; its window is active."""
    panel.session.open(facts, out)
    results = read_run_results(out)
    panel.session.take_results(results)
    panel.session.start_project(None, results)
    panel.canvas.fit()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    return panel


def write(qtbot: QtBot, panel: Panel, frame: int, text: str) -> None:
    """Go to a frame and write a note on it, by keys only."""
    panel.session.go_to(frame)
    qtbot.keyClick(panel.canvas, K.Key_M, CTRL)
    assert panel.inspector.currentWidget() is panel.inspector.frame
    qtbot.waitUntil(panel.inspector.frame.note.hasFocus, timeout=20_000)
    qtbot.keyClicks(panel.inspector.frame.note, text)
    qtbot.keyClick(panel.inspector.frame.note, K.Key_Return)
    qtbot.waitUntil(panel.canvas.hasFocus, timeout=20_000)  # the keys are the viewer's again


def test_a_frame_is_rejected_and_the_same_key_takes_it_back(qtbot: QtBot, shot: Panel) -> None:
    shot.session.go_to(1002)
    qtbot.keyClick(shot.canvas, K.Key_X, SHIFT)
    assert shot.session.state.marks == {1002: "rejected"}
    assert shot.commands["reject"].isChecked()
    assert shot.review_bar.summary.text() == "0 of 5 accepted, 1 rejected"
    assert 1002 in shot.session.worst()  # it still wants eyes
    qtbot.mouseClick(shot.review_bar.buttons["reject"], LEFT)
    assert shot.session.state.marks == {}


def test_a_note_is_one_step_and_stays_in_the_project(qtbot: QtBot, shot: Panel) -> None:
    write(qtbot, shot, 1003, "lip  line jumps")
    assert shot.session.state.notes == {1003: "lip line jumps"}
    assert shot.session.edits.last_step == "note"
    assert "note: lip line jumps" in shot.timeline.tip(1003)
    path = shot.session.project.path
    assert path is not None
    shot.session.close()
    other = ShotSession()
    other.open_project(path)
    assert other.state.notes == {1003: "lip line jumps"}
    other.edits.undo()
    assert other.state.notes == {}
    other.close()


def test_an_empty_note_takes_it_away_and_an_untouched_one_makes_no_step(qtbot: QtBot, shot: Panel) -> None:
    write(qtbot, shot, 1003, "a")
    qtbot.keyClick(shot.canvas, K.Key_M, CTRL)
    qtbot.keyClick(shot.inspector.frame.note, K.Key_Return)
    assert shot.session.edits.labels == ("note",)
    qtbot.keyClick(shot.canvas, K.Key_M, CTRL)
    qtbot.waitUntil(shot.inspector.frame.note.hasFocus, timeout=20_000)
    qtbot.keyClick(shot.inspector.frame.note, K.Key_Delete)  # all of it is selected
    qtbot.keyClick(shot.inspector.frame.note, K.Key_Return)
    assert shot.session.state.notes == {}
    assert shot.session.edits.last_step == "clear note"


def test_escape_leaves_what_was_typed(qtbot: QtBot, shot: Panel) -> None:
    write(qtbot, shot, 1003, "a")
    qtbot.keyClick(shot.canvas, K.Key_M, CTRL)
    qtbot.waitUntil(shot.inspector.frame.note.hasFocus, timeout=20_000)
    qtbot.keyClicks(shot.inspector.frame.note, "another")
    qtbot.keyClick(shot.inspector.frame.note, K.Key_Escape)
    assert shot.canvas.hasFocus()
    assert shot.inspector.frame.note.text() == "a"
    assert shot.session.edits.labels == ("note",)


def test_a_note_goes_to_the_frame_it_was_typed_on(qtbot: QtBot, shot: Panel) -> None:
    write(qtbot, shot, 1002, "first")
    shot.session.go_to(1003)
    assert shot.inspector.frame.note.text() == ""
    shot.session.go_to(1002)
    assert shot.inspector.frame.note.text() == "first"


def test_n_visits_notes_and_rejected_frames(qtbot: QtBot, shot: Panel) -> None:
    write(qtbot, shot, 1005, "here")
    shot.session.go_to(1002)
    qtbot.keyClick(shot.canvas, K.Key_X, SHIFT)
    shot.session.go_to(1001)
    for visits, frame in ((Visits.NOTES, 1005), (Visits.REJECTED, 1002)):
        shot.review_bar.visits.setCurrentText(visits.value)
        qtbot.keyClick(shot.canvas, K.Key_N)
        assert shot.session.frame == frame


def test_rejected_frames_are_not_learned_from(qtbot: QtBot, shot: Panel) -> None:
    shot.session.go_to(1002)
    qtbot.keyClick(shot.canvas, K.Key_Y)
    assert frames_to_learn_from(shot.session.state) == [1002]
    qtbot.keyClick(shot.canvas, K.Key_X, SHIFT)
    assert frames_to_learn_from(shot.session.state) == []


def test_the_timeline_shows_them(qtbot: QtBot, shot: Panel) -> None:
    def shown() -> QImage:
        return shot.timeline.grab().toImage()

    nothing = shown()
    write(qtbot, shot, 1001, "a")
    with_note = shown()
    assert with_note != nothing
    qtbot.keyClick(shot.canvas, K.Key_X, SHIFT)
    assert shown() != with_note


def type_note(qtbot: QtBot, panel: Panel, text: str) -> None:
    """Type a note on this frame, without Return."""
    qtbot.keyClick(panel.canvas, K.Key_M, CTRL)
    qtbot.waitUntil(panel.inspector.frame.note.hasFocus, timeout=20_000)
    qtbot.keyClicks(panel.inspector.frame.note, text)


def test_a_note_that_is_being_typed_stays_with_its_frame_when_another_is_shown(qtbot: QtBot, shot: Panel) -> None:
    shot.session.go_to(1002)
    type_note(qtbot, shot, "eye")
    assert shot.timeline.axis is not None
    qtbot.mouseClick(shot.timeline, LEFT, pos=QPoint(round(shot.timeline.axis.middle_of(1005)), 5))
    assert shot.session.frame == 1005
    assert shot.session.state.notes == {1002: "eye"}
    type_note(qtbot, shot, "lip")
    shot.session.go_to(1006)  # as while it plays
    assert shot.session.state.notes == {1002: "eye", 1005: "lip"}
    assert shot.inspector.frame.note.text() == ""


def test_a_note_that_is_being_typed_is_written_when_the_panel_closes(qtbot: QtBot, shot: Panel) -> None:
    path = shot.session.project.path
    assert path is not None
    type_note(qtbot, shot, "eye")
    shot.close()
    other = ShotSession()
    other.open_project(path)
    assert other.state.notes == {1001: "eye"}
    other.close()


def test_a_note_that_is_being_typed_is_not_another_shots(
    qtbot: QtBot, shot: Panel, facts: PlateFacts, tmp_path: Path
) -> None:
    path = shot.session.project.path
    assert path is not None
    type_note(qtbot, shot, "eye")
    shot.session.open(facts, tmp_path / "another")
    assert shot.session.state.notes == {}
    assert shot.inspector.frame.note.text() == ""
    other = ShotSession()
    other.open_project(path)
    assert other.state.notes == {1001: "eye"}
    other.close()
