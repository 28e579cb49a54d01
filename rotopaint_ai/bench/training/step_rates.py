"""Rates of training steps, measured alternately, and their ratios."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.training.trainer.launch import SETTINGS

MODULE = "rotopaint_ai.bench.training.steps"
FASTER, EFFICIENCY = 2.5, 0.9  # goals P2 (the same network alone) and P7


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Steps per measurement, crops per step and rank, side of the crops, rounds, numbers of ranks."""

    n_steps: int
    batch: int
    size: int
    n_rounds: int
    ranks: tuple[int, ...]


class TrainRate(NamedTuple):
    """Images per second of all ranks together, by wall time and by processor time."""

    clock: float
    processor: float


def measure_all(settings: TrainingSettings) -> dict[str, Any]:
    """Measure stock, ours and every number of ranks alternately. Raises TrainingError where a process fails."""
    kinds = [("stock", 1), *(("ours", ranks) for ranks in dict.fromkeys((1, *settings.ranks)))]
    rates: dict[tuple[str, int], list[TrainRate]] = {kind: [] for kind in kinds}
    for _ in range(settings.n_rounds):
        for kind in kinds:
            rates[kind].append(_rate(*kind, settings))
    return _summary_of_rates(rates, settings)


def _rate(kind: str, ranks: int, settings: TrainingSettings) -> TrainRate:
    words = [MODULE, kind, str(settings.n_steps), str(settings.batch), str(settings.size)]
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(SETTINGS if kind == "ours" else {})}
    done = subprocess.run([sys.executable, "-m", *launcher, *words], env=environment, capture_output=True, text=True)
    reports = [line for line in done.stdout.splitlines() if line.startswith("images/s ")]
    if done.returncode or not reports:
        reason = " ".join(done.stderr.split())[-300:]
        raise TrainingError(
            f"bench train: {kind} with {ranks} ranks failed ({reason}); try fewer ranks or a smaller batch"
        )
    clock, processor = map(float, reports[0].split()[1:])
    return TrainRate(clock, processor)


def _summary_of_rates(rates: dict[tuple[str, int], list[TrainRate]], settings: TrainingSettings) -> dict[str, Any]:
    one, stock = rates["ours", 1], rates["stock", 1]
    scaling = [
        {
            "ranks": ranks,
            **_rates(found),
            "efficiency": round(median(a.clock / (b.clock * ranks) for a, b in zip(found, one)), 3),
            "efficiency_by_processor_time": round(median(a.processor / b.processor for a, b in zip(found, one)), 3),
        }
        for (kind, ranks), found in rates.items()
        if kind == "ours"
    ]
    return {
        "benchmark": "train",
        "cores": n_cores(),
        "settings": asdict(settings),
        "stock": _rates(stock),
        "faster_than_stock": round(median(a.clock / b.clock for a, b in zip(one, stock)), 2),
        "faster_by_processor_time": round(median(a.processor / b.processor for a, b in zip(one, stock)), 2),
        "faster_rounds": [round(a.clock / b.clock, 2) for a, b in zip(one, stock)],
        "scaling": scaling,
        "wanted": {"faster_than_stock": FASTER, "efficiency": EFFICIENCY},
    }


def _rates(found: Sequence[TrainRate]) -> dict[str, float]:
    return {
        "images_per_s": round(median(rate.clock for rate in found), 2),
        "images_per_processor_s": round(median(rate.processor for rate in found), 2),
    }
