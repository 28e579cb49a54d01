"""The studio's own OCIO config: its views in the list, what they show, and what is said where it is of no use."""

from __future__ import annotations

import copy
from pathlib import Path

import PyOpenColorIO as ocio
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rotopaint_ui.engine.decoder import Decoder
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel

from .conftest import FakeHost, code, write_plate

VIEW = "studio: Projector / Half"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A studio's config, named by $OCIO, whose only view halves the scene-linear light."""
    made = copy.deepcopy(ocio.Config.CreateFromBuiltinConfig("cg-config-v1.0.0_aces-v1.3_ocio-v2.1"))
    half = ocio.GroupTransform()
    half.appendTransform(ocio.ColorSpaceTransform("ACES2065-1", "Linear Rec.709 (sRGB)"))
    half.appendTransform(ocio.MatrixTransform([0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 1]))
    space = ocio.ColorSpace(name="half", referenceSpace=ocio.REFERENCE_SPACE_SCENE)
    space.setTransform(half, ocio.COLORSPACE_DIR_FROM_REFERENCE)
    made.addColorSpace(space)
    made.addDisplayView("Projector", "Half", "half", "")
    made.setActiveDisplays("Projector")
    made.setActiveViews("Half")
    path = tmp_path / "studio.ocio"
    path.write_text(made.serialize())
    monkeypatch.setenv("OCIO", str(path))
    return path


def test_a_view_of_the_studio_is_chosen_and_shown(qtbot: QtBot, config: Path, tmp_path: Path) -> None:
    panel = Panel(FakeHost())
    qtbot.addWidget(panel)
    panel.show()
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(write_plate(tmp_path / "p")), tmp_path / "out")
    box = panel.view_bar.view
    qtbot.waitUntil(lambda: box.findText(VIEW) >= 0, timeout=60_000)
    assert box.findText("Un-tone-mapped (sRGB)") >= 0
    box.setFocus()
    qtbot.keyClick(box, Qt.Key.Key_End)
    assert box.currentText() == VIEW
    light = ((code(1001) / 255 + 0.055) / 1.055) ** 2.4  # IEC 61966-2-1, code above its foot

    def shown() -> int:
        image = panel.frame_cache.image(PLATE, 1001)
        return -1 if image is None else image.pixelColor(40, 30).red()

    qtbot.waitUntil(lambda: abs(shown() - 255 * light / 2) <= 1, timeout=60_000)
    QApplication.processEvents()
    panel.shut_down()


def test_a_view_that_cannot_be_shown_breaks_no_frame_for_the_others(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "raw.ocio"
    path.write_text(ocio.Config.CreateRaw().serialize())
    monkeypatch.setenv("OCIO", str(path))
    panel = Panel(FakeHost())
    qtbot.addWidget(panel)
    panel.show()
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(write_plate(tmp_path / "p")), tmp_path / "out")
    box, pictures = panel.view_bar.view, panel.frame_cache
    qtbot.waitUntil(lambda: box.findText("studio:", Qt.MatchFlag.MatchStartsWith) >= 0, timeout=60_000)
    box.setFocus()
    qtbot.keyClick(box, Qt.Key.Key_End)
    qtbot.waitUntil(lambda: (PLATE, 1001) in pictures.broken, timeout=60_000)
    assert "aces_interchange" in panel.status.text.text()
    box.setFocus()
    qtbot.keyClick(box, Qt.Key.Key_Home)
    qtbot.waitUntil(lambda: pictures.look_of(PLATE, 1001) == pictures.look, timeout=60_000)
    assert pictures.broken == {}
    panel.shut_down()


def test_a_config_that_is_of_no_use_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broken.ocio"
    path.write_text("nothing of OCIO\n")
    monkeypatch.setenv("OCIO", str(path))
    decoder = Decoder()
    facts, _ = decoder.answer({"ask": "views"})
    assert "Un-tone-mapped" in facts["views"]
    assert facts["studio"]["views"] == []
    assert str(path) in facts["studio"]["trouble"]
    assert "\n" not in facts["studio"]["trouble"]
    path.write_text(ocio.Config.CreateRaw().serialize())
    path = path.rename(tmp_path / "raw.ocio")
    monkeypatch.setenv("OCIO", str(path))
    decoder.answer({"ask": "open", "plate": PLATE, "source": write_plate(tmp_path / "p")})
    (view,) = decoder.answer({"ask": "views"})[0]["studio"]["views"][:1]
    facts, _ = decoder.answer({"ask": "frame", "plate": PLATE, "frame": 1001, "look": [0.0, 1.0, view]})
    assert "aces_interchange" in facts["error"]
    monkeypatch.delenv("OCIO")
    facts, _ = decoder.answer({"ask": "frame", "plate": PLATE, "frame": 1001, "look": [0.0, 1.0, view]})
    assert "choose another" in facts["error"]
    decoder.close()
