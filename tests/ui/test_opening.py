"""Plates that are refused or cannot be opened leave the shot as it was, on the screen and for the next run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes import edit
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.project_file import look_at_witnesses
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.standalone.app import MainWindow

from .conftest import write_plate


def open_shot(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> PlateFacts:
    panel.open_plate(PlateChoice(plate, "1001-1003", "sRGB"), out)
    qtbot.waitUntil(
        lambda: panel.session.project.path is not None and panel.frame_cache.has(PLATE, 1001), timeout=120_000
    )
    assert panel.session.plate is not None
    panel.opening._looking.wait()
    return panel.session.plate


def grey(panel: Panel) -> int:
    """The screen code of a pixel of the flat plate at 1001."""
    image = panel.frame_cache.image(PLATE, 1001)
    assert isinstance(image, QImage)
    return image.pixelColor(40, 30).red()


def test_what_was_open_is_found_again_from_another_folder(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(plate).parent
    monkeypatch.chdir(folder.parent)
    open_shot(qtbot, panel, f"{folder.name}/{Path(plate).name}", out)
    assert panel.preferences.recent == (plate,)


@pytest.mark.parametrize(("command", "inside"), [("open", "shot/plates"), ("open_project", "out")])
def test_dialogs_begin_where_the_last_shot_lies(
    qtbot: QtBot, window: MainWindow, plate: str, out: Path, tmp_path: Path, command: str, inside: str
) -> None:
    open_shot(qtbot, window.panel, plate, out)
    window.panel.commands[command].trigger()
    dialog = window.findChild(QFileDialog)
    assert dialog is not None
    assert Path(dialog.directory().absolutePath()) == tmp_path / inside
    dialog.close()


def test_a_refused_plate_leaves_the_pictures_of_the_open_one(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    shot, other = open_shot(qtbot, panel, plate, out), write_plate(tmp_path / "other", add=60)
    panel.session.project.take_witnesses(look_at_witnesses(shot))
    before, choice = grey(panel), panel.choice
    panel.opening.relink(other)
    qtbot.waitUntil(lambda: "holds other pictures" in panel.status.text.text(), timeout=120_000)
    qtbot.waitUntil(
        lambda: panel.frame_cache.has(PLATE, 1001) and panel.frame_cache.thumb(1003) is not None, timeout=120_000
    )
    assert grey(panel) == before
    assert panel.session.plate == shot
    assert panel.choice == choice
    panel.opening.relink(plate)  # the plate itself is taken as ever
    qtbot.waitUntil(
        lambda: "Drag a box" in panel.status.text.text() or "last run" in panel.status.text.text(), timeout=120_000
    )
    assert panel.choice == PlateChoice(plate, colourspace="sRGB")


def test_a_plate_that_cannot_be_opened_gives_nothing_to_the_next_run(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    shot = open_shot(qtbot, panel, plate, out)
    n_said = len(panel.status.history)
    panel.open_plate(PlateChoice(str(tmp_path / "none.####.exr"), "7-9", "Raw"))
    qtbot.waitUntil(lambda: any("⚠" in line for line in panel.status.history[n_said:]), timeout=120_000)
    assert panel.session.plate == shot
    assert panel.choice == PlateChoice(plate, "1001-1003", "sRGB")


def begun(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> Path:
    """A project with a mark and with the sizes and times of its plate's files."""
    open_shot(qtbot, panel, plate, out)
    project = panel.session.project.path
    assert project is not None
    assert panel.session.plate is not None
    panel.session.project.take_witnesses(look_at_witnesses(panel.session.plate))
    panel.session.review.mark([1002], "accepted")
    return project


def test_a_project_without_its_plate_shows_nothing_of_the_shot_before_it(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    project = begun(qtbot, panel, plate, out)
    open_shot(qtbot, panel, write_plate(tmp_path / "before", add=60), tmp_path / "before_out")
    shapes = tmp_path / "before_out" / "shapes.roto.json"
    Path(plate).parent.rename(tmp_path / "moved")
    panel.open_path(str(project))
    qtbot.waitUntil(lambda: "Relink the plate tells" in panel.status.text.text(), timeout=120_000)
    session = panel.session
    assert session.state.marks == {1002: "accepted"}
    assert (session.plate, panel.choice, panel.timeline.axis) == (None, None, None)
    assert (panel.frame_cache.image(PLATE, 1001), panel.frame_cache.thumb(1001)) == (None, None)
    assert (panel.top.facts.text(), panel.top.facts.toolTip()) == ("waits for its plate", "")
    assert panel.canvas._waiting.isVisible()
    assert project.name in panel.canvas._waiting._text.text()
    picture = panel.canvas.grab().toImage()
    assert picture.pixelColor(5, 5) == picture.pixelColor(picture.width() - 6, picture.height() - 6)
    panel.run()
    assert "Open a plate first" in panel.status.text.text()
    panel.autosave.save()
    assert not shapes.exists()  # the shapes of this project are not written into the other shot's folder
    panel.opening.relink(str(tmp_path / "moved" / "plate.1001.png"))
    qtbot.waitUntil(lambda: session.plate is not None and panel.frame_cache.has(PLATE, 1001), timeout=120_000)
    assert session.project.path == project
    assert not panel.canvas._waiting.isVisible()


def test_the_look_of_one_plate_never_goes_into_the_project_of_another(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    project = begun(qtbot, panel, plate, out)
    other = open_shot(qtbot, panel, write_plate(tmp_path / "other", add=60), tmp_path / "other_out")
    late = other, look_at_witnesses(other)
    Path(plate).parent.rename(tmp_path / "moved")
    session = panel.session
    panel.open_path(str(project))
    panel.opening._take_witnesses(late)
    panel.opening.relink(str(tmp_path / "moved" / "plate.1001.png"))
    qtbot.waitUntil(lambda: session.plate is not None, timeout=120_000)
    assert (session.project.path, session.state.marks) == (project, {1002: "accepted"})


def test_another_plate_opens_a_new_shot_and_a_moved_one_is_recognised(
    qtbot: QtBot, panel: Panel, plate: str, out: Path, tmp_path: Path
) -> None:
    project = begun(qtbot, panel, plate, out)
    Path(plate).parent.rename(tmp_path / "moved")
    session = panel.session
    panel.open_path(str(project))
    qtbot.waitUntil(lambda: session.project.awaits_plate and "Relink" in panel.status.text.text(), timeout=120_000)
    panel.open_path(write_plate(tmp_path / "other", add=60))
    qtbot.waitUntil(lambda: session.plate is not None and session.project.path is not None, timeout=120_000)
    assert session.project.path != project
    assert session.state.marks == {}
    assert any(f"{project.name} was closed: plate is not its plate" in line for line in panel.status.history)
    panel.open_path(str(project))
    qtbot.waitUntil(lambda: session.project.awaits_plate and "Relink" in panel.status.text.text(), timeout=120_000)
    panel.open_path(str(tmp_path / "moved" / "plate.1001.png"))  # dropped, not relinked
    qtbot.waitUntil(lambda: session.plate is not None, timeout=120_000)
    assert (session.project.path, session.state.marks) == (project, {1002: "accepted"})


def test_a_torn_project_is_untouched_and_reported_while_nothing_is_saved(
    qtbot: QtBot, panel: Panel, plate: str, out: Path
) -> None:
    """The message used to be replaced by the next one, so that the work looked saved."""
    torn = out / "plate.rotopaint"
    torn.write_bytes(b"SQLite format 3\0" + bytes(5000))
    panel.open_plate(PlateChoice(plate, "1001-1003", "sRGB"), out)
    qtbot.waitUntil(lambda: panel.session.document is not None, timeout=120_000)
    assert "plate.rotopaint: is damaged" in panel.status.text.text()
    session = panel.session
    document = session.document
    assert document is not None
    wide = edit.replace_shape(document, "seam", replace(document.shape("seam"), width_px=9.0))
    session.edits.push("seam", replace(session.state, document=wide))
    panel.autosave.save()
    panel._updates.refresh_slow()
    assert panel.status.saved.text() == "Not saved"
    assert "rename it and open the plate" in panel.status.saved.toolTip()
    assert torn.read_bytes() == b"SQLite format 3\0" + bytes(5000)
    panel.open_plate(PlateChoice(plate, "1001-1003", "sRGB"), out.parent / "another")
    qtbot.waitUntil(lambda: session.project.path is not None, timeout=120_000)
    assert session.project.trouble is None
