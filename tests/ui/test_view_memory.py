"""A shot is looked at again as it was left: by its project, in a new window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rotopaint_ui.inspector.shapes_tab import EYE
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.panel.view_memory import ViewMemory, fit_window
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import FakeHost
from .mouse import LEFT, NONE


def opened(qtbot: QtBot, facts: PlateFacts, out: Path, size: tuple[int, int] = (1000, 700)) -> Panel:
    """A panel after opening a plate with its project."""
    panel = Panel(FakeHost())
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    panel.session.open(facts, out)
    results = read_run_results(out)
    panel.session.take_results(results)
    panel._results.show_results(results, False)
    return panel


def test_a_shot_is_looked_at_as_it_was_left(qtbot: QtBot, facts: PlateFacts, out: Path) -> None:
    first = opened(qtbot, facts, out)
    qtbot.keyClick(first.canvas, Qt.Key.Key_Right)
    qtbot.keyClick(first.canvas, Qt.Key.Key_Equal)
    first.inspector.shapes.colour(("eye",), "#ff00ff")
    tree = first.inspector.shapes.tree
    box = tree.visualItemRect(first.inspector.shapes.row_of("seam"))
    x = tree.columnViewportPosition(EYE) + tree.columnWidth(EYE) // 2
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(x, box.center().y()))
    assert first.session.hidden == {"seam"}
    first.inspector.setCurrentIndex(2)
    zoom, wanted = first.canvas.view.zoom, ViewMemory(first.session, first._widgets).describe_view()
    first.shut_down()

    again = opened(qtbot, facts, out)
    session = again.session
    assert (session.frame, session.hidden, session.colours) == (1002, {"seam"}, {"eye": "#ff00ff"})
    assert (again.inspector.currentIndex(), again.canvas.view.zoom) == (2, zoom)
    assert again._widgets.canvas.is_fitted is False
    found = ViewMemory(session, again._widgets).describe_view()
    assert found["view"] == pytest.approx(wanted["view"], abs=0.05)
    again.shut_down()


def test_panes_keep_the_sizes_that_a_person_set(qtbot: QtBot, facts: PlateFacts, out: Path) -> None:
    """Dragging the handles beside them makes the timeline higher and the inspector wider."""
    first = opened(qtbot, facts, out, (1400, 1000))
    for splitter, by in ((first._widgets.rows, QPoint(0, -70)), (first._widgets.columns, QPoint(-50, 0))):
        line = splitter.handle(1)
        before, middle = splitter.sizes()[1], line.rect().center()
        end = QPointF(middle + by)
        qtbot.mousePress(line, LEFT, pos=middle)
        held = QMouseEvent(QEvent.Type.MouseMove, end, line.mapToGlobal(end), Qt.MouseButton.NoButton, LEFT, NONE)
        QApplication.sendEvent(line, held)
        qtbot.mouseRelease(line, LEFT)
        assert splitter.sizes()[1] > before + 40
    wanted = first.timeline.height(), first.inspector.width()
    first.shut_down()

    again = opened(qtbot, facts, out, (1400, 1000))
    qtbot.waitUntil(lambda: (again.timeline.height(), again.inspector.width()) == wanted, timeout=10_000)
    again.shut_down()


def test_the_viewer_stays_where_it_is_when_shapes_arrive(
    qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path
) -> None:
    panel.session.open(facts, out)
    panel._updates.refresh()
    qtbot.wait(10)
    before = panel.canvas.geometry()
    panel.session.take_results(read_run_results(out))
    qtbot.wait(10)
    assert panel.canvas.geometry() == before


def test_a_window_of_a_larger_screen_fits_this_one() -> None:
    screen = QRect(0, 0, 1366, 768)
    assert fit_window(QRect(1500, 900, 1440, 900), screen) == QRect(0, 0, 1366, 768)
    assert fit_window(QRect(-50, 100, 800, 600), screen) == QRect(0, 100, 800, 600)
    assert fit_window(QRect(900, 300, 800, 600), screen) == QRect(566, 168, 800, 600)
