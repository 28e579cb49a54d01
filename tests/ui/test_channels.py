"""Channels, proxies and the difference: what the decoder sends, and what keys and choices show."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import OpenImageIO as oiio
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from rotopaint_ui.engine.decoder import Decoder
from rotopaint_ui.engine.frame_cache import CHANNELS, CLEAN, PLATE, DisplayLook
from rotopaint_ui.engine.live_client import SeamPreview
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.previewer import compose
from rotopaint_ui.viewer.plate_painter import difference_of

from .conftest import grabbed, write_plate
from .mouse import ALT, CTRL

K = Qt.Key
RED, GREEN, BLUE, ALPHA = 200, 100, 50, 128


def coloured(folder: Path) -> str:
    """A plate of one colour, 64 x 48, 8-bit sRGB with alpha."""
    folder.mkdir(parents=True)
    picture = np.empty((48, 64, 4), np.uint8)
    picture[:] = BLUE, GREEN, RED, ALPHA
    for frame in (1001, 1002):
        cv2.imwrite(str(folder / f"plate.{frame}.png"), picture)
    return str(folder / "plate.####.png")


def shown(decoder: Decoder, channel: str, proxy: int = 1, exposure: float = 0.0) -> np.ndarray:
    look = DisplayLook(exposure, channel=channel, proxy=proxy).json()
    facts, data = decoder.answer({"ask": "frame", "plate": PLATE, "frame": 1001, "look": look})
    assert "error" not in facts, facts
    return np.frombuffer(data, np.uint8).reshape(facts["height"], facts["width"], 3)


def luma_code() -> float:
    """BT.709 luma of the linear colour, as an sRGB code (IEC 61966-2-1)."""
    linear = [((c / 255 + 0.055) / 1.055) ** 2.4 for c in (RED, GREEN, BLUE)]
    y = float(np.dot((0.2126, 0.7152, 0.0722), linear))
    return float(255 * (1.055 * y ** (1 / 2.4) - 0.055))


def test_a_channel_is_shown_in_grey(tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": coloured(tmp_path / "p")})
    wanted = {"R": RED, "G": GREEN, "B": BLUE, "A": ALPHA, "luma": luma_code()}
    for channel, code in wanted.items():
        assert np.abs(shown(decoder, channel).astype(float) - code).max() <= 1, channel
    assert shown(decoder, "RGB")[0, 0].tolist() == [RED, GREEN, BLUE]
    assert shown(decoder, "A", exposure=2.0)[0, 0].tolist() == [ALPHA] * 3  # coverage has no exposure
    assert shown(decoder, "R", exposure=1.0)[0, 0, 0] > RED
    decoder.close()


def test_without_alpha_its_channel_is_black(tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": write_plate(tmp_path / "p")})
    assert shown(decoder, "A").max() == 0
    decoder.close()


def test_alpha_of_half_floats_in_a_data_window(tmp_path: Path) -> None:
    spec = oiio.ImageSpec(20, 10, 4, oiio.HALF)
    spec.x, spec.y, spec.full_x, spec.full_y, spec.full_width, spec.full_height = 8, 4, 0, 0, 64, 48
    pixels = np.zeros((10, 20, 4), np.float32)
    pixels[..., 3] = 0.5
    for frame in (1001, 1002):
        buffer = oiio.ImageBuf(spec)
        buffer.set_pixels(oiio.ROI(8, 28, 4, 14, 0, 1, 0, 4), pixels)
        assert buffer.write(str(tmp_path / f"a.{frame}.exr"))
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": str(tmp_path / "a.####.exr")})
    alpha = shown(decoder, "A")
    assert alpha.shape[:2] == (48, 64)
    assert (alpha[5, 9, 0], alpha[0, 0, 0]) == (128, 0)
    decoder.close()


def test_a_proxy_averages_pixels(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    stripes = np.zeros((48, 64, 3), np.uint8)
    stripes[:, ::2] = 200
    for frame in (1001, 1002):
        cv2.imwrite(str(folder / f"plate.{frame}.png"), stripes)
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": str(folder / "plate.####.png")})
    half = shown(decoder, "RGB", proxy=2)
    assert half.shape == (24, 32, 3)
    assert half[0, 0, 0] == 100
    assert shown(decoder, "RGB", proxy=4).shape == (12, 16, 3)
    decoder.close()


def test_the_difference_is_black_where_nothing_was_painted() -> None:
    plate, clean = (QImage(4, 2, QImage.Format.Format_RGB32) for _ in range(2))
    plate.fill(QColor(100, 100, 100))
    clean.fill(QColor(100, 100, 100))
    clean.setPixelColor(1, 1, QColor(110, 95, 100))
    apart = difference_of(plate, clean)
    assert apart.pixelColor(0, 0) == QColor(0, 0, 0)
    assert apart.pixelColor(1, 1) == QColor(40, 20, 0)  # four times as far


def test_a_preview_lies_where_it_belongs_in_a_proxy_and_a_channel() -> None:
    plate = QImage(32, 24, QImage.Format.Format_RGB32)
    plate.fill(QColor(0, 0, 0))
    preview = SeamPreview(1001, 20, 10, 8, 4, bytes((10, 20, 30)) * 32, b"", 0, 0, 0)
    picture = compose(plate, preview, DisplayLook(channel="G", proxy=2))
    assert picture.pixelColor(11, 6) == QColor(20, 20, 20)
    assert picture.pixelColor(9, 6) == picture.pixelColor(11, 8) == QColor(0, 0, 0)


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, tmp_path: Path) -> Panel:
    """A panel with a coloured plate; its window is active."""
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(coloured(tmp_path / "p"), colourspace="sRGB"), tmp_path / "out")
    qtbot.waitUntil(lambda: panel.frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    panel.take_tool("select")
    panel.canvas.fit()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    panel.canvas.setFocus()
    return panel


def middle(panel: Panel) -> list[int]:
    picture = grabbed(panel.canvas)
    return list(picture[picture.shape[0] // 2, picture.shape[1] // 2])


def test_a_key_shows_a_channel_and_the_same_key_all_of_them(qtbot: QtBot, shot: Panel) -> None:
    qtbot.keyClick(shot.canvas, K.Key_G, CTRL | ALT)
    qtbot.waitUntil(lambda: middle(shot) == [GREEN] * 3, timeout=60_000)
    assert shot.view_bar.channel.currentText() == "G"
    assert shot.commands["channel.G"].isChecked()
    qtbot.keyClick(shot.canvas, K.Key_R, CTRL | ALT)
    qtbot.waitUntil(lambda: middle(shot) == [RED] * 3, timeout=60_000)
    qtbot.keyClick(shot.canvas, K.Key_R, CTRL | ALT)
    qtbot.waitUntil(lambda: middle(shot) == [RED, GREEN, BLUE], timeout=60_000)
    assert not shot.commands["channel.R"].isChecked()


def test_every_channel_has_a_command(panel: Panel) -> None:
    assert [f"channel.{name}" for name in CHANNELS[1:]] == [n for n in panel.commands if n.startswith("channel.")]


def test_a_proxy_fills_the_same_place(qtbot: QtBot, shot: Panel) -> None:
    whole = shot.frame_cache.image(PLATE, 1001)
    assert whole is not None
    shot.view_bar.proxy.setCurrentText("Half")

    def is_half() -> bool:
        image = shot.frame_cache.image(PLATE, 1001)
        return image is not None and (image.width(), image.height()) == (32, 24)

    qtbot.waitUntil(is_half, timeout=60_000)
    assert middle(shot) == [RED, GREEN, BLUE]
    edge = shot.canvas.view.to_screen(63, 47).toPoint()
    assert list(grabbed(shot.canvas)[edge.y(), edge.x()]) == [RED, GREEN, BLUE]


def test_d_shows_what_the_clean_plate_changes(qtbot: QtBot, shot: Panel) -> None:
    clean = QImage(64, 48, QImage.Format.Format_RGB32)
    clean.fill(QColor(RED - 5, GREEN, BLUE + 10))
    shot.frame_cache.replace_picture(CLEAN, (1001, clean))
    qtbot.keyClick(shot.canvas, K.Key_D)
    assert middle(shot) == [20, 0, 40]
    qtbot.keyClick(shot.canvas, K.Key_QuoteLeft)  # the flip goes back to the plate
    assert middle(shot) == [RED, GREEN, BLUE]
    assert not shot.commands["difference"].isChecked()


def test_d_goes_back_to_the_flip_and_the_wipe(qtbot: QtBot, shot: Panel) -> None:
    clean = QImage(64, 48, QImage.Format.Format_RGB32)
    clean.fill(QColor(RED - 5, GREEN, BLUE + 10))
    shot.frame_cache.replace_picture(CLEAN, (1001, clean))
    shot.commands["flip"].trigger()
    qtbot.keyClick(shot.canvas, K.Key_D)
    assert middle(shot) == [20, 0, 40]
    qtbot.keyClick(shot.canvas, K.Key_D)
    assert middle(shot) == [RED - 5, GREEN, BLUE + 10]
    shot.commands["flip"].trigger()
    shot.commands["wipe"].trigger()
    qtbot.keyClick(shot.canvas, K.Key_D)
    assert shot.canvas.wipe is None
    assert middle(shot) == [20, 0, 40]
    qtbot.keyClick(shot.canvas, K.Key_D)
    assert shot.canvas.wipe is not None
    assert not shot.canvas.shows_clean


def colour(panel: Panel, place: tuple[int, int]) -> list[int]:
    spot = panel.canvas.view.to_screen(*place).toPoint()
    return [int(value) for value in grabbed(panel.canvas)[spot.y(), spot.x()]]


def test_w_while_the_difference_is_shown_wipes_plate_and_clean_plate(qtbot: QtBot, shot: Panel) -> None:
    clean = QImage(64, 48, QImage.Format.Format_RGB32)
    clean.fill(QColor(RED - 5, GREEN, BLUE + 10))
    shot.frame_cache.replace_picture(CLEAN, (1001, clean))
    qtbot.keyClick(shot.canvas, K.Key_D)
    qtbot.keyClick(shot.canvas, K.Key_W)
    assert [shot.commands[name].isChecked() for name in ("difference", "flip", "wipe")] == [False, False, True]
    assert not shot.canvas.has_difference
    plate, painted = (colour(shot, place) for place in ((10, 40), (55, 40)))
    assert (plate, painted) == ([RED, GREEN, BLUE], [RED - 5, GREEN, BLUE + 10])
    qtbot.keyClick(shot.canvas, K.Key_W)
    assert middle(shot) == [RED, GREEN, BLUE]
