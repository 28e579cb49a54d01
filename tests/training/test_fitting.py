"""The loop that detector and second opinion are fitted by: what its checkpoints are good for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.fitting import CHECKPOINT, Fit, Schedule


class Small(nn.Module):
    """One layer and a batch norm, whose running means a bad batch spoils."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.block = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        """Normed features."""
        found: Tensor = self.norm(self.layer(x))
        return found


def fit(folder: Path, *, spoilt_at: int) -> Fit[Small, Tensor]:
    def batch(step: int) -> Tensor:
        crops = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))
        return crops * float("nan") if step == spoilt_at else crops

    def loss(net: nn.Module, crops: Tensor, noise: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        return net(crops).square().mean(), {"all": 1.0}

    plan = Schedule(name="small", minutes=None, steps=10, log_every=5, bf16=False)
    return Fit(plan, Small(), folder, make_batch=batch, loss_of=loss, blocks=())


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
    with pytest.raises(TrainingError, match="another version; train again without --resume"):
        fit(tmp_path, spoilt_at=-1).load()
