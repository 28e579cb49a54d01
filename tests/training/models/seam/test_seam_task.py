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

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import SEAM_N_FEATURES, load_pack
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import PICTURE_PX, places_along, strips
from rotopaint_ai.training.data.dataset import Dataset, Truth, read_dataset
from rotopaint_ai.training.models.seam.examples import Examples
from rotopaint_ai.training.models.seam.features import features_along
from rotopaint_ai.training.models.seam.task import (
    NetEvidence,
    SeamConfig,
    SeamNet,
    SeamNets,
    SeamTask,
    export_seam,
    find_seams_to_leave,
    load_seam_nets,
    tune_seam_net,
    with_features,
)
from rotopaint_ai.training.trainer.config import override


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_networks_read_from_their_files_are_the_same() -> None:
    pack = load_pack()
    assert pack.seam_path is not None
    model, nets = open_models(pack, device="cpu", threads=1).find_seams, load_seam_nets(pack.seam_path)
    assert model is not None
    own, picture = NetEvidence(nets), np.random.default_rng(0).integers(0, 256, (PICTURE_PX, PICTURE_PX, 3), np.uint8)
    features, strip = model.features(picture), drawn(1, 24, N_OFFSETS, 3 + SEAM_N_FEATURES).numpy()
    assert features is not None
    assert own.zooms == model.zooms
    np.testing.assert_allclose(np.asarray(own.features(picture)), features, atol=2e-2)  # half precision
    np.testing.assert_allclose(own(strip), model(strip), atol=1e-3)


def test_networks_that_were_taught_can_be_taught_on(tmp_path: Path) -> None:
    """A user's own pack: the exporter writes its batch norms, whereas the shipped file has them folded."""
    torch.manual_seed(3)
    nets = with_features(SeamNets(SeamNet(), None))
    given = drawn(2, 96, 96, 3), drawn(3, 24, N_OFFSETS, 3), drawn(3, 24, N_OFFSETS, 2) / 2, torch.tensor([0, 0, 1])
    nets.train()(*given)  # the norms have statistics
    nets.find.fine[0].weight.data += 0.1 * drawn(16, 2 * (3 + SEAM_N_FEATURES), 3, 3)  # features count
    export_seam(nets, tmp_path / "seam.onnx")
    again = load_seam_nets(tmp_path / "seam.onnx")
    with torch.no_grad():
        torch.testing.assert_close(again(*given), nets.eval()(*given), atol=1e-4, rtol=1e-4)


def test_a_share_of_the_weights_that_a_training_starts_from_is_kept(faces: Path, tmp_path: Path) -> None:
    first = load_pack().seam_path
    examples = Examples.of(read_dataset(faces))
    nets = load_seam_nets(cast(Path, first))
    half = SeamTask(override(SeamConfig(), [f"start={first}", "kept=0.5"]), nets, examples)
    begun = [np.array(each) for each in half.arrays()]
    with torch.no_grad():
        cast(Tensor, nets.find.where.bias).add_(2.0)
    half.export(nets, tmp_path / "seam.onnx")
    mixed, before = load_seam_nets(tmp_path / "seam.onnx"), load_seam_nets(cast(Path, first))
    for weight, old, new in zip(mixed.parameters(), before.parameters(), nets.parameters()):
        torch.testing.assert_close(weight, (old + new) / 2, atol=1e-5, rtol=1e-4)
    moved = SeamTask(half.config, nets, examples).arrays()  # a resumed training that would begin elsewhere
    assert any(not np.array_equal(one, other) for one, other in zip(begun, moved))
    with pytest.raises(UsageError, match=r"kept 0\.5: wanted start=SEAM\.onnx"):
        override(SeamConfig(), ["kept=0.5"])


def test_features_that_were_not_learned_yet_change_nothing() -> None:
    torch.manual_seed(4)
    alone = SeamNets(SeamNet(), None).eval()
    given = drawn(1, 96, 96, 3), drawn(2, 24, N_OFFSETS, 3), drawn(2, 24, N_OFFSETS, 2) / 2, torch.tensor([0, 0])
    with torch.no_grad():
        wanted, none = alone(*given)
        assert none is None
        got, first = with_features(alone).eval()(*given)
    torch.testing.assert_close(got, wanted)
    assert first is not None
    assert first.shape == (2, 12, N_OFFSETS)


def test_strips_read_features_where_training_reads_them() -> None:
    """OpenCV at run time and torch in training, inside the crop, at its border and beyond it."""
    features = np.random.default_rng(1).random((52, 52, SEAM_N_FEATURES), np.float32)
    crop = Crop(120.0, 90.0, 104.0)
    curve = np.array([[60.0, 60, 0, 0, 20, 10], [120.0, 90, -20, -5, 20, 5], [185.0, 60, -20, 10, 0, 0]])
    ribbon = places_along(curve, 2.0)
    assert ribbon is not None
    strip, _ = strips([ribbon], np.zeros((8, 8, 3), np.uint8), crop, 1.0, features)
    places = 2 * (ribbon.points_at(OFFSETS) - (crop.x, crop.y)) / crop.side
    wanted = features_along(torch.from_numpy(features)[None], torch.from_numpy(places)[None].float())
    np.testing.assert_allclose(strip[:, : len(ribbon.at), :, 3:], wanted.numpy(), atol=0.03)  # of 1/32 px in OpenCV
    assert (np.abs(places).max(axis=2) > 1.05).any()


def test_a_file_that_is_no_seam_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "seam.onnx").write_bytes(b"not a graph")
    with pytest.raises(TrainingError, match="copy the pack again"):
        load_seam_nets(tmp_path / "seam.onnx")


def drawn_seams(faces: Path) -> Dataset:
    """Synthetic faces; their seams are not drawn."""
    data = read_dataset(faces)
    held = [at in (0, 1, 2) for at in range(len(data))]
    samples = tuple(replace(s, split="val" if out else "train") for s, out in zip(data.samples, held))
    return replace(data, samples=samples)


def test_tuning_reports_its_result(faces: Path) -> None:
    torch.manual_seed(0)
    start = with_features(SeamNets(SeamNet(), None)).eval()
    before = {name: value.clone() for name, value in start.state_dict().items()}
    tuned = tune_seam_net(drawn_seams(faces), start, minutes=0.02)
    assert tuned is not None
    assert tuned.steps >= 1
    assert 0 < tuned.before <= 5
    assert tuned.is_better == (tuned.after < tuned.before)
    for name, value in start.state_dict().items():
        torch.testing.assert_close(value, before[name])  # the initial network stays unchanged
    made = tuned.net.state_dict()
    for name in (name for name in before if name.endswith("running_mean")):
        torch.testing.assert_close(made[name], before[name])
    assert any(not torch.equal(made[name], before[name]) for name in before if name.startswith("describe"))


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
        SeamNets(cast(SeamNet, net), None),
    )
    assert left == still
