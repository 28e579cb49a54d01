"""The race to the same held-out error: the time of each error, the turns of each side, and the report."""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rotopaint_ai.bench import train
from rotopaint_ai.bench.training import levels, race, race_picture, racer, stock
from rotopaint_ai.bench.training.levels import ErrorLevel
from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.training.data.dataset import Dataset, Picture
from rotopaint_ai.training.pack.prepare import prepare
from small_network import SMALL_NETWORK

TINY = (
    *(*SMALL_NETWORK, "small_size=32", "window=5", "batch=4"),
    *("learning_rate=0.004", "ema=0.5", "augment={occluders: 0, colour: 0, channels: 0, coarse: 0}"),
)
OURS = [ErrorLevel(2, 3, 0, 4.0, 8.0), ErrorLevel(10, 12, 800, 2.0, 4.0), ErrorLevel(20, 24, 1600, 1.0, 2.0)]
STOCK = [ErrorLevel(0, 0, 0, 32.0, 64.0), ErrorLevel(100, 110, 2000, 4.0, 8.0), ErrorLevel(200, 220, 4000, 5.0, 9.0)]


def test_an_error_is_reached_between_two_evaluations() -> None:
    assert levels.find_first_below(OURS, 3.0) == ErrorLevel(6, 7.5, 400, 3.0, 6.0)
    assert levels.find_first_below(OURS, 4.5) == OURS[0]
    assert levels.find_first_below(OURS, 0.9) is None
    worse_between = [*STOCK, ErrorLevel(300, 330, 6000, 3.0, 7.0)]  # after 200 s the best is still the 4 % of 100 s
    assert levels.find_first_below(worse_between, 3.5) == ErrorLevel(250, 275, 5000, 3.5, 7.5)


def test_a_ratio_is_that_of_images_times_that_of_speed() -> None:
    late = [*STOCK, ErrorLevel(300, 330, 6000, 2.0, 4.0)]
    row = levels.compare(OURS, late, 2.0, 300.0)
    assert (row["ours_cpu_s"], row["other_cpu_s"], row["ratio"], row["ratio_wall"]) == (10, 300, 30, 27.5)
    assert (row["of_which_images"], row["of_which_images_per_s"]) == (7.5, 4.0)


def test_what_the_other_never_reached_is_a_lower_bound() -> None:
    row = levels.compare(OURS, STOCK, 1.0, 300.0)
    assert (row["ratio"], row["more_than"]) == (None, 15.0)
    reported = race.compare_sides(OURS, STOCK, 300.0)
    assert reported["at_our_best"] == "1.00 %: not within 15.0 times as long"
    assert reported["at_the_lowest_both_reached"] is None  # stock's best is the error of ours before its first step
    asked = [row["percent"] for row in reported["levels"]]
    assert asked == sorted(asked, reverse=True)
    assert asked[0] < 4.0
    assert asked[-1] == 1.0


class Turns(io.StringIO):
    """A list of empty turns, one step each."""

    def __init__(self, count: int) -> None:
        super().__init__("0\n" * count)


@pytest.mark.parametrize("side", ["ours", "stock"])
def test_a_side_trains_a_step_in_each_of_its_turns(
    side: str, faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: dict[str, Any] = {"datasets": [str(faces)], "recipe": None, "overrides": TINY, "init": "none", "workers": 0}
    order |= {"folder": str(tmp_path), "limit_s": 1e6, "every_s": 0.0}
    (tmp_path / "order.json").write_text(json.dumps(order), encoding="utf-8")
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdin", Turns(7))
    monkeypatch.setattr(sys, "stdout", said)
    with pytest.raises(SystemExit):
        racer.main([side, str(tmp_path / "order.json")])
    reported = [json.loads(line) for line in said.getvalue().splitlines()]
    assert reported[0]["facts"]["train_samples"] == 22
    seen = [each for each in reported if each["event"] == "seen"]
    assert [each["images"] for each in seen] == [0, 4, 8, 12, 16, 20, 24]
    assert [each["cpu_s"] for each in seen] == sorted(each["cpu_s"] for each in seen)
    assert sum(each["event"] == "paused" for each in reported) == 7
    assert seen[-1]["percent"] != seen[0]["percent"]


def test_stock_is_plain_and_ours_is_not(faces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = racer.recipe_of({"recipe": None, "overrides": TINY, "limit_s": 60.0})
    ready = prepare([faces], recipe, "none")
    opened, plain = [], Dataset.picture

    def picture_of(data: Dataset, row: int) -> Picture:
        opened.append(row)
        return plain(data, row)

    monkeypatch.setattr(Dataset, "picture", picture_of)
    steps = stock.steps(ready, 0)
    net = next(steps)[0]
    before = net.heat_of_landmark.detach().clone()
    assert [next(steps)[1] for _ in range(6)] == [4] * 6
    assert len(opened) == 24  # every sample was decoded again at each use
    weights: list[Any] = [value for value in net.parameters() if value.ndim == 4 and value.shape[2] > 1]
    assert all(value.dtype == torch.float32 and value.is_contiguous() for value in weights)
    assert not torch.equal(before, net.heat_of_landmark)


FAKE = """
import json, sys
name = sys.argv[1]
said, count = lambda **facts: print(json.dumps(facts), flush=True), 0
for line in sys.stdin:
    if not count:
        said(event="ready", facts=dict(data="fake", train_samples=3, held_out_samples=1, input_size=64, batch=2))
    if name == "stock" and "fail" in json.load(open(sys.argv[2]))["datasets"]:
        sys.exit("the loader broke")
    count += 1
    said(event="seen", cpu_s=count * 1.0, wall_s=count * 2.0, images=count * 2, percent=8.0 / count, px=4.0 / count)
    said(event="over" if count == (5 if name == "ours" else 50) else "paused")
"""


def test_sides_take_turns_until_all_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_racer.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(race, "MODULE", "fake_racer")
    content = race.run(race.Course(("data",), seconds=6.0))
    assert [len(side["curve"]) for side in content["sides"].values()] == [5, 50]
    assert content["against"]["stock"]["levels"][-1]["ratio"] == 1.0
    drawn = race_picture.svg(content)
    assert drawn.count("<circle") == 55
    x = [float(value) for value in re.findall(r'<circle cx="([\\d.]+)"', drawn)]
    assert x[:5] == sorted(x[:5])
    assert content["is_whole"]

    def interrupt(text: str) -> None:
        if text.startswith("turn 3/"):
            raise KeyboardInterrupt

    wait = subprocess.Popen.communicate

    def interrupt_again(process: subprocess.Popen[str]) -> tuple[str, str]:
        signal.raise_signal(signal.SIGINT)
        return wait(process)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt_again)
    part = race.run(race.Course(("data",), seconds=6.0), interrupt)
    monkeypatch.undo()
    assert [len(side["curve"]) for side in part["sides"].values()] == [4, 4]
    assert not part["is_whole"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(race, "MODULE", "fake_racer")
    with pytest.raises(TrainingError, match="stock: the loader broke"):
        race.run(race.Course(("fail",), seconds=6.0))


def test_nonsense_is_refused() -> None:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    for words, said in (
        (["--rounds", "0"], "name a DATASET"),
        (["data", "--minutes", "0"], "--minutes above 0"),
        (["data", "--times", "0.5"], "--times from 1"),
    ):
        with pytest.raises(UsageError, match=said):
            train.measure(parser.parse_args(words))
    with pytest.raises(TrainingError, match="nowhere: no dataset"):
        train.measure(parser.parse_args(["nowhere"]))
