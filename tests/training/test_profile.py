"""What binds a training is said of it, and its step keeps everything on one device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.augment import Batch
from rotopaint_ai.training.data.dataset import load_pictures, read_dataset
from rotopaint_ai.training.models.landmarks import losses
from rotopaint_ai.training.models.landmarks import task as loop
from rotopaint_ai.training.models.landmarks.task import Run, Task, build_net, fit_landmarks
from rotopaint_ai.training.trainer import checkpoint
from rotopaint_ai.training.trainer.checkpoint import read_checkpoint, write_checkpoint
from rotopaint_ai.training.trainer.log import HeldOutError, Row, Window
from rotopaint_ai.training.trainer.parallel.group import Group
from rotopaint_ai.training.trainer.profile import profile
from rotopaint_ai.training.trainer.recipe import Recipe, override

TINY = ["widths=[8,8,8,8,8]", "neck=8", "fine=8", "batch=4", "input_size=64", "small_size=64", "learn_all=0"]


def _row(minutes: float, waiting: float, copying: float, talking: float) -> Row:
    return Row(1, minutes, 64, 0.0, 0.0, 10.0, waiting, 1e-3, copying, talking, busy_share=0.8, copied_gb_per_s=2.0)


@pytest.mark.parametrize(
    ("shares", "reading", "activations", "said"),
    [
        ((0.1, 0.1, 0.1), 0.9, "keep", "arithmetic"),
        ((0.6, 0.1, 0.1), 0.9, "keep", "reading and decoding pictures"),
        ((0.6, 0.1, 0.1), 0.1, "keep", "augmentation"),
        ((0.1, 0.5, 0.1), 0.1, "keep", "copying"),
        ((0.1, 0.1, 0.6), 0.1, "keep", "gradients"),
        ((0.1, 0.1, 0.1), 0.1, "offload", "memory (activations: offload)"),
    ],
)
def test_the_largest_share_binds(shares: Any, reading: float, activations: str, said: str) -> None:
    found = profile([_row(1, *shares)], device="processor", activations=activations, reading_share=reading, remote=0.25)
    assert found is not None
    assert found.bound_by == said
    assert found.computing == pytest.approx(1 - sum(shares))
    assert found.line().startswith(f"bound by {said}: ")
    assert found.line().endswith(
        "copying at 2.00 GB/s, " + f"{shares[2]:.1%} gradients; processor busy 80%; 25% of memory on other NUMA nodes"
    )


def test_lines_of_the_log_weigh_by_their_minutes() -> None:
    rows = [_row(1, 0.9, 0, 0), _row(4, 0.1, 0, 0)]  # one minute, then three
    found = profile(rows, device="processor", activations="keep", reading_share=0)
    assert found is not None
    assert found.waiting == pytest.approx(0.3)
    assert profile([], device="processor", activations="keep", reading_share=0) is None


def test_a_window_tells_how_busy_the_device_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 14.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    busy = iter([1.0, 3.0, 7.0])
    window = Window(lambda: next(busy), threads=2)
    window.add(0.5, 8, taken=3.0, waited=1.0, copied=0.5, n_bytes=10**9)
    row = window.row(1, 0.1, 64, HeldOutError(1, 1, 1), 1e-3, 0.4)
    assert (row.busy_share, row.copied_gb_per_s) == (0.75, 2.0)  # 6 s of two threads' 8; 1 GB in half a second
    assert (row.waiting_share, row.copying_share, row.talking_share) == (0.25, 0.125, 0.1)


def test_a_training_says_what_bound_it(faces: Path, tmp_path: Path) -> None:
    recipe, data = override(Recipe(), [*TINY, "minutes=null", "steps=2", "eval_every=1"]), read_dataset(faces)
    memory = load_pictures(data.subset(data.rows_of("train")), side_px=80, margin=1.3)
    task = Task(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    found = fit_landmarks(recipe, build_net(recipe, 4), task, tmp_path).profile
    assert found is not None
    assert found.waiting + found.copying + found.talking + found.computing == pytest.approx(1)
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

    monkeypatch.setattr(checkpoint, "replacing", full)
    with pytest.raises(
        TrainingError, match=r"checkpoint.pt: cannot be written \(.+\); make room and go on with --resume"
    ):
        write_checkpoint(path, {"at": 2, "net": torch.zeros(100_000)})
    assert read_checkpoint(path) == {"at": 1}


def test_a_step_keeps_everything_on_the_rank_s_device(
    faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tensors without values, which refuse to meet those of the processor as a GPU's do."""
    recipe, data = override(Recipe(), [*TINY, "activations=checkpoint"]), read_dataset(faces)
    memory = load_pictures(data, side_px=80, margin=1.3)
    task = Task(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    rng = np.random.default_rng(1)
    crops = rng.integers(0, 255, (4, 64, 64, 3), dtype=np.uint8)
    batch = Batch(crops, rng.uniform(4, 60, (4, 4, 2)).astype(np.float32), np.ones((4, 4), np.float32))
    monkeypatch.setattr(torch.Tensor, "__float__", lambda value: 1.0)  # there are no values to look at
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda value: True)
    monkeypatch.setattr(loop, "precision", lambda *recipe_and_device: contextlib.nullcontext())
    run = Run(recipe, build_net(recipe, 4), task, tmp_path, Group(device=torch.device("meta")))
    run.step(batch, 0.0)
    run.step(batch, 0.0)
    assert run.at == 2
    state = [value for entry in run.optimiser.state.values() for value in entry.values() if value.ndim]
    assert {value.device.type for value in (*run.net.parameters(), *run.ema_tensors, *state)} == {"meta"}
    with pytest.raises(RuntimeError, match="device"):
        run._learn(torch.rand(4, 3, 64, 64), torch.zeros(4, 4, 2), losses.Target(*[torch.ones(4, 4)] * 3), 1.0)
