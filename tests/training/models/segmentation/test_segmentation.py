"""Segmentation: gates, the dual task, labels that move with the picture, and export."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.training.data.augment import STRAIGHT, Geometry
from rotopaint_ai.training.data.dataset_checks import split_samples
from rotopaint_ai.training.models.segmentation import task as losses
from rotopaint_ai.training.models.segmentation.task import GatedConv, GatedNet, SegmentationConfig, SegmentationOutput
from rotopaint_ai.training.models.segmentation.views import (
    CropMaker,
    SegmentationView,
    read_views,
    segmentation_figures,
)
from rotopaint_ai.training.pack.network import TrainOptions, train_network

from ...conftest import write_faces


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
    classes = torch.zeros(1, 2, 32, 32)
    classes[:, 1, 4:28, 4:28] = 1
    classes[:, 0, 15:17, 4:28] = 1
    return losses.segmentation_target(classes)


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


def test_thin_objects_count() -> None:
    """A network that finds nothing in front gets a large loss, although 98 % of its pixels are right."""
    target = _target()
    blind = SegmentationOutput(
        torch.cat((torch.full((1, 1, 32, 32), -9.0), (target.classes[:, 1:] * 2 - 1) * 9), 1), target.edges
    )
    assert float(losses.LOSSES["overlap"](blind, target)) > 0.9


OUTLINE = np.array([[34, 60], [70, 16], [106, 60], [70, 104], [70, 60]], np.float64)


def _view(split: str = "train", shade: int = 40) -> SegmentationView:
    """A red face with a green bar in front of it; no two shades are the same picture."""
    picture, classes = np.full((120, 140, 3), shade, np.uint8), np.zeros((120, 140, 2), np.uint8)
    cv2.ellipse(picture, (70, 60), (36, 44), 0, 0, 360, (200, 60, 60), -1)
    front, skin = np.zeros((120, 140), np.uint8), np.zeros((120, 140), np.uint8)
    cv2.ellipse(skin, (70, 60), (36, 44), 0, 0, 360, 255, -1)
    for target, colour in ((picture, (0, 255, 0)), (front, 255), (skin, 0)):
        cv2.line(target, (20, 60), (95, 60), colour, 6)
    classes[..., 0], classes[..., 1] = front, skin
    return SegmentationView(picture, split, "made up", classes, OUTLINE)


def test_labels_move_with_the_crop() -> None:
    cutter = CropMaker([_view()], 96, 1.3, Geometry((0.8, 1.2), 0.05, 25, 0.5, 0.1, 0.3), {})
    crops = cutter.batch([0] * 8, np.random.default_rng(0))
    green, red = crops.pictures[..., 1] > 150, crops.pictures[..., 0] > 120
    front, skin = (crops.classes[..., k] > 127 for k in range(2))
    assert (front ^ green).mean() < 0.01
    assert (skin ^ (red & ~green)).mean() < 0.02


def test_what_an_occluder_covers_stands_in_front() -> None:
    bare = CropMaker([_view()], 96, 1.3, STRAIGHT, {}).batch([0] * 12, np.random.default_rng(2))
    crops = CropMaker([_view()], 96, 1.3, STRAIGHT, {"occluders": 1.0}).batch([0] * 12, np.random.default_rng(2))
    told = (crops.classes != bare.classes).any(-1)
    assert told.mean() > 0.02
    assert (crops.classes[told] == (255, 0)).all()
    changed = (np.abs(crops.pictures.astype(int) - bare.pictures) > 40).any(-1)
    assert changed[told].mean() > 0.6  # an occluder may have the colour of what it covers
    assert (crops.classes[changed] == (255, 0)).all(-1).mean() > 0.7  # the rest are soft edges


def test_figures_tell_missed_edges_from_false_alarms() -> None:
    def segment(wrong: bool) -> dict[str, float]:
        def answer(crops: np.ndarray) -> list[np.ndarray]:
            green = (crops[..., 1] > 0.6).astype(np.float32)
            skin = ((crops[..., 0] > 0.5) & (green == 0)).astype(np.float32)
            return [np.ones_like(green) if wrong else green, skin]

        return segmentation_figures(answer, [_view()], 96, 1.3)

    right, wrong = segment(False), segment(True)
    assert right["front_f_1_px"] > 0.95
    assert right["false_share"] < 0.01
    assert wrong["false_share"] == 1.0
    assert wrong["front_iou"] < 0.2


def _covered_faces(folder: Path) -> Path:
    """A data set of faces whose left half something hides."""
    for path in sorted(write_faces(folder).glob("images/*")):
        height, width = cv2.imread(str(path)).shape[:2]
        front = np.zeros((height, width), np.uint8)
        front[:, : width // 2] = 255
        cv2.imwrite(str(path.with_suffix(".front.png")), front)
        cv2.imwrite(str(path.with_suffix(".skin.png")), 255 - front)
    return folder


def test_a_training_writes_a_file_that_says_what_the_network_says(tmp_path: Path) -> None:
    """`export` compares file and network and raises where they differ."""
    small = ("widths=[8,8,8,8,8]", "neck=8", "shape=8", "input_size=64", "batch=2", "minutes=null", "steps=2")
    options = TrainOptions(
        [str(_covered_faces(tmp_path / "a"))], tmp_path / "matte.onnx", "segmentation", small, "none"
    )
    found = train_network("segmentation", options)
    assert {"front_f_1_px", "front_f_2_px", "front_f_3_px", "skin_iou", "false_share"} <= set(found)
    assert json.loads((tmp_path / "matte.json").read_text())["parity"] < 0.001


def test_wrong_sources_are_reported(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"front\.png: cannot be read; wanted what covers the face"):
        read_views([write_faces(tmp_path / "a")])
    folder = _covered_faces(tmp_path / "b")
    small = next(folder.glob("images/*.skin.png"))
    cv2.imwrite(str(small), np.zeros((50, 60), np.uint8))
    with pytest.raises(TrainingError, match=r"skin\.png: is 60x50, its picture 96x96; make the data set again"):
        read_views([folder])
    with pytest.raises(UsageError, match="input_size: wanted a multiple of 32"):
        SegmentationConfig(input_size=500)


def test_test_pictures_are_not_learned_from(tmp_path: Path) -> None:
    views = read_views([_covered_faces(tmp_path / "a")])
    assert sum(view.split == "test" for view in views) == 4
    learn, held = split_samples(views)
    assert {view.split for view in [*learn, *held]} == {"train"}
