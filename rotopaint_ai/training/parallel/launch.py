"""Starting the ranks of a training through PyTorch's own launcher, and joining them from inside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from rotopaint_ai.training.parallel.topology import Layout

RESTARTS = 3  # of all ranks, from the last checkpoint, when one of them is lost
# The ranks meet through a store. PyTorch's launcher else keeps one store for all lives of a run, in which ranks that
# start again find the addresses of those that are gone.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process was started by the launcher."""
    return "RANK" in environment and "WORLD_SIZE" in environment


def launcher_words(layout: Layout, arguments: Sequence[str], *, restarts: int = RESTARTS) -> list[str]:
    """The command that starts every rank with `python -m rotopaint_ai` and these arguments."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words += ["--nproc-per-node", str(layout.n_ranks), "--max-restarts", str(restarts)]
    return [*words, "-m", "rotopaint_ai", *arguments]


def launch(layout: Layout, arguments: Sequence[str], *, restarts: int = RESTARTS) -> int:
    """Start the ranks, wait for them, and return the exit code."""
    environment = {**os.environ, **NEW_STORE, **layout.environment()}
    process = subprocess.Popen(launcher_words(layout, arguments, restarts=restarts), env=environment)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the ranks got it too, and end after their step
            continue


def has_restarted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the launcher has started this rank again after a loss, so that it must go on from the checkpoint."""
    return int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
