"""Ranks compute the same as one process, and a lost rank costs only time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.scaling import hosts
from copies import run_copy
from rotopaint_ai.training.trainer.group import ALONE

from . import ranks

RANKS = Path(__file__).with_name("ranks.py")


def _apart(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """The norm of the difference over the norm, of all parameters together."""
    assert first.keys() == second.keys()
    assert first
    apart, whole = (
        torch.cat([part.flatten() for part in parts])
        for parts in ([first[name] - second[name] for name in first], list(first.values()))
    )
    return float(apart.norm() / whole.norm())


@pytest.fixture(scope="module")
def done(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of two ranks on one host: gradients, a complete training, and one that lost a rank."""
    folder = tmp_path_factory.mktemp("ranks")
    assert run_copy(ranks.launch, 2, "everything", str(folder), str(faces)) == 0
    return folder


def test_gradients_of_ranks_are_those_of_one_process(done: Path) -> None:
    ranks.gradients(done, ALONE, "none")
    one = torch.load(done / "gradients.1.none.pt")
    assert _apart(one, torch.load(done / "gradients.2.none.pt")) < 1e-5
    assert 1e-7 < _apart(one, torch.load(done / "gradients.2.bf16.pt")) < 0.02


def _checkpoint(folder: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(folder / name / "checkpoint.pt", weights_only=True)
    return loaded


def _assert_same(whole: dict[str, Any], broken: dict[str, Any]) -> None:
    assert whole["at"] == broken["at"] == 6
    for name, value in whole["ema"].items():
        assert torch.equal(value, broken["ema"][name]), name


def test_a_lost_rank_costs_no_step(done: Path) -> None:
    assert (done / "restarted").is_file()
    _assert_same(_checkpoint(done, "whole"), _checkpoint(done, "broken"))


@pytest.mark.skipif(
    "ROTOPAINT_TWO_HOSTS" not in os.environ, reason="ROTOPAINT_TWO_HOSTS=1 tries two network namespaces"
)
def test_a_rank_lost_on_one_of_two_hosts_costs_no_step(
    faces: Path, tmp_path: Path, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := hosts.missing():
        pytest.skip(reason)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    hosts.run([str(RANKS), "training", str(tmp_path), str(faces), "pack", "4"], restarts=2)
    _assert_same(_checkpoint(done, "whole"), _checkpoint(tmp_path, "pack"))
    ranks.gradients(tmp_path, ALONE, "none")
    one, two = (torch.load(tmp_path / f"gradients.{ranks}.none.pt") for ranks in (1, 2))
    assert _apart(one, two) < 1e-5
