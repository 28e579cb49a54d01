"""The seam network: strips along predicted seams to where the seam runs in them; its file, and a network of a file.

N batch, T places along, S pairs of places, D offsets.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import GAP, MULTIPLE
from rotopaint_ai.training.trainer.onnx_export import export_checked, load_weights, read_graph

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
    graph = read_graph(path)
    firsts = ("fine.0.weight", "middle.0.0.weight", "coarse.0.0.weight")
    sizes = {item.name: item.dims[0] for item in graph.initializer if item.name.endswith(".weight")}
    n_coarse = sum(bool(re.fullmatch(r"coarse\.\d+\.0\.weight", name)) for name in sizes)
    a, b, c = (sizes.get(name, 0) or width for name, width in zip(firsts, WIDTHS))
    net = SeamNet((a, b, c), max(0, n_coarse - 2))
    load_weights(net, graph, path)
    return net.eval()


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
