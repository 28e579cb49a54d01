"""A shape drawn by hand follows its surface, by a real key, with the real engine; places are those of the plate."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes.roto import ControlPoint
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.tools.shape_actions import add_drawn

from .mouse import CTRL, SHIFT, drag

K = Qt.Key
FRAMES = (1001, 1002, 1003, 1004)
STEP = 3.0  # plate pixels to the right in each frame
BOX = tuple(ControlPoint(x, y) for x, y in ((30.0, 30.0), (70.0, 30.0), (70.0, 66.0), (30.0, 66.0)))


@pytest.fixture
def drawn(qtbot: QtBot, panel: Panel, tmp_path: Path) -> Panel:
    """A textured plate that moves to the right, with a box drawn on its first frame and selected."""
    folder = tmp_path / "p"
    folder.mkdir()
    noise = np.random.default_rng(3).uniform(0, 255, (96, 160)).astype(np.float32)
    texture = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 1.5), None, 10, 245, cv2.NORM_MINMAX)
    for k, frame in enumerate(FRAMES):
        moved = cv2.warpAffine(
            texture, np.float32([[1, 0, STEP * k], [0, 1, 0]]), (160, 96), borderMode=cv2.BORDER_WRAP
        )
        cv2.imwrite(str(folder / f"p.{frame}.png"), moved.astype(np.uint8))
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(str(folder / "p.####.png")), tmp_path / "out")
    qtbot.waitUntil(lambda: panel.frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    panel.canvas.setFocus()
    assert add_drawn(panel.canvas.context, BOX, closed=True, frame=1001)
    return panel


def corners(panel: Panel, frame: int) -> list[tuple[float, float]]:
    assert panel.session.document is not None
    return [(p.x, p.y) for p in panel.session.document.shape("hand_matte_1").at(frame)]


def track(qtbot: QtBot, panel: Panel) -> None:
    with qtbot.waitSignal(panel._services.tracker.ended, timeout=120_000):
        qtbot.keyClick(panel.canvas, K.Key_T, CTRL | SHIFT)


def test_a_drawn_shape_follows_the_plate_in_one_step(qtbot: QtBot, drawn: Panel) -> None:
    session = drawn.session
    track(qtbot, drawn)
    assert session.document is not None
    shape = session.document.shape("hand_matte_1")
    assert shape.frames == FRAMES
    assert [shape.keys[frame].source for frame in FRAMES] == ["human", *["propagated"] * 3]
    for k, frame in enumerate(FRAMES):
        for (x, y), p in zip(corners(drawn, frame), BOX):
            assert (x, y) == pytest.approx((p.x + STEP * k, p.y), abs=0.3)
    assert drawn.status.text.text() == "Track: 3 frames followed"
    assert session.edits.undo() == "track"
    assert session.document.shape("hand_matte_1").frames == (1001,)


def test_frames_without_the_surface_are_not_called_followed(qtbot: QtBot, drawn: Panel, tmp_path: Path) -> None:
    for frame in FRAMES[2:]:
        cv2.imwrite(str(tmp_path / "p" / f"p.{frame}.png"), np.full((96, 160), 128, np.uint8))
    track(qtbot, drawn)
    said = drawn.status.text
    assert said.text() == (
        "Track: 1 frame followed; the surface was not found on 1003-1004, which got no keys: key it there, track again"
    )
    assert said.property("kind") == "good"
    assert drawn.session.document is not None
    assert drawn.session.document.shape("hand_matte_1").frames == (1001, 1002)
    assert corners(drawn, 1004) == corners(drawn, 1002)


def test_keys_of_an_earlier_track_go_where_the_surface_is_lost_now(qtbot: QtBot, drawn: Panel, tmp_path: Path) -> None:
    track(qtbot, drawn)
    cv2.imwrite(str(tmp_path / "p" / "p.1003.png"), np.full((96, 160), 128, np.uint8))
    track(qtbot, drawn)
    assert drawn.session.document is not None
    assert drawn.session.document.shape("hand_matte_1").frames == (1001, 1002, 1004)
    between = (corners(drawn, 1002)[0][0] + corners(drawn, 1004)[0][0]) / 2
    assert corners(drawn, 1003)[0][0] == pytest.approx(between, abs=0.01)


def test_the_track_reports_its_expected_error(drawn: Panel) -> None:
    drawn._services.tracker._tell_end({1002, 1003, 1004}, {"unsure": {"1003": 2.6, "1004": 3.7}, "lost": []})
    assert (
        drawn.status.text.text() == "Track: 3 frames followed; up to 4 px off on 1003-1004: key it there, track again"
    )


def test_a_surface_that_is_found_nowhere_is_trouble(qtbot: QtBot, drawn: Panel, tmp_path: Path) -> None:
    for frame in FRAMES[1:]:
        cv2.imwrite(str(tmp_path / "p" / f"p.{frame}.png"), np.full((96, 160), 128, np.uint8))
    track(qtbot, drawn)
    assert drawn.status.text.text().startswith("Track: 0 frames followed; the surface was not found on 1002-1004")
    assert drawn.status.text.property("kind") == "trouble"


def test_its_feather_line_comes_along(qtbot: QtBot, drawn: Panel) -> None:
    canvas, session = drawn.canvas, drawn.session
    canvas.fit()
    canvas.setFocus()
    qtbot.keyClick(canvas, K.Key_S)
    drag(qtbot, canvas, (30, 30), (26, 28), (22, 26))
    track(qtbot, drawn)
    assert session.document is not None
    (x, y) = session.document.shape("hand_matte_1").feather_at(1001)[0][:2]
    assert x < -4
    assert session.document.shape("hand_matte_1").feather_at(1004)[0][:2] == pytest.approx((x, y), abs=0.3)


def test_a_key_set_where_it_drifts_stays_and_leads_the_rest(qtbot: QtBot, drawn: Panel) -> None:
    session = drawn.session
    track(qtbot, drawn)
    session.go_to(1004)
    qtbot.keyClick(drawn.canvas, K.Key_V)
    qtbot.keyClick(drawn.canvas, K.Key_Down, Qt.KeyboardModifier.AltModifier)  # a pixel down: a person knows better
    session.edits.end_burst()
    track(qtbot, drawn)
    assert corners(drawn, 1004)[0][1] == pytest.approx(31.0, abs=0.3)
    assert corners(drawn, 1003)[0][1] == pytest.approx(30 + 2 / 3, abs=0.3)
    assert corners(drawn, 1001)[0] == (30, 30)


def test_a_group_follows_and_its_transform_corrects_the_drift(qtbot: QtBot, drawn: Panel) -> None:
    """Both shapes of a group follow one track; nudges at 1004 correct its drift, shared over the frames before."""
    session, canvas = drawn.session, drawn.canvas
    small = tuple(ControlPoint(x, y) for x, y in ((80.0, 40.0), (90.0, 40.0), (90.0, 50.0)))
    assert add_drawn(canvas.context, small, closed=True, frame=1001)
    session.select("hand_matte_1", also=("hand_matte_1", "hand_matte_2"))
    qtbot.keyClick(canvas, K.Key_G, CTRL)
    track(qtbot, drawn)
    assert drawn.status.text.text() == "Track: 3 frames followed"
    assert session.document is not None
    for name, place in (("hand_matte_1", BOX[0]), ("hand_matte_2", small[0])):
        shape = session.document.shape(name)
        assert shape.frames == (1001,)
        for k, frame in enumerate(FRAMES):
            assert shape.at(frame)[0][:2] == pytest.approx((place.x + STEP * k, place.y), abs=0.5)
    session.go_to(1004)
    canvas.setFocus()
    qtbot.keyClick(canvas, K.Key_V)
    drifted = corners(drawn, 1004)[0]
    for _ in range(3):
        qtbot.keyClick(canvas, K.Key_Down, Qt.KeyboardModifier.AltModifier)
    session.edits.end_burst()
    assert corners(drawn, 1004)[0] == pytest.approx((drifted[0], drifted[1] + 3))
    assert corners(drawn, 1001)[0] == (30, 30)
    assert corners(drawn, 1002)[0][1] == pytest.approx(31, abs=0.4)  # a third of the way
    track(qtbot, drawn)  # from 1004, where it is right now: keys and the correction stay
    assert corners(drawn, 1001)[0] == (30, 30)
    assert [session.edits.undo() for _ in range(3)] == ["track group", "nudge group", "track group"]


def test_it_says_why_it_does_nothing_and_escape_stops_it(qtbot: QtBot, drawn: Panel) -> None:
    before = drawn.session.state
    qtbot.keyClick(drawn.canvas, K.Key_T, CTRL | SHIFT)
    assert drawn._services.tracker.is_running
    qtbot.keyClick(drawn.canvas, K.Key_Escape)
    assert not drawn._services.tracker.is_running
    assert drawn.session.state is before
    assert "stopped" in drawn.status.text.text()
    drawn.session.select(None)
    qtbot.keyClick(drawn.canvas, K.Key_T, CTRL | SHIFT)
    assert drawn.status.text.text().startswith("Select the shapes")


def test_a_shape_of_the_models_is_left_to_them(qtbot: QtBot, shot: Panel) -> None:
    shot.session.select("seam")
    shot._services.tracker.track(PlateChoice("plate"))
    assert "the models make it" in shot.status.text.text()
