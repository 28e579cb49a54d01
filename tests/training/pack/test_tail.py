"""Progress events after the last step of a training."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from rotopaint_ai.jobs import Event
from rotopaint_ai.training.pack import prepare
from rotopaint_ai.training.trainer.log import Budget

_PATIENCE_S = 60.0


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_seams_are_tuned_for_no_longer_than_the_recipe_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of 900 s 60 s are the recipe's, where steps end early, and 25 s where 875 s are gone."""
    monkeypatch.setattr(prepare, "_reading_s", lambda ready: prepare._READING_S)
    monkeypatch.setattr(prepare, "_estimate_seconds", lambda ready, seams: {"export": 0.0})
    clock = _Clock()
    ready = cast(Any, type("Ready", (), {"config": type("Config", (), {"seam_minutes": 1.0})}))
    telling = prepare.Tail(ready, Budget(900.0, began=0.0, now=clock), lambda event: None, seams=True)
    clock.now = 3.0
    assert telling.time_for_seams() == pytest.approx(60.0)
    clock.now = 875.0
    assert telling.time_for_seams() == pytest.approx(25.0)


def test_a_long_part_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: after 100 s, 40 s remain, plus a twentieth of the export's 60 s, which takes longer than expected."""
    monkeypatch.setattr(prepare, "_reading_s", lambda ready: prepare._READING_S)
    monkeypatch.setattr(prepare, "_estimate_seconds", lambda ready, seams: {"export": 60.0, "evaluation": 40.0})
    monkeypatch.setattr(prepare, "_REPORT_EVERY_S", 0.0)
    clock, shares, times, has_told = _Clock(), list[float](), list[float](), threading.Event()

    def sink(event: Event) -> None:
        shares.append(event.facts["share"])
        times.append(event.facts["eta_s"])
        has_told.set()

    ready = cast(Any, type("Ready", (), {"config": type("Config", (), {"seam_minutes": 0.0})}))
    telling = prepare.Tail(ready, Budget(None, began=0.0, now=clock), sink, seams=False)

    def share_at(seconds: float) -> float:
        clock.now = seconds
        for _ in range(2):  # the first may have been pending
            has_told.clear()
            assert has_told.wait(_PATIENCE_S)
        return shares[-1]

    with telling.part("export"):
        assert share_at(100.0) == pytest.approx(100 / (100 + 40 + 60 * 0.05), abs=1e-4)
        assert times[-1] == pytest.approx(40 + 60 * 0.05, abs=0.1)
    with telling.part("evaluation"):
        began = share_at(101.0)
        assert share_at(130.0) > began
    assert shares == sorted(shares)
    assert len(set(shares)) >= 3
