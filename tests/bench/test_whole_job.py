"""What `rotopaint bench run` says of the costs that it measured."""

from __future__ import annotations

import pytest

from rotopaint_ai.bench.whole_job import Cost, JobCosts

RUN = {
    "timing": {"threads": 1, "stages": {}, "peak_memory_mb": 1.0},
    "plate": {},
    "pack": {"name": "p"},
    "device": {"note": "CPU"},
    "exports": [],
}


def content(*plain_cpu_s: float) -> dict[str, object]:
    plain = tuple(Cost(0.5, each) for each in plain_cpu_s)
    return JobCosts(4, tuple(Cost(1.0, 0.9) for _ in plain), plain, RUN).content()


def test_rounds_without_measurable_processor_time_are_left_out() -> None:
    assert content(0.0, 0.3, 0.0)["cpu_ratio"] == pytest.approx(3.0)
    nothing = content(0.0)
    assert (nothing["ratio"], nothing["cpu_ratio"]) == (2.0, None)
