"""NovoGrad against AdamW for different batch sizes: the validation error after the same number of samples.

    python -m rotopaint_ai.stage dataset FACES --characters 500 --seed 920000
    python -m benchmarks.large_batch FACES [--samples 256000] [--at-once 4]

The shipped network is trained from random weights on crops of 128 px from one shared pool; a smaller batch takes more
steps. Each optimiser is run with several learning rates per batch size.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.crop_pool import Pool, take_core
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.pack.prepare import prepare
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.trainer import Trainer

RATES: Mapping[tuple[str, int], tuple[float, ...]] = {
    ("adamw", 64): (0.003,),
    ("novograd", 64): (0.01, 0.03),
    ("adamw", 512): (0.003, 0.01),
    ("novograd", 512): (0.03, 0.1),
    ("adamw", 2048): (0.003, 0.01, 0.03),
    ("novograd", 2048): (0.03, 0.1, 0.3),
}
_pools: list[Pool] = []  # forked processes inherit it without a copy


class Trial(NamedTuple):
    """A training to run, and its index."""

    at: int
    optimiser: str
    batch: int
    rate: float
    samples: int


def run(trial: Trial) -> str:
    """Train; returns a row of the table."""
    take_core(trial.at)
    (pool,) = _pools
    steps = max(1, trial.samples // trial.batch)
    config = replace(
        pool.ready.config,
        optimiser=trial.optimiser,
        batch=trial.batch,
        learning_rate=trial.rate,
        steps=steps,
        eval_every=steps,
    )
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trained = Trainer(config, pool.task(config), Path(folder), Group.join()).fit()
        row = trained.rows[-1]
        said = f"{row.scores['held_out_percent']:.2f} | {row.loss:.3f} | {time.perf_counter() - start:.0f} s"
    except Exception as error:  # a learning rate that is too high ends in an error
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:80]} | |"
    return f"| {trial.batch} | {trial.optimiser} | {trial.rate:g} | {steps} | {said} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faces")
    parser.add_argument("--samples", type=int, default=256_000, help="number of samples of each training")
    parser.add_argument("--pool", type=int, default=24_000, help="number of crops in the pool")
    parser.add_argument("--side", type=int, default=128, help="side of the crops, px")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512, 2048])
    parser.add_argument("--at-once", type=int, default=4, help="number of parallel trainings")
    options = parser.parse_args()
    sizes = [f"input_size={options.side}", f"small_size={options.side}", "small_share=0", "minutes=null", "steps=1"]
    config = load_pack_config("shipped", [*sizes, "threads=1"])
    _pools.append(Pool.make(prepare([options.faces], config, "none"), options.pool))
    print(f"{options.samples} samples of {len(_pools[0].ready.train_data)} pictures; torch {torch.__version__}")
    print("| batch | optimiser | rate | steps | held-out, % of the face | last loss | took |")
    print("|---|---|---|---|---|---|---|", flush=True)
    asked = [
        (name, batch, rate) for (name, batch), rates in RATES.items() for rate in rates if batch in options.batches
    ]
    trials = [Trial(at, *each, options.samples) for at, each in enumerate(asked)]
    with ProcessPoolExecutor(options.at_once, get_context("fork")) as workers:
        for row in workers.map(run, trials):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
