"""Models in integers: what becomes an integer, that no processor saturates, and that they still say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from rotopaint_ai.inference.session import open_session
from rotopaint_ai.training.trainer.onnx_export import export_checked, write_int8


class Chain(nn.Module):
    """Three convolutions, a sum between them, and a mean over the picture that has to stay in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(n, 8, 3, padding=1) for n in (3, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.third(x + torch.relu(self.second(x))).mean((2, 3))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("chain") / "chain.onnx"
    export_checked(Chain(), path, ("x", ("mean",)), pictures(4), limits={"mean": 1e-4})
    write_int8(path, path.with_name("int8.onnx"), "x", pictures(12))
    return path


def pictures(n: int) -> np.ndarray:
    return np.random.default_rng(n).random((n, 3, 16, 16), dtype=np.float32)


def test_all_convolutions_but_the_first_are_integers_of_seven_bits(chain: Path) -> None:
    graph = onnx.load(chain.with_name("int8.onnx")).graph
    makers = {name: node for node in graph.node for name in node.output}
    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    weights = [makers[node.input[1]] for node in convolutions if node.input[1] in makers]
    assert (len(convolutions), len(weights)) == (3, 2)
    for weight in weights:
        integers = values[weight.input[0]]
        assert integers.dtype == np.int8
        # two products of 255 and 64 are what x86 without VNNI adds up in 16 bits
        assert 2 * 255 * int(np.abs(integers.astype(int)).max()) <= 2**15
    assert [node.op_type for node in graph.node if node.op_type.startswith("Reduce")] == ["ReduceMean"]


def test_integers_say_the_same_within_their_steps(chain: Path) -> None:
    seen = pictures(5)
    exact, rounded = (
        open_session(path, device="cpu", threads=1, example={"x": seen[:1]}).run(("mean",), {"x": seen})[0]
        for path in (chain, chain.with_name("int8.onnx"))
    )
    spread = float(exact.std())
    assert 0 < np.abs(exact - rounded).max() < 0.1 * spread
