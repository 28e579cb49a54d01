"""The rates of training steps become ratios round by round; what a process says in trouble is passed on."""

from __future__ import annotations

import argparse

import pytest

from rotopaint_ai.bench import train
from rotopaint_ai.bench.training import step_rates
from rotopaint_ai.bench.training.step_rates import TrainRate
from rotopaint_ai.errors import TrainingError, UsageError


def test_ratios_are_medians_over_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = {
        ("stock", 1): iter([TrainRate(10.0, 20.0), TrainRate(20.0, 20.0), TrainRate(10.0, 20.0)]),
        ("ours", 1): iter([TrainRate(30.0, 60.0), TrainRate(50.0, 50.0), TrainRate(20.0, 70.0)]),
        ("ours", 2): iter([TrainRate(54.0, 57.0), TrainRate(95.0, 49.0), TrainRate(30.0, 63.0)]),
    }
    monkeypatch.setattr(step_rates, "_rate", lambda kind, ranks, settings: next(reported[kind, ranks]))
    content = step_rates.measure_all(step_rates.TrainingSettings(1, 2, 64, 3, (1, 2)))
    assert content["faster_rounds"] == [3.0, 2.5, 2.0]
    assert (content["faster_than_stock"], content["faster_by_processor_time"]) == (2.5, 3.0)
    one, two = content["scaling"]
    assert one == {
        "ranks": 1,
        "images_per_s": 30.0,
        "images_per_processor_s": 60.0,
        "efficiency": 1.0,
        "efficiency_by_processor_time": 1.0,
    }
    assert (two["efficiency"], two["efficiency_by_processor_time"]) == (0.9, 0.95)  # 54 / 60, and 57 / 60


def test_real_steps_give_a_rate_and_nonsense_is_refused() -> None:
    rate = step_rates._rate("ours", 1, step_rates.TrainingSettings(1, 2, 64, 1, (1,)))
    assert min(rate) > 0
    with pytest.raises(TrainingError, match="bench train: nonsense with 1 ranks failed"):
        step_rates._rate("nonsense", 1, step_rates.TrainingSettings(-3, 0, 64, 1, (1,)))
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    with pytest.raises(UsageError, match="a size that 32 divides"):
        train.measure(parser.parse_args(["--size", "100"]))
