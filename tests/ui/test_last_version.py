"""What changed since the last save or run: shapes and clean plate of then, and their difference, by real keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from rotopaint_ui.engine.frame_cache import CLEAN
from rotopaint_ui.panel.panel import Panel

from .conftest import grabbed
from .mouse import CTRL, NONE, SHIFT

K, KeyboardModifier = Qt.Key, Qt.KeyboardModifier


def middle(panel: Panel) -> list[int]:
    """The colour at a place of the plate where nothing is drawn."""
    spot = panel.canvas.view.to_screen(40, 40).toPoint()
    return [int(value) for value in grabbed(panel.canvas)[spot.y(), spot.x()]]


def test_shift_d_shows_what_changed_since_the_last_render(
    qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preview is 5 codes brighter in red than the clean plate on disk; the plate plays no part."""
    said, last, now = shot.status.text, *(QImage(64, 48, QImage.Format.Format_RGB32) for _ in range(2))
    last.fill(QColor(40, 50, 60))
    now.fill(QColor(45, 50, 60))
    shot.session.painting.show({})
    qtbot.keyClick(shot.canvas, K.Key_D, SHIFT)
    assert said.text() == "No clean plate was rendered yet: there is nothing to compare with"
    shot.session.painting.note([1001], shot.session.state)
    own = shot.frame_cache.own_image
    monkeypatch.setattr(shot.frame_cache, "own_image", lambda name, frame: last if name == CLEAN else own(name, frame))
    monkeypatch.setattr(shot.previewer, "refresh", lambda: None)  # the engine has no say here
    qtbot.keyClick(shot.canvas, K.Key_P, SHIFT)
    qtbot.keyClick(shot.canvas, K.Key_D, SHIFT)
    assert shot.previewer.is_on
    shot.frame_cache.replace_picture(CLEAN, (1001, now))
    assert middle(shot) == [20, 0, 0]
    qtbot.keyClick(shot.canvas, K.Key_S, CTRL)
    qtbot.keyPress(shot.canvas, K.Key_U, SHIFT)
    assert middle(shot) == [0, 0, 0]  # the last render against itself
    qtbot.keyRelease(shot.canvas, K.Key_U)
    qtbot.keyClick(shot.canvas, K.Key_D, SHIFT)
    assert not shot.canvas.against_last
    assert not shot.commands["difference"].isChecked()
    assert middle(shot) == [45, 50, 60]
    qtbot.keyPress(shot.canvas, K.Key_U, SHIFT)
    assert middle(shot) == [40, 50, 60]
    qtbot.keyRelease(shot.canvas, K.Key_U)
    assert middle(shot) == [45, 50, 60]


@pytest.mark.parametrize("off", [(K.Key_D, SHIFT), (K.Key_D, NONE), (K.Key_QuoteLeft, NONE), (K.Key_P, SHIFT)])
@pytest.mark.parametrize("shows_clean", [False, True])
def test_the_preview_goes_with_the_difference_that_brought_it(
    qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch, off: tuple[K, KeyboardModifier], shows_clean: bool
) -> None:
    monkeypatch.setattr(shot.previewer, "refresh", lambda: None)
    shot.session.painting.note([1001], shot.session.state)
    if shows_clean:
        qtbot.keyClick(shot.canvas, K.Key_QuoteLeft)
    qtbot.keyClick(shot.canvas, K.Key_D, SHIFT)
    assert shot.previewer.is_on
    qtbot.keyClick(shot.canvas, *off)
    assert (shot.previewer.is_on, shot.canvas.has_difference, shot.canvas.against_last) == (False, False, False)
    assert not any(shot.commands[name].isChecked() for name in ("preview_seam", "difference", "difference_last"))
    assert shot.canvas.shows_clean == (shows_clean and off[0] == K.Key_D)


def test_shift_u_holds_the_shapes_of_the_last_save(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    qtbot.keyClick(shot.canvas, K.Key_S, CTRL)
    saved = session.document
    session.select("eye")
    for _ in range(2):
        qtbot.keyClick(shot.canvas, K.Key_E)
    assert session.document != saved
    qtbot.keyPress(shot.canvas, K.Key_U, SHIFT)
    assert shot.canvas.before is saved
    qtbot.keyRelease(shot.canvas, K.Key_U)
    assert shot.canvas.before is None
    qtbot.keyClick(shot.canvas, K.Key_S, CTRL)
    assert session.version is session.document


def test_a_key_that_is_held_down_is_one_press(shot: Panel) -> None:
    """Otherwise keyboard repeats would switch the view on and off."""
    assert not any(shot.commands[name].autoRepeat() for name in ("before", "last_version", "play"))
    assert shot.commands["next"].autoRepeat()


def test_the_preview_says_that_it_is_one(qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shot.previewer, "refresh", lambda: None)
    qtbot.keyClick(shot.canvas, K.Key_P, SHIFT)
    assert shot.status.text.text() == "Preview: seams of 1001 painted away, nothing written"
    qtbot.keyClick(shot.canvas, K.Key_P, SHIFT)
    assert shot.status.text.text() == "Preview left"
