"""Habits of an artist's day: what the panel says, names and leaves alone; with real keys and clicks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import nuke
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.panel.panel_widgets import _COMPARING, _tool_groups
from rotopaint_ui.panel.status_line import in_panel_terms
from rotopaint_ui.services.shot_jobs import _run_note
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, plates_in, shot_name
from rotopaint_ui.standalone.app import MainWindow, has_display
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import write_plate
from .mouse import ALT, CTRL, LEFT, spot

K = Qt.Key


def test_the_status_shows_what_was_just_done(qtbot: QtBot, shot: Panel) -> None:
    shot.session.select("seam")
    qtbot.keyClick(shot.canvas, K.Key_K, CTRL)
    assert shot.status.text.text() == "Set key"


def test_an_edit_that_does_nothing_says_why(qtbot: QtBot, shot: Panel) -> None:
    said = shot.status.text.text
    qtbot.keyClick(shot.canvas, K.Key_Z)
    assert said() == "Select a shape first: click its curve, or its row in Shapes"
    shot.session.select("seam")
    shot.session.lock("seam", True)
    qtbot.keyClick(shot.canvas, K.Key_Z)
    assert said() == "seam is locked: its lock in Shapes opens it"
    shot.session.select(None)
    shot.take_tool("select")
    qtbot.mouseClick(shot.canvas, LEFT, pos=spot(shot.canvas, (20, 20)))
    assert (said(), shot.session.selection.shape) == ("seam is locked: its lock in Shapes opens it", None)


def test_frames_that_no_run_has_seen_show_no_shapes(canvas: Canvas, session: ShotSession) -> None:
    document = session.state.document
    assert document is not None
    shapes = tuple(shape.with_keys({f: key for f, key in shape.keys.items() if f <= 1003}) for shape in document.shapes)
    errors = {frame: row for frame, row in session.run.errors.items() if frame <= 1003}
    session.run = replace(session.run, errors=errors, lost=frozenset())
    session.edits.push("part", replace(session.state, document=replace(document, shapes=shapes)))
    session.go_to(1003)
    assert len(canvas._stack.scene(canvas._view_settings()).still) == 2
    session.go_to(1005)
    assert canvas._stack.scene(canvas._view_settings()).still == ()


def test_escape_closes_the_messages(qtbot: QtBot, shot: Panel) -> None:
    qtbot.mouseClick(shot.status.log, LEFT)
    messages = shot.status.messages
    assert messages.isVisible()
    messages.list.setFocus()
    qtbot.keyClick(messages.list, K.Key_Escape)
    assert not messages.isVisible()


def test_a_trouble_counts_until_it_was_read(qtbot: QtBot, shot: Panel) -> None:
    log = shot.status.log
    qtbot.mouseClick(log, LEFT)
    shot.status.messages.close()
    shot.status.say("1003: no face", "trouble")
    shot.status.say("Saved", "good")  # covers it
    assert (log.text(), log.property("kind"), log.toolTip()) == ("\u26a0 1", "trouble", "1003: no face")
    qtbot.mouseClick(log, LEFT)
    assert (log.text(), log.property("kind"), log.toolTip()) == ("\u2261", "plain", "All messages")
    assert "1003: no face" in shot.status.messages.list.item(shot.status.messages.list.count() - 2).text()


def test_what_the_last_shot_exported_does_not_stay(shot: Panel, facts: PlateFacts, tmp_path: Path) -> None:
    tab = shot.inspector.export
    shot.inspector.setCurrentWidget(tab)
    tab.show_result({"files": [{"path": "/a/shapes.nk", "error_px": 0.0, "losses": []}]})
    shot.session.open(facts, tmp_path / "another")
    assert tab.result.text() == ""


def test_ctrl_e_shows_what_would_be_written_first(qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    exported: list[int] = []
    monkeypatch.setattr(shot.exports, "export", lambda: exported.append(1))
    shot.inspector.setCurrentIndex(0)
    qtbot.keyClick(shot.canvas, K.Key_E, CTRL)
    assert (exported, shot.inspector.currentWidget()) == ([], shot.inspector.export)
    qtbot.keyClick(shot.canvas, K.Key_E, CTRL)
    assert exported == [1]


def test_no_options_of_the_command_line_are_shown() -> None:
    reported = in_panel_terms("shot: no face; give --crop FRAME:X,Y,W,H or --frames 1001-1010")
    assert reported == "shot: no face; give the crop box FRAME:X,Y,W,H or In and Out 1001-1010"


@pytest.mark.parametrize(
    ("path", "name", "wanted"),
    [
        ("/show/sh010/plate.1001.exr", "plate", "sh010"),
        ("/show/sh010/plates/v003/plate.1001.exr", "plate", "sh010"),
        ("/show/sh010/sh010_comp.1001.exr", "sh010_comp", "sh010_comp"),
        ("/1001.exr", "", ""),
    ],
)
def test_shots_are_called_by_their_folder_where_the_plate_says_nothing(
    facts: PlateFacts, path: str, name: str, wanted: str
) -> None:
    assert shot_name(replace(facts, path=Path(path), name=name)) == wanted


def test_a_folder_with_several_sequences_offers_the_choice(qtbot: QtBot, panel: Panel, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_plate(folder, "left")
    write_plate(folder, "right")
    (folder / "still.png").touch()
    assert plates_in(folder) == ["left.####.png", "right.####.png"]
    panel.open_path(str(folder))
    menu = panel.findChild(QMenu, "sequences")
    assert isinstance(menu, QMenu)
    assert [action.text() for action in menu.actions()] == ["left.####.png", "right.####.png"]
    box = menu.actionGeometry(menu.actions()[1])
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        qtbot.mouseClick(menu, LEFT, pos=QPoint(box.center()))
    assert panel.session.plate is not None
    assert panel.session.plate.name == "right"


def test_a_machine_without_a_display_is_known_before_qt_ends_the_program() -> None:
    assert not has_display({}, "linux")
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert has_display({"QT_QPA_PLATFORM": "offscreen"}, "linux")
    assert has_display({}, "win32")


def test_chosen_shapes_are_pasted_into_nuke(qtbot: QtBot, shot: Panel, tmp_path: Path) -> None:
    shot.inspector.setCurrentWidget(shot.inspector.shapes)
    shot.session.select("eye")
    qtbot.keyClick(shot.canvas, K.Key_C, CTRL | ALT)
    assert shot.status.text.text() == "1 shape on the clipboard: paste into Nuke's node graph"
    (tmp_path / "pasted.nk").write_text(QApplication.clipboard().text())
    document = shot.session.state.document
    assert document is not None
    (found,) = nuke.read(tmp_path / "pasted.nk", width=64, height=48).shapes
    assert found.name == "RotoPaint_AI/eye"
    assert [(p.x, p.y) for p in found.at(1001)] == [(p.x, p.y) for p in document.shape("eye").at(1001)]


def test_the_other_panes_go_and_come_back(qtbot: QtBot, shot: Panel) -> None:
    before = shot.canvas.size()
    qtbot.keyClick(shot.canvas, K.Key_F11)
    qtbot.waitUntil(lambda: shot.canvas.height() > before.height() + 100, timeout=20_000)
    assert not any(pane.isVisible() for pane in (shot.timeline, shot.inspector, shot.tools))
    qtbot.keyClick(shot.canvas, K.Key_F11)
    qtbot.waitUntil(lambda: shot.canvas.size() == before, timeout=20_000)


def test_marks_do_not_make_the_window_wider(qtbot: QtBot, shot: Panel) -> None:
    before = shot.minimumSizeHint().width()
    qtbot.keyClick(shot.canvas, K.Key_X)
    assert "need" in shot._widgets.review_bar.summary.text()
    QApplication.processEvents()
    assert shot.minimumSizeHint().width() == before


def test_the_window_fills_a_screen_that_has_no_room_for_it_with_its_frame(window: MainWindow) -> None:
    room = window.screen().availableSize()
    is_small = room.width() < 1440 or room.height() < 930
    assert window.isMaximized() == is_small
    assert is_small  # the offscreen platform's screen is 800 x 800


def test_a_run_in_the_panel_follows_the_face_and_does_not_track() -> None:
    assert _run_note({"task": "track", "done": 3, "total": 9}) == "following the face: 3 of 9"
    assert _run_note({"task": "seam ends", "done": 3, "total": 9}) == "seam ends: 3 of 9"


def test_the_tool_strip_has_the_viewers_tools_first() -> None:
    names = ["tool.select", "tool.crop", "tool.else", *(name for group in _COMPARING for name in group)]
    actions = {name: QAction(name) for name in names}
    first, *rest = _tool_groups(actions, ("select", "crop"))
    assert [action.text() for action in first] == ["tool.select", "tool.crop"]
    assert [[action.text() for action in group] for group in rest] == [list(group) for group in _COMPARING]
