"""The table of `benchmarks.scaling`: time of steps by ranks, measured and predicted, here and on real hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.scaling import hosts
from benchmarks.scaling.model import Link, Step, fit_link
from benchmarks.scaling.rank import MARK, SHARED
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.numa import find_topology
from rotopaint_ai.training.trainer.launch import NEW_STORE, SETTINGS, choose

MODULE = "benchmarks.scaling.rank"
WANTED = 0.9  # goal P7
HOOKS = ("none", "bf16", "powersgd")
NETWORKS = {  # links of real hosts; latencies of switched Ethernet
    "25 gbit, 0.02 ms": Link(2e-5, 25e9 / 8),
    "10 gbit, 0.05 ms": Link(5e-5, 10e9 / 8),
    "1 gbit, 0.2 ms": Link(2e-4, 1e9 / 8),
    "200 mbit, 1 ms": Link(1e-3, 200e6 / 8),
}
FORETOLD = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Settings:
    """Steps per measurement, crops per step and rank, their side, rounds, numbers of ranks, links between two hosts."""

    n_steps: int
    batch: int
    size: int
    n_rounds: int
    ranks: tuple[int, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankTimes:
    """The times of `ranks` ranks: seconds [rounds, ranks, steps, wall and processor] by way, and of sums by bytes."""

    ranks: int
    gradient_bytes: int
    taken: Mapping[str, npt.NDArray[np.float64]]
    sums: Mapping[int, float]

    @property
    def alone_s(self) -> npt.NDArray[np.float64]:
        """Time of a step of one rank while the others wait, by round."""
        return np.asarray(np.median(self.taken["alone"][:, 0, :, 0], axis=1))

    def step_s(self, way: str) -> npt.NDArray[np.float64]:
        """Time of a step of all ranks, by round; each rank waits for the slowest."""
        return np.asarray(np.median(self.taken[way][..., 0].max(axis=1), axis=1))

    def efficiency(self, way: str) -> float:
        """Images per second and rank, divided by those of one rank alone, by wall time."""
        return float(np.median(self.alone_s / self.step_s(way)))

    def least_disturbed(self, way: str) -> float:
        """The efficiency over the fastest tenth of all steps, because other load only makes steps longer."""
        alone, together = self.taken["alone"][:, 0, :, 0], self.taken[way][..., 0].max(axis=1)
        return float(np.quantile(alone, 0.1) / np.quantile(together, 0.1))

    def by_processor(self, way: str) -> float:
        """The efficiency by processor time, as if every rank had its own core."""
        alone = self.taken["alone"][:, 0, :, 1].mean(axis=1)
        return float(np.median(alone / self.taken[way][..., 1].mean(axis=(1, 2))))

    def strong(self) -> dict[str, float]:
        """The efficiency where all ranks share one batch: the speed-up of a step divided by the number of ranks.

        It has the three measures above; empty where the batch is too small to be shared."""
        if SHARED not in self.taken:
            return {}
        ways = {
            "efficiency": self.efficiency,
            "least_disturbed": self.least_disturbed,
            "by_processor_time": self.by_processor,
        }
        return {name: round(way(SHARED) / self.ranks, 3) for name, way in ways.items()}

    @property
    def rows(self) -> list[tuple[int, float, float]]:
        """Sums in the form for the cost model: ranks, bytes, seconds."""
        return [(self.ranks, n_bytes, taken) for n_bytes, taken in self.sums.items()]


def measure_all(settings: Settings) -> dict[str, Any]:
    """Measure every number of ranks and every link. Raises TrainingError where a process fails."""
    here = [_measure(ranks, settings) for ranks in settings.ranks]
    content = {
        "benchmark": "scale",
        "cores": n_cores(),
        "settings": asdict(settings),
        "wanted": {"ranks": 2, "efficiency": WANTED},
        "ranks": tell_ranks(here, n_cores()),
        "real_hosts": foretell(here),
    }
    return {**content, "two_hosts": _two_hosts(settings)} if settings.links else content


def tell_ranks(found: Sequence[RankTimes], cores: int) -> list[dict[str, Any]]:
    """A row for each number of ranks; the link is fitted to the fewest ranks, and predicts the others.

    Where n ranks share a core, their communication is taken to be n times slower.
    """
    several = sorted((row for row in found if row.ranks > 1), key=lambda row: row.ranks)
    link = fit_link(several[0].rows) if several else None
    return [_row(row, link, max(1.0, row.ranks / cores)) for row in found]


def _row(row: RankTimes, link: Link | None, crowd: float) -> dict[str, Any]:
    rows_out: dict[str, Any] = {"ranks": row.ranks, "alone_ms": _ms(np.median(row.alone_s))}
    if row.ranks == 1 or link is None:
        return {**rows_out, "efficiency": 1.0}
    talk = Step(float(np.median(row.alone_s)), row.gradient_bytes).talking_s(link, row.ranks) * crowd
    apart, together = row.step_s("apart"), row.step_s("none")
    return {
        **rows_out,
        "apart_ms": _ms(np.median(apart)),  # all compute in parallel, and each step waits for the slowest
        "together_ms": _ms(np.median(together)),
        "predicted_ms": _ms(np.median(apart) + talk),
        "talk_predicted_ms": _ms(talk),
        "efficiency": round(row.efficiency("none"), 3),
        "efficiency_rounds": [round(float(value), 3) for value in row.alone_s / together],
        "least_disturbed": round(row.least_disturbed("none"), 3),
        "of_apart": round(float(np.median(apart / together)), 3),  # the efficiency by communication alone
        "by_processor_time": round(row.by_processor("none"), 3),
        "strong": row.strong(),
        "sums_ms": {
            str(n): {"measured": _ms(s), "predicted": _ms(link.all_reduce_s(n, row.ranks) * crowd)}
            for n, s in row.sums.items()
        },
    }


def foretell(found: Sequence[RankTimes]) -> list[dict[str, Any]]:
    """Predicted efficiency on real hosts with one rank each, for several networks: a batch per rank, or one shared.

    A step of one rank takes its processor time, because each rank has its own core there.
    """
    alone = float(np.median([np.median(row.taken["alone"][:, 0, :, 1]) for row in found]))
    rows_out: list[dict[str, Any]] = [{"step_ms": _ms(alone), "gradient_bytes": found[0].gradient_bytes}]
    for name, link in NETWORKS.items():
        for compression, share in (("none", 1.0), ("bf16", 0.5)):
            step = Step(alone, found[0].gradient_bytes * share)
            weak = {str(ranks): round(step.efficiency(link, ranks), 3) for ranks in FORETOLD}
            strong = {str(ranks): round(step.strong_efficiency(link, ranks), 3) for ranks in FORETOLD}
            rows_out.append({"network": name, "compression": compression, "efficiency": weak, "strong": strong})
    return rows_out


def _two_hosts(settings: Settings) -> list[dict[str, Any]]:
    rows_out = []
    for rate in settings.links:
        words = ["-m", MODULE, *_words(settings, HOOKS)]
        row = parse_times(hosts.run(words, rate=rate))
        rows_out.append(tell_link(rate, row))
    return rows_out


def tell_link(rate: str, row: RankTimes) -> dict[str, Any]:
    """Time of steps of two hosts over a link, by gradient compression, with the prediction from the link's rate.

    PowerSGD is not predicted: it sends whole gradients at first, and then an amount that it chooses itself.
    """
    link = fit_link(row.rows)
    if rate != hosts.UNLIMITED:
        link = Link(link.latency_s, hosts.bits_per_s(rate) / 8)
    apart = float(np.median(row.step_s("apart")))
    shares = {"none": 1.0, "bf16": 0.5}
    predicted = {
        hook: _ms(apart + Step(apart, row.gradient_bytes * share).talking_s(link, row.ranks))
        for hook, share in shares.items()
        if hook in row.taken
    }
    steps = {hook: _ms(np.median(row.step_s(hook))) for hook in HOOKS if hook in row.taken}
    return {"link": rate, "apart_ms": _ms(apart), "step_ms": steps, "predicted_ms": predicted}


def _measure(ranks: int, settings: Settings) -> RankTimes:
    layout = choose(find_topology(), str(ranks))
    environment = {**os.environ, **SETTINGS, **NEW_STORE, **layout.environment(), "OMP_NUM_THREADS": "1"}
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    words = [sys.executable, "-m", *launcher, MODULE, *_words(settings, ("none",))]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise TrainingError(f"scaling: {ranks} ranks failed ({said}); try fewer ranks or a smaller batch")
    return parse_times(done.stdout)


def _words(settings: Settings, hooks: Sequence[str]) -> list[str]:
    numbers = (settings.n_steps, settings.batch, settings.size, settings.n_rounds)
    return [*map(str, numbers), ",".join(hooks)]


def parse_times(text: str) -> RankTimes:
    """The JSON values that the first rank printed."""
    (line,) = [line for line in text.splitlines() if line.startswith(MARK)]
    content = json.loads(line.removeprefix(MARK))
    taken = {name: np.array(rounds) for name, rounds in content["taken"].items()}
    sums = {int(n_bytes): seconds for n_bytes, seconds in content["sums"].items()}
    return RankTimes(content["ranks"], content["bytes"], taken, sums)


def _ms(seconds: Any) -> float:
    return round(float(seconds) * 1000, 3)
