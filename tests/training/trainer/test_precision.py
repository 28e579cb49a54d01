"""The numeric precision of a step."""

from __future__ import annotations

import pytest
import torch

from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.task import precision


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_bf16_is_for_processors_that_have_it(asked: bool, has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without these instructions emulates them: a character's training took ten times as long there."""
    reported = {"architecture": "x86_64", "avx512_bf16": has, "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: reported, raising=False)
    with precision(TrainConfig(bf16=asked), torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if asked and has else torch.float32)
