"""Two simulated hosts on one machine: two network namespaces, a virtual cable between them, a launcher in each.

    unshare --user --map-root-user --net python -m benchmarks.scaling.hosts RATE RESTARTS WORDS...

Starts `torchrun --nnodes 2 ... WORDS` in both. Everything is in a separate user namespace: it needs no special
permissions, does not touch the machine's own network, and disappears at the end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.training.trainer.launch import NEW_STORE

OUTSIDE = ("unshare", "--user", "--map-root-user", "--net")
ENDS = ("rphere", "rpthere")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 29417
GRACE_S = 90.0
UNLIMITED = "unlimited"
_RATE = re.compile(r"^(\d+(?:\.\d+)?)(kbit|mbit|gbit)$")
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def bits_per_s(rate: str) -> float:
    """Bits per second of a rate such as 200mbit; `unlimited` is infinite. Raises UsageError."""
    if rate == UNLIMITED:
        return float("inf")
    found = _RATE.match(rate)
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"--links {rate}: wanted {UNLIMITED}, or a rate such as 1gbit or 200mbit")
    return float(found[1]) * _UNITS[found[2]]


@lru_cache(maxsize=1)
def missing() -> str:
    """Why two hosts cannot be simulated here; empty where they can."""
    for program in ("unshare", "nsenter", "ip", "tc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    tried = "ip link add rp0 type veth peer name rp1 && tc qdisc add dev rp0 root tbf rate 1mbit burst 9kb latency 9ms"
    done = subprocess.run([*OUTSIDE, "sh", "-c", tried], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"network namespaces are not allowed here ({done.stderr.strip()[:120]})"


def run(words: Sequence[str], *, rate: str = UNLIMITED, restarts: int = 0) -> str:
    """Run a Python program as a rank on each of two hosts; returns their output. Raises TrainingError."""
    inside = [sys.executable, "-m", "benchmarks.scaling.hosts", rate, str(restarts), *words]
    environment = {**os.environ, **NEW_STORE, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*OUTSIDE, *inside], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise TrainingError(f"two hosts: {' '.join(words)[:80]} failed ({' '.join(done.stderr.split())[-600:]})")
    return done.stdout


def main(words: Sequence[str]) -> int:
    """The program in the namespace: connects the cable, starts both launchers, and returns the exit code."""
    rate, restarts, *program = words
    with _second_host() as pid:
        _plug(pid, rate)
        doors: tuple[list[str], list[str]] = ([], ["nsenter", f"--net=/proc/{pid}/ns/net"])
        launchers = [
            subprocess.Popen(
                [*door, *_launcher(node, int(restarts)), *program], env={**os.environ, "GLOO_SOCKET_IFNAME": ENDS[node]}
            )
            for node, door in enumerate(doors)
        ]
        return _wait(launchers)


def _launcher(node: int, restarts: int) -> list[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    words += ["--rdzv-backend", "c10d", "--rdzv-id", "rotopaint", "--rdzv-endpoint", f"{ADDRESSES[0]}:{PORT}"]
    words += ["--rdzv-conf", f"is_host={int(node == 0)}", "--local-addr", ADDRESSES[node]]
    return [*words, "--max-restarts", str(restarts), "--monitor-interval", "0.1"]


def _wait(launchers: Sequence[subprocess.Popen[bytes]]) -> int:
    """The exit code of the first host, which is 0 only when all ranks have succeeded.

    The exit code of the second host is ignored. The ranks meet in a store on the first host; if the second launcher
    ends after that store is closed, it reports a failure. If the second host really fails, the first one gets `GRACE_S`
    to end.
    """
    first, second = launchers
    while first.poll() is None and second.poll() in (None, 0):
        time.sleep(0.05)
    try:
        code = first.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        code = 1
    for launcher in launchers:
        launcher.terminate()
        launcher.wait()
    return code


@contextmanager
def _second_host() -> Iterator[int]:
    """Start a process in a new network namespace, which keeps that namespace alive."""
    namespace = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        ours = os.readlink("/proc/self/ns/net")
        while namespace.poll() is None and os.readlink(f"/proc/{namespace.pid}/ns/net") == ours:
            time.sleep(0.01)
        yield namespace.pid
    finally:
        namespace.kill()
        namespace.wait()


def _plug(pid: int, rate: str) -> None:
    """Connect a cable to the second host; both ends send at most at the given rate."""
    there = ("nsenter", f"--net=/proc/{pid}/ns/net")
    _do("ip", "link", "add", ENDS[0], "type", "veth", "peer", "name", ENDS[1], "netns", str(pid))
    for door, end, address in zip(((), there), ENDS, ADDRESSES):
        _do(*door, "ip", "link", "set", "lo", "up")
        _do(*door, "ip", "addr", "add", f"{address}/24", "dev", end)
        _do(*door, "ip", "link", "set", end, "up")
        if rate != UNLIMITED:
            limits = ("rate", rate, "burst", "128kb", "latency", "200ms")
            _do(*door, "tc", "qdisc", "add", "dev", end, "root", "tbf", *limits)


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise TrainingError(f"two hosts: {' '.join(words)}: {done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
