"""The network of `seam.onnx`, and how it is read back from its file.

    seam.onnx   `strip` float32 [N, T, D, 3], T a multiple of 8, D = N_OFFSETS -> `logits` [N, T / 2, D + 1]

It tells a seam from everything else near a predicted curve. It knows no landmarks and no sheet: it serves any pack.
The file holds no batch norms any more, they are part of its convolutions; a network that starts from it has them as
plain scales and offsets.

N batch, T places along, D offsets.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import GAP, MULTIPLE
from rotopaint_ai.training.trainer.onnx_export import export_checked

_PARITY = 1e-3


class SeamNet(nn.Module):
    """A three-level U-shaped network on strips; about 30,000 weights, half of a million multiplications a place."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = _block(6, 12)
        self.middle = nn.Sequential(_block(12, 24, stride=2), _block(24, 24))
        self.coarse = nn.Sequential(_block(24, 32, stride=2), _block(32, 32, dilation=2))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.middle_up = nn.Sequential(_block(32 + 24, 24, size=1), _block(24, 24))
        self.fine_up = nn.Sequential(_block(24 + 12, 12, size=1), _block(12, 12))
        self.where = nn.Conv2d(12, 1, 1)
        self.nothing = nn.Conv1d(24, 1, 3, padding=1)

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


def _block(n_in: int, n_out: int, *, size: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    padding = dilation * (size // 2)
    conv = nn.Conv2d(n_in, n_out, size, stride, padding, dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


def seam_net(path: Path) -> SeamNet:
    """The network that a `seam.onnx` was made from, up to its batch norms. Raises TrainingError on any other file."""
    try:
        stored = {item.name: numpy_helper.to_array(item) for item in onnx.load(str(path)).graph.initializer}
    except Exception as error:  # protobuf raises many kinds
        raise TrainingError(f"{path}: cannot be read ({error}); copy the pack again") from error
    net = SeamNet()
    state = net.state_dict()
    for name in [name for name in state if name.endswith((".running_mean", ".running_var"))]:
        state[name] = torch.zeros_like(state[name]) if name.endswith("mean") else torch.ones_like(state[name])
    for name in _own_names(net):
        wanted = _stored_name(name)
        if wanted not in stored or stored[wanted].shape != tuple(state[name].shape):
            raise TrainingError(f"{path}: has no weights '{wanted}' to start from; train with seam_minutes=0")
        state[name] = torch.tensor(stored[wanted])
    for module_name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            state[f"{module_name}.weight"] = torch.full_like(module.weight, (1 + module.eps) ** 0.5)
    net.load_state_dict(state)
    return net.eval()


def _own_names(net: SeamNet) -> list[str]:
    """Tensors that the file holds: weights of convolutions, their biases, and the offsets of batch norms."""
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)}
    own = [name for name, _ in net.named_parameters()]
    return [name for name in own if name.rpartition(".")[0] not in norms or name.endswith(".bias")]


def _stored_name(name: str) -> str:
    """The exporter names the offset of a block's norm (`fine.1.bias`) after its convolution (`fine.0.weight_bias`)."""
    module, _, part = name.rpartition(".")
    block, _, index = module.rpartition(".")
    return f"{block}.0.weight_bias" if block and index == "1" and part == "bias" else name


def export(net: SeamNet, path: Path) -> float:
    """Write the network with a free number of places; the largest difference to torch on a strip of another length.

    Raises: TrainingError when the file gives something else than the network.
    """
    draw = np.random.default_rng(0)
    example = draw.standard_normal((1, 20 * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    other = draw.standard_normal((1, 13 * MULTIPLE + 2 * GAP // MULTIPLE * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    free = {1: MULTIPLE * torch.export.Dim("places", min=2, max=512)}
    names = ("strip", ("logits",))
    return export_checked(net, path, names, other, limits={"logits": _PARITY}, example=example, free=free)
