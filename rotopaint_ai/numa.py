"""The cores, sockets, NUMA nodes, memory and GPUs of this machine, and the nodes that hold a process's memory.

Only the count of GPUs needs more than the standard library, so that a process can be bound before any thread starts.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NODES = Path("/sys/devices/system/node")
PACKAGES = "/sys/devices/system/cpu/cpu{}/topology/physical_package_id"


@dataclass(frozen=True, slots=True)
class Topology:
    """Cores that this process may use, by NUMA node; sockets they belong to; GPUs."""

    nodes: tuple[tuple[int, ...], ...]
    n_sockets: int
    n_gpus: int = 0

    @property
    def cores(self) -> tuple[int, ...]:
        """All cores."""
        return tuple(core for node in self.nodes for core in node)

    def in_words(self) -> str:
        """The topology as a short text."""
        nodes = f"{len(self.nodes)} NUMA node{'s' if len(self.nodes) > 1 else ''}"
        sockets = f"{self.n_sockets} socket{'s' if self.n_sockets > 1 else ''}"
        gpus = f"{self.n_gpus} GPU{'s' if self.n_gpus > 1 else ''}" if self.n_gpus else "no GPU"
        return f"{sockets}, {nodes}, {len(self.cores)} cores, {gpus}"


def find_topology(nodes: Path = NODES, allowed: Sequence[int] | None = None) -> Topology:
    """The topology of this machine, restricted to the cores that the process may use."""
    usable = set(os.sched_getaffinity(0) if allowed is None else allowed) if hasattr(os, "sched_getaffinity") else None
    if usable is None:
        usable = set(range(os.cpu_count() or 1))
    lists = sorted(nodes.glob("node[0-9]*/cpulist"), key=lambda path: int(path.parent.name[4:]))
    found = [tuple(core for core in parse_cpus(path.read_text()) if core in usable) for path in lists]
    kept = tuple(node for node in found if node) or (tuple(sorted(usable)),)
    return Topology(kept, _sockets([core for node in kept for core in node]), _gpus())


def parse_cpus(text: str) -> list[int]:
    """Cores of a kernel list such as `0-3,8,10-11`."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return cores


def prefer_memory_of(cores: Sequence[int], nodes: Path = NODES) -> int | None:
    """Allocate this process's memory on the NUMA node of its cores while there is room, as `numactl --preferred` does.

    Returns the node. Returns None where the machine has only one node, where the cores belong to several, or without
    libnuma; the kernel then allocates memory on the node of the core that touches it first.
    """
    on = {int(path.parent.name[4:]): set(parse_cpus(path.read_text())) for path in nodes.glob("node[0-9]*/cpulist")}
    own = [node for node, its in on.items() if its.issuperset(cores)]
    if len(on) < 2 or not own:
        return None
    try:
        numa = ctypes.CDLL("libnuma.so.1")
    except OSError:
        return None
    if numa.numa_available() < 0:
        return None
    numa.numa_set_preferred(own[0])
    return own[0]


def memory_bytes() -> int:
    """This machine's memory in bytes."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def remote_share(maps: Path = Path("/proc/self/numa_maps"), nodes: Path = NODES) -> float | None:
    """The share of this process's memory on other NUMA nodes than its cores; None where that is unknown.

    It counts pages, as an estimate of the remote accesses that a profiler would count.
    """
    cores = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()
    own = {p.parent.name[4:] for p in nodes.glob("node[0-9]*/cpulist") if cores & set(parse_cpus(p.read_text()))}
    try:
        pages = [(node, int(n)) for node, n in re.findall(r"\bN(\d+)=(\d+)", maps.read_text())]
    except OSError:
        return None
    total = sum(n for _, n in pages)
    return sum(n for node, n in pages if node not in own) / total if total else None


def _sockets(cores: Sequence[int]) -> int:
    paths = [Path(PACKAGES.format(core)) for core in cores]
    return max(1, len({path.read_text().strip() for path in paths if path.exists()}))


def _gpus() -> int:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()
