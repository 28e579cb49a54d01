"""The seam network tuned on one character's seams; seams that are better left as predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.inference.onnx_session import open_session
from rotopaint_ai.inference.pack import SEAM
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.training.data.dataset import Dataset, Truth, read_dataset
from rotopaint_ai.training.models.backbone import find_part
from rotopaint_ai.training.models.seam.examples import Examples
from rotopaint_ai.training.models.seam.task import (
    SeamNet,
    export_seam,
    find_seams_to_leave,
    load_seam_net,
    tune_seam_net,
)


def test_a_network_read_from_its_file_is_the_same() -> None:
    path = find_part(None, SEAM)
    assert path is not None
    strip = torch.randn(2, 24, N_OFFSETS, 3, generator=torch.Generator().manual_seed(0))
    session = open_session(path, device="cpu", threads=1, example={"zoomed_strip": strip[:1].numpy()})
    wanted = np.concatenate([session.run(("logits",), {"zoomed_strip": row[None].numpy()})[0] for row in strip])
    with torch.no_grad():
        np.testing.assert_allclose(load_seam_net(path)(strip).numpy(), wanted, atol=1e-4)


def test_a_network_that_was_taught_can_be_taught_on(tmp_path: Path) -> None:
    """A user's own pack: the exporter writes its batch norms, whereas the shipped file has them folded."""
    torch.manual_seed(3)
    net = SeamNet()
    strip = torch.randn(3, 24, N_OFFSETS, 3)
    net.train()(strip)  # the norms have statistics
    export_seam(net, tmp_path / "seam.onnx")
    with torch.no_grad():
        torch.testing.assert_close(load_seam_net(tmp_path / "seam.onnx")(strip), net.eval()(strip))


def test_a_file_that_is_no_seam_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "seam.onnx").write_bytes(b"not a graph")
    with pytest.raises(TrainingError, match="copy the pack again"):
        load_seam_net(tmp_path / "seam.onnx")


def drawn_seams(faces: Path) -> Dataset:
    """Synthetic faces; their seams are not drawn."""
    data = read_dataset(faces)
    held = [at in (0, 1, 2) for at in range(len(data))]
    samples = tuple(replace(s, split="val" if out else "train") for s, out in zip(data.samples, held))
    return replace(data, samples=samples)


def test_tuning_reports_its_result(faces: Path) -> None:
    torch.manual_seed(0)
    start = SeamNet().eval()
    before = {name: value.clone() for name, value in start.state_dict().items()}
    tuned = tune_seam_net(drawn_seams(faces), start, minutes=0.02)
    assert tuned is not None
    assert tuned.steps >= 1
    assert 0 < tuned.before <= 5
    assert tuned.is_better == (tuned.after < tuned.before)
    for name, value in start.state_dict().items():
        torch.testing.assert_close(value, before[name])  # the initial network stays unchanged
    norms = [name for name in before if name.endswith("running_mean")]
    for name in norms:
        torch.testing.assert_close(tuned.net.state_dict()[name], before[name])


def test_no_picture_is_decoded_before_it_is_wanted(faces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    picture = Dataset.picture
    monkeypatch.setattr(Dataset, "picture", lambda data, row: decoded.append(row) or picture(data, row))
    examples = Examples.of(read_dataset(faces))
    assert decoded == []
    for _ in range(3):
        examples.make(5, np.random.default_rng(0))
    assert decoded == [5]


class Darkest(nn.Module):
    """Finds the seam where the strip is darkest."""

    def forward(self, strip: Tensor) -> Tensor:
        dark = -strip.mean(3).unflatten(1, (-1, 2)).mean(2) * 8
        return torch.cat([dark, torch.full_like(dark[..., :1], -20)], 2)


class Blind(nn.Module):
    """Finds nothing."""

    def forward(self, strip: Tensor) -> Tensor:
        n, places = strip.shape[0], strip.shape[1] // 2
        return torch.cat([torch.full((n, places, N_OFFSETS), -20.0), torch.full((n, places, 1), 20.0)], 2)


@pytest.mark.parametrize(("net", "still"), [(Darkest(), ()), (Blind(), ("seam",))])
def test_seams_are_placed_where_that_helps(faces: Path, net: nn.Module, still: tuple[str, ...]) -> None:
    data = read_dataset(faces)
    held = data.subset(np.arange(2))
    rows, size = data.sheet.point_rows()["seam"], 320
    marks = np.array([[90, 80], [230, 80], [160, 240], [160, 60]], np.float32)  # the face's box: 60 to 240
    line = np.stack([np.linspace(90, 230, 3), [120, 130, 120]], 1)
    points = np.full((2, data.sheet.n_points, 6), np.nan, np.float32)
    points[:, rows, :2] = line
    points[:, rows, 2:] = [-23, 0, 23, 0]
    picture = np.full((size, size, 3), 180, np.uint8)
    t = np.linspace(0, 1, 100)[:, None]
    cubic = (
        (1 - t) ** 3 * [90, 120]
        + 3 * (1 - t) ** 2 * t * [113, 120]
        + 3 * (1 - t) * t**2 * [137, 130]
        + t**3 * [160, 130]
    )
    curve = np.concatenate([cubic, cubic[::-1] * [-1, 1] + [320, 0]])
    cv2.polylines(picture, [np.round((curve - 0.5) * 16).astype(np.int32)], False, (60, 60, 60), 3, cv2.LINE_AA, 4)
    truth = Truth(np.stack([marks] * 2), np.ones((2, 4), np.float32), points, np.full((2, 2), np.nan, np.float32))
    predicted = points.astype(np.float64)
    predicted[..., 1] += 4.0
    left = find_seams_to_leave(
        replace(held, truth=truth),
        [picture, picture],
        truth.landmarks.astype(np.float64),
        predicted,
        np.full(4, 0.02),
        cast(SeamNet, net),
    )
    assert left == still
