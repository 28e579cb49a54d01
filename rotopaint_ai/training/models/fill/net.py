"""The network of `fill.onnx`: three levels of convolutions on straightened seams, about 0.1 M weights.

N batch, T rows across, S columns along, K channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rotopaint_ai.seams.learned import N_ANSWERS, N_CHANNELS, TRACE

WIDTHS = (16, 32, 56)
_AS_IS = 3.0  # logit of the tables' share before training


class FillNet(nn.Module):
    """[N, T, S, 12] -> [N, T, S, 7]; about 20,000 multiplications a sample. Untrained, it keeps the tables' paint."""

    def __init__(self) -> None:
        super().__init__()
        self.is_frozen = False  # batch norms keep their statistics
        fine, middle, coarse = WIDTHS
        self.fine = nn.Sequential(_block(N_CHANNELS, fine), _block(fine, fine))
        self.middle = nn.Sequential(_block(fine, middle, stride=2), _block(middle, middle))
        self.coarse = nn.Sequential(
            _block(middle, coarse, stride=2), _block(coarse, coarse, dilation=2), _block(coarse, coarse)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.to_middle, self.to_fine = nn.Conv2d(coarse, middle, 1), nn.Conv2d(middle, fine, 1)
        self.join_middle, self.join_fine = _block(middle, middle), _block(fine, fine)
        self.answer = nn.Conv2d(fine, N_ANSWERS, 1)
        assert self.answer.bias is not None
        with torch.no_grad():
            self.answer.weight.mul_(0.1)
            self.answer.bias += torch.tensor([_AS_IS, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])

    def train(self, mode: bool = True) -> FillNet:
        """As any module's; frozen batch norms stay as they are."""
        super().train(mode)
        if self.is_frozen:
            for part in self.modules():
                if isinstance(part, nn.BatchNorm2d):
                    part.eval()
        return self

    def forward(self, strip: Tensor) -> Tensor:
        """Logits of the shares of the tables' paint, plate, face and banks, and an offset for each colour."""
        fine = self.fine(strip.permute(0, 3, 1, 2))
        middle = self.middle(fine)
        middle = self.join_middle(middle + self.up(self.to_middle(self.coarse(middle))))
        fine = self.join_fine(fine + self.up(self.to_fine(middle)))
        answer: Tensor = self.answer(fine).permute(0, 2, 3, 1)
        return answer


def _block(n_in: int, n_out: int, *, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)
    )


def mixed(answer: Tensor, light: Tensor) -> Tensor:
    """Corrected log light [N, T, S, 3] from an answer and its sources [N, 4, T, S, 3], as `seams.learned` does."""
    tables, plate, face, banks = torch.softmax(answer[..., :4].float(), -1).unbind(-1)
    traces = torch.minimum(plate, TRACE * (1.0 - plate))
    shares = torch.stack((tables, plate - traces, face + traces, banks), 1)
    filled: Tensor = (shares[..., None] * light).sum(1) + answer[..., 4:].float()
    return filled
