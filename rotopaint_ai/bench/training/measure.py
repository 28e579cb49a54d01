"""Rates of training steps, measured in turns, and what they say."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.training.allocator import SETTINGS

MODULE = "rotopaint_ai.bench.training.steps"
FASTER, EFFICIENCY = 2.5, 0.9  # goals P2 (the same network alone) and P7


@dataclass(frozen=True, slots=True)
class Settings:
    """Steps per measurement, crops per step and rank, their side, rounds, numbers of ranks."""

    n_steps: int
    batch: int
    size: int
    n_rounds: int
    ranks: tuple[int, ...]


def measure_all(settings: Settings) -> dict[str, Any]:
    """Measure stock, ours and every number of ranks in turns. Raises TrainingError where a process fails."""
    kinds = [("stock", 1), *(("ours", ranks) for ranks in dict.fromkeys((1, *settings.ranks)))]
    rates: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    for _ in range(settings.n_rounds):
        for kind in kinds:
            rates[kind].append(_rate(*kind, settings))
    return _content(rates, settings)


def _rate(kind: str, ranks: int, settings: Settings) -> float:
    words = [MODULE, kind, str(settings.n_steps), str(settings.batch), str(settings.size)]
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(SETTINGS if kind == "ours" else {})}
    done = subprocess.run([sys.executable, "-m", *launcher, *words], env=environment, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("images/s ")]
    if done.returncode or not told:
        said = " ".join(done.stderr.split())[-300:]
        raise TrainingError(
            f"bench train: {kind} with {ranks} ranks failed ({said}); try fewer ranks or a smaller batch"
        )
    return float(told[0].split()[1])


def _content(rates: dict[tuple[str, int], list[float]], settings: Settings) -> dict[str, Any]:
    one = rates["ours", 1]
    scaling = [
        {
            "ranks": ranks,
            "images_per_s": round(median(found), 2),
            "efficiency": round(median(a / (b * ranks) for a, b in zip(found, one)), 3),
        }
        for (kind, ranks), found in rates.items()
        if kind == "ours"
    ]
    faster = [a / b for a, b in zip(one, rates["stock", 1])]
    return {
        "benchmark": "train",
        "machine": platform.processor() or platform.machine(),
        "cores": n_cores(),
        "settings": asdict(settings),
        "stock_images_per_s": round(median(rates["stock", 1]), 2),
        "faster_than_stock": round(median(faster), 2),
        "faster_rounds": [round(ratio, 2) for ratio in faster],
        "scaling": scaling,
        "wanted": {"faster_than_stock": FASTER, "efficiency": EFFICIENCY},
    }
