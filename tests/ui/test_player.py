"""Playing: the clock is kept, frames that are late are dropped, and the cache keeps to its budget."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from rotopaint_ui.drawing.render import Overlay
from rotopaint_ui.engine.frame_cache import PLATE, DisplayLook, FrameCache
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.player import Player
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import FRAMES, grabbed, picture


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def player(qtbot: QtBot, session: ShotSession, frame_cache: FrameCache) -> Iterator[tuple[Player, Clock, QObject]]:
    """A player of the shot at 24 frames per second without a timer: the test calls `tick`."""
    clock, parent = Clock(), QObject()
    player = Player(session, frame_cache, parent, clock)
    player.play(True)
    player._timer.setInterval(10**6)
    for frame in FRAMES:
        frame_cache._images[PLATE, frame] = (DisplayLook(), picture())
    yield player, clock, parent
    player.play(False)


def test_playing_keeps_the_clock_and_comes_round(session: ShotSession, player: tuple[Player, Clock, QObject]) -> None:
    play, clock, _ = player
    seen = []
    for _ in range(13):
        play.tick()
        seen.append(session.frame)
        clock.now += 1 / 24 + 1e-9
    assert seen == [1001, 1002, 1003, 1004, 1005, 1006, *range(1001, 1007), 1001]


def test_frames_that_are_not_there_in_time_are_dropped_and_the_clock_goes_on(
    session: ShotSession, frame_cache: FrameCache, player: tuple[Player, Clock, QObject]
) -> None:
    play, clock, _ = player
    for frame in (1002, 1003, 1005):
        del frame_cache._images[PLATE, frame]
    play.tick()
    clock.now += 2.5 / 24  # 1003 is due, and is not there; nor is 1002
    play.tick()
    assert session.frame == 1001
    clock.now += 2 / 24  # 1005 is due; the newest that can be shown is the hole before it
    play.tick()
    assert session.frame == 1004
    clock.now += 1 / 24
    play.tick()
    assert session.frame == 1006
    assert [dropped for _, dropped in play._shown] == [2, 1]


def test_the_rate_is_measured_over_a_second_and_shown(
    canvas: Canvas, session: ShotSession, player: tuple[Player, Clock, QObject]
) -> None:
    play, clock, _ = player
    reported: list[tuple[float, int]] = []
    play.measured.connect(lambda shown, dropped: reported.append((shown, dropped)))
    play.measured.connect(canvas.show_rate)
    for _ in range(60):  # every other frame is late: 12 a second, 12 dropped
        clock.now += 2 / 24 + 1e-9
        play.tick()
    assert reported[-1][0] == pytest.approx(12, abs=1)
    assert reported[-1][1] == pytest.approx(12, abs=1)
    canvas.overlay = Overlay(splines=False, landmarks=False)
    session.go_to(1001)
    assert grabbed(canvas)[10:30, 480:].max() > 200
    play.play(False)
    assert reported[-1] == (0.0, 0)
    assert (grabbed(canvas)[10:30, 480:] == 0x40).all()


def test_a_range_is_played_over_and_over_and_a_jump_is_followed(
    session: ShotSession, player: tuple[Player, Clock, QObject]
) -> None:
    play, clock, _ = player
    play.set_range(1005, 1002)
    assert play.range == (1002, 1005)
    seen = []
    for _ in range(6):
        play.tick()
        seen.append(session.frame)
        clock.now += 1 / 24 + 1e-9
    assert seen == [1002, 1003, 1004, 1005, 1002, 1003]
    session.go_to(1005)
    clock.now += 5.0  # the artist went elsewhere: no leap to where the clock would be
    play.tick()
    assert session.frame == 1005
    assert play.play(False) is False


def test_the_cache_keeps_to_its_budget_and_drops_the_oldest(frame_cache: FrameCache) -> None:
    for frame in range(1, 40):
        frame_cache._images[PLATE, frame] = (DisplayLook(), picture())
    one = picture().sizeInBytes()
    frame_cache.image(PLATE, 1)  # seen just now
    frame_cache.set_budget(5 * one)
    assert frame_cache.cached_bytes == 5 * one
    assert [frame for _, frame in frame_cache._images] == [36, 37, 38, 39, 1]
    frame_cache.set_budget(0)
    assert len(frame_cache._images) == 1


def test_in_and_out_bound_what_is_played_and_edited(panel: Panel, facts: PlateFacts) -> None:
    panel.session.open(facts)
    ranges = []
    for frame, command in ((1002, "range_in"), (1005, "range_out"), (1006, "range_in"), (1003, "range_out")):
        panel.session.go_to(frame)
        panel.commands[command].trigger()
        assert panel.session.span == panel.player.range
        ranges.append(panel.player.range)
    assert ranges == [(1002, 1006), (1002, 1005), (1006, 1006), (1003, 1003)]
    panel.commands["range_all"].trigger()
    assert panel.player.range is None
    panel.canvas.edit("ripple")
    reach = panel.canvas.context.reach
    assert reach is not None
    assert (reach.first, reach.last) == (1001, 1006)
