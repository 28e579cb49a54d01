"""A training that is killed in mid-epoch, as a power cut would, and resumed ends in the very same weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rotopaint_ai.training.allocator import DONE
from rotopaint_ai.training.loop import CHECKPOINT, fit_landmarks
from rotopaint_ai.training.recipe import load_recipe
from rotopaint_ai.training.train import prepare

SETTINGS = (
    *("minutes=null", "steps=40", "batch=4", "eval_every=2", "input_size=64", "small_size=32", "small_share=0.3"),
    *("widths=[8, 8, 16, 16, 16]", "neck=16", "fine=8", "window=5", "threads=1", "learn_all=0.3"),
    "eval_limit=2",
)


PAGE = 4096  # bytes: the smallest pipe that there is


def command(data: Path, out: Path, *more: str) -> list[str]:
    words = ["train", str(data), "--out", str(out), "--init", "none", "--events", "--strategy", "single", *more]
    return [sys.executable, "-m", "rotopaint_ai", *words, *(w for s in SETTINGS for w in ("--set", s))]


def killed_at(words: list[str], step: int) -> list[int]:
    """Run until a progress line tells `step`, then kill -9; the steps told, up to that one.

    What is told and not read fills the pipe, at which the training waits: it is never further than ten lines on.
    """
    environment = {**os.environ, DONE: "1", "OMP_NUM_THREADS": "1"}  # DONE: it stays the process that it was born as
    steps = [0]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, bufsize=0, pipesize=PAGE) as process:
        assert process.stdout is not None
        while steps[-1] < step and (line := process.stdout.readline()):
            event = json.loads(line)
            if event["event"] == "progress":
                steps.append(event["step"])
        process.kill()
    assert process.returncode == -9
    return steps[1:]


def state_of(run: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(run / CHECKPOINT, weights_only=True)
    return state


def flat(value: Any) -> list[Any]:
    """Tensors and numbers of nested tables and lists, in order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in flat(value[key])]
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list | tuple) else [value]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wants a pipe of a given size")
def test_killed_in_mid_epoch_and_resumed_equals_not_killed(faces: Path, tmp_path: Path) -> None:
    # 22 samples by fours: an epoch is five and a half steps
    ready = prepare([faces], load_recipe(None, SETTINGS), "none")
    (tmp_path / "whole").mkdir()
    fit_landmarks(ready.recipe, ready.net, ready.task, tmp_path / "whole")
    words = command(faces, tmp_path / "parts")
    assert killed_at(words, 6) == [2, 4, 6]
    assert not (tmp_path / "parts").exists()
    assert 6 <= state_of(tmp_path / "parts.run")["at"] < 30
    assert killed_at([*words, "--resume"], 40)[-1] == 40  # once more, before the pack is made
    whole, parts = state_of(tmp_path / "whole"), state_of(tmp_path / "parts.run")
    assert whole["at"] == parts["at"] == 40
    for name in ("net", "ema", "best_state", "optimiser"):
        for one, two in zip(flat(whole[name]), flat(parts[name]), strict=True):
            assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two, name
