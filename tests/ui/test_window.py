"""Memory that two processes look through, and the pixel readout that asks the decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from rotopaint_ui.engine import shared_memory
from rotopaint_ui.engine.decoder import Decoder
from rotopaint_ui.engine.frame_cache import PLATE, FrameCache
from rotopaint_ui.engine.shared_memory import SharedMemoryReader, SharedMemoryWriter

from .conftest import FakeHost, code, write_plate


def test_what_is_put_in_comes_out_and_the_name_is_gone() -> None:
    outlet, inlet = SharedMemoryWriter(), SharedMemoryReader()
    room = outlet.room(1000)
    assert room is not None
    memory, name = room
    memory[:] = bytes(range(250)) * 4
    assert bytes(inlet.view(name, 1000)) == bytes(range(250)) * 4
    assert not Path(name).exists()
    again = outlet.room(600)
    assert again is not None
    assert again[1] == name
    again[0][:3] = b"new"
    assert bytes(inlet.view(name, 3)) == b"new"
    larger = outlet.room(5000)
    assert larger is not None
    assert larger[1] != name
    assert len(inlet.view(larger[1], 5000)) == 5000
    del memory, again, larger, room
    outlet.close()
    inlet.close()


def test_without_memory_the_picture_goes_through_the_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(size: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(shared_memory, "_make_window", full)
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": write_plate(tmp_path / "p")})
    ask = {"ask": "frame", "plate": PLATE, "frame": 1002, "look": [0.0, 1.0, "Un-tone-mapped"], "window": True}
    facts, picture = decoder.answer(ask)
    assert "window" not in facts
    assert facts["bytes"] == len(picture) == 64 * 48 * 3
    assert np.frombuffer(picture, np.uint8).reshape(48, 64, 3)[30, 30].tolist() == [code(1002)] * 3


def test_a_pixel_is_read_as_the_plate_holds_it_whatever_the_look(tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.answer({"ask": "open", "plate": PLATE, "source": write_plate(tmp_path / "p")})
    ask = {"ask": "pixel", "plate": PLATE, "frame": 1001, "look": [3.0, 0.5, "Un-tone-mapped"]}
    grey = ((code(1001) / 255 + 0.055) / 1.055) ** 2.4  # IEC 61966-2-1
    assert decoder.answer({**ask, "x": 30, "y": 30})[0]["values"] == pytest.approx([grey] * 3, rel=1e-5)
    assert decoder.answer({**ask, "x": 10, "y": 5})[0]["values"] == pytest.approx([1.0] * 3)
    assert decoder.answer({**ask, "x": 64, "y": 5})[0]["values"] == []
    decoder.close()


def test_the_frame_cache_reads_pictures_and_pixels_from_the_process(qtbot: QtBot, tmp_path: Path) -> None:
    frame_cache = FrameCache()
    frame_cache.use(FakeHost().engine())
    with qtbot.waitSignal(frame_cache.opened, timeout=120_000):
        frame_cache.open(PLATE, write_plate(tmp_path / "p"))
    with qtbot.waitSignal(frame_cache.image_ready, timeout=120_000):
        frame_cache.want([(PLATE, 1003)])
    image = frame_cache.image(PLATE, 1003)
    assert image is not None
    grey = QColor(code(1003), code(1003), code(1003))
    assert (image.pixelColor(10, 5), image.pixelColor(40, 30)) == (QColor(255, 255, 255), grey)
    reported: list[tuple[object, ...]] = []
    frame_cache.pixel_ready.connect(lambda *facts: reported.append(facts))
    frame_cache.ask_pixel(PLATE, 1003, 10, 5)
    qtbot.waitUntil(lambda: bool(reported), timeout=120_000)
    assert reported == [(PLATE, 1003, 10, 5, pytest.approx((1.0, 1.0, 1.0)))]
    frame_cache.shut_down()
