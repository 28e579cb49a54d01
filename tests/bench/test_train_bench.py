"""The rates of training steps become ratios round by round; what a process says in trouble is passed on."""

from __future__ import annotations

import argparse

import pytest

from rotopaint_ai.bench import train
from rotopaint_ai.bench.training import measure
from rotopaint_ai.errors import TrainingError, UsageError


def test_ratios_are_medians_over_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        ("stock", 1): iter([10.0, 20.0, 10.0]),
        ("ours", 1): iter([30.0, 50.0, 20.0]),
        ("ours", 2): iter([54.0, 95.0, 30.0]),
    }
    monkeypatch.setattr(measure, "_rate", lambda kind, ranks, settings: next(told[kind, ranks]))
    content = measure.measure_all(measure.Settings(1, 2, 64, 3, (1, 2)))
    assert content["faster_rounds"] == [3.0, 2.5, 2.0]
    assert content["faster_than_stock"] == 2.5
    assert content["scaling"] == [
        {"ranks": 1, "images_per_s": 30.0, "efficiency": 1.0},
        {"ranks": 2, "images_per_s": 54.0, "efficiency": 0.9},
    ]


def test_real_steps_give_a_rate_and_nonsense_is_refused() -> None:
    assert measure._rate("ours", 1, measure.Settings(1, 2, 64, 1, (1,))) > 0
    with pytest.raises(TrainingError, match="bench train: nonsense with 1 ranks failed"):
        measure._rate("nonsense", 1, measure.Settings(-3, 0, 64, 1, (1,)))
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    with pytest.raises(UsageError, match="a size that 32 divides"):
        train.measure(parser.parse_args(["--size", "100"]))
