"""Trainings take every core, unless one thread alone is quicker."""

from __future__ import annotations

import os

import pytest
import torch

from rotopaint_ai.training.models.landmarks.task import build_net
from rotopaint_ai.training.trainer.recipe import load_recipe
from rotopaint_ai.training.trainer.threads import settle


@pytest.mark.parametrize(("alone", "together", "count"), [(0.2, 0.1, 4), (0.1, 0.1, 4), (0.1, 0.5, 1)])
def test_one_thread_is_taken_where_it_is_quicker(
    alone: float, together: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    recipe = load_recipe(None, ["threads=0"])
    found = settle(recipe, build_net(recipe, 4), lambda n: alone if n == 1 else together)
    assert found.count == torch.get_num_threads() == count
    assert ("one thread is 5.0 times as fast as 4" in found.note) == (count == 1)


def test_a_number_that_was_asked_for_is_taken_unmeasured() -> None:
    recipe = load_recipe(None, ["threads=2"])

    def never(count: int) -> float:
        raise AssertionError("measured")

    assert settle(recipe, build_net(recipe, 4), never).count == torch.get_num_threads() == 2


def test_measuring_leaves_the_network_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    recipe = load_recipe(None, ["threads=0", "batch=2", "widths=[8, 8, 16, 16, 16]", "neck=16", "fine=8"])
    net = build_net(recipe, 4)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert settle(recipe, net).count in (1, 2)
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, before[name])
