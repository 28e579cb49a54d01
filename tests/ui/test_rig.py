"""A rig under a shape drawn by hand is taken off by one command, with the real engine; what it hides is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes.roto import ControlPoint, Key
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.shot_jobs import RIG
from rotopaint_ui.tools.shape_actions import add_drawn

FRAMES, SIDE, STEP = (1001, 1002, 1003), 20, 40


def corners(k: int) -> tuple[ControlPoint, ...]:
    """A box two pixels wider than the arm, whose position differs in each frame."""
    left, top, side = 20 + STEP * k - 2, 30 - 2, SIDE + 4
    return tuple(ControlPoint(left + x * side, top + y * side) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1)))


@pytest.fixture
def background() -> np.ndarray:
    noise = np.random.default_rng(5).uniform(0, 255, (96, 160, 3)).astype(np.float32)
    return cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 3.0), None, 30, 220, cv2.NORM_MINMAX).astype(np.uint8)


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, tmp_path: Path, background: np.ndarray) -> Panel:
    """A locked camera, and a black arm with a drawn shape around it on every frame."""
    (tmp_path / "p").mkdir()
    for k, frame in enumerate(FRAMES):
        picture = background.copy()
        picture[30 : 30 + SIDE, 20 + STEP * k : 20 + STEP * k + SIDE] = 0
        cv2.imwrite(str(tmp_path / "p" / f"p.{frame}.png"), picture)
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(PlateChoice(str(tmp_path / "p" / "p.####.png")), tmp_path / "out")
    qtbot.waitUntil(lambda: panel.frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    assert add_drawn(panel.canvas.context, corners(0), closed=True, frame=FRAMES[0])
    session = panel.session
    assert session.document is not None
    (arm,) = session.document.shapes
    moving = arm.with_keys({frame: Key(corners(k)) for k, frame in enumerate(FRAMES)})
    session.edits.push("move", replace(session.state, document=replace(session.document, shapes=(moving,))))
    return panel


def test_the_rig_is_removed_and_the_background_restored(
    qtbot: QtBot, shot: Panel, tmp_path: Path, background: np.ndarray
) -> None:
    session = shot.session
    assert session.document is not None
    (arm,) = session.document.shapes
    named = replace(arm, name='the "arm", left')  # as a command line might take apart
    session.edits.push("rename", replace(session.state, document=replace(session.document, shapes=(named,))))
    session.select(named.name)
    with qtbot.waitSignal(shot._services.jobs.ended, timeout=120_000) as ended:
        shot.commands["take_off_rig"].trigger()
    assert ended.args == [RIG, True]
    for k, frame in enumerate(FRAMES):
        made = cv2.imread(str(tmp_path / "out" / "rig" / "clean" / f"p.{frame}.png")).astype(float)
        arm = np.s_[30 : 30 + SIDE, 20 + STEP * k : 20 + STEP * k + SIDE]
        assert np.abs(made[arm] - background[arm]).mean() < 2.0
        outside = np.ones((96, 160), bool)
        outside[24 : 36 + SIDE, 14 + STEP * k : 26 + STEP * k + SIDE] = False
        assert np.array_equal(made[outside], background[outside])
    assert not (tmp_path / "out" / "clean").exists()  # the seams' clean plate is another


def take_off(qtbot: QtBot, shot: Panel) -> None:
    """Remove the arm and flip to the result."""
    assert shot.session.document is not None
    shot.session.select(shot.session.document.shapes[0].name)
    with qtbot.waitSignal(shot._services.jobs.ended, timeout=120_000):
        shot.commands["take_off_rig"].trigger()
    shot.commands["flip"].trigger()


def test_the_viewer_shows_the_frames_without_the_rig(
    qtbot: QtBot, shot: Panel, tmp_path: Path, background: np.ndarray
) -> None:
    take_off(qtbot, shot)
    qtbot.waitUntil(lambda: shot.frame_cache.image(CLEAN, 1001) is not None, timeout=120_000)
    shown = shot.frame_cache.image(CLEAN, 1001)
    assert shown is not None
    blue, green, red = background[40, 30].tolist()
    got = shown.pixelColor(30, 40)
    assert np.allclose((got.red(), got.green(), got.blue()), (red, green, blue), atol=6)  # in the arm's middle
    assert shot.canvas._stack._clean_name() == "without the rig"


def test_the_viewer_shows_what_was_rendered_last(qtbot: QtBot, shot: Panel, tmp_path: Path) -> None:
    take_off(qtbot, shot)
    qtbot.waitUntil(lambda: shot.frame_cache.source(CLEAN).endswith("clean"), timeout=120_000)
    (tmp_path / "out" / "clean").mkdir()
    cv2.imwrite(str(tmp_path / "out" / "clean" / "p.1001.png"), np.full((96, 160, 3), 200, np.uint8))
    shot._services.clean_plate.open()
    qtbot.waitUntil(lambda: shot.frame_cache.source(CLEAN) == str(tmp_path / "out" / "clean"), timeout=120_000)
    qtbot.waitUntil(lambda: shot.frame_cache.image(CLEAN, 1001) is not None, timeout=120_000)
    assert shot.canvas._stack._clean_name() == "clean plate"


def test_a_clean_plate_in_a_folder_named_rig_is_a_clean_plate(qtbot: QtBot, shot: Panel, tmp_path: Path) -> None:
    out = tmp_path / "rig"
    (out / "clean").mkdir(parents=True)
    cv2.imwrite(str(out / "clean" / "p.1001.png"), np.full((96, 160, 3), 200, np.uint8))
    with qtbot.waitSignal(shot.plate_opened, timeout=120_000):
        shot.open_plate(PlateChoice(str(tmp_path / "p" / "p.####.png")), out)
    shot.commands["flip"].trigger()
    qtbot.waitUntil(lambda: shot.frame_cache.image(CLEAN, 1001) is not None, timeout=120_000)
    assert shot.canvas._stack._clean_name() == "clean plate"


def test_a_shot_without_a_run_opens_with_the_shapes_that_were_saved(qtbot: QtBot, shot: Panel, tmp_path: Path) -> None:
    with qtbot.waitSignal(shot.plate_opened, timeout=120_000):
        shot.open_plate(PlateChoice(str(tmp_path / "p" / "p.####.png")), tmp_path / "out")
    qtbot.waitUntil(lambda: "The shapes as they were saved" in shot.status.history[-1], timeout=120_000)


def test_without_a_shape_it_says_what_to_do(shot: Panel) -> None:
    shot.session.select(None)
    shot.commands["take_off_rig"].trigger()
    assert not shot._services.jobs.is_running
    assert "Draw around the rig" in shot.status.history[-1]
