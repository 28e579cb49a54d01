"""One rank of `benchmarks.scaling`: it trains alone, beside the others and with the others, and reports the times.

    python -m benchmarks.scaling.rank STEPS BATCH SIZE ROUNDS HOOK,HOOK

It trains with the product's `Trainer` on synthetic faces, including the thread that makes batches, as a real rank does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from benchmarks.scaling.model import SMALL_BYTES
from rotopaint_ai.training.data.dataset import Truth
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.trainer.group import ALONE, Group
from rotopaint_ai.training.trainer.launch import bind
from rotopaint_ai.training.trainer.trainer import Trainer

N_LANDMARKS, N_FACES = 69, 24
WARM_UP = 2
N_SUMS = 9
SHARED = "shared"  # name of the way in which ranks share one batch
MARK = "scale "  # prefix of the line that the first rank prints
Times = npt.NDArray[np.float64]  # [steps, 2] seconds of wall time and of processor time


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps per training, crops per step and rank, side of the crops, number of rounds, gradient compressions."""

    n_steps: int
    batch: int
    size: int
    n_rounds: int
    hooks: tuple[str, ...]

    def recipe(self, batches: int, hook: str) -> PackConfig:
        """The recipe of a training whose batch is that of `batches` ranks together."""
        size = [f"batch={self.batch * batches}", f"input_size={self.size}", f"small_size={self.size}"]
        length = [f"steps={WARM_UP + self.n_steps + 1}", "minutes=null", "learn_all=0", "eval_every=1000000"]
        return load_pack_config("shipped", [*size, *length, f"compression={hook}"])


def main(words: list[str]) -> None:
    """Measure alternately; the first rank prints the times of all ranks as JSON."""
    n_steps, batch, size, n_rounds = (int(word) for word in words[:4])
    plan = Plan(n_steps, batch, size, n_rounds, tuple(words[4].split(",")))
    bind()
    torch.set_num_threads(1)
    group = Group.join()
    taken: dict[str, list[Any]] = {}
    for _ in range(plan.n_rounds):
        for name, rates in _round(plan, group):
            taken.setdefault(name, []).append(rates)
    content = {"ranks": group.ranks, "bytes": _gradient_bytes(plan), "taken": taken, "sums": _sums(plan, group)}
    if group.is_first:
        print(MARK + json.dumps(content), flush=True)
    group.leave()


def _round(plan: Plan, group: Group) -> Iterator[tuple[str, list[list[list[float]]]]]:
    """Seconds [ranks, steps, wall and processor] of each way to train."""
    yield "alone", _of_all(_train(plan, ALONE, "none") if group.is_first else _nothing(plan), group)
    if group.ranks > 1:
        yield "apart", _of_all(_train(plan, ALONE, "none"), group)
        for hook in plan.hooks:
            yield hook, _of_all(_train(plan, group, hook), group)
        if plan.batch >= 2 * group.ranks:
            yield SHARED, _of_all(_train(plan, group, "none", batches=1), group)


def _nothing(plan: Plan) -> Times:
    return np.zeros((plan.n_steps, 2))


def _train(plan: Plan, group: Group, hook: str, batches: int | None = None) -> Times:
    """Wall and processor seconds of each step; with one batch per rank, or with `batches` for all ranks."""
    recipe = plan.recipe(batches or group.ranks, hook)
    marks: list[tuple[float, float]] = []
    faces = _faces(plan.size)
    data = LandmarkData(faces, faces, np.ones(N_LANDMARKS, np.float32), tuple(range(N_LANDMARKS)))
    task = LandmarkTask(recipe, build_net(recipe, N_LANDMARKS), data)

    def mark() -> None:
        marks.append((time.perf_counter(), time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        Trainer(recipe, task, Path(folder), group).fit(check=mark)
    return np.diff(np.array(marks), axis=0)[WARM_UP:]


def _gradient_bytes(plan: Plan) -> int:
    net = build_net(plan.recipe(1, "none"), N_LANDMARKS)
    return sum(p.numel() * p.element_size() for p in net.parameters() if p.requires_grad)


def _sums(plan: Plan, group: Group) -> dict[str, float]:
    """The seconds of a sum over all ranks, by bytes; the shortest of several, the least disturbed by other load."""
    if group.ranks == 1:
        return {}
    whole = _gradient_bytes(plan)
    return {str(n_bytes): _sum_s(n_bytes, group) for n_bytes in (SMALL_BYTES, whole // 16, whole // 4, whole)}


def _sum_s(n_bytes: int, group: Group) -> float:
    values, times = torch.zeros(n_bytes // 4), []
    for _ in range(N_SUMS):
        group.sums([0.0])
        start = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - start)
    return min(times)


def _of_all(mine: Times, group: Group) -> list[list[list[float]]]:
    """The times of all ranks; afterwards all ranks continue together."""
    whole = np.zeros((group.ranks, *mine.shape))
    whole[group.rank] = mine
    return cast(list[list[list[float]]], np.reshape(group.sums(whole.ravel().tolist()), whole.shape).tolist())


def _faces(size: int) -> Memory:
    """Noisy pictures with landmarks spread over them."""
    rng = np.random.default_rng(1)
    pictures = tuple(rng.integers(0, 255, (size, size, 3), dtype=np.uint8) for _ in range(N_FACES))
    places = rng.uniform(0.2 * size, 0.8 * size, (N_FACES, N_LANDMARKS, 2)).astype(np.float32)
    seen = np.ones((N_FACES, N_LANDMARKS), np.float32)
    truth = Truth(places, seen, np.zeros((N_FACES, 0, 6), np.float32), np.zeros((N_FACES, 0), np.float32))
    return Memory(pictures, truth, np.ones((N_FACES, 2)))


if __name__ == "__main__":
    main(sys.argv[1:])
