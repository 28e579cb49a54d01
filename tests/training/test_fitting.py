"""The loop that detector and second opinion are fitted by: what its checkpoints are good for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.training.trainer.checkpoint import data_print
from rotopaint_ai.training.trainer.fitting import CHECKPOINT, Fit, Schedule


class Small(nn.Module):
    """One layer and a batch norm, whose running means a bad batch spoils."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.block = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        """Normed features."""
        found: Tensor = self.norm(self.layer(x))
        return found


def fit(folder: Path, *, spoilt_at: int, data: str = "") -> Fit[Small, Tensor]:
    def batch(step: int) -> Tensor:
        crops = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))
        return crops * float("nan") if step == spoilt_at else crops

    def loss(net: nn.Module, crops: Tensor, noise: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        return net(crops).square().mean(), {"all": 1.0}

    plan = Schedule(name="small", minutes=None, steps=10, log_every=5, bf16=False)
    return Fit(plan, Small(), folder, make_batch=batch, loss_of=loss, blocks=(), data=data)


def test_a_loss_that_is_no_number_leaves_the_checkpoint_before_it(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="step 7: the loss is no longer a number"):
        fit(tmp_path, spoilt_at=7).run(lambda row: None, lambda: None)
    state = torch.load(tmp_path / CHECKPOINT, weights_only=True)
    assert state["at"] == 5
    assert torch.isfinite(state["net"]["norm.running_mean"]).all()


def test_a_checkpoint_of_something_else_is_refused_in_a_line(tmp_path: Path) -> None:
    torch.save({"x": 1}, tmp_path / CHECKPOINT)
    with pytest.raises(TrainingError, match="another recipe; train again without --resume"):
        fit(tmp_path, spoilt_at=-1).load()
    torch.save({"recipe": fit(tmp_path, spoilt_at=-1).plan.to_yaml()}, tmp_path / CHECKPOINT)
    with pytest.raises(TrainingError, match="another version, or from data with other landmarks; train again"):
        fit(tmp_path, spoilt_at=-1).load()


@pytest.mark.parametrize("content", [b"", b"no checkpoint" * 40, "a list"], ids=["empty", "damaged", "of another kind"])
def test_a_checkpoint_that_is_none_is_told_without_a_librarys_advice(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / CHECKPOINT
    path.write_bytes(content) if isinstance(content, bytes) else torch.save([content], path)
    with pytest.raises(TrainingError) as refused:
        fit(tmp_path, spoilt_at=-1).load()
    told = "cannot be read, it is damaged or no checkpoint; train again without --resume"
    assert str(refused.value) == f"{path}: {told}"


def test_other_data_under_the_same_recipe_are_not_gone_on_from(tmp_path: Path) -> None:
    fit(tmp_path, spoilt_at=-1, data="one").save()
    fit(tmp_path, spoilt_at=-1, data="one").load()
    with pytest.raises(TrainingError, match="was made from other data; train again without --resume"):
        fit(tmp_path, spoilt_at=-1, data="two").load()


def test_data_are_told_apart_by_shape_kind_bytes_and_order() -> None:
    one, two = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    assert data_print([one, two]) == data_print([one.copy(), two[::-1][::-1]])
    others: list[list[npt.NDArray[Any]]] = [
        [two, one],
        [one],
        [one.reshape(3, 2), two],
        [one.astype(np.float64), two],
    ]
    assert len({data_print(each) for each in ([one, two], *others)}) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup": 1.0}, "warmup 1.0: wanted 0 to below 1"),
        ({"weight_decay": -0.1}, "weight_decay -0.1"),
        ({"clip": 0.0}, "clip 0.0"),
        ({"learning_rate": 3.0}, "learning_rate 3.0"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_fields_out_of_range_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Schedule(**changes).check()
