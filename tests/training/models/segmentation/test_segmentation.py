"""Segmentation: gates, the dual task, labels that move with the picture, and export."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.training.data.augment import STRAIGHT, Geometry
from rotopaint_ai.training.data.dataset_checks import split_samples
from rotopaint_ai.training.models.segmentation import task as losses
from rotopaint_ai.training.models.segmentation.task import GatedConv, GatedNet, SegmentationConfig, SegmentationOutput
from rotopaint_ai.training.models.segmentation.views import CropMaker, SegmentationView, read_views
from rotopaint_ai.training.pack.network import TrainOptions, train_network


def test_a_gate_keeps_the_shape_streams_size() -> None:
    gate = GatedConv(8, 24).eval()
    assert gate(torch.randn(2, 8, 16, 24), torch.randn(2, 24, 4, 6)).shape == (2, 8, 16, 24)


def test_a_closed_gate_passes_the_stream_and_an_open_one_doubles_it() -> None:
    """shape' = W (shape * alpha + shape): with W the identity, once the shape at alpha 0 and twice at alpha 1."""
    gate = GatedConv(4, 6).eval()
    with torch.no_grad():
        gate.weigh.weight.copy_(torch.eye(4)[:, :, None, None])
        gate.weigh.bias.zero_()  # type: ignore[union-attr]
        shape, regular = torch.randn(1, 4, 8, 8), torch.randn(1, 6, 4, 4)
        for bias, times in ((-60.0, 1.0), (60.0, 2.0)):
            gate.gate[3].bias.fill_(bias)  # type: ignore[operator, union-attr]
            torch.testing.assert_close(gate(shape, regular), shape * times)


def test_the_network_gives_classes_and_edges_at_the_crops_size() -> None:
    net = GatedNet(widths=(8, 8, 8, 8, 8), neck=8, shape=8).eval()
    said = net(torch.rand(2, 3, 64, 96))
    assert said.classes.shape == (2, 2, 64, 96)
    assert said.edges.shape == (2, 64, 96)


def _target() -> losses.SegmentationTarget:
    seam, face = torch.zeros(1, 32, 32), torch.zeros(1, 32, 32)
    face[:, 4:28, 4:28] = 1
    seam[:, 15:17, 4:28] = 1
    return losses.segmentation_target(seam, face)


def _logits(target: losses.SegmentationTarget, sure: float) -> SegmentationOutput:
    return SegmentationOutput((target.classes * 2 - 1) * sure, (target.edges * 2 - 1) * sure)


def test_edges_lie_where_coverage_changes() -> None:
    edges = _target().edges[0]
    assert edges[4, 10] == edges[15, 10] == 1
    assert edges[9, 9] == edges[0, 0] == 0
    # a step smoothed over three pixels is 0, 1/3, 2/3, 1: central slopes of 1/6, 1/3, 1/3, 1/6, times root 2
    step = torch.zeros(1, 1, 9, 9)
    step[..., 5:] = 1
    slopes = [0, 0, 0, 1 / 6, 1 / 3, 1 / 3, 1 / 6, 0, 0]
    assert losses.boundary(step)[0, 0, 4].tolist() == pytest.approx([2**0.5 * s for s in slopes], abs=1e-3)


@pytest.mark.parametrize("name", list(losses.LOSSES))
def test_what_is_right_costs_less_than_what_is_wrong(name: str) -> None:
    target = _target()
    right, wrong = (float(losses.LOSSES[name](_logits(target, sure), target)) for sure in (9.0, -9.0))
    assert right < 0.05
    assert wrong > (0.05 if name != "own_edges" else right)  # an inverted picture has its edges in the right places


def test_thin_seams_count() -> None:
    """A network that finds no seam at all gets a large loss, although 98 % of its pixels are right."""
    target = _target()
    blind = SegmentationOutput(
        torch.cat((torch.full((1, 1, 32, 32), -9.0), (target.classes[:, 1:] * 2 - 1) * 9), 1), target.edges
    )
    assert float(losses.LOSSES["overlap"](blind, target)) > 0.9


def _view() -> SegmentationView:
    picture, seam = np.full((120, 140, 3), 40, np.uint8), np.zeros((120, 140), np.uint8)
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    outline = np.stack((70 + 36 * np.cos(t), 60 + 44 * np.sin(t)), 1)
    cv2.fillPoly(picture, [outline.round().astype(np.int32)], (200, 60, 60))
    cv2.line(picture, (45, 60), (95, 60), (0, 255, 0), 4)
    cv2.line(seam, (45, 60), (95, 60), 255, 4)
    return SegmentationView(picture, "train", "made up", seam, outline, outline[::6])


def test_labels_move_with_the_crop() -> None:
    cutter = CropMaker([_view()], 96, 1.3, Geometry((0.8, 1.2), 0.05, 25, 0.5, 0.1, 0.3), {})
    crops = cutter.batch([0] * 8, np.random.default_rng(0))
    green, red = crops.pictures[..., 1] > 150, crops.pictures[..., 0] > 120
    assert ((crops.seam > 0.5) ^ green).mean() < 0.01
    assert ((crops.face > 0.5) ^ (red | green)).mean() < 0.02


def test_what_an_occluder_hides_is_no_seam() -> None:
    bare = CropMaker([_view()], 96, 1.3, STRAIGHT, {}).batch([0] * 12, np.random.default_rng(2))
    crops = CropMaker([_view()], 96, 1.3, STRAIGHT, {"occluders": 1.0}).batch([0] * 12, np.random.default_rng(2))
    reported, untold = ((crops.pictures[seam > 0.9][:, 1] > 150).mean() for seam in (crops.seam, bare.seam))
    assert untold < 0.93 < 0.95 < reported  # the rest are soft edges


def _shot(folder: Path, n: int = 4) -> Path:
    folder.mkdir()
    view, keys, marks = _view(), {}, {}
    for k in range(n):
        frame = 1001 + k
        picture = cv2.add(view.picture, np.full_like(view.picture, frame % 7))  # no two frames are equal
        cv2.imwrite(str(folder / f"plate.{frame}.png"), picture[..., ::-1])
        cv2.imwrite(str(folder / f"seam.{frame}.png"), view.seam)
        corners = [(34, 60), (70, 16), (106, 60), (70, 104)]
        keys[frame] = Key(tuple(ControlPoint(float(x), float(y)) for x, y in corners), "human")
        marks[frame] = tuple(Landmark(float(x), float(y)) for x, y in [*corners, (70, 60)])
    shape = RotoShape("face_outline", True, "matte", keys)
    names = tuple(f"p{k}" for k in range(5))
    truth = RotoDocument(140, 120, 1001, 1000 + n, landmarks=LandmarkKeys(names, marks), shapes=(shape,))
    document.write(folder / "truth.roto.json", truth)
    return folder


def test_a_training_writes_a_file_that_says_what_the_network_says(tmp_path: Path) -> None:
    """`export` compares file and network and raises where they differ."""
    shot = _shot(tmp_path / "shot")
    small = ("widths=[8,8,8,8,8]", "neck=8", "shape=8", "input_size=64", "window=64", "batch=2", "minutes=null")
    out = tmp_path / "matte.onnx"
    found = train_network("segmentation", TrainOptions([str(shot)], out, "segmentation", (*small, "steps=2"), "none"))
    assert {"seam_f_1_px", "seam_f_2_px", "seam_f_3_px", "face_iou"} <= set(found)
    assert json.loads((tmp_path / "matte.json").read_text())["parity"] < 0.001


def test_wrong_sources_are_reported(tmp_path: Path) -> None:
    shot = _shot(tmp_path / "shot", 1)
    (shot / "seam.1001.png").unlink()
    with pytest.raises(TrainingError, match=r"seam.1001.png: cannot be read; wanted the seam's coverage"):
        read_views([shot])
    with pytest.raises(UsageError, match="window: wanted 64 to input_size"):
        SegmentationConfig(window=512)


def test_test_shots_are_not_learned_from(tmp_path: Path) -> None:
    views = read_views([_shot(tmp_path / "shot"), _shot(tmp_path / "test01")])
    assert [view.split for view in views] == ["train"] * 4 + ["test"] * 4
    learn, held = split_samples(views)
    assert {view.name.split(".")[0] for view in [*learn, *held]} == {"shot"}
