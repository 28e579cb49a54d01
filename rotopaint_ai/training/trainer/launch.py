"""Start the processes of a training: restart with allocator settings, and start ranks.

Also: the layout of a training on this machine, ranks bound to their cores, and the reasons that failed ranks leave for
the parent. Imports only the standard library, except to count GPUs and for PyTorch's launcher, so that a rank is bound
before any library starts threads.
A training step frees and reallocates the same large blocks. By default glibc returns each to the kernel and pays for
every page again: 1.1-2.3 times the step time on a quiet machine, more on a busy one. SETTINGS prevent that; glibc reads
them when a process starts, so the command restarts itself once with them (`restart_process`). They also limit numpy's
OpenBLAS to one thread: its threads wait for each other at every small matrix, which costs the prior's models 2.4 times
the processor time with two threads.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, cast

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.numa import Topology, find_topology, parse_cpus, prefer_memory_of

SETTINGS: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}
# set after the restart, so that there is only one; a person may set it to prevent the restart
DONE = "ROTOPAINT_ALLOCATOR"

BEGAN = "ROTOPAINT_BEGAN"  # start time of the first process, by `time.time`


def start_time() -> float:
    """When this command began, by `time.time`, across the restart; call this first."""
    return float(os.environ.get(BEGAN, time.time()))


def restart_environment(environment: Mapping[str, str], platform: str) -> dict[str, str] | None:
    """The environment for the restart, or None if it would not help or has happened.

    Only glibc reads these settings. A preloaded allocator and settings that a person made are kept.
    """
    if not platform.startswith("linux") or DONE in environment or "LD_PRELOAD" in environment:
        return None
    return {**SETTINGS, **environment, DONE: "1"}


def restart_process() -> None:
    """Replace this process by the same command with the settings; returns if there is nothing to gain.

    Training commands call it first, before threads start or files are opened.
    """
    environment = restart_environment(os.environ, sys.platform)
    if environment is None:
        return
    environment[BEGAN] = str(start_time())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "rotopaint_ai", *sys.argv[1:]], environment)


CPUS = "ROTOPAINT_RANK_CPUS"  # the cores of each local rank, separated by ';'
MOST_RANKS = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a training on this machine: each rank's cores, and a line that explains it."""

    cpus: tuple[tuple[int, ...], ...]
    reason: str

    @property
    def n_ranks(self) -> int:
        """Number of processes on this machine."""
        return len(self.cpus)

    def environment(self) -> dict[str, str]:
        """Environment variables from which each rank binds itself."""
        threads = str(max(len(cpus) for cpus in self.cpus))
        return {CPUS: ";".join(",".join(map(str, cpus)) for cpus in self.cpus), "OMP_NUM_THREADS": threads}


def choose(topology: Topology, strategy: str = "auto") -> Layout:
    """Choose the layout: `auto`, `single`, or a number of ranks on this machine. Raises UsageError for anything else.

    `auto`: one rank per GPU; else one per NUMA node, so that its cores read only local memory.
    """
    topology_note = topology.in_words()
    if strategy == "single":
        return Layout((topology.cores,), f"one process, as requested ({topology_note})")
    if strategy != "auto":
        return _requested_layout(topology, strategy, topology_note)
    if topology.n_gpus > 1:
        shares = _split(topology.cores, topology.n_gpus)
        return Layout(shares, f"one rank per GPU, {topology.n_gpus} ranks over NCCL ({topology_note})")
    if topology.n_gpus == 1 or len(topology.nodes) == 1:
        return Layout((topology.cores,), f"one process ({topology_note})")
    reason = f"one rank per NUMA node, {len(topology.nodes)} ranks bound to their cores, over gloo ({topology_note})"
    return Layout(topology.nodes, reason)


def bind(environment: Mapping[str, str] = os.environ, topology: Topology | None = None) -> tuple[int, ...]:
    """Bind this rank to its cores, and its memory to their NUMA node.

    The cores come from the parent. Under a person's own torchrun each rank gets a NUMA node or an equal part of the
    machine, unless it is bound already. Returns the cores; empty if the rank stays unbound.
    """
    if not hasattr(os, "sched_setaffinity"):
        return ()
    shares = [parse_cpus(part) for part in environment.get(CPUS, "").split(";") if part]
    shares = shares or [list(cores) for cores in _own_shares(environment, topology or find_topology())]
    if not shares:
        return ()
    mine = shares[int(environment.get("LOCAL_RANK", "0")) % len(shares)]
    os.sched_setaffinity(0, mine)
    prefer_memory_of(mine)
    return tuple(mine)


def _own_shares(environment: Mapping[str, str], topology: Topology) -> tuple[tuple[int, ...], ...]:
    n_ranks = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if n_ranks == 1 or len(topology.cores) < (os.cpu_count() or 1):
        return ()
    return topology.nodes if n_ranks == len(topology.nodes) else _split(topology.cores, n_ranks)


def layout_of_torchrun(environment: Mapping[str, str], device: str, bound: Sequence[int]) -> str:
    """A line that explains the layout of ranks that a person started with torchrun."""
    ranks, here = (int(environment.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    hosts = int(environment.get("GROUP_WORLD_SIZE", "1"))
    over = "NCCL" if device == "cuda" else "gloo"
    cores = f", this one on cores {bound[0]}-{bound[-1]}" if bound else ""
    where = f"{hosts} host{'s' if hosts > 1 else ''} over {over}, {here} on this one"
    return f"{ranks} ranks on {where}, as started by torchrun{cores}"


def _requested_layout(topology: Topology, strategy: str, topology_note: str) -> Layout:
    if not strategy.isdecimal() or not 1 <= int(strategy) <= MOST_RANKS:
        raise UsageError(f"--strategy {strategy}: wanted auto, single, or a number of ranks up to {MOST_RANKS}")
    n_ranks = int(strategy)
    if n_ranks == 1:
        return choose(topology, "single")
    backend = "nccl" if topology.n_gpus >= n_ranks else "gloo"
    return Layout(_split(topology.cores, n_ranks), f"{n_ranks} ranks over {backend}, as requested ({topology_note})")


def _split(cores: Sequence[int], n_ranks: int) -> tuple[tuple[int, ...], ...]:
    """Consecutive cores for each rank; with more ranks than cores, ranks share cores."""
    if n_ranks > len(cores):
        return tuple((cores[rank % len(cores)],) for rank in range(n_ranks))
    edges = [len(cores) * rank // n_ranks for rank in range(n_ranks + 1)]
    return tuple(tuple(cores[a:b]) for a, b in pairwise(edges))


FOLDER = "ROTOPAINT_EXIT_REASONS"
LAST, LOST = "last", "lost"


def exit_reasons_folder() -> Path | None:
    """The folder for this rank's exit reason; None if the parent wants none."""
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None


def is_recoverable(error: BaseException) -> bool:
    """Whether restarting all ranks may help: PyTorch reports a lost rank as a RuntimeError."""
    return isinstance(error, RuntimeError | ConnectionError)


def write_exit_reason(folder: Path, kind: str, text: str, code: int) -> None:
    """Write this rank's exit reason and exit code."""
    write_json(folder / f"{kind}.{os.environ.get('RANK', '0')}.json", {"text": text, "code": code})


def read_exit_reason(folder: Path, kind: str) -> tuple[str, int] | None:
    """The exit reason and code of the lowest rank that wrote one."""
    for path in sorted(folder.glob(f"{kind}.*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        return str(content["text"]), int(content["code"])
    return None


STOPPED = 130
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
RESTARTS = 3  # of all ranks from the last checkpoint, when one is lost
# Ranks meet through a store. By default PyTorch's launcher keeps one store for all restarts of a run, so restarted
# ranks would find the addresses of ranks that are gone.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def is_rank() -> bool:
    """Whether this process was started by the launcher."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launcher_command(layout: Layout, arguments: Sequence[str]) -> list[str]:
    """The command that starts every rank with `python -m rotopaint_ai` and these arguments."""
    launcher = [sys.executable, "-m", "rotopaint_ai.training.trainer.launch", "--standalone"]
    launcher += ["--nproc-per-node", str(layout.n_ranks), "--max-restarts", str(RESTARTS)]
    return [*launcher, "-m", "rotopaint_ai", *arguments]


def launch(layout: Layout, arguments: Sequence[str]) -> int:
    """Start the ranks, wait for them, print why they ended early, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="rotopaint-ranks-") as folder:
        environment = {**os.environ, **NEW_STORE, **layout.environment(), FOLDER: folder}
        process = subprocess.Popen(launcher_command(layout, arguments), env=environment, start_new_session=True)
        with _forward_signals(process):
            code = process.wait()
        return _report_exit(Path(folder), code)


@contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward the first stop signal to the launcher, which runs in its own session and knows how long to wait."""
    n_signals = 0

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal n_signals
        n_signals += 1
        if n_signals == 1:
            process.send_signal(number)

    # nohup ignores SIGHUP; keep that
    handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_exit(folder: Path, code: int) -> int:
    last, lost = read_exit_reason(folder, LAST), read_exit_reason(folder, LOST)
    if last is not None:
        print(f"rotopaint train: {last[0]}", file=sys.stderr, flush=True)
        return last[1]
    if code == STOPPED:
        print("rotopaint train: stopped; --resume continues from the last checkpoint", file=sys.stderr, flush=True)
    elif code:
        reason = f"; the last reason: {lost[0]}" if lost is not None else ", each time by the system (out of memory?)"
        message = f"a rank was lost {RESTARTS + 1} times{reason}; --resume continues from the last checkpoint"
        print(f"rotopaint train: {message}", file=sys.stderr, flush=True)
    return code


def has_restarted() -> bool:
    """Whether the launcher restarted this rank after a loss, so that it must resume from the checkpoint."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def main(words: Sequence[str]) -> int:
    """PyTorch's launcher without its log and traceback, with torchrun's arguments; `launch` starts it as a process.

    On a stop signal it signals the ranks, which finish their step, and waits up to half a minute. Returns 0 if all
    ended well, 1 if ranks were lost too often, 130 if it was stopped.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    logging.disable(logging.ERROR)
    try:
        cast(Any, run)(cast(Any, parse_args)(list(words)))
    except ChildFailedError:
        return 1
    except SignalException:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
