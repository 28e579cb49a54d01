"""Plates that are refused or cannot be opened leave the shot as it was, on the screen and for the next run."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel import Panel
from rotopaint_ui.projects import look_at_witnesses
from rotopaint_ui.reel import PLATE
from rotopaint_ui.session import PlateFacts

from .conftest import write_plate


def open_shot(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> PlateFacts:
    panel.open_plate(PlateChoice(plate, "1001-1003", "sRGB"), out)
    qtbot.waitUntil(lambda: panel.session.project_path is not None and panel.reel.has(PLATE, 1001), timeout=20_000)
    assert panel.session.plate is not None
    panel.opening._looking.wait()
    return panel.session.plate


def grey(panel: Panel) -> int:
    """The screen code of a pixel of the flat plate at 1001."""
    image = panel.reel.image(PLATE, 1001)
    assert isinstance(image, QImage)
    return image.pixelColor(40, 30).red()


def test_a_refused_plate_leaves_the_pictures_of_the_open_one(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    shot, other = open_shot(qtbot, panel, plate, out), write_plate(tmp_path / "other", add=60)
    panel.session.take_witnesses(look_at_witnesses(shot))
    before, choice = grey(panel), panel.choice
    panel.opening.relink(other)
    qtbot.waitUntil(lambda: "holds other pictures" in panel.status.text.text(), timeout=20_000)
    qtbot.waitUntil(lambda: panel.reel.has(PLATE, 1001) and panel.reel.thumb(1003) is not None, timeout=20_000)
    assert grey(panel) == before
    assert panel.session.plate == shot
    assert panel.choice == choice
    panel.opening.relink(plate)  # the plate itself is taken as ever
    qtbot.waitUntil(lambda: "Drag a box" in panel.status.text.text() or "last run" in panel.status.text.text())
    assert panel.choice == PlateChoice(plate, colourspace="sRGB")


def test_a_plate_that_cannot_be_opened_gives_nothing_to_the_next_run(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    shot = open_shot(qtbot, panel, plate, out)
    n_said = len(panel.status.history)
    panel.open_plate(PlateChoice(str(tmp_path / "none.####.exr"), "7-9", "Raw"))
    qtbot.waitUntil(lambda: any("⚠" in line for line in panel.status.history[n_said:]), timeout=20_000)
    assert panel.session.plate == shot
    assert panel.choice == PlateChoice(plate, "1001-1003", "sRGB")
