"""Training uses every core, unless a single thread is faster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.trainer.cores import choose_threads
from small_network import SMALL_NETWORK

TINY = ["threads=0", "batch=2", *SMALL_NETWORK]


def _never_asked() -> Any:
    return cast(Any, None)


@pytest.mark.parametrize(("alone", "together", "count"), [(0.2, 0.1, 4), (0.1, 0.1, 4), (0.1, 0.5, 1)])
def test_one_thread_is_taken_where_it_is_quicker(
    alone: float, together: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    recipe = load_pack_config(None, ["threads=0"])
    note = choose_threads(recipe, _never_asked(), lambda n: alone if n == 1 else together)
    assert torch.get_num_threads() == count
    assert ("one thread is 5.0 times as fast as 4" in note) == (count == 1)


def test_a_configured_number_of_threads_is_not_measured() -> None:
    recipe = load_pack_config(None, ["threads=2"])

    def never(count: int) -> float:
        raise AssertionError("measured")

    assert not choose_threads(recipe, _never_asked(), never)
    assert torch.get_num_threads() == 2


def test_measuring_leaves_the_network_as_it_was(faces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    recipe = load_pack_config(None, [*TINY, "small_size=64"])
    net, memory = build_net(recipe, 4), load_pictures(read_dataset(faces), side_px=80, margin=1.3)
    data = LandmarkData(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    counts: list[int] = []
    # several threads would wait for each other where cores are busy
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    choose_threads(recipe, LandmarkTask(recipe, net, data))
    assert counts in ([2, 1, 1], [2, 1, 2])
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, before[name])
