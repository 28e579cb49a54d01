"""The seam network: strips along predicted seams to where the seam runs in them; its file, and a network of a file.

N batch, T places along, S pairs of places, D offsets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import GAP, MULTIPLE
from rotopaint_ai.training.trainer.onnx_export import export_checked

_PARITY = 1e-3
WIDTHS = (16, 32, 64)
CONTEXT = 3  # blocks that look further and further along the seam


class SeamNet(nn.Module):
    """A three-level U-shaped network on strips."""

    def __init__(self, widths: tuple[int, int, int] = WIDTHS, context: int = CONTEXT) -> None:
        super().__init__()
        a, b, c = widths
        self.fine = _conv_block(6, a)
        self.middle = nn.Sequential(_conv_block(a, b, stride=2), _conv_block(b, b))
        further = (_conv_block(c, c, dilation=2 ** (2 + k)) for k in range(context))
        self.coarse = nn.Sequential(_conv_block(b, c, stride=2), _conv_block(c, c, dilation=2), *further)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.middle_up = nn.Sequential(_conv_block(c + b, b, size=1), _conv_block(b, b))
        self.fine_up = nn.Sequential(_conv_block(b + a, a, size=1), _conv_block(a, a))
        self.where = nn.Conv2d(a, 1, 1)
        self.nothing = nn.Conv1d(2 * a, 1, 3, padding=1)

    def forward(self, strip: Tensor) -> Tensor:
        """[N, T, D, 3] -> logits [N, T / 2, D + 1]."""
        n, _, d, _ = strip.shape
        x = strip.reshape(n, -1, 2, d, 3).permute(0, 2, 4, 1, 3).reshape(n, 6, -1, d)
        fine = self.fine(x)
        middle = self.middle(fine)
        middle = self.middle_up(torch.cat([self.up(self.coarse(middle)), middle], 1))
        fine = self.fine_up(torch.cat([self.up(middle), fine], 1))
        pooled = torch.cat([fine.amax(3), fine.mean(3)], 1)
        return torch.cat([self.where(fine)[:, 0], self.nothing(pooled)[:, 0, :, None]], 2)


def _conv_block(n_in: int, n_out: int, *, size: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    padding = dilation * (size // 2)
    conv = nn.Conv2d(n_in, n_out, size, stride, padding, dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


def seam_net(path: Path) -> SeamNet:
    """The network that a `seam.onnx` was made from, up to its batch norms. Raises TrainingError on any other file."""
    try:
        graph = onnx.load(str(path)).graph
        stored = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    except Exception as error:  # protobuf raises many kinds
        raise TrainingError(f"{path}: cannot be read ({error}); copy the pack again") from error
    net = _empty_net(stored, path)
    state, places = net.state_dict(), _places(net, graph)
    state |= _norms_that_do_nothing(net)
    for name, wanted in places.items():
        if wanted not in stored or stored[wanted].shape != tuple(state[name].shape):
            raise TrainingError(f"{path}: has no weights '{wanted}' to start from; train with seam_minutes=0")
        state[name] = torch.tensor(stored[wanted])
    net.load_state_dict(state)
    return net.eval()


def _empty_net(stored: Mapping[str, npt.NDArray[Any]], path: Path) -> SeamNet:
    """A network of the sizes of a file's weights."""
    firsts = ("fine.0.weight", "middle.0.0.weight", "coarse.0.0.weight")
    if missing := [name for name in firsts if name not in stored]:
        raise TrainingError(f"{path}: has no weights '{missing[0]}' to start from; train with seam_minutes=0")
    a, b, c = (len(stored[name]) for name in firsts)
    return SeamNet((a, b, c), sum(bool(re.fullmatch(r"coarse\.\d+\.0\.weight", name)) for name in stored) - 2)


_NORM = ("weight", "bias", "running_mean", "running_var")  # as an ONNX node takes them after its input


def _places(net: SeamNet, graph: onnx.GraphProto) -> dict[str, str]:
    """Where a file holds each tensor. Its batch norms are nodes, in their order and with equal tensors shared, or
    folded into convolutions: then it holds their offsets alone."""
    norms = [name for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)]
    nodes = [node for node in graph.node if node.op_type == "BatchNormalization"]
    places = {name: name for name, _ in net.named_parameters() if name.rpartition(".")[0] not in norms}
    if not nodes:
        return places | {f"{norm}.bias": _stored_name(f"{norm}.bias") for norm in norms}
    pairs = [(norm, node.input[1:5]) for norm, node in zip(norms, nodes)]
    return places | {f"{norm}.{part}": name for norm, names in pairs for part, name in zip(_NORM, names)}


def _norms_that_do_nothing(net: SeamNet) -> dict[str, Tensor]:
    """Of all batch norms what is not their offset."""
    found: dict[str, Tensor] = {}
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            found[f"{name}.weight"] = torch.full_like(module.weight, (1 + module.eps) ** 0.5)
            found[f"{name}.running_mean"] = torch.zeros_like(module.weight)
            found[f"{name}.running_var"] = torch.ones_like(module.weight)
    return found


def _stored_name(name: str) -> str:
    """A folded offset of a block's norm (`fine.1.bias`) is named after its convolution (`fine.0.weight_bias`)."""
    return f"{name.removesuffix('1.bias')}0.weight_bias"


def export(net: SeamNet, path: Path) -> float:
    """Write the network with a free number of places; the largest difference to torch on a strip of another length.

    Raises: TrainingError when the file gives something else than the network.
    """
    draw = np.random.default_rng(0)
    example = draw.standard_normal((1, 20 * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    other = draw.standard_normal((1, 13 * MULTIPLE + 2 * GAP // MULTIPLE * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    free = {1: MULTIPLE * torch.export.Dim("places", min=2, max=512)}
    names = ("zoomed_strip", ("logits",))
    return export_checked(net, path, names, other, limits={"logits": _PARITY}, example=example, free=free)
