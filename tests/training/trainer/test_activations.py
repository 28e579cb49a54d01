"""Activation checkpointing never changes the gradients; a batch that does not fit trains with less memory."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import UsageError
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.net import LandmarkNet
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.trainer.activations import Activations, is_out_of_memory
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.cores import make_timed
from rotopaint_ai.training.trainer.trainer import Trainer

TINY = ["widths=[8, 8, 8, 8, 8]", "depths=[1, 1, 1, 1]", "neck=8", "fine=8", "batch=4", "bf16=false", "input_size=64"]


def _learn(mode: str, folder: Path) -> tuple[LandmarkNet, list[torch.Tensor], int]:
    """A network after one forward and backward pass, its gradients, and the bytes saved in between."""
    net = build_net(PackConfig(), 4).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    kept: dict[int, int] = {}

    def weigh(value: torch.Tensor) -> torch.Tensor:
        kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    crops = torch.rand(4, 3, 128, 128, generator=torch.Generator().manual_seed(3)).to(memory_format=torch.channels_last)
    seeing = torch.autograd.graph.saved_tensors_hooks(weigh, lambda value: value)  # saved tensors in memory
    with seeing, Activations(mode, net.blocks(), folder).saving():
        said = net(crops)
        n_bytes = sum(kept.values())
        ((said.points**2).mean() + (said.log_scale**2).mean()).backward()
    return net, [p.grad for p in net.parameters() if p.grad is not None], n_bytes


@pytest.mark.parametrize("mode", ["checkpoint", "offload"])
def test_gradients_and_running_means_are_the_same(mode: str, tmp_path: Path) -> None:
    plain, wanted, n_plain = _learn("keep", tmp_path)
    other, found, n_other = _learn(mode, tmp_path)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for (name, a), (_, b) in zip(plain.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    assert n_other < 0.8 * n_plain
    assert not list(tmp_path.iterdir())  # no files remain


def test_auto_gives_way_twice_and_then_no_more() -> None:
    net = build_net(PackConfig(), 4)
    activations = Activations("auto", net.blocks())
    steps = [activations.current]
    while activations.save_memory():
        steps.append(activations.current)
    assert steps == ["keep", "checkpoint", "offload"]
    assert not Activations("keep", net.blocks()).save_memory()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_is_reported_from_other_errors(error: Any, said: bool) -> None:
    assert is_out_of_memory(error) is said


def test_other_words_are_refused() -> None:
    with pytest.raises(UsageError, match="activations sometimes: wanted one of auto, keep, checkpoint, offload"):
        load_pack_config(None, ["activations=sometimes"])


def test_a_batch_that_does_not_fit_is_kept_in_less(faces: Path, tmp_path: Path) -> None:
    """`auto` saves all activations until memory runs out; these are freed before the next attempt."""
    recipe = override(PackConfig(), [*TINY, "activations=auto"])
    memory = load_pictures(read_dataset(faces), side_px=80, margin=1.3)
    data = LandmarkData(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    run = Trainer(recipe, LandmarkTask(recipe, build_net(recipe, 4), data), tmp_path)
    kept: list[weakref.ref[torch.Tensor]] = []
    given_back: list[bool] = []

    def ask_for_too_much(stage: Any, inputs: Any, output: torch.Tensor) -> None:
        if run.activations.current == "keep":
            kept.append(weakref.ref(output))
            torch.empty(1 << 60, dtype=torch.uint8)
        given_back.append(kept[0]() is None)

    run.net.blocks()[0].register_forward_hook(ask_for_too_much)
    run.step(make_timed(run.task, run.moment(0)), 0.0)
    assert (run.at, run.activations.current) == (1, "checkpoint")
    assert given_back
    assert all(given_back)
