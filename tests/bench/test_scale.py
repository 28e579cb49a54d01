"""The model of a step on several ranks is the ring's closed form and learns its link; the table says what was taken."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from benchmarks.scaling import __main__ as scale
from benchmarks.scaling import hosts, rank
from benchmarks.scaling.measure import RankTimes, foretell, parse_times, tell_link, tell_ranks
from benchmarks.scaling.model import Link, Step, fit_link
from rotopaint_ai.errors import UsageError


def test_a_ring_sends_each_part_round_twice() -> None:
    link = Link(1e-3, 1e6)
    # 4 ranks: 6 messages of a quarter of the bytes
    assert link.all_reduce_s(4e5, 4) == pytest.approx(6 * (1e-3 + 1e5 / 1e6))
    step = Step(1.0, 4e5)
    talk = 6 * (1e-3 + 0.1) + 3 * 6 * (1e-3 + 2e-6)  # gradients, and three numbers of 8 bytes
    assert step.talking_s(link, 4) == pytest.approx(talk)
    assert step.efficiency(link, 4) == pytest.approx(1 / (1 + talk))
    assert step.efficiency(link, 1) == 1.0
    # one batch shared by four: a quarter of the second each, and as much talk
    assert step.strong_efficiency(link, 4) == pytest.approx(0.25 / (0.25 + talk))
    assert step.strong_efficiency(link, 1) == 1.0


def test_a_link_is_learned_from_sums() -> None:
    link = Link(3e-4, 2e8)
    rows = [(n, b, link.all_reduce_s(b, n)) for n in (2, 5) for b in (8, 1e5, 3e6)]
    found = fit_link(rows)
    assert found.latency_s == pytest.approx(3e-4)
    assert found.bytes_per_s == pytest.approx(2e8)


def _measured(ranks: int, **steps_s: list[list[float]]) -> RankTimes:
    """One round: seconds of each rank's steps, half of them processor time."""
    link = Link(1e-3, 1e8)
    taken = {name: np.array([[[(s, s / 2) for s in row] for row in rows]]) for name, rows in steps_s.items()}
    return RankTimes(ranks, 1_000_000, taken, {b: link.all_reduce_s(b, ranks) for b in (8, 1_000_000)})


def test_a_row_tells_apart_what_ranks_share_and_what_they_say() -> None:
    one = _measured(1, alone=[[1.0, 1.0]])
    two = _measured(
        2,
        alone=[[1.0, 1.0], [0, 0]],
        apart=[[1.1, 1.1], [1.0, 1.2]],
        none=[[1.2, 1.2], [1.25, 1.25]],
        shared=[[0.5, 0.5], [0.625, 0.625]],
    )
    rows = tell_ranks([one, two], cores=1)
    assert rows[0] == {"ranks": 1, "alone_ms": 1000.0, "efficiency": 1.0}
    assert rows[1]["apart_ms"] == pytest.approx(1150)  # of each step the slower: 1.1 and 1.2
    assert rows[1]["together_ms"] == pytest.approx(1250)
    assert rows[1]["efficiency"] == pytest.approx(0.8)
    assert rows[1]["least_disturbed"] == pytest.approx(0.8)
    assert rows[1]["of_apart"] == pytest.approx(0.92)
    # the one batch takes both 0.625 s, where one alone took a second: 1.6 times as fast by two
    assert rows[1]["strong"] == {"efficiency": 0.8, "least_disturbed": 0.8, "by_processor_time": pytest.approx(0.889)}
    assert rows[1]["by_processor_time"] == pytest.approx(0.5 / 0.6125, abs=1e-3)
    # two ranks share a core: a sum of 1 MB takes 2 x 2 x (1 ms + 5 ms), three numbers 2 x 3 x 2 x 1 ms
    assert rows[1]["talk_predicted_ms"] == pytest.approx(24 + 12, abs=0.01)


def test_real_hosts_and_slow_links() -> None:
    rows = foretell([_measured(1, alone=[[0.5, 0.5]])])
    assert rows[0] == {"step_ms": 250.0, "gradient_bytes": 1_000_000}  # half a second, of which half was computed
    slow = next(row for row in rows[1:] if row["network"].startswith("200 mbit") and row["compression"] == "none")
    assert slow["efficiency"]["2"] == pytest.approx(0.25 / (0.25 + 2 * (1e-3 + 0.5e6 / 25e6) + 6e-3), abs=2e-3)
    assert slow["efficiency"]["16"] < slow["efficiency"]["2"]
    assert slow["strong"]["2"] == pytest.approx(0.125 / (0.125 + 2 * (1e-3 + 0.5e6 / 25e6) + 6e-3), abs=2e-3)
    two = _measured(2, alone=[[0.5], [0]], apart=[[0.5], [0.5]], none=[[0.7], [0.7]], bf16=[[0.6], [0.6]])
    reported = tell_link("8mbit", two)  # 1 MB/s: a megabyte goes once each way
    assert reported["predicted_ms"]["none"] == pytest.approx(500 + 1000 + 8, abs=1)
    assert reported["predicted_ms"]["bf16"] == pytest.approx(500 + 500 + 8, abs=1)
    assert reported["step_ms"] == {"none": 700.0, "bf16": 600.0}


def test_one_real_rank_trains(capsys: pytest.CaptureFixture[str]) -> None:
    rank.main(["1", "2", "32", "1", "none"])
    found = parse_times(capsys.readouterr().out)
    assert found.alone_s.shape == (1,)
    assert found.alone_s[0] > 0
    assert found.gradient_bytes > 1e6


@pytest.mark.parametrize("words", [["--ranks", "x"], ["--batch", "1"], ["--size", "100"], ["--links", "fast"]])
def test_nonsense_is_refused(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    scale.add_arguments(parser)
    with pytest.raises(UsageError, match="wanted"):
        scale.measure(parser.parse_args(words))


def test_rates_of_links() -> None:
    assert hosts.bits_per_s("1.5gbit") == 1.5e9
    assert hosts.bits_per_s(hosts.UNLIMITED) == float("inf")
