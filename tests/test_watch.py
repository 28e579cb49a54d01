"""What a terminal, a log and a machine are told about running work."""

from __future__ import annotations

import io
import re
import signal
from collections.abc import Iterator

import pytest

from rotopaint_ai import watch
from rotopaint_ai.errors import CancelledError
from rotopaint_ai.jobs import BEGINS_ANEW, Cancel, Event
from rotopaint_ai.watch import Bar, ClockOfShares, Countdown, StagedProgress, TerseLines, watch_work


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return _Terminal()


@pytest.fixture
def bar(terminal: _Terminal) -> Iterator[Bar]:
    made = Bar(terminal)
    yield made
    made.close()


def _shown(bar: Bar, terminal: _Terminal) -> str:
    """The bar's text as drawn last, without control codes."""
    bar._progress.refresh()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    return " ".join(re.sub("[━╸╺]+", "-", text.split("\r")[-1]).split())


def test_a_training_is_reported_in_words_and_without_its_tables(bar: Bar, terminal: _Terminal) -> None:
    facts = {"stage": "train", "share": 0.25, "step": 40, "loss": 10.3, "images_per_s": 3.2, "held_out_px": 0.834}
    bar._clock = ClockOfShares(clock := _Clock())
    clock.now += 30
    bar(Event("progress", facts))
    assert re.fullmatch("train [- ]+ 25% 0.83 px off on held-out samples [01]:[0-5][0-9] to go", _shown(bar, terminal))
    bar(Event("progress", {"stage": "train", "share": 0.5, "doing": "export"}))
    assert re.fullmatch("train [- ]+ 50% export 0:[0-5][0-9] to go", _shown(bar, terminal))


def test_a_resumed_training_tells_its_own_time_to_go(bar: Bar, terminal: _Terminal) -> None:
    """Its share counts what was done before, and this process's clock does not."""
    bar(Event("progress", {"stage": "train", "share": 0.4, "eta_s": 3600.0}))
    assert re.fullmatch("train [- ]+ 40% (1:00:00|59:5[0-9]) to go", _shown(bar, terminal))


def test_frames_are_counted_and_timed(bar: Bar, terminal: _Terminal) -> None:
    facts = {"task": "paint", "done": 6, "total": 24, "ms_per_frame": 90.4, "eta_s": None}
    bar(Event("progress", facts))
    assert re.fullmatch("paint [- ]+ 6/24 90 ms/frame", _shown(bar, terminal))


def test_a_shows_frames_are_reported_with_their_shot(bar: Bar, terminal: _Terminal) -> None:
    bar(Event("progress", {"shot": "sh010", "task": "paint", "done": 24, "total": 24, "eta_s": 0.0}))
    assert re.fullmatch("sh010: paint [- ]+ 24/24", _shown(bar, terminal))


def test_work_whose_parts_cannot_be_counted_shows_its_name(bar: Bar, terminal: _Terminal) -> None:
    bar(Event("progress", {"task": "writing shot.nk", "eta_s": 7200.0}))
    assert re.fullmatch("writing shot.nk [- ]+ (2:00:00|1:5[0-9]:[0-9]{2}) to go", _shown(bar, terminal))


def test_the_time_to_go_is_counted_down_between_events() -> None:
    clock = _Clock()
    left = Countdown(65.0, clock)
    clock.now += 5
    assert f"{left}" == "1:00 to go"
    clock.now += 61
    assert f"{left}" == "0:00 to go"
    clock.now += 2
    assert f"{left}" == "longer than usual"
    assert f"{Countdown(None)}" == f"{Countdown(0.0, clock)}" == ""


def test_nothing_is_counted_down_where_all_is_done() -> None:
    left = Countdown(0.0, clock := _Clock())
    clock.now += 1
    assert f"{left}" == ""


def test_the_time_to_go_follows_from_the_share_that_is_over() -> None:
    """By hand: 55 % in 50 seconds leave 41 seconds."""
    left = ClockOfShares(clock := _Clock())
    assert left.left_s(0.05) is None  # too early to tell
    clock.now += 50
    assert left.left_s(0.55) == pytest.approx(50 * 45 / 55)
    assert left.left_s(0.01) is None


def test_a_log_reads_as_the_bar_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TERSE_INTERVAL_S", 0.0)
    lines = TerseLines(stream := io.StringIO())
    lines(Event("progress", {"stage": "train", "share": 0.25, "step": 40, "held_out_px": 0.834}))
    lines(Event("progress", {"task": "exports", "done": 1, "total": 3, "eta_s": 4.0}))
    assert stream.getvalue().splitlines() == [
        "train: 25%, 0.83 px off on held-out samples",
        "exports: 1 of 3, 0:04 to go",
    ]


def test_stages_in_turn_make_one_share() -> None:
    reported: list[Event] = []
    progress = StagedProgress({"reading roto": 10, "fitting splines": 30}, reported.append)
    progress("reading roto", 1, 2)
    progress("fitting splines", 1, 2)
    progress("fitting splines", 2, 2)
    assert [(each.facts["stage"], each.facts["share"]) for each in reported] == [
        ("reading roto", 0.125),
        ("fitting splines", 0.625),
        ("fitting splines", 1.0),
    ]


def test_work_in_stages_stops_when_asked() -> None:
    cancel = Cancel(BEGINS_ANEW)
    progress = StagedProgress({"reading": 1}, lambda event: None, cancel.check)
    progress("reading", 0, 1)
    cancel.request()
    with pytest.raises(CancelledError, match="the same command begins anew"):
        progress("reading", 1, 1)


def test_an_interrupt_requests_a_stop_and_clears_the_bar(monkeypatch: pytest.MonkeyPatch, terminal: _Terminal) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    with watch_work(events=False) as (sink, cancel):
        sink(Event("progress", {"stage": "mine", "share": 0.5}))
        signal.raise_signal(signal.SIGINT)
        assert cancel.is_requested
    assert isinstance(sink, Bar)
    assert not sink._progress.live.is_started
