"""The tree of shapes under the mouse: eyes and locks are switches, and leave what is selected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from rotopaint_ui.inspector.shapes_tab import EYE, LOCK, NAME, ShapesTab
from rotopaint_ui.session.session import ShotSession

from .mouse import LEFT, NONE


@pytest.fixture
def tab(qtbot: QtBot, session: ShotSession) -> ShapesTab:
    tab = ShapesTab(session)
    qtbot.addWidget(tab)
    session.listeners.append(tab.refresh)
    tab.resize(320, 400)
    tab.show()
    tab.refresh()
    return tab


def cell(tab: ShapesTab, shape: str, column: int) -> QPoint:
    """The middle of a cell, in the coordinates of the list."""
    row = tab.tree.indexFromItem(tab.row_of(shape), column)
    return tab.tree.visualRect(row).center()


@pytest.mark.parametrize("column", [EYE, LOCK])
def test_a_click_on_an_eye_or_a_lock_leaves_the_selection(
    qtbot: QtBot, session: ShotSession, tab: ShapesTab, column: int
) -> None:
    session.select("seam", frozenset({1}))
    before = session.selection
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, cell(tab, "eye", column))
    assert (session.hidden if column == EYE else session.locked) == {"eye"}
    assert session.selection == before
    qtbot.mouseDClick(tab.tree.viewport(), LEFT, NONE, cell(tab, "eye", column))
    assert (session.hidden if column == EYE else session.locked) == set()
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, cell(tab, "eye", NAME))
    assert session.selection.shapes == {"eye"}


def test_a_switch_means_all_that_are_selected_with_its_shape(
    qtbot: QtBot, session: ShotSession, tab: ShapesTab
) -> None:
    session.select("seam", also=("seam", "eye"))
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, cell(tab, "eye", EYE))
    assert session.hidden == {"seam", "eye"}
    assert session.selection.shapes == {"seam", "eye"}


def test_a_drag_from_a_lock_selects_nothing(qtbot: QtBot, session: ShotSession, tab: ShapesTab) -> None:
    view = tab.tree.viewport()
    qtbot.mousePress(view, LEFT, NONE, cell(tab, "seam", LOCK))
    qtbot.mouseMove(view, cell(tab, "eye", NAME))
    qtbot.mouseRelease(view, LEFT, NONE, cell(tab, "eye", NAME))
    assert session.locked == {"seam"}
    assert session.selection.shapes == set()


def test_a_shape_that_is_selected_in_the_viewer_comes_into_sight(
    qtbot: QtBot, session: ShotSession, tab: ShapesTab
) -> None:
    document = session.document
    assert document is not None
    many = tuple(replace(document.shape("eye"), name=f"prop_{number:02d}") for number in range(40))
    session.edits.push("test", replace(session.state, document=replace(document, shapes=document.shapes + many)))
    port = tab.tree.viewport().rect()
    assert not port.intersects(tab.tree.visualItemRect(tab.row_of("prop_39")))
    session.select("prop_39")
    qtbot.waitUntil(lambda: port.contains(cell(tab, "prop_39", NAME)), timeout=20_000)
    session.select("seam")
    qtbot.waitUntil(lambda: port.contains(cell(tab, "seam", NAME)), timeout=20_000)
