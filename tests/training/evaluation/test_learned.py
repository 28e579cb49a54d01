"""Metrics on samples that a pack was trained on are reported as such."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.training.data.dataset import Dataset, Split, read_dataset
from rotopaint_ai.training.evaluation import gate
from rotopaint_ai.training.evaluation.gate import AT_LAST, card_frames, trained_frames, was_trained_on


def measured_on(data: Dataset, split: Split) -> Dataset:
    return replace(data, samples=tuple(replace(sample, split=split) for sample in data.samples[:3]))


@pytest.mark.parametrize(
    ("split", "at_last", "is_learned"),
    [("train", False, True), ("val", False, False), ("val", True, True), ("test", True, False)],
)
def test_a_card_lists_its_training_data(faces: Path, split: Split, at_last: bool, is_learned: bool) -> None:
    data = measured_on(read_dataset(faces), split)
    training: dict[str, Any] = {"data": f"corrections + {data.name}", "learned_held_out_at_last": at_last}
    assert was_trained_on({"training": training}, data) is is_learned
    assert not was_trained_on({"training": {**training, "data": "another show"}}, data)
    assert not was_trained_on({}, data)  # a foreign pack lists nothing


def test_a_card_names_the_training_frames_of_its_pack_and_the_initial_one(
    faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = read_dataset(faces)
    marked = replace(
        data, samples=tuple(replace(s, split="val" if s.frame % 7 == 0 else s.split) for s in data.samples)
    )
    train, val = marked.rows_of("train"), marked.rows_of("val")
    first = {"training": {**card_frames(marked.subset(train[:4]), "none"), AT_LAST: True}}
    monkeypatch.setattr(gate, "find_pack", lambda pack: tmp_path)
    monkeypatch.setattr(gate, "load_card", lambda folder: first)
    second = {"training": {**card_frames(marked.subset(np.concatenate((train[6:8], val))), tmp_path), AT_LAST: False}}
    wanted = {(s.shot, s.frame) for row in (*train[:4], *train[6:8]) for s in (marked.samples[row],)}
    for row, sample in enumerate(marked.samples):
        assert was_trained_on(second, marked.subset(np.array([row]))) is ((sample.shot, sample.frame) in wanted)
    at_last = {"training": {**second["training"], AT_LAST: True}}
    assert was_trained_on(at_last, marked.subset(val))
    elsewhere = replace(marked, samples=tuple(replace(sample, shot="test01") for sample in marked.samples))
    assert not was_trained_on(at_last, elsewhere)
    shot = marked.samples[train[0]].shot
    assert trained_frames(second, marked)[shot].startswith(str(marked.samples[train[0]].frame))
