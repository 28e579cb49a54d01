"""Figures of samples that a pack has learned from are not told without saying so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.training.data.dataset import Dataset, Split, read_dataset
from rotopaint_ai.training.evaluation.evaluate import has_learned


def measured_on(data: Dataset, split: Split) -> Dataset:
    return replace(data, samples=tuple(replace(sample, split=split) for sample in data.samples[:3]))


@pytest.mark.parametrize(
    ("split", "at_last", "learned"),
    [("train", False, True), ("val", False, False), ("val", True, True), ("test", True, False)],
)
def test_a_card_tells_what_was_learned_from(faces: Path, split: Split, at_last: bool, learned: bool) -> None:
    data = measured_on(read_dataset(faces), split)
    training: dict[str, Any] = {"data": f"corrections + {data.name}", "learned_held_out_at_last": at_last}
    assert has_learned({"training": training}, data) is learned
    assert not has_learned({"training": {**training, "data": "another show"}}, data)
    assert not has_learned({}, data)  # somebody else's pack says nothing
