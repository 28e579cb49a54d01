"""Processes that train, forked from one that has loaded torch, because loading takes three seconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import torch

LOADED = ["torch._dynamo", "torch.distributed.launcher.api", "rotopaint_ai.training.pack.train"]


def run_copy(work: Callable[..., None], *given: Any) -> int | None:
    """The exit code of a forked process that does some work; below 0, the signal that ended it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    process = context.Process(target=_work_alone, args=(work, *given))
    process.start()
    process.join()
    return process.exitcode


def _work_alone(work: Callable[..., None], *given: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    work(*given)
