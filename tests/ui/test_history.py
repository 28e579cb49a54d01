"""The History tab with real clicks: to a step, on to a later one, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import move_points
from .mouse import CTRL, LEFT, places

K = Qt.Key


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A panel with the results of a run and three steps, and the History tab in front."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    for n in range(3):
        move(panel.session, f"move {n}")
    panel.inspector.setCurrentWidget(panel.inspector.history)
    return panel


def move(session: ShotSession, label: str) -> None:
    document = session.state.document
    assert document is not None
    session.edits.push(label, replace(session.state, document=move_points(document, "seam", [1001], {0}, 1, 0)))


def click(qtbot: QtBot, panel: Panel, row: int) -> None:
    steps = panel.inspector.history.list
    qtbot.mouseClick(steps.viewport(), LEFT, pos=steps.visualItemRect(steps.item(row)).center())


def rows(panel: Panel) -> list[str]:
    steps = panel.inspector.history.list
    return [steps.item(row).text() for row in range(steps.count())]


def test_a_click_goes_to_a_step_and_on_to_a_later_one(qtbot: QtBot, shot: Panel) -> None:
    assert rows(shot) == ["As it was opened", "1  Move 0", "2  Move 1", "3  Move 2"]
    click(qtbot, shot, 1)
    assert places(shot.session)[0][0] == 11.0
    assert rows(shot) == ["As it was opened", "1  Move 0", "2  Move 1", "3  Move 2"]  # undone steps stay in sight
    assert shot.inspector.history.list.currentRow() == 1
    assert shot.status.text.text() == "History: move 0"
    click(qtbot, shot, 3)
    assert places(shot.session)[0][0] == 13.0
    click(qtbot, shot, 0)
    assert places(shot.session)[0][0] == 10.0
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL | Qt.KeyboardModifier.ShiftModifier)  # redo
    assert shot.inspector.history.list.currentRow() == 1


def test_a_new_step_takes_the_place_of_those_ahead(qtbot: QtBot, shot: Panel) -> None:
    click(qtbot, shot, 1)
    move(shot.session, "another")
    assert rows(shot) == ["As it was opened", "1  Move 0", "2  Another"]


def test_many_steps_are_one_change(qtbot: QtBot, shot: Panel) -> None:
    reported: list[int] = []
    shot.session.listeners.append(lambda: reported.append(1))
    shot.session.edits.go_to_step(0)
    assert len(reported) == 1
    assert shot.session.edits.go_to_step(0) is None


def test_the_history_does_not_change_during_a_drag(qtbot: QtBot, shot: Panel) -> None:
    shot.session.edits.begin("drag")
    shot.session.edits.preview(replace(shot.session.state, names={"seam": "join"}))
    click(qtbot, shot, 1)
    assert shot.inspector.history.list.currentRow() == 3
    assert places(shot.session)[0][0] == 13.0
    shot.session.edits.abort()


def test_a_step_that_only_the_closed_project_knows_is_reported(qtbot: QtBot, shot: Panel, out: Path) -> None:
    shot.session.start_project(out / "a.rotopaint")
    move(shot.session, "move")
    path = shot.session.project.path
    assert path is not None
    shot.session.open_project(path)
    shot.session.close()
    assert shot.session.edits.can_undo
    state = shot.session.state
    shot.canvas.setFocus()
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert shot.session.state is state
    assert shot.status.text.text().startswith("This step lies in the project file, which is closed")
