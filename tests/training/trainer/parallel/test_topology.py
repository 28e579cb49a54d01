"""Distribution of a training over a machine, on simulated machines of files."""

from __future__ import annotations

import os
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.numa import Topology, find_topology, parse_cpus, prefer_memory_of, remote_share
from rotopaint_ai.training.trainer.launch import (
    bind,
    choose,
    launcher_command,
    layout_of_torchrun,
)

ONE = Topology(((0, 1),), 1)
TWO = Topology(((0, 1, 2, 3), (4, 5, 6, 7)), 2)


def _machine(folder: Path, *lists: str) -> Path:
    for number, text in enumerate(lists):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}/cpulist").write_text(text + "\n")
    return folder


def test_nodes_are_read_from_the_kernel_and_cut_to_the_cores_we_may_use(tmp_path: Path) -> None:
    nodes = _machine(tmp_path, "0-3,8-9", "4-7", "10")
    assert find_topology(nodes, allowed=range(1, 9)).nodes == ((1, 2, 3, 8), (4, 5, 6, 7))
    assert find_topology(tmp_path / "none", allowed=(2, 0)).nodes == ((0, 2),)
    assert parse_cpus("0-2,5,\n") == [0, 1, 2, 5]


@pytest.mark.parametrize(
    ("topology", "strategy", "cpus", "said"),
    [
        (ONE, "auto", ((0, 1),), "one process (1 socket, 1 NUMA node, 2 cores, no GPU)"),
        (TWO, "auto", TWO.nodes, "one rank per NUMA node, 2 ranks bound to their cores, over gloo"),
        (TWO, "single", (tuple(range(8)),), "one process, as requested"),
        (ONE, "2", ((0,), (1,)), "2 ranks over gloo, as requested"),
        (ONE, "4", ((0,), (1,), (0,), (1,)), "4 ranks over gloo"),
        (Topology(TWO.nodes, 2, 4), "auto", ((0, 1), (2, 3), (4, 5), (6, 7)), "one rank per GPU, 4 ranks over NCCL"),
        (Topology(ONE.nodes, 1, 1), "auto", ((0, 1),), "1 GPU"),
    ],
)
def test_layouts(topology: Topology, strategy: str, cpus: tuple[tuple[int, ...], ...], said: str) -> None:
    layout = choose(topology, strategy)
    assert layout.cpus == cpus
    assert said in layout.reason


@pytest.mark.parametrize("strategy", ["", "many", "0", "-1", "65"])
def test_other_strategies_are_refused(strategy: str) -> None:
    with pytest.raises(UsageError, match="wanted auto, single, or a number of ranks up to 64"):
        choose(TWO, strategy)


def test_the_launcher_gets_every_rank_its_cores() -> None:
    layout = choose(TWO, "2")
    words = launcher_command(layout, ["train", "data"])
    assert words[words.index("--nproc-per-node") + 1] == "2"
    assert words[-4:] == ["-m", "rotopaint_ai", "train", "data"]
    assert layout.environment() == {"ROTOPAINT_RANK_CPUS": "0,1,2,3;4,5,6,7", "OMP_NUM_THREADS": "4"}


def test_ranks_of_torchrun_bind_themselves_unless_already_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: bound.append(tuple(cores)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for local, ranks in ((1, 2), (3, 4), (0, 1)):
        bind({"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(ranks)}, TWO)
    assert bound == [(4, 5, 6, 7), (6, 7)]
    assert bind({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, ONE) == ()  # two of eight cores: already bound
    assert bind({"ROTOPAINT_RANK_CPUS": "0,1;2,3", "LOCAL_RANK": "1"}, ONE) == (2, 3)
    words = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2"}
    assert layout_of_torchrun(words, "cpu", (4, 5)) == (
        "4 ranks on 2 hosts over gloo, 2 on this one, as started by torchrun, this one on cores 4-5"
    )


@pytest.mark.skipif(find_library("numa") is None, reason="libnuma is not installed")
def test_a_rank_takes_its_memory_from_its_own_node(tmp_path: Path) -> None:
    nodes = _machine(tmp_path, "0", "1-63")
    asked = f"from pathlib import Path; from {prefer_memory_of.__module__} import *; nodes = Path({str(nodes)!r})"
    reported = "print(prefer_memory_of([0], nodes), prefer_memory_of([0, 1], nodes))"
    maps_told = "print(Path('/proc/self/numa_maps').read_text())"
    done = subprocess.run(
        [sys.executable, "-c", f"{asked}; {reported}; {maps_told}"], capture_output=True, text=True, check=True
    )
    first, *maps = done.stdout.splitlines()
    assert first == "0 None"  # cores on two nodes: no common node
    assert all(" prefer:0 " in line or " prefer=" in line for line in maps if "heap" in line)
    assert any("heap" in line for line in maps)
    assert prefer_memory_of([0], tmp_path / "one") is None


def test_memory_on_other_nodes_is_counted(tmp_path: Path) -> None:
    nodes = _machine(tmp_path, "0-63", "64-127")
    maps = tmp_path / "numa_maps"
    maps.write_text("7f00 default anon=10 dirty=10 N0=30 N1=10 kernelpagesize_kB=4\n7f01 default N0=60\n")
    assert remote_share(maps, nodes) == pytest.approx(0.1)
    assert remote_share(tmp_path / "nothing", nodes) is None
