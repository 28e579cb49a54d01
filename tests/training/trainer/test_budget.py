"""The time of a whole command: the reserve for its end, and the time that a resumed one has used."""

from __future__ import annotations

import pytest

from rotopaint_ai.training.trainer.log import LEAST_SHARE, Budget


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_steps_end_where_the_tail_begins() -> None:
    clock = Clock()
    budget = Budget(300.0, began=990.0, now=clock)
    clock.time = 1020.0  # 30 s of loading
    budget.reserve(70.0)
    budget.begin_steps()
    found = []
    for clock.time in (1020.0, 1120.0, 1220.0):  # the command ends at 1290, its steps 70 s before
        found.append((budget.progress(), budget.share(budget.progress())))
    assert found == [(0.0, 0.0), (0.5, pytest.approx(130 / 300)), (1.0, pytest.approx(230 / 300))]
    clock.time = 1250.0
    assert budget.left_s() == pytest.approx(40.0)


def test_a_machine_that_becomes_slower_ends_its_steps_earlier() -> None:
    clock = Clock()
    budget = Budget(100.0, now=clock)
    budget.reserve(20.0)
    budget.begin_steps()
    budget.note_validation(2.0)
    clock.time += 40.0
    assert budget.progress() == pytest.approx(0.5)
    budget.note_validation(4.0)  # twice as long as when the end was reserved
    assert budget.tail_s == pytest.approx(40.0)
    assert budget.progress() == pytest.approx(40 / 60)


def test_a_tail_longer_than_the_command_leaves_some_time_for_steps() -> None:
    clock = Clock()
    budget = Budget(100.0, now=clock)
    budget.reserve(500.0)
    budget.begin_steps()
    clock.time += LEAST_SHARE * 100 / 2
    assert budget.progress() == pytest.approx(0.5)


def test_a_resumed_command_counts_what_its_earlier_life_spent() -> None:
    clock = Clock()
    first = Budget(100.0, now=clock)
    clock.time += 10.0
    first.begin_steps()
    clock.time += 45.0
    assert first.progress() == pytest.approx(0.5)
    state, progress = first.state(), first.progress()
    clock.time += 10_000.0  # the command did not run
    second = Budget(100.0, now=clock)
    second.resume(*state)
    assert second.progress() == pytest.approx(progress)
    assert second.left_s() == pytest.approx(45.0)
    assert second.to_go_s(0.55) == pytest.approx(45.0)  # of 100 s, 55 of them before the resume
    assert second.to_go_s(0.0) is None


def test_steps_alone_count_without_minutes() -> None:
    clock = Clock()
    budget = Budget(None, now=clock)
    budget.begin_steps()
    budget.reserve(10.0)
    clock.time += 30.0
    assert (budget.progress(), budget.left_s()) == (0.0, 0.0)
    assert budget.share(0.75) == pytest.approx(30 / 50)  # ten more of steps, ten of the end
