"""Keys in fields, lists and on buttons are theirs; in the viewer, and with Ctrl anywhere, they are shortcuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QDoubleSpinBox,
    QLineEdit,
    QScrollArea,
    QWidget,
)
from pytestqt.qtbot import QtBot

from rotopaint_ai.project import Project
from rotopaint_ui.batch.batch_window import BatchWindow
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.settings.preferences import default_path
from rotopaint_ui.standalone.preferences_window import PreferencesWindow

from .conftest import FRAMES, move_points

K = Qt.Key


@pytest.fixture
def fired(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> list[str]:
    """The commands that are carried out, in a panel with corrected shapes."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    state = panel.session.state
    assert state.document is not None
    moved = move_points(state.document, "seam", FRAMES, [0], 2.0, 0.0)
    panel.session.edits.push("move points", replace(state, document=moved))  # there is something to spread
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=120_000)
    names: list[str] = []
    for name, made in panel.commands.items():
        made.triggered.connect(noter(names, name))
    return names


def noter(names: list[str], name: str) -> Callable[[bool], None]:
    def note(checked: bool) -> None:
        names.append(name)

    return note


def focus(qtbot: QtBot, widget: QWidget) -> None:
    widget.setFocus()
    qtbot.waitUntil(lambda: QApplication.focusWidget() is widget, timeout=120_000)


def press(qtbot: QtBot, widget: QWidget, *keys: Qt.Key) -> None:
    focus(qtbot, widget)
    for key in keys:
        qtbot.keyClick(widget, key)


def test_a_number_is_typed_and_stepped(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    box = panel.review_bar.frame
    focus(qtbot, box)
    box.selectAll()
    press(qtbot, box, K.Key_1, K.Key_0, K.Key_0, K.Key_2, K.Key_Return)
    assert panel.session.frame == 1002
    press(qtbot, box, K.Key_Up)
    assert panel.session.frame == 1003
    press(qtbot, box, K.Key_Home, K.Key_Left, K.Key_Right, K.Key_End, K.Key_Backspace, K.Key_Space, K.Key_Minus)
    assert fired == []
    press(qtbot, box, K.Key_T)  # no number has a letter
    assert fired == ["tool.transform"]


def test_a_click_elsewhere_commits_the_field_and_returns_the_keys(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    seam = panel.inspector.seam
    panel.inspector.setCurrentWidget(seam)
    panel.session.select("seam")
    focus(qtbot, seam.width_px)
    seam.width_px.selectAll()
    qtbot.keyClicks(seam.width_px, "11")
    assert panel.session.seams.of("seam").width_px is None
    qtbot.mouseClick(seam.patch, Qt.MouseButton.LeftButton)
    assert panel.session.seams.of("seam").width_px == 11.0
    assert QApplication.focusWidget() is panel.canvas
    qtbot.keyClick(panel.canvas, K.Key_T)
    assert fired == ["tool.transform"]
    focus(qtbot, panel.review_bar.frame)
    qtbot.mouseClick(panel.timeline, Qt.MouseButton.LeftButton, pos=QPoint(int(panel.timeline.x_of(1002)) + 5, 40))
    assert (panel.session.frame, QApplication.focusWidget()) == (1002, panel.canvas)


def test_a_number_that_is_being_typed_is_kept_when_the_panel_goes_away(
    qtbot: QtBot, panel: Panel, fired: list[str], tmp_path: Path
) -> None:
    path, seam = tmp_path / "shot.rotopaint", panel.inspector.seam
    panel.session.start_project(path)
    panel.inspector.setCurrentWidget(seam)
    panel.session.select("seam")
    focus(qtbot, seam.width_px)
    seam.width_px.selectAll()
    qtbot.keyClicks(seam.width_px, "11")
    panel.shut_down()
    project = Project.open(path, write=False)
    try:
        assert project.load().state.seams["seam"].width_px == 11.0
    finally:
        project.close()


@pytest.mark.parametrize("key", [K.Key_Return, K.Key_Escape])
def test_after_a_name_was_typed_the_viewer_has_the_keys(
    qtbot: QtBot, panel: Panel, fired: list[str], key: Qt.Key
) -> None:
    panel.session.select("seam")
    shapes = panel.inspector.shapes
    panel.inspector.setCurrentWidget(shapes)
    panel.canvas.setFocus()
    panel.commands["rename"].trigger()
    editor = shapes.tree.findChild(QLineEdit)
    assert editor is not None
    qtbot.keyClicks(editor, "brow line")
    qtbot.keyClick(editor, key)
    qtbot.waitUntil(lambda: QApplication.focusWidget() is panel.canvas, timeout=120_000)
    assert panel.session.names.of("seam") == ("brow line" if key == K.Key_Return else "seam")


@pytest.mark.parametrize("key", [K.Key_Backspace, K.Key_Delete])
def test_ctrl_and_a_key_that_deletes_take_a_word_and_not_the_shape(
    qtbot: QtBot, panel: Panel, fired: list[str], key: Qt.Key
) -> None:
    panel.session.select("seam")
    panel.inspector.setCurrentWidget(panel.inspector.frame)
    note = panel.inspector.frame.note
    focus(qtbot, note)
    qtbot.keyClicks(note, "look here")
    note.setCursorPosition(len("look "))
    qtbot.keyClick(note, key, Qt.KeyboardModifier.ControlModifier)
    assert note.text().strip() == ("here" if key == K.Key_Backspace else "look")
    press(qtbot, panel.review_bar.frame)
    qtbot.keyClick(panel.review_bar.frame, key, Qt.KeyboardModifier.ControlModifier)
    assert fired == []


@pytest.fixture
def width(qtbot: QtBot, panel: Panel, fired: list[str]) -> QDoubleSpinBox:
    """The box for the seam's width, with the focus; 11 is typed over its 4 px."""
    panel.inspector.setCurrentWidget(panel.inspector.seam)
    panel.session.select("seam")
    box = panel.inspector.seam.width_px
    focus(qtbot, box)
    box.selectAll()
    qtbot.keyClicks(box, "11")
    assert panel.session.seams.of("seam").width_px is None
    return box


def test_undo_takes_back_a_number_that_was_set_and_the_box_shows_it(
    qtbot: QtBot, panel: Panel, fired: list[str], width: QDoubleSpinBox
) -> None:
    qtbot.keyClick(width, K.Key_Return)
    assert panel.session.seams.of("seam").width_px == 11.0
    qtbot.keyClick(width, K.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert fired == ["undo"]
    assert panel.session.seams.of("seam").width_px is None
    assert (width.value(), width.text()) == (4.0, "4.00 px")
    qtbot.keyClick(width, K.Key_Up)  # goes on from what is shown
    assert panel.session.seams.of("seam").width_px == 4.5


def test_undo_while_a_number_is_typed_is_the_boxs_own(
    qtbot: QtBot, panel: Panel, fired: list[str], width: QDoubleSpinBox
) -> None:
    qtbot.keyClick(width, K.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert fired == []
    assert panel.session.edits.last_step == "move points"


def test_escape_leaves_a_number_that_was_typed_and_stops_nothing(
    qtbot: QtBot, panel: Panel, fired: list[str], width: QDoubleSpinBox
) -> None:
    qtbot.keyClick(width, K.Key_Escape)
    assert fired == []
    assert width.text() == "4.00 px"
    assert QApplication.focusWidget() is panel.canvas
    assert panel.session.seams.of("seam").width_px is None
    qtbot.keyClick(panel.canvas, K.Key_Escape)
    assert fired == ["leave"]


def test_escape_leaves_a_name_that_was_typed(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    for box in (panel.top.face, panel.top.pack):
        before = box.currentText()
        focus(qtbot, box)
        qtbot.keyClicks(box, "An")
        qtbot.keyClick(box, K.Key_Escape)
        assert QApplication.focusWidget() is panel.canvas
        assert box.currentText() == before
    assert (panel.session.state.face, fired) == ("", [])


def test_a_number_that_was_typed_is_the_shape_s_that_it_was_typed_for(
    qtbot: QtBot, panel: Panel, fired: list[str], width: QDoubleSpinBox
) -> None:
    falloff = panel.inspector.seam.feather_px
    focus(qtbot, falloff)
    falloff.selectAll()
    qtbot.keyClicks(falloff, "7")
    qtbot.keyClick(falloff, K.Key_PageDown)
    assert fired == ["edit.next_shape"]
    assert panel.session.selection.shape == "eye"
    assert panel.session.state.document is not None
    widths = {shape.name: shape.feather_px for shape in panel.session.state.document.shapes}
    assert widths == {"seam": 7.0, "eye": 0.0}


def test_selecting_nothing_where_nothing_is_selected_is_done(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    before = panel.status.text.text()
    for _ in range(2):
        qtbot.keyClick(panel.canvas, K.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert panel.session.selection.shape is None
    assert panel.status.text.text() == before


def test_a_list_and_a_choice_are_walked_with_the_arrows(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    tree, choice = panel.inspector.shapes.tree, panel.review_bar.visits
    panel.inspector.setCurrentWidget(panel.inspector.shapes)
    tree.setCurrentItem(panel.inspector.shapes.row_of("seam"))
    press(qtbot, tree, K.Key_Up, K.Key_Down)
    assert tree.currentItem() is panel.inspector.shapes.row_of("seam")
    start = choice.currentIndex()
    press(qtbot, choice, K.Key_Down)
    assert choice.currentIndex() == start + 1
    press(qtbot, choice, K.Key_Up, K.Key_T, K.Key_Return)
    assert panel.canvas.tool != "transform"
    assert fired == []


def test_a_choice_that_is_open_is_walked_with_the_arrows(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    choice = panel.review_bar.visits
    focus(qtbot, choice)
    choice.showPopup()
    view = choice.view()
    qtbot.waitUntil(view.isVisible, timeout=120_000)
    qtbot.keyClick(view, K.Key_Down)
    qtbot.keyClick(view, K.Key_Return)
    assert choice.currentIndex() == 1
    assert fired == []


def test_a_name_is_typed_and_taken_with_return(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    shapes = panel.inspector.shapes
    panel.inspector.setCurrentWidget(shapes)
    panel.session.select("seam")
    shapes.begin_rename()
    editor = shapes.tree.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    press(qtbot, editor, K.Key_C, K.Key_T, K.Key_Home, K.Key_Delete, K.Key_Return)
    qtbot.waitUntil(lambda: panel.session.names.of("seam") == "t", timeout=120_000)
    assert fired == []


def test_space_presses_the_button_that_tab_has_reached(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    panel.inspector.setCurrentWidget(panel.inspector.export)
    tick = panel.inspector.export.mattes
    was = tick.isChecked()
    press(qtbot, tick, K.Key_Space)
    assert tick.isChecked() is not was
    press(qtbot, tick, K.Key_Return)
    assert tick.isChecked() is was
    assert fired == []
    press(qtbot, tick, K.Key_Right)  # a button has no use for it
    assert fired == ["next"]


def test_a_click_on_a_button_leaves_the_keys_to_the_viewer(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    focus(qtbot, panel.canvas)
    qtbot.mouseClick(panel.top.run, Qt.MouseButton.LeftButton)
    assert QApplication.focusWidget() is panel.canvas


def test_a_plate_that_opens_gives_the_keys_to_the_viewer(qtbot: QtBot, shot: Panel) -> None:
    """Otherwise the first button keeps the focus, and Return opens a file instead of spreading."""
    shot.activateWindow()
    qtbot.waitUntil(shot.isActiveWindow, timeout=120_000)
    focus(qtbot, shot.top.open)
    facts = shot.session.plate
    assert facts is not None
    shot._results.show_plate(facts)
    assert QApplication.focusWidget() is shot.canvas


def test_the_viewer_keeps_every_shortcut_and_ctrl_works_anywhere(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    press(qtbot, panel.canvas, K.Key_Up, K.Key_Right, K.Key_T, K.Key_Return, K.Key_Space)
    assert fired == ["worst", "next", "tool.transform", "spread", "play"]
    focus(qtbot, panel.review_bar.frame)
    qtbot.keyClick(panel.review_bar.frame, K.Key_I, Qt.KeyboardModifier.ControlModifier)
    assert fired[-1] == "range_all"


def buttons_of(window: QWidget) -> list[QAbstractButton]:
    """The visible buttons of a window that Tab reaches."""
    return [
        each
        for each in window.findChildren(QAbstractButton)
        if each.isVisibleTo(window) and each.isEnabled() and each.focusPolicy() & Qt.FocusPolicy.TabFocus
    ]


def returned(qtbot: QtBot, window: QWidget) -> list[str]:
    """Buttons that Return did not press exactly once; their actions are replaced."""
    missed = []
    for button in buttons_of(window):
        clicks: list[str] = []
        button.click = lambda clicks=clicks: clicks.append("click")  # type: ignore[method-assign]
        focus(qtbot, button)
        qtbot.keyClick(button, K.Key_Return)
        if clicks != ["click"]:
            missed.append(button.text() or button.accessibleName())
    return missed


def test_return_presses_every_button_of_the_panel_and_nothing_else(
    qtbot: QtBot, panel: Panel, fired: list[str]
) -> None:
    found = 0
    for index in range(panel.inspector.count()):
        panel.inspector.setCurrentIndex(index)
        found += len(buttons_of(panel))
        assert returned(qtbot, panel) == []
    assert found > 4 * 25
    assert fired == []


def test_return_presses_the_buttons_of_the_other_windows_and_esc_closes_them(qtbot: QtBot, panel: Panel) -> None:
    queue = BatchWindow(Path(default_path()).with_name("batch.json"), panel.host.engine)
    preferences = PreferencesWindow(panel.preferences, [], lambda changed: None, panel)
    preferences.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    preferences.tabs.setCurrentIndex(1)
    for window in (queue, preferences):
        qtbot.addWidget(window)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow, timeout=120_000)
        assert buttons_of(window)
        assert returned(qtbot, window) == []
        qtbot.keyClick(window, K.Key_Escape)
        assert not window.isVisible()


def test_sliders_and_tabs_are_moved_with_the_arrows(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    slider, tabs = panel.view_bar.exposure._slider, panel.inspector.tabBar()
    was = slider.value()
    press(qtbot, slider, K.Key_Right, K.Key_Up)
    assert slider.value() == was + 2
    panel.inspector.setCurrentIndex(0)
    press(qtbot, tabs, K.Key_Right)
    assert panel.inspector.currentIndex() == 1
    assert fired == []
    focus(qtbot, panel.canvas)
    qtbot.mouseClick(slider, Qt.MouseButton.LeftButton)
    assert QApplication.focusWidget() is panel.canvas


def test_a_click_on_a_tab_leaves_the_frame_keys_to_the_viewer(qtbot: QtBot, panel: Panel, fired: list[str]) -> None:
    tabs, seam = panel.inspector.tabBar(), panel.inspector.seam
    panel.session.select("seam")
    panel.inspector.setCurrentWidget(seam)
    press(qtbot, seam.width_px, K.Key_7, K.Key_Tab)
    qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(0).center())
    tree = panel.inspector.shapes.tree
    row = tree.visualItemRect(panel.inspector.shapes.row_of("eye"))
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(row.left() + 40, row.center().y()))
    assert panel.session.selection.shape == "eye"
    qtbot.waitUntil(panel.canvas.hasFocus, timeout=20_000)
    widget = QApplication.focusWidget()
    assert widget is not None
    qtbot.keyClick(widget, K.Key_Right)
    assert panel.session.frame == 1002


def test_the_wheel_scrolls_past_fields(qtbot: QtBot, shot: Panel) -> None:
    """Only a field with the focus takes the wheel, and the wheel gives no field the focus."""
    tab = shot.inspector.seam
    shot.inspector.setCurrentWidget(tab)
    shot.session.select("seam")
    bar = tab.findChildren(QScrollArea)[0].verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0 and tab.width_px.isEnabled())
    size = tab.brush.size.value()
    turn_wheel(shot, tab.width_px)
    assert bar.value() > 0
    for field in (tab.brush.size, tab.brush.paints):
        tab.findChildren(QScrollArea)[0].ensureWidgetVisible(field)
        for _ in range(2):
            turn_wheel(shot, field)
    assert (tab.brush.paints.currentText(), tab.brush.size.value(), tab.width_px.value()) == ("Clone", size, 4.0)
    tab.findChildren(QScrollArea)[0].ensureWidgetVisible(tab.brush.size)
    tab.brush.size.setFocus()
    turn_wheel(shot, tab.brush.size)
    assert tab.brush.size.value() == size - 1


def test_the_wheel_over_the_rows_around_the_viewer_changes_nothing(qtbot: QtBot, shot: Panel) -> None:
    shot.top.show_packs(["kubo", "coraline"])
    shot.view_bar.show_views(["Raw", "Un-tone-mapped"])
    bar, review = shot.view_bar, shot.review_bar
    choices = (shot.top.pack, bar.view, bar.channel, bar.proxy, review.visits)
    before, frame = [each.currentText() for each in choices], shot.session.frame
    for field in (*choices, review.frame):
        assert field.isEnabled()
        turn_wheel(shot, field)
    assert [each.currentText() for each in choices] == before
    assert shot.session.frame == frame
    assert shot.canvas.hasFocus()
    bar.channel.setFocus()
    turn_wheel(shot, bar.channel)
    assert bar.channel.currentText() == "R"  # one that was gone to with Tab


def turn_wheel(panel: Panel, widget: QWidget) -> None:
    """Turn the wheel by one notch towards the user, as the window system reports it."""
    place = widget.mapTo(panel, QPoint(5, 5))
    QTest.wheelEvent(panel.windowHandle(), QPointF(place), QPoint(0, -120))
    QApplication.processEvents()
