"""Starting the ranks of a training through PyTorch's own launcher, and joining them from inside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rotopaint_ai.training.trainer.parallel import exit_reasons
from rotopaint_ai.training.trainer.parallel.topology import Layout

STOPPED = 130
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
RESTARTS = 3  # of all ranks, from the last checkpoint, when one of them is lost
# The ranks meet through a store. PyTorch's launcher else keeps one store for all lives of a run, in which ranks that
# start again find the addresses of those that are gone.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process was started by the launcher."""
    return "RANK" in environment and "WORLD_SIZE" in environment


def launcher_words(layout: Layout, arguments: Sequence[str], *, restarts: int = RESTARTS) -> list[str]:
    """The command that starts every rank with `python -m rotopaint_ai` and these arguments."""
    launcher = [sys.executable, "-m", "rotopaint_ai.training.trainer.parallel.agent", "--standalone"]
    launcher += ["--nproc-per-node", str(layout.n_ranks), "--max-restarts", str(restarts)]
    return [*launcher, "-m", "rotopaint_ai", *arguments]


def launch(layout: Layout, arguments: Sequence[str], *, restarts: int = RESTARTS) -> int:
    """Start the ranks, wait for them, tell in a line what ended them early, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="rotopaint-ranks-") as folder:
        environment = {**os.environ, **NEW_STORE, **layout.environment(), exit_reasons.FOLDER: folder}
        command = launcher_words(layout, arguments, restarts=restarts)
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        with _passing_on(process):
            code = process.wait()
        return _concluded(Path(folder), code, restarts)


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass the first signal to stop on to the launcher, which is in a session of its own; it knows how long to wait."""
    n_asked = 0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 1:
            process.send_signal(number)

    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup keeps one away
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _concluded(folder: Path, code: int, restarts: int) -> int:
    last, lost = exit_reasons.left(folder, exit_reasons.LAST), exit_reasons.left(folder, exit_reasons.LOST)
    if last is not None:
        print(f"rotopaint train: {last[0]}", file=sys.stderr, flush=True)
        return last[1]
    if code == STOPPED:
        print("rotopaint train: stopped; --resume goes on from the last checkpoint", file=sys.stderr, flush=True)
    elif code:
        reason = f"; the last reason: {lost[0]}" if lost is not None else ", each time by the system (out of memory?)"
        told = f"a rank was lost {restarts + 1} times{reason}; --resume goes on from the last checkpoint"
        print(f"rotopaint train: {told}", file=sys.stderr, flush=True)
    return code


def has_restarted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the launcher has started this rank again after a loss, so that it must go on from the checkpoint."""
    return int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
