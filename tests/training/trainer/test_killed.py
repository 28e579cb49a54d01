"""A training killed in mid-epoch, as by a power cut, and resumed ends with exactly the same weights."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from copies import run_copy
from rotopaint_ai.cli import main
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.pack.prepare import prepare
from rotopaint_ai.training.trainer.launch import DONE
from rotopaint_ai.training.trainer.trainer import CHECKPOINT, Trainer
from small_network import SMALL_NETWORK

SETTINGS = (
    *("minutes=null", "steps=16", "batch=4", "eval_every=2", "small_size=32", "small_share=0.3"),
    *(*SMALL_NETWORK, "window=5", "threads=1", "learn_all=0.3", "eval_limit=2"),
)


def deadly(log: Path, name: str, step: int, words: list[str]) -> None:
    """The command line, killed as soon as its run reaches an action at a step; it prints to a file."""
    with log.open("w") as reported:
        os.dup2(reported.fileno(), 1)
    os.environ[DONE] = "1"  # this process does not restart
    alive = getattr(Trainer, name)

    def do_and_die(self: Trainer[Any, Any], *given: Any) -> None:
        alive(self, *given)
        if self.at == step:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Trainer, name, do_and_die)
    sys.exit(main(words))


def command(data: Path, out: Path, *more: str) -> list[str]:
    words = ["train", str(data), "--out", str(out), "--init", "none", "--events", "--strategy", "single", *more]
    return [*words, *(w for s in SETTINGS for w in ("--set", s))]


def killed_at(log: Path, words: list[str], deed: str, step: int) -> list[int]:
    """Run until the training has taken (`step`) or saved (`save`) a step, then kill -9; returns the steps reported so
    far."""
    assert run_copy(deadly, log, deed, step, words) == -signal.SIGKILL
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == "progress"]


def state_of(run: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(run / CHECKPOINT, weights_only=True)
    return state


def flat(value: Any) -> list[Any]:
    """Tensors and numbers of nested dicts and lists, in order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in flat(value[key])]
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list | tuple) else [value]


@pytest.mark.skipif(os.name != "posix", reason="wants signal 9")
def test_killed_in_mid_epoch_and_resumed_equals_not_killed(faces: Path, tmp_path: Path) -> None:
    # 22 samples in fours: an epoch is five and a half steps
    ready = prepare([faces], load_pack_config(None, SETTINGS), "none")
    (tmp_path / "whole").mkdir()
    Trainer(ready.config, ready.task, tmp_path / "whole").fit()
    words, log = command(faces, tmp_path / "parts"), tmp_path / "log"
    assert killed_at(log, words, "step", 7) == [2, 4, 6]  # the seventh is lost, and repeated
    assert not (tmp_path / "parts").exists()
    assert state_of(tmp_path / "parts.run")["at"] == 6
    assert killed_at(log, [*words, "--resume"], "save", 16) == [*range(8, 16, 2)]  # once more, before the pack is made
    whole, parts = state_of(tmp_path / "whole"), state_of(tmp_path / "parts.run")
    assert whole["at"] == parts["at"] == 16
    for name in ("net", "ema", "best_state", "optimiser"):
        for one, two in zip(flat(whole[name]), flat(parts[name]), strict=True):
            assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two, name
