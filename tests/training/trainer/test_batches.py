"""Batches are the same whichever process makes them, and an error in one is reported unchanged."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.models.seam.examples import Examples
from rotopaint_ai.training.models.seam.task import SeamConfig, SeamNet, SeamNets, SeamTask, with_features
from rotopaint_ai.training.trainer.cores import n_processes, prefetching_batches
from rotopaint_ai.training.trainer.group import ALONE
from rotopaint_ai.training.trainer.task import Moment, Task

CONFIG = SeamConfig(batch=2)


def moment(step: int) -> Moment:
    return Moment(step, 0.0, CONFIG, ALONE)


class Failing:
    """Returns the id of its process, except for one step."""

    def __init__(self, how: str) -> None:
        self.how = how

    def reading_and_decoding_s(self) -> tuple[float, float]:
        return 0.0, 0.0

    def make_batch(self, now: Moment) -> int:
        if now.step == 5 and self.how == "raises":
            raise TrainingError("picture_5.jpg: is damaged; copy it again")
        if now.step == 5 and self.how == "dies":
            os._exit(1)
        return os.getpid()


def test_processes_make_what_a_thread_makes(faces: Path) -> None:
    task = SeamTask(CONFIG, with_features(SeamNets(SeamNet(), None)), Examples.of(read_dataset(faces)))
    with prefetching_batches(task, moment, 3, 2) as by_processes, prefetching_batches(task, moment, 3) as by_thread:
        pairs = list(itertools.islice(zip(by_thread, by_processes), 6))
    for (one, _), (two, waited) in pairs:
        assert all(np.array_equal(a, b) for a, b in zip(one.batch, two.batch, strict=True))
        assert two.taken_s > 0
        assert waited >= 0
    assert sum(made.decoding_s for _, (made, _) in pairs) > 0  # reported by the decoding processes


def test_each_process_makes_some() -> None:
    task, before = cast(Task[Any, int], Failing("never")), set(multiprocessing.active_children())
    with prefetching_batches(task, moment, 0, 2) as batches:
        assert len(set(multiprocessing.active_children()) - before) == 2  # started before any batch is taken
        made = {next(batches)[0].batch for _ in range(40)}
    assert os.getpid() not in made


@pytest.mark.parametrize(
    ("how", "processes", "message"),
    [
        ("raises", 0, r"^picture_5.jpg: is damaged; copy it again$"),
        ("raises", 2, r"^picture_5.jpg: is damaged; copy it again$"),
        ("dies", 2, "the system ended a process"),
    ],
)
def test_an_error_in_a_batch_is_raised_where_the_batch_is_taken(how: str, processes: int, message: str) -> None:
    task = cast(Task[Any, int], Failing(how))
    with prefetching_batches(task, moment, 0, processes) as batches, pytest.raises(TrainingError, match=message):
        list(itertools.islice(batches, 8))


def test_a_gpu_gets_all_cores_but_one_and_the_processor_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    assert n_processes(torch.device("cuda", 0)) == 15
    assert n_processes(torch.device("cpu")) == 0
