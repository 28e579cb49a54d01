"""The learning curve: nested parts of the data, measured on the same frames, and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import learning_curve as curve
from benchmarks.learning_curve import Point
from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.training.data import dataset_checks
from rotopaint_ai.training.data.dataset import Dataset, read_dataset


def test_every_beginning_is_spread_evenly() -> None:
    assert curve.spread_order(8) == [0, 4, 2, 6, 1, 5, 3, 7]
    for n in (1, 5, 24, 100):
        assert sorted(curve.spread_order(n)) == list(range(n))
    first = np.sort(curve.spread_order(96)[:12])
    assert np.diff(first).max() <= 2 * 96 / 12


def test_parts_hold_one_another_and_keep_what_is_held_out(faces: Path) -> None:
    data = curve.with_held_out(read_dataset(faces))
    dataset_checks.check_dataset(data)  # ends of shots count as separate shots
    held = {s.image for s in data.samples if s.split == "val"}
    assert len(held) == 2
    before: set[str] = set()
    for share in (0.2, 0.5, 1.0):
        part = curve.part_of(data, share)
        assert {s.image for s in part.samples if s.split == "val"} == held
        assert len(part.rows_of("test")) == 4
        learnt = {s.image for s in part.samples if s.split == "train"}
        assert len(learnt) == round(share * 22)
        assert before <= learnt
        assert {s.shot for s in part.samples if s.split == "train"} == {"shot0", "shot1"}
        before = learnt


def test_a_shape_that_few_frames_know_is_in_every_part(faces: Path) -> None:
    data = curve.with_held_out(read_dataset(faces))
    (only,) = data.rows_of("train")[[-2]]
    points = data.truth.points.copy()
    points[np.arange(len(points)) != only, data.sheet.point_rows()["seam"]] = np.nan
    rare = replace(data, truth=replace(data.truth, points=points))
    for share in (0.2, 0.5):
        part = curve.part_of(rare, share)
        dataset_checks.check_shapes(part.subset(part.rows_of("train")), fewest=1)


def test_the_curve_is_measured_written_and_resumed(faces: Path, tmp_path: Path) -> None:
    asked: list[tuple[int, str]] = []

    def train(folder: Path, out: Path) -> Mapping[str, Any]:
        data: Dataset = read_dataset(folder)
        dataset_checks.check_dataset(data)
        data.picture(3)
        n = len(data.rows_of("train"))
        asked.append((n, out.name))
        return {
            "landmarks_px": {"mean": 10 / n},
            "seams": {"px": {"mean": 20 / n}},
            "other_shapes": {"px": {"mean": None}},
        }

    out = tmp_path / "pack"
    points = curve.measure([faces], out, train=train, shares=(0.25, 0.5, 1.0))
    assert asked == [(6, "25"), (11, "50"), (22, "pack")]
    assert [p.errors_px for p in points] == [{"landmarks": 10 / n, "seams": 20 / n} for n in (6, 11, 22)]
    reported = json.loads((tmp_path / "pack.run" / "learning_curve.json").read_text())
    assert [point["frames"] for point in reported["points"]] == [6, 11, 22]
    again = curve.measure([faces], out, train=train, shares=(0.25, 0.5, 1.0), resume=True)
    assert again == points
    assert len(asked) == 3
    with pytest.raises(TrainingError, match="5% of it are 1 frames; wanted 4 or more"):
        curve.measure([faces], out, train=train, shares=(0.05, 1.0))


def test_advice() -> None:
    halves = [Point(0.5, 60, {"seams": 2.0, "landmarks": 3.0}), Point(1.0, 120, {"seams": 1.5, "landmarks": 2.9})]
    # 2.0 -> 1.5: the same factor again would be 1.125, that is 0.375 px more
    assert curve.advice(halves) == (
        "from 60 to 120 frames seams went from 2.00 to 1.50 px: "
        "growing by the same factor again may bring about 0.38 px more"
    )
    flat = [replace(halves[0], errors_px={"landmarks": 1.02}), replace(halves[1], errors_px={"landmarks": 1.0})]
    assert "no longer pays" in curve.advice(flat)
    assert curve.advice(halves[:1]) == "too few trainings to tell"
    text = curve.table(halves)
    assert text.splitlines()[1].split() == ["50%", "60", "3.000", "2.000"]


def test_shares_are_checked() -> None:
    assert curve.parse_shares("50,10") == (0.1, 0.5, 1.0)
    for wrong in ("", "a", "0,100", "120,50", "100"):
        with pytest.raises(UsageError, match="--shares"):
            curve.parse_shares(wrong)
