"""What is seen of the window: panes, the full screen, the guide, and a shot of the batch window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction, QImage
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from rotopaint_ui.batch.queue import QueuedShot
from rotopaint_ui.inspector.shapes_tab import KEYS, NAME
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.panel.review_bar import ReviewBar
from rotopaint_ui.panel.toolbars import COLUMN_PX, STRIP_PX, ToolStrip
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.settings.preferences import Preferences, default_path, write_preferences
from rotopaint_ui.standalone.app import MainWindow
from rotopaint_ui.standalone.guide_window import MISSING, GuidePage, find_guide
from rotopaint_ui.standalone.recent_paths import shown_path
from rotopaint_ui.widgets import dialogs

from .conftest import write_plate
from .mouse import LEFT, SHIFT

K = Qt.Key


@pytest.mark.parametrize(("key", "name"), [(K.Key_F7, "tools"), (K.Key_F8, "inspector"), (K.Key_F9, "timeline")])
def test_a_key_hides_a_pane_and_shows_it_again(qtbot: QtBot, window: MainWindow, key: K, name: str) -> None:
    panel = window.panel
    pane = {"tools": panel.tools, "inspector": panel.inspector, "timeline": panel.timeline}[name]
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    qtbot.keyClick(panel.canvas, key)
    assert not pane.isVisible()
    assert panel.canvas.isVisible()
    qtbot.keyClick(panel.canvas, K.Key_F11)
    qtbot.keyClick(panel.canvas, K.Key_F11)
    assert not pane.isVisible()  # what was hidden by itself stays so
    qtbot.keyClick(panel.canvas, key)
    assert pane.isVisible()


def test_the_full_screen_is_the_viewer_alone_and_escape_leaves_it(qtbot: QtBot, window: MainWindow) -> None:
    panel = window.panel
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    qtbot.keyClick(panel.canvas, K.Key_F11, SHIFT)
    qtbot.waitUntil(window.isFullScreen, timeout=20_000)
    seen = [panel.tools, panel.inspector, panel.timeline, panel.top, window.menuBar()]
    assert not any(each.isVisible() for each in seen)
    qtbot.keyClick(panel.canvas, K.Key_Escape)
    qtbot.waitUntil(lambda: not window.isFullScreen(), timeout=20_000)
    assert all(each.isVisible() for each in seen)


def test_the_viewer_that_was_alone_stays_so_after_the_full_screen(qtbot: QtBot, window: MainWindow) -> None:
    panel = window.panel
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    qtbot.keyClick(panel.canvas, K.Key_F11)
    qtbot.keyClick(panel.canvas, K.Key_F11, SHIFT)
    qtbot.waitUntil(window.isFullScreen, timeout=20_000)
    qtbot.keyClick(panel.canvas, K.Key_F11, SHIFT)
    qtbot.waitUntil(lambda: not window.isFullScreen(), timeout=20_000)
    assert panel.commands["only_viewer"].isChecked()
    assert not panel.tools.isVisible()


def test_a_project_remembers_the_window_without_the_full_screen(
    qtbot: QtBot, window: MainWindow, facts: PlateFacts, out: Path
) -> None:
    panel = window.panel
    panel.session.open(facts, out)
    window.setGeometry(10, 20, 900, 640)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    wanted = panel.session.looked_at()["window"]
    qtbot.keyClick(panel.canvas, K.Key_F11, SHIFT)
    qtbot.waitUntil(window.isFullScreen, timeout=20_000)
    qtbot.waitUntil(lambda: window.geometry() == window.screen().geometry(), timeout=20_000)
    assert panel.session.looked_at()["window"] == wanted


def test_f1_shows_the_guide_with_its_pictures(qtbot: QtBot, window: MainWindow) -> None:
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    qtbot.keyClick(window.panel.canvas, K.Key_F1)
    assert window.guide is not None
    assert window.guide.isVisible()
    assert "Draw a box around the face" in window.guide.page.toPlainText()
    assert window.guide.height() <= window.screen().availableSize().height() - 40  # its last lines are on the screen
    qtbot.waitUntil(window.guide.isActiveWindow, timeout=20_000)
    qtbot.keyClick(window.guide.page, K.Key_Escape)
    assert not window.guide.isVisible()


def test_pictures_of_the_guide_are_as_broad_as_the_page(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    picture = QImage(1000, 500, QImage.Format.Format_RGB32)
    picture.fill(0)
    picture.save(str(tmp_path / "guide" / "a.png"))
    (tmp_path / "guide.md").write_text("# Title\n\n![A](guide/a.png)\n\nText\n")
    page = GuidePage()
    qtbot.addWidget(page)
    page.resize(440, 300)
    page.show()
    page.show_guide(tmp_path / "guide.md")
    assert 200 <= page.document().size().height() <= 400  # 1000 x 500 would be 500 high
    (tmp_path / "guide" / "a.png").unlink()
    (tmp_path / "guide").rmdir()
    page.show_guide(tmp_path / "guide.md")  # without pictures the text is whole
    assert page.toPlainText().split() == ["Title", "Text"]
    page.show_guide(tmp_path / "nothing.md")
    assert page.toPlainText() == MISSING


def test_the_guide_lies_where_the_panel_looks_for_it() -> None:
    assert find_guide().read_text(encoding="utf-8").startswith("# An artist's guide")


def test_a_double_click_on_a_row_of_the_batch_opens_its_shot(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    plates = write_plate(tmp_path / "plates")
    window.batch.add([QueuedShot("sh010", plates, str(tmp_path / "out"), colourspace="sRGB")])
    window.show_batch()
    table = window.batch.table
    item = table.topLevelItem(0)
    assert item is not None
    spot = table.visualItemRect(item).center()
    qtbot.mouseClick(table.viewport(), LEFT, pos=spot)
    with qtbot.waitSignal(window.panel.plate_opened, timeout=120_000):
        qtbot.mouseDClick(table.viewport(), LEFT, pos=spot)
    assert window.panel.session.out == tmp_path / "out"
    assert window.panel.choice is not None
    assert window.panel.choice.colourspace == "sRGB"


def test_every_tool_is_in_sight_on_a_low_screen(qtbot: QtBot, panel: Panel) -> None:
    panel.resize(1366, 744)  # of 768 the menus take the rest
    strip = panel.tools
    qtbot.waitUntil(lambda: strip.widget().height() <= strip.viewport().height(), timeout=20_000)
    panel.resize(1920, 1056)
    qtbot.waitUntil(lambda: strip.widget().findChildren(QToolButton)[0].iconSize().height() == 22, timeout=20_000)


def test_every_tool_is_in_sight_in_the_smallest_window(qtbot: QtBot, panel: Panel) -> None:
    panel.resize(1024, 655)  # of 700 the menus and the window's frame take the rest
    strip = panel.tools
    buttons = strip.widget().findChildren(QToolButton)

    def are_in_sight() -> bool:
        seen = [strip.viewport().rect().contains(each.geometry()) for each in buttons]
        return all(seen) and len({(each.x(), each.y()) for each in buttons}) == len(buttons) == 15

    qtbot.waitUntil(are_in_sight, timeout=20_000)
    assert min(each.iconSize().height() for each in buttons) >= 14


def test_the_window_fits_a_screen_of_1024_pixels(qtbot: QtBot, window: MainWindow) -> None:
    window.resize(1024, 670)
    qtbot.waitUntil(lambda: window.width() == 1024, timeout=20_000)
    panel = window.panel
    for bar in (panel.top, panel.view_bar, panel.review_bar):
        shown = [each for each in bar.findChildren(QWidget) if each.isVisible() and each.width() > 0]
        right = [each.mapTo(window, each.rect().topRight()).x() for each in shown]
        assert max(right) < 1024
        buttons = bar.findChildren(QAbstractButton)
        assert [each for each in buttons if each.isVisible() and each.width() < each.sizeHint().width()] == []


def test_sliders_have_their_whole_names_where_there_is_room(qtbot: QtBot, panel: Panel) -> None:
    def names() -> list[str]:
        return [label.text() for slider in (exposure, gamma) for label in slider.findChildren(QLabel)][::2]

    exposure, gamma = panel.view_bar.exposure, panel.view_bar.gamma
    panel.resize(1024, 655)
    qtbot.waitUntil(lambda: names() == ["f", "\u03b3"], timeout=20_000)
    panel.resize(1600, 900)
    qtbot.waitUntil(lambda: names() == ["Exposure", "Gamma"], timeout=20_000)


def test_recent_shots_are_named_by_paths_that_can_be_read(qtbot: QtBot, window: MainWindow) -> None:
    home, long = Path("/home/ann"), "/show/sequences/sq010/shots/sh0420/plates/scan/v003/aces/sh0420.%04d.exr"
    assert shown_path("/show/a.1001.exr", home) == "/show/a.1001.exr"
    assert shown_path("/home/ann/a/b.exr", home) == "~/a/b.exr"
    assert (
        shown_path(long, home) == "/show/\u2026/sq010/shots/sh0420/plates/scan/v003/aces/sh0420.%04d.exr"
    )  # 64 letters
    assert shown_path(long, home, 63) == "/show/\u2026/shots/sh0420/plates/scan/v003/aces/sh0420.%04d.exr"
    assert shown_path(long, home, 10) == "/show/\u2026/aces/sh0420.%04d.exr"
    assert shown_path("s3://show/a.exr", home) == "s3://show/a.exr"
    preferences = window.panel.preferences
    window.panel.set_preferences(preferences.with_recent("/show/you & me/plate.%04d.exr"))
    window.menus.fill_recent()
    (action,) = window.menus.recent.actions()
    assert action.text() == "/show/you && me/plate.%04d.exr"  # as Qt writes one `&`
    assert window.menus.recent.toolTipsVisible()


def test_the_welcome_page_shows_as_many_recent_shots_as_there_is_room_for(qtbot: QtBot) -> None:
    plain = Preferences()
    for number in range(5):
        plain = plain.with_recent(f"/show/sh{number}/plate.%04d.exr")
    write_preferences(default_path(), plain)
    window = MainWindow()
    qtbot.addWidget(window)
    window.resize(1600, 1000)
    window.show()
    page, canvas = window.welcome, window.panel.canvas
    qtbot.waitUntil(lambda: [each.isVisible() for each in page.recent] == [True] * 5, timeout=20_000)
    window.resize(1024, 640)
    qtbot.waitUntil(lambda: page.geometry().bottom() < canvas.height(), timeout=20_000)
    shown = [each.isVisible() for each in page.recent]
    assert shown == sorted(shown, reverse=True)  # the latest ones
    assert page.sample.isVisible()
    window.close()


def test_the_program_ends_with_its_window_while_the_batch_window_is_open(window: MainWindow) -> None:
    window.show_batch()
    assert window.batch.isVisible()
    window.close()
    assert not window.batch.isVisible()


def test_no_menu_is_higher_than_a_small_screen(window: MainWindow) -> None:
    for name, menu in window.menus.menus.items():
        assert menu.sizeHint().height() <= 640, name
    nudges = {action.objectName() for action in window.menus.within["edit.nudge_"].actions()}
    assert len(nudges) == 12
    assert nudges.isdisjoint(action.objectName() for action in window.menus.menus["Points"].actions())


def test_the_list_of_recent_shots_is_in_the_style_of_the_window(window: MainWindow) -> None:
    assert window.menus.recent.parent() is window
    assert "QMenu::item:selected" in window.styleSheet()


@pytest.mark.parametrize("width", [1280, 1600])
def test_names_of_shapes_are_whole_in_the_inspector(
    qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path, width: int
) -> None:
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.resize(width, 700)
    qtbot.waitUntil(lambda: panel.inspector.width() >= 310, timeout=20_000)
    tree, row = panel.inspector.shapes.tree, panel.inspector.shapes.row_of("seam")
    row.setText(KEYS, "24  \u25c61 ")
    QApplication.processEvents()
    name = tree.visualRect(tree.indexFromItem(row, NAME))
    assert name.width() - tree.iconSize().width() - 8 >= tree.fontMetrics().horizontalAdvance("mouth_outer")


def test_an_open_choice_is_dark_to_its_edges(qtbot: QtBot) -> None:
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    palette, style = application.palette(), application.style().name()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # else earlier tests' windows are dressed, too
    dialogs.dress(application)
    try:
        choice = QComboBox()
        choice.setStyleSheet(dialogs.style())
        qtbot.addWidget(choice)
        choice.addItems(["seams only", "all shapes"])
        choice.showPopup()
        edges = choice.view().parentWidget()
        assert edges is not None
        shown = edges.grab().toImage()
        column = [shown.pixelColor(shown.width() - 6, y).lightness() for y in range(shown.height())]
        assert max(column) < 128
        choice.hidePopup()
    finally:
        application.setStyle(style)
        application.setPalette(palette)


def test_a_label_of_the_review_row_is_shown_whole_or_not_at_all(qtbot: QtBot, window: MainWindow) -> None:
    bar = ReviewBar({name: button.defaultAction() for name, button in window.panel.review_bar.buttons.items()})
    qtbot.addWidget(bar)
    bar.show()
    for width, is_labelled in ((560, False), (1600, True), (560, False)):
        bar.resize(width, 40)
        QApplication.processEvents()
        for name in ("accept", "needs_work", "teach", "learn_shot"):
            button = bar.buttons[name]
            assert (button.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon) == is_labelled, name
            assert button.width() >= button.sizeHint().width(), (name, width)


def test_labels_of_the_review_row_leave_room_for_the_reason(qtbot: QtBot, window: MainWindow) -> None:
    bar = ReviewBar({name: button.defaultAction() for name, button in window.panel.review_bar.buttons.items()})
    qtbot.addWidget(bar)
    bar.show()
    bar.show_reason("seam_left may be 2.1 px off")
    labelled = []
    for width in range(700, 1700, 50):
        bar.resize(width, 40)
        QApplication.processEvents()
        if bar.buttons["accept"].toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon:
            labelled.append(width)
            assert bar.reason.width() >= bar.reason.sizeHint().width(), width
    assert labelled


@pytest.mark.parametrize("height", [*range(430, 900, 14)])
def test_the_tools_find_their_columns_at_any_height_and_once(qtbot: QtBot, height: int) -> None:
    """A second column changes the width, which had been answered with the first again, for ever."""
    strip = ToolStrip([[QAction(f"{row} {n}") for n in range(5)] for row in range(5)])
    qtbot.addWidget(strip)
    n_placed: list[int] = []
    place = strip._place
    strip._place = lambda n_columns: (n_placed.append(n_columns), place(n_columns))[1]  # type: ignore[method-assign,func-returns-value]
    strip.resize(60, 1000)
    strip.show()
    strip.resize(60, height)
    qtbot.wait(5)
    assert len(n_placed) <= 6
    assert strip.width() == STRIP_PX + (strip._n_columns - 1) * COLUMN_PX
