"""The dope sheet in the timeline, with a real mouse and real keys: keys chosen, moved, stretched, copied, eased."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import edit_keys, edit_layers
from rotopaint_ai.shapes.layers import LayerPose
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, RotoDocument, RotoShape
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.timeline.key_strip import COLOURS, KEYS
from rotopaint_ui.timeline.timeline import Timeline

from .mouse import ALT, CTRL, LEFT, NONE, SHIFT

K = Qt.Key


def dot(x: float) -> Key:
    return Key((ControlPoint(x, 10), ControlPoint(x + 5, 10), ControlPoint(x, 15)), "human")


def sparse(session: ShotSession) -> None:
    """Two shapes with human keys: `a` at 1001, 1003 and 1006, `b` at 1001 and 1005."""
    document = session.state.document
    assert document is not None
    shapes = (
        RotoShape("a", True, "matte", {1001: dot(10), 1003: dot(20), 1006: dot(30)}),
        RotoShape("b", True, "matte", {1001: dot(15), 1005: dot(25)}),
    )
    session.edits.show(replace(session.state, document=replace(document, shapes=shapes)))
    session.notify()


@pytest.fixture
def timeline(qtbot: QtBot, session: ShotSession) -> Timeline:
    sparse(session)
    timeline = Timeline(session, FrameCache())
    qtbot.addWidget(timeline)
    timeline.frame_wanted.connect(session.go_to)
    session.listeners.append(timeline.refresh)
    timeline.resize(660, timeline.sizeHint().height())
    timeline.show()
    return timeline


def at(timeline: Timeline, frame: int, row: int = 0) -> QPoint:
    """The middle of a key's cell in a row of the dope sheet."""
    assert timeline.axis is not None
    return QPoint(round(timeline.axis.middle_of(frame)), round(timeline._tops()["keys"] + KEYS * (row + 0.5)))


def drag_keys(qtbot: QtBot, timeline: Timeline, start: QPoint, *ways: QPoint, held: Qt.KeyboardModifier = NONE) -> None:
    qtbot.mousePress(timeline, LEFT, held, start)
    for way in ways:
        point = QPointF(way)
        event = QMouseEvent(QEvent.Type.MouseMove, point, timeline.mapToGlobal(point), LEFT, LEFT, held)
        QApplication.sendEvent(timeline, event)
    qtbot.mouseRelease(timeline, LEFT, held, ways[-1])


def frames(session: ShotSession, name: str) -> tuple[int, ...]:
    assert session.document is not None
    return session.document.shape(name).frames


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_for_each_selected_shape_and_one_for_all_where_none_is(timeline: Timeline, session: ShotSession) -> None:
    [row] = timeline.sheet.rows
    assert sorted(row.sources) == [1001, 1003, 1005, 1006]
    session.select("b", also=("a",))
    assert [each.shapes[0].name for each in timeline.sheet.rows] == ["a", "b"]
    assert [sorted(each.sources) for each in timeline.sheet.rows] == [[1001, 1003, 1006], [1001, 1005]]


# --- moving -----------------------------------------------------------------------------------------------------------


def test_a_key_is_dragged_to_another_frame_in_one_step(qtbot: QtBot, timeline: Timeline, session: ShotSession) -> None:
    session.select("a")
    drag_keys(qtbot, timeline, at(timeline, 1003), at(timeline, 1004), at(timeline, 1005))
    assert frames(session, "a") == (1001, 1005, 1006)
    assert session.document is not None
    assert session.document.shape("a").keys[1005].points == dot(20).points
    assert session.edits.labels == ("move keys",)
    assert timeline.sheet.chosen_keys == {("a", 1005)}
    session.edits.undo()
    assert frames(session, "a") == (1001, 1003, 1006)


def test_undo_and_redo_choose_the_keys_that_were_chosen_then(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    session.select("a")
    sheet = timeline.sheet
    drag_keys(qtbot, timeline, at(timeline, 1003), at(timeline, 1004), at(timeline, 1005))
    sheet.shift_chosen(-1)
    sheet.delete_chosen_keys()
    steps = [{("a", 1004)}, {("a", 1005)}, {("a", 1003)}]
    assert sheet.chosen_keys == frozenset()
    for chosen in steps:
        session.edits.undo()
        assert sheet.chosen_keys == chosen
    for chosen in [*steps[-2::-1], set()]:
        session.edits.redo()
        assert sheet.chosen_keys == chosen
    session.edits.undo()
    sheet.cancel()
    session.edits.push("rename", replace(session.state, face="other"))
    session.edits.undo()  # a step of something else leaves the choice alone
    assert sheet.chosen_keys == frozenset()
    sheet.choose_all()
    sheet.set_way_on("linear")  # as they are already: no step
    sheet.cancel()
    session.edits.push("rename", replace(session.state, face="other"))
    session.edits.undo()
    assert sheet.chosen_keys == frozenset()
    sheet.choose_all()
    sheet.forget()
    session.edits.undo()
    assert sheet.chosen_keys == frozenset()


def test_in_the_row_of_all_shapes_all_keys_of_a_frame_go_together(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    drag_keys(qtbot, timeline, at(timeline, 1001), at(timeline, 1002))
    assert frames(session, "a") == (1002, 1003, 1006)
    assert frames(session, "b") == (1002, 1005)


def test_keys_stay_in_the_shot_and_locked_shapes_stay(qtbot: QtBot, timeline: Timeline, session: ShotSession) -> None:
    session.lock("b", True)
    drag_keys(qtbot, timeline, at(timeline, 1001), at(timeline, 1003), at(timeline, 1001) - QPoint(400, 0))
    assert frames(session, "a") == (1001, 1003, 1006)
    drag_keys(qtbot, timeline, at(timeline, 1001), at(timeline, 1002))
    assert (frames(session, "a"), frames(session, "b")) == ((1002, 1003, 1006), (1001, 1005))


def test_a_rubber_band_chooses_and_all_of_them_move(qtbot: QtBot, timeline: Timeline, session: ShotSession) -> None:
    session.select("b", also=("a",))
    start, reported = at(timeline, 1002) + QPoint(0, -4), list[str]()
    session.message_sent.append(reported.append)
    drag_keys(qtbot, timeline, start, at(timeline, 1004), at(timeline, 1006, row=1) + QPoint(4, 0))
    assert reported[-1].startswith("3 keys: drag moves")
    assert timeline.sheet.chosen_keys == {("a", 1003), ("a", 1006), ("b", 1005)}
    assert session.edits.labels == ()
    drag_keys(qtbot, timeline, at(timeline, 1005, row=1), at(timeline, 1004, row=1))
    assert (frames(session, "a"), frames(session, "b")) == ((1001, 1002, 1005), (1001, 1004))
    assert session.edits.labels == ("move keys",)


def test_a_rubber_band_begins_between_keys_that_stand_on_every_frame(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    document = session.state.document
    assert document is not None
    first, last = 1001, 1006
    keyed = RotoShape("a", True, "matte", {frame: dot(frame - 1000) for frame in range(first, last + 1)})
    session.edits.show(replace(session.state, document=replace(document, shapes=(keyed,))))
    session.notify()
    session.select("a")
    between = (at(timeline, 1002) + at(timeline, 1003)) / 2
    drag_keys(qtbot, timeline, between, at(timeline, 1004), at(timeline, 1005) + QPoint(4, 0))
    assert timeline.sheet.chosen_keys == {("a", 1003), ("a", 1004), ("a", 1005)}
    assert session.edits.labels == ()


def test_a_shift_drag_that_begins_on_a_key_is_a_rubber_band(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    session.select("a")
    drag_keys(qtbot, timeline, at(timeline, 1001), at(timeline, 1003) + QPoint(4, 0), held=SHIFT)
    assert timeline.sheet.chosen_keys == {("a", 1001), ("a", 1003)}
    assert (frames(session, "a"), session.edits.labels) == ((1001, 1003, 1006), ())


def test_shift_adds_keys_and_a_click_beside_them_lets_go(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    session.select("a")
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1006))
    assert timeline.sheet.chosen_keys == {("a", 1001), ("a", 1006)}
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1001))
    assert timeline.sheet.chosen_keys == {("a", 1006)}
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1002))
    assert timeline.sheet.chosen_keys == frozenset()
    assert session.frame == 1002


def test_ctrl_drag_stretches_in_time(qtbot: QtBot, timeline: Timeline, session: ShotSession) -> None:
    session.select("a")
    drag_keys(qtbot, timeline, at(timeline, 1001), at(timeline, 1002))  # 1002, 1003, 1006
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1002))
    qtbot.keyClick(timeline, K.Key_A, CTRL)
    drag_keys(qtbot, timeline, at(timeline, 1002), at(timeline, 1001), held=CTRL)
    # 1006 stays, 1002 goes to 1001: 1003 is 3 of 4 frames from the end, so 3.75 of 5: 1002.25
    assert frames(session, "a") == (1001, 1002, 1006)
    assert session.edits.labels[-1] == "stretch keys"


def test_escape_takes_a_drag_back(qtbot: QtBot, timeline: Timeline, session: ShotSession) -> None:
    session.select("a")
    qtbot.mousePress(timeline, LEFT, NONE, at(timeline, 1003))
    point = QPointF(at(timeline, 1005))
    QApplication.sendEvent(
        timeline, QMouseEvent(QEvent.Type.MouseMove, point, timeline.mapToGlobal(point), LEFT, LEFT, NONE)
    )
    assert frames(session, "a") == (1001, 1005, 1006)
    qtbot.keyClick(timeline, K.Key_Escape)
    qtbot.mouseRelease(timeline, LEFT, NONE, at(timeline, 1005))
    assert frames(session, "a") == (1001, 1003, 1006)
    assert session.edits.labels == ()


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def grouped(timeline: Timeline, session: ShotSession) -> ShotSession:
    """`a` in a group that lies 0, 6 and 6 px to the right at 1001, 1003 and 1005; its keys are at x = 10, 26 and 36."""
    document = session.state.document
    assert document is not None
    poses = {1001: LayerPose(), 1003: LayerPose(x=6), 1005: LayerPose(x=6)}
    document = edit_layers.group(document, ["a"], "g")
    document = edit_layers.move_layer(document, replace(document.layers[0], poses=poses))
    session.edits.show(replace(session.state, document=document))
    session.select_layer("g")
    return session


def poses_of(session: ShotSession) -> dict[int, float]:
    assert session.document is not None
    return {frame: pose.x for frame, pose in session.document.layers[0].poses.items()}


def lefts(session: ShotSession) -> dict[int, float]:
    assert session.document is not None
    return {frame: key.points[0].x for frame, key in session.document.shape("a").keys.items()}


def test_keys_of_a_group_are_dragged_and_its_shapes_go_along(
    qtbot: QtBot, timeline: Timeline, grouped: ShotSession
) -> None:
    """At 1003 the group is then half-way, 3 px to the right."""
    drag_keys(qtbot, timeline, at(timeline, 1003), at(timeline, 1004), at(timeline, 1005))
    assert grouped.edits.labels == ("move keys",)
    assert poses_of(grouped) == {1001: 0.0, 1005: 6.0}
    assert lefts(grouped) == pytest.approx({1001: 10.0, 1003: 23.0, 1006: 36.0})
    assert timeline.sheet.chosen_keys == {(edit_keys.group_place("g"), 1005)}
    grouped.edits.undo()
    assert lefts(grouped) == {1001: 10.0, 1003: 26.0, 1006: 36.0}


def test_keys_of_a_group_and_of_its_shapes_move_together(
    qtbot: QtBot, timeline: Timeline, grouped: ShotSession
) -> None:
    """The keys of 1003 move to 1002 and keep their place on the plate; the last key of each stays."""
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1003, row=1))
    drag_keys(qtbot, timeline, at(timeline, 1003), at(timeline, 1002))
    assert poses_of(grouped) == {1001: 0.0, 1002: 6.0, 1005: 6.0}
    assert lefts(grouped) == pytest.approx({1001: 10.0, 1002: 26.0, 1006: 36.0})


def test_keys_of_a_group_are_copied_and_deleted(qtbot: QtBot, timeline: Timeline, grouped: ShotSession) -> None:
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    assert timeline.axis is not None
    area = timeline._sheet_area(timeline.axis)
    menu = timeline.sheet.make_key_menu(timeline, area, QPointF(at(timeline, 1001)))
    assert not next(row for row in menu.actions() if row.text() == "Hold").isEnabled()  # it goes in straight lines
    timeline.sheet.copy_chosen()
    grouped.go_to(1005)
    timeline.sheet.paste_copied()
    assert poses_of(grouped) == {1001: 0.0, 1003: 6.0, 1005: 0.0}
    assert lefts(grouped) == pytest.approx({1001: 10.0, 1003: 26.0, 1006: 30.0})
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    timeline.sheet.delete_chosen_keys()
    assert poses_of(grouped) == {1001: 0.0, 1005: 0.0}
    assert lefts(grouped) == pytest.approx({1001: 10.0, 1003: 20.0, 1006: 30.0})
    assert grouped.edits.labels == ("paste keys", "delete key")


def test_the_mouse_over_a_key_of_a_group_shows_its_name(
    qtbot: QtBot, timeline: Timeline, grouped: ShotSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()
    monkeypatch.setattr(QToolTip, "showText", lambda place, text, widget: shown.append(text))
    for row in (0, 1):
        point = QPointF(at(timeline, 1003, row))
        held = Qt.MouseButton.NoButton
        event = QMouseEvent(QEvent.Type.MouseMove, point, timeline.mapToGlobal(point), held, held, NONE)
        QApplication.sendEvent(timeline, event)
    assert [text.splitlines()[-1] for text in shown] == ["g: key, linear", "a: human key, linear"]


# --- keys of the keyboard, in the whole panel -------------------------------------------------------------------------


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """The panel with the two shapes, `a` selected; its window is active."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    sparse(panel.session)
    panel.canvas.fit()
    panel.session.select("a")
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    return panel


def test_keys_are_copied_pasted_moved_and_deleted(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1003))
    qtbot.keyClick(timeline, K.Key_C, CTRL)
    session.go_to(1003)
    qtbot.keyClick(timeline, K.Key_V, CTRL)  # 1001 and 1003 onto 1003 and 1005
    assert frames(session, "a") == (1001, 1003, 1005, 1006)
    assert session.document is not None
    assert session.document.shape("a").keys[1003].points == dot(10).points
    assert timeline.sheet.chosen_keys == {("a", 1003), ("a", 1005)}
    qtbot.keyClick(timeline, K.Key_Left, ALT)
    assert frames(session, "a") == (1001, 1002, 1004, 1006)
    qtbot.keyClick(timeline, K.Key_Delete)
    assert frames(session, "a") == (1001, 1006)
    assert session.edits.labels == ("paste keys", "move keys", "delete keys")
    assert session.frame == 1003
    qtbot.keyClick(timeline, K.Key_Right)  # frame keys stay the panel's
    assert session.frame == 1004


def test_keys_of_one_shape_are_pasted_on_the_selected_one(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    qtbot.keyClick(timeline, K.Key_C, CTRL)
    session.select("b")
    qtbot.keyClick(timeline, K.Key_V, CTRL)
    assert frames(session, "b") == (1001, 1003, 1005)


def test_what_was_copied_last_is_pasted(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    qtbot.keyClick(timeline, K.Key_C, CTRL)
    session.select("b")
    session.go_to(1005)
    qtbot.keyClick(shot.canvas, K.Key_C, CTRL)
    session.go_to(1003)
    qtbot.keyClick(timeline, K.Key_V, CTRL)
    assert session.document is not None
    assert session.document.shape("b").at(1003) == dot(25).points


def test_the_last_key_stays_and_that_is_said(qtbot: QtBot, shot: Panel) -> None:
    timeline = shot._widgets.timeline
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    qtbot.keyClick(timeline, K.Key_A, CTRL)
    qtbot.keyClick(timeline, K.Key_Delete)
    assert frames(shot.session, "a") == (1001, 1003, 1006)
    assert "no key left" in shot.status.text.text()


def test_the_last_key_of_one_shape_does_not_keep_those_of_others(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    document = edit_keys.remove_keys(_document(session), [("b", 1005)])
    session.edits.push("less", replace(session.state, document=document, names={"b": "ball"}))
    session.select("b", also=("a",))
    timeline.sheet._chosen = frozenset({("a", 1001), ("a", 1003), ("b", 1001)})
    timeline.setFocus()
    qtbot.keyClick(timeline, K.Key_Delete)
    assert (frames(session, "a"), frames(session, "b")) == ((1006,), (1001,))
    assert "not the last one of shape 'ball'" in shot.status.text.text()
    assert not timeline.sheet.chosen_keys


def test_the_menu_eases_and_the_shape_and_the_mark_follow(qtbot: QtBot, shot: Panel) -> None:
    """Eased, a quarter of the time is 3/16 - 2/64 = 0.15625 of the move: from 10 to 30 in 4 frames, 13.125 after
    one."""
    session, timeline = shot.session, shot._widgets.timeline
    session.edits.push(
        "move", replace(session.state, document=edit_keys.retime(_document(session), {("a", 1006): 1005}))
    )
    session.edits.push(
        "less", replace(session.state, document=edit_keys.remove_keys(_document(session), [("a", 1003)]))
    )
    plain = timeline.grab().toImage()
    assert timeline.axis is not None
    menu = timeline.sheet.make_key_menu(timeline, timeline._sheet_area(timeline.axis), QPointF(at(timeline, 1001)))
    rows = {action.text().partition("\t")[0]: action for action in menu.actions()}
    keys = dict(action.text().split("\t") for action in menu.actions() if "\t" in action.text())
    assert (keys["Copy"], keys["One frame later"], keys["Delete"]) == ("Ctrl+C", "Alt+Right", "Del")
    rows["Ease out and in"].trigger()
    assert _document(session).shape("a").at(1002)[0].x == pytest.approx(13.125)
    assert session.edits.labels[-1] == "ease key"
    assert timeline.grab().toImage() != plain
    again = timeline.sheet.make_key_menu(timeline, timeline._sheet_area(timeline.axis), QPointF(at(timeline, 1001)))
    assert [action.text() for action in again.actions() if action.isChecked()] == ["Ease out and in"]
    rows["Hold"].trigger()
    assert _document(session).shape("a").at(1004)[0].x == 10


def test_these_and_all_later_keys_make_room(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    session.edits.push(
        "move", replace(session.state, document=edit_keys.retime(_document(session), {("a", 1006): 1005}))
    )
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    timeline.sheet.choose_later()
    qtbot.keyClick(timeline, K.Key_Right, ALT)
    assert frames(session, "a") == (1001, 1004, 1006)


# --- shapes that are locked or hidden ---------------------------------------------------------------------------------

LOCKED, HIDDEN = "a is locked: its lock in Shapes opens it", "a is hidden: its eye in Shapes shows it"


@pytest.mark.parametrize("refused", [LOCKED, HIDDEN])
def test_chosen_keys_of_a_shape_that_was_locked_or_hidden_stay(qtbot: QtBot, shot: Panel, refused: str) -> None:
    session, timeline, said = shot.session, shot._widgets.timeline, shot.status.text.text
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    before = session.document
    if refused == LOCKED:
        session.lock("a", True)
    else:
        session.show("a", False)
    for key, held in ((K.Key_Delete, NONE), (K.Key_Right, ALT)):
        session.say("")
        qtbot.keyClick(timeline, key, held)
        assert (said(), session.document, session.edits.labels) == (refused, before, ())
    assert timeline.axis is not None
    menu = timeline.sheet.make_key_menu(timeline, timeline._sheet_area(timeline.axis), QPointF(at(timeline, 1003)))
    session.say("")
    next(row for row in menu.actions() if row.text() == "Hold").trigger()
    assert (said(), session.document, session.edits.labels) == (refused, before, ())
    drag_keys(qtbot, timeline, at(timeline, 1003), at(timeline, 1004), at(timeline, 1005))
    assert (said(), session.document, session.edits.labels) == (refused, before, ())
    session.lock("a", False)
    session.show("a", True)
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    qtbot.keyClick(timeline, K.Key_Delete)
    assert frames(session, "a") == (1001, 1006)


def test_of_keys_of_several_shapes_those_of_the_locked_one_stay(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    session.select("b", also=("a",))
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1006))
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1005, row=1))
    session.lock("a", True)
    qtbot.keyClick(timeline, K.Key_Left, ALT)
    assert (frames(session, "a"), frames(session, "b")) == ((1001, 1003, 1006), (1001, 1004))
    session.edits.undo()  # both are chosen again
    assert timeline.sheet.chosen_keys == {("a", 1006), ("b", 1005)}
    drag_keys(qtbot, timeline, at(timeline, 1005, row=1), at(timeline, 1004, row=1))
    assert (frames(session, "a"), frames(session, "b")) == ((1001, 1003, 1006), (1001, 1004))


def test_nothing_is_pasted_on_a_locked_shape(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1003))
    session.lock("a", True)
    qtbot.keyClick(timeline, K.Key_C, CTRL)
    session.go_to(1005)
    qtbot.keyClick(timeline, K.Key_V, CTRL)
    assert (shot.status.text.text(), session.edits.labels) == (LOCKED, ())
    session.select("b")  # keys of a locked shape may be pasted elsewhere
    session.go_to(1003)
    qtbot.keyClick(timeline, K.Key_V, CTRL)
    assert (frames(session, "a"), frames(session, "b")) == ((1001, 1003, 1006), (1001, 1003, 1005))


def test_copies_of_several_shapes_are_pasted_on_those_that_are_free(qtbot: QtBot, shot: Panel) -> None:
    session, timeline = shot.session, shot._widgets.timeline
    session.select("b", also=("a",))
    qtbot.mouseClick(timeline, LEFT, NONE, at(timeline, 1001))
    qtbot.mouseClick(timeline, LEFT, SHIFT, at(timeline, 1001, row=1))
    qtbot.keyClick(timeline, K.Key_C, CTRL)
    session.lock("a", True)
    session.go_to(1002)
    qtbot.keyClick(timeline, K.Key_V, CTRL)
    assert (frames(session, "a"), frames(session, "b")) == ((1001, 1003, 1006), (1001, 1002, 1005))
    assert timeline.sheet.chosen_keys == {("b", 1002)}


def _document(session: ShotSession) -> RotoDocument:
    assert session.document is not None
    return session.document


# --- keys in time -----------------------------------------------------------------------------------------------------


def test_keys_that_give_way_and_keys_that_would_meet() -> None:
    document = RotoDocument(64, 48, 1, 9, shapes=(RotoShape("a", True, "matte", {1: dot(1), 3: dot(3), 5: dot(5)}),))
    moved = edit_keys.retime(document, {("a", 3): 5})
    assert {frame: key.points[0].x for frame, key in moved.shape("a").keys.items()} == {1: 1, 5: 3}
    swapped = edit_keys.retime(document, {("a", 3): 5, ("a", 5): 3})
    assert {frame: key.points[0].x for frame, key in swapped.shape("a").keys.items()} == {1: 1, 3: 5, 5: 3}
    with pytest.raises(DocumentError, match="on one frame"):
        edit_keys.retime(document, {("a", 3): 2, ("a", 5): 2})


def test_moved_keys_of_the_model_are_a_persons_and_those_that_stay_are_not() -> None:
    keys = {frame: replace(dot(frame), source="model") for frame in (1, 3)}
    document = RotoDocument(64, 48, 1, 9, shapes=(RotoShape("a", True, "matte", keys),))
    after = edit_keys.retime(document, {("a", 1): 1, ("a", 3): 4}).shape("a")
    assert {frame: key.source for frame, key in after.keys.items()} == {1: "model", 4: "human"}


def test_copies_that_would_leave_the_shot_are_left_out() -> None:
    document = RotoDocument(64, 48, 1, 5, shapes=(RotoShape("a", True, "matte", {1: dot(1), 3: dot(3)}),))
    copied = edit_keys.copy_keys(document, [("a", 1), ("a", 3)])
    assert edit_keys.paste_keys(document, copied, 4, last=5).shape("a").frames == (1, 3, 4)


@pytest.mark.parametrize("name", ["seam", "drawn"])
def test_landmarks_placed_by_hand_are_keys_of_the_models_shapes_alone(
    timeline: Timeline, session: ShotSession, name: str
) -> None:
    """In the row of all shapes; a drawn shape does not depend on landmarks."""
    document = session.state.document
    assert document is not None
    shapes = (replace(document.shape("a"), name=name), document.shape("b"))
    marks = replace(document.landmarks, hand={1002: frozenset({document.landmarks.names[0]})})
    session.edits.show(replace(session.state, document=replace(document, shapes=shapes, landmarks=marks)))
    session.notify()
    seen = timeline.grab().toImage().pixelColor(at(timeline, 1002))
    assert (seen == QColor(COLOURS["human"])) == (name == "seam")


def test_a_landmark_placed_by_hand_is_a_key_of_the_selected_shape_that_it_is_on(
    timeline: Timeline, session: ShotSession
) -> None:
    """The nose is put on the eye, which follows it; the seam, in the row above, stays."""
    document = session.state.predicted
    assert document is not None
    eye, nose = document.shape("eye"), Landmark(21, 8, 1.0)
    followed = replace(eye.keys[1002], points=tuple(p._replace(x=p.x + 1) for p in eye.keys[1002].points))
    keys = {**document.landmarks.keys, 1002: (nose, None)}
    marks = replace(document.landmarks, keys=keys, hand={1002: frozenset({"nose"})})
    shapes = (document.shape("seam"), eye.with_keys({**eye.keys, 1002: followed}))
    session.edits.show(replace(session.state, document=replace(document, shapes=shapes, landmarks=marks)))
    session.select("seam", also=("eye",))
    session.notify()
    seen = timeline.grab().toImage()
    by_hand = [seen.pixelColor(at(timeline, 1002, row)) == QColor(COLOURS["human"]) for row in (0, 1)]
    assert [row.shapes[0].name for row in timeline.sheet.rows] == ["seam", "eye"]
    assert by_hand == [False, True]
