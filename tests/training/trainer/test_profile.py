"""The report of a training's bottleneck."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.trainer import roofline, trainer
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.log import LogRow, LogWindow, gpu_clock, make_profile
from rotopaint_ai.training.trainer.roofline import Operations, Roofline, memory_bound_share
from rotopaint_ai.training.trainer.trainer import Trainer, read_checkpoint, write_checkpoint

TINY = [
    "widths=[8,8,8,8,8]",
    "depths=[1,1,1,1]",
    "neck=8",
    "fine=8",
    "batch=4",
    "input_size=64",
    "small_size=64",
    "learn_all=0",
]


def _row(minutes: float, waiting: float, copying: float, talking: float) -> LogRow:
    shares = {"waiting_share": waiting, "copying_share": copying, "talking_share": talking}
    return LogRow(1, minutes, 0.0, 0.0, 10.0, 1e-3, **shares, busy_share=0.8, copied_gb_per_s=2.0)


@pytest.mark.parametrize(
    ("shares", "making", "activations", "said"),
    [
        ((0.1, 0.1, 0.1), (0.5, 0.4), "keep", "arithmetic"),
        ((0.6, 0.1, 0.1), (0.5, 0.4), "keep", "the disk"),
        ((0.6, 0.1, 0.1), (0.1, 0.5), "keep", "decoding pictures"),
        ((0.6, 0.1, 0.1), (0.1, 0.3), "keep", "augmentation"),
        ((0.1, 0.5, 0.1), (0.1, 0.0), "keep", "copying"),
        ((0.1, 0.1, 0.6), (0.1, 0.0), "keep", "gradients"),
        ((0.1, 0.1, 0.1), (0.1, 0.0), "offload", "memory (activations: offload)"),
    ],
)
def test_the_largest_share_binds(shares: Any, making: tuple[float, float], activations: str, said: str) -> None:
    of_making = dict(zip(("reading_share", "decoding_share"), making))
    found = make_profile([_row(1, *shares)], device="processor", activations=activations, **of_making, remote=0.25)
    assert found is not None
    assert found.bound_by == said
    assert found.computing == pytest.approx(1 - sum(shares))
    assert found.line().startswith(f"bound by {said}: ")
    assert found.line().endswith(
        "copying at 2.00 GB/s, " + f"{shares[2]:.1%} gradients; processor busy 80%; 25% of memory on other NUMA nodes"
    )


@pytest.mark.parametrize(("share", "said"), [(0.3, "arithmetic"), (0.7, "memory bandwidth")])
def test_compute_bound_and_memory_bound_work_are_distinguished(share: float, said: str) -> None:
    found = make_profile([_row(1, 0, 0, 0)], device="GPU", activations="keep", reading_share=0, memory_bound=share)
    assert found is not None
    assert found.line().startswith(f"bound by {said}: 100.0% computing ({share:.0%} of it memory bandwidth), ")


def test_each_operation_takes_at_least_its_roofline_time() -> None:
    rows, columns = torch.ones(64, 32), torch.ones(32, 16)
    with Operations() as done:
        product = rows @ columns  # 65,536 operations; 4 * (2048 + 512 + 1024) bytes
        product.view(-1).add_(1.0)  # no operations counted; 1024 numbers read and written
    assert [(each.flop, each.n_bytes) for each in done.noted] == [(65536, 14336), (0, 8192)]
    reached = Roofline(flop_per_s=1e6, bytes_per_s=1e6)
    assert reached.memory_share(done.noted) == pytest.approx(0.008192 / (0.065536 + 0.008192))
    assert Roofline(1e9, 1e6).memory_share(done.noted) == 1.0


def test_the_way_back_is_counted_and_a_device_is_measured() -> None:
    conv = torch.nn.Conv2d(8, 8, 3)
    with Operations() as done:
        conv(torch.ones(1, 8, 10, 10)).sum().backward()  # type: ignore[no-untyped-call]
    forward = 2 * 8 * 8 * 9 * 64
    assert next(each.flop for each in done.noted if each.flop) == forward
    assert sum(each.flop for each in done.noted) >= 2 * forward  # with the gradients of the weights
    share = memory_bound_share(done.noted, torch.device("cpu"))
    assert share is not None
    assert 0 < share <= 1
    assert memory_bound_share([], torch.device("cpu")) is None


def test_the_turns_of_other_programs_are_no_part_of_a_roofline() -> None:
    """On a busy machine the clock gave 36 and 96 % of memory bandwidth for the same network."""
    assert roofline._shortest_s(lambda: time.sleep(0.05), torch.device("cpu")) < 0.04


def test_lines_of_the_log_weigh_by_their_minutes() -> None:
    rows = [_row(1, 0.9, 0, 0), _row(4, 0.1, 0, 0)]  # one minute, then three
    found = make_profile(rows, device="processor", activations="keep", reading_share=0)
    assert found is not None
    assert found.waiting == pytest.approx(0.3)
    assert make_profile([], device="processor", activations="keep", reading_share=0) is None


def test_a_window_reports_the_device_utilisation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 14.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    busy = iter([1.0, 3.0, 7.0])
    window = LogWindow(lambda: next(busy), threads=2)
    window.add(torch.tensor(0.5), 8, taken=3.0, waited=1.0, copied=0.5, n_bytes=10**9)
    row = window.row(1, 0.1, 0.5, 1e-3, 0.4)
    assert (row.busy_share, row.copied_gb_per_s) == (0.75, 2.0)  # 6 s of two threads' 8; 1 GB in half a second
    assert (row.waiting_share, row.copying_share, row.talking_share) == (0.25, 0.125, 0.1)


def test_a_window_keeps_means_and_no_tensor_of_a_step() -> None:
    """Those of a thousand steps, between the blocks of their batches, let a process grow to 20 GB."""
    window, kept = LogWindow(lambda: 0.0), []
    for value in (1.0, 2.0, 6.0):
        loss, part = torch.tensor(value), torch.tensor(10 * value)
        window.add(loss, 8, taken=1.0, waited=0.0, copied=0.0, parts={"own": part})
        kept += [weakref.ref(loss), weakref.ref(part)]
    del loss, part
    assert not any(each() is not None for each in kept)
    row = window.row(3, 0.1, 0.5, 1e-3, 0.0)
    assert (row.loss, row.parts) == (3.0, {"own": 30.0})
    with pytest.raises(TrainingError, match="parts of the loss are other, at the step before own"):
        window.add(torch.tensor(1.0), 8, taken=1.0, waited=0.0, copied=0.0, parts={"other": torch.tensor(1.0)})


def test_a_training_reports_its_bottleneck(faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "measure_roofline", lambda device, dtype: Roofline(1e11, 1e11))
    recipe, data = override(PackConfig(), [*TINY, "minutes=null", "steps=2", "eval_every=1"]), read_dataset(faces)
    memory = load_pictures(data.subset(data.rows_of("train")), side_px=80, margin=1.3)
    faces_data = LandmarkData(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    found = Trainer(recipe, LandmarkTask(recipe, build_net(recipe, 4), faces_data), tmp_path).fit().profile
    assert found is not None
    assert found.waiting + found.copying + found.talking + found.computing == pytest.approx(1)
    assert found.memory_bound is not None
    assert 0 < found.memory_bound < 1
    assert found.device == "processor"
    assert found.copied_gb_per_s > 0
    assert 0 < (found.busy or 0) <= 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to Linux's disk that is always full")
def test_a_full_disk_is_one_line_and_the_checkpoint_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"at": 1})

    @contextlib.contextmanager
    def full(path: Path) -> Iterator[Path]:
        yield Path("/dev/full")

    monkeypatch.setattr(trainer, "replacing", full)
    with pytest.raises(
        TrainingError, match=r"checkpoint.pt: cannot be written \(.+\); free disk space and continue with --resume"
    ):
        write_checkpoint(path, {"at": 2, "net": torch.zeros(100_000)})
    assert read_checkpoint(path) == {"at": 1}


def test_an_unknown_gpu_utilisation_is_reported_as_unknown() -> None:
    silent = replace(_row(1, 0.1, 0, 0), busy_share=0.0)
    found = make_profile([silent], device="NVIDIA X", activations="keep", reading_share=0)
    assert found is not None
    assert "how busy NVIDIA X was is unknown (nvidia-ml-py is missing" in found.line()
    reported = make_profile([silent], device="processor", activations="keep", reading_share=0)
    assert reported is not None
    assert "is unknown" not in reported.line()


def test_the_driver_is_queried_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], []
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("torch.cuda.utilization", lambda: asked.append(now[0]) or 50)
    clock = gpu_clock()
    for step in range(1, 301):
        now[0] = step / 100
        busy = clock()
    assert len(asked) == 3
    assert busy == pytest.approx(1.5, abs=0.02)
