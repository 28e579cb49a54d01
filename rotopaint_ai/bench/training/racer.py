"""One side of a race in a process of its own: `python -m rotopaint_ai.bench.training.racer SIDE ORDER.json`.

Each line of standard input is a number: the processor seconds to train in this turn. Standard output answers in JSON
lines: `ready`, `seen` (an evaluation), `paused` at the end of a turn, `over` at the end of the side's time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rotopaint_ai.bench.training import stock
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.task import predict_held_out, visible_error
from rotopaint_ai.training.pack.prepare import TrainInputs, prepare
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.log import Budget
from rotopaint_ai.training.trainer.trainer import Trainer

# Validation samples are only evaluated, never trained on. The clock of the race times turns and evaluations.
_IN_A_RACE = ("learn_all=0", "steps=null", "threads=1", "eval_every=1000000000", "activations=keep")


class TrainingClock:
    """Counts processor and wall seconds of training, loader processes included, and waits between turns."""

    def __init__(self, limit_s: float, every_s: float) -> None:
        self.limit_s, self.every_s = limit_s, every_s
        self.images, self._due, self._turn_ends = 0, 0.0, 0.0
        self._cpu_off, self._wall = time.process_time(), 0.0
        self._since = time.perf_counter()

    @property
    def cpu_s(self) -> float:
        """Processor seconds spent on training so far."""
        return time.process_time() + _children_s() - self._cpu_off

    @property
    def wall_s(self) -> float:
        """Wall seconds of training so far."""
        return self._wall + time.perf_counter() - self._since

    @property
    def is_over(self) -> bool:
        return self.cpu_s >= self.limit_s

    @property
    def is_due(self) -> bool:
        """Whether an evaluation is due."""
        return self.cpu_s >= self._due

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not count this thread's time inside the block; batches that loaders make meanwhile still count."""
        self._wall += time.perf_counter() - self._since
        before = time.thread_time()
        yield
        self._cpu_off += time.thread_time() - before
        self._since = time.perf_counter()

    def report_validation(self, net: LandmarkNet, ready: TrainInputs) -> None:
        """Report the validation error of a network in float32."""
        with self.aside():
            at = {"cpu_s": self.cpu_s, "wall_s": self._wall, "images": self.images}
            held, faces = ready.task.data.held_out, ready.task.data.faces_px
            assert faces is not None
            rows = np.array(evenly_spread(range(len(held)), 200), np.intp)
            error = visible_error(predict_held_out(net, held, rows, ready.config, exact=True), faces[rows])
            tell("seen", **at, percent=error.percent, px=error.px)
        self._due = at["cpu_s"] + self.every_s

    def wait(self) -> None:
        """At the end of a turn, wait for the next one."""
        if self.cpu_s < self._turn_ends:
            return
        with self.aside():
            tell("paused")
            line = sys.stdin.readline()
            if not line:
                sys.exit(0)
        self._turn_ends = self.cpu_s + float(line)

    def start(self) -> None:
        """Wait for the first turn; time before it does not count."""
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        self._turn_ends, self._since, self._wall = float(line), time.perf_counter(), 0.0
        self._cpu_off = time.process_time()


def _children_s() -> float:
    """Processor seconds of running child processes, where the system reports them."""
    total = 0.0
    for child in multiprocessing.active_children():
        try:
            fields = Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def tell(event: str, **facts: Any) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def recipe_of(order: dict[str, Any]) -> PackConfig:
    """The recipe of a race, with its minutes set to the side's time limit."""
    minutes = f"minutes={order['limit_s'] / 60}"
    return override(load_pack_config(order["recipe"], order["overrides"]), (*_IN_A_RACE, minutes))


def run_ours(order: dict[str, Any], meter: TrainingClock, init: str | None) -> None:
    """Train with the product's own loop; its schedule follows the meter's processor time."""
    meter.start()
    ready = prepare(order["datasets"], recipe_of(order), init)
    with meter.aside():
        tell("ready", facts=facts_of(ready))
    folder = Path(order["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    budget = Budget(ready.config.limit_s, began=0.0, now=lambda: meter.cpu_s)
    run = Trainer(ready.config, ready.task, folder, budget=budget)
    with run.batches() as batches:
        while not meter.is_over and not run.is_over:
            if meter.is_due:
                meter.report_validation(run.average.net, ready)
            meter.wait()
            run.step(*next(batches))
            meter.images += ready.config.batch
    meter.report_validation(run.average.net, ready)


def run_stock(order: dict[str, Any], meter: TrainingClock) -> None:
    """Train with plain PyTorch. `prepare` decodes pictures for the evaluations only, and its time is not counted."""
    with meter.aside():
        ready = prepare(order["datasets"], recipe_of(order), "none")
    tell("ready", facts=facts_of(ready))
    meter.start()
    for net, images in stock.steps(ready, order["workers"]):
        meter.images += images
        if meter.is_over:
            break
        if meter.is_due:
            meter.report_validation(net, ready)
            net.train()
        meter.wait()
    meter.report_validation(net, ready)


def facts_of(ready: TrainInputs) -> dict[str, Any]:
    """The data of the race, for the result."""
    return {
        "data": ready.data.name,
        "train_samples": len(ready.train_data),
        "held_out_samples": len(ready.task.data.held_out),
        "input_size": ready.config.input_size,
        "batch": ready.config.batch,
    }


def main(words: list[str]) -> None:
    """Run one side of the race."""
    name, path = words
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    meter = TrainingClock(order["limit_s"], order["every_s"])
    if name == "stock":
        run_stock(order, meter)
    else:
        run_ours(order, meter, "none" if name == "cold" else order["init"])
    tell("over")


if __name__ == "__main__":
    main(sys.argv[1:])
