"""The plate's colour space, chosen by key and click: pictures, facts, project and runs follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from rotopaint_ui.engine.command_lines import run_command
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel

from .conftest import code, write_plate
from .mouse import CTRL, LEFT, SHIFT

K = Qt.Key


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, tmp_path: Path) -> Panel:
    """A plate, open in a project, in front."""
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(write_plate(tmp_path / "p")), tmp_path / "out")
    qtbot.waitUntil(lambda: panel.session.project.path is not None, timeout=120_000)
    qtbot.waitUntil(lambda: panel.frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    panel.canvas.setFocus()
    return panel


def choose(qtbot: QtBot, panel: Panel, name: str) -> None:
    panel.activateWindow()  # without a window system a menu that closes leaves no window active: keys go nowhere
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    qtbot.keyClick(panel.canvas, K.Key_I, CTRL | SHIFT)
    qtbot.waitUntil(lambda: panel.findChild(QMenu, "colourspaces") is not None, timeout=60_000)
    menu = panel.findChild(QMenu, "colourspaces")
    assert isinstance(menu, QMenu)
    entry = next(each for each in menu.actions() if each.text() == name)
    assert panel.choice is not None
    chosen = panel.choice.colourspace or "As the file says"
    assert [each.text() for each in menu.actions() if each.isChecked()] == [chosen]
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        qtbot.mouseClick(menu, LEFT, pos=menu.actionGeometry(entry).center())


def grey(panel: Panel) -> int:
    image = panel.frame_cache.image(PLATE, 1001)
    return -1 if image is None else image.pixelColor(40, 30).red()


def test_another_colour_space_shows_in_the_picture_the_project_and_the_run(qtbot: QtBot, shot: Panel) -> None:
    assert grey(shot) == code(1001)  # 8 bit sRGB on an sRGB display
    choose(qtbot, shot, "linear")
    lines = [line for line in shot.status.history if "Opening" in line or "is read as" in line]
    assert "The plate is read as linear from now on" in lines[-1]  # not before it is
    assert shot.session.plate is not None
    assert shot.session.plate.colourspace == "linear"
    assert "linear" in shot.top.facts.text()
    value = code(1001) / 255
    wanted = round(255 * (1.055 * value ** (1 / 2.4) - 0.055))  # IEC 61966-2-1
    qtbot.waitUntil(lambda: abs(grey(shot) - wanted) <= 1, timeout=60_000)
    assert shot.choice is not None
    words = run_command(shot.session, shot.choice, None, shot.preferences, None)
    assert words[words.index("--colourspace") + 1] == "linear"
    path = shot.session.project.path
    assert path is not None
    shot.session.close()
    assert shot.session.open_project(path).colourspace == "linear"


def test_the_file_decides_again(qtbot: QtBot, shot: Panel) -> None:
    choose(qtbot, shot, "Cineon")
    qtbot.waitUntil(lambda: shot.session.project.is_open and grey(shot) >= 0, timeout=60_000)
    choose(qtbot, shot, "As the file says")
    assert shot.session.plate is not None
    assert shot.session.plate.colourspace == "sRGB"
    assert shot.choice is not None
    assert shot.choice.colourspace is None
