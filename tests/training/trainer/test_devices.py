"""Every network's step keeps everything on the device that the Trainer gives.

With tensors without values (torch's meta device), which refuse to meet those of the processor as a GPU's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rotopaint_ai.seams.learned_fill import N_CHANNELS
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.detection.scenes import DetectionScene, Face
from rotopaint_ai.training.models.detection.task import DetectorConfig, DetectorTask, build_detector
from rotopaint_ai.training.models.fill.task import FillConfig, FillNet, FillTask
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.models.seam.examples import Examples
from rotopaint_ai.training.models.seam.task import SeamConfig, SeamNet, SeamNets, SeamTask, with_features
from rotopaint_ai.training.models.segmentation.task import SegmentationConfig, SegmentationTask, build_segmentation
from rotopaint_ai.training.models.segmentation.views import SegmentationView
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.cores import make_timed
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.task import Task
from rotopaint_ai.training.trainer.trainer import Trainer

TINY = ["widths=[8, 8, 8, 8, 8]", "neck=8", "batch=2", "bf16=false"]
META = torch.device("meta")


def landmarks(faces: Path) -> Task[Any, Any]:
    sizes = ["fine=8", "input_size=64", "small_size=64", "activations=checkpoint"]
    config, data = override(PackConfig(), [*TINY, *sizes]), read_dataset(faces)
    memory = load_pictures(data, side_px=80, margin=1.3)
    return LandmarkTask(
        config, build_net(config, 4), LandmarkData(memory, memory, np.ones(4, np.float32), (1, 0, 2, 3))
    )


def detector(faces: Path) -> Task[Any, Any]:
    config = override(DetectorConfig(), [*TINY, "width=128", "height=64"])
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    outline = np.stack((60 + 20 * np.cos(t), 32 + 20 * np.sin(t)), 1)
    face = Face(outline, np.column_stack((outline[::8], np.ones(5))), 1.0)
    scene = DetectionScene(np.full((64, 128, 3), 60, np.uint8), "train", "made up", (face,))
    return DetectorTask(config, build_detector(config), [scene, scene])


def segmentation(faces: Path) -> Task[Any, Any]:
    config = override(SegmentationConfig(), [*TINY, "shape=8", "input_size=64"])
    corners = np.array([[10.0, 10], [90, 10], [90, 90], [10, 90]])
    view = SegmentationView(
        np.zeros((100, 100, 3), np.uint8), "train", "made up", np.zeros((100, 100, 2), np.uint8), corners
    )
    return SegmentationTask(config, build_segmentation(config), [view])


def seam(faces: Path) -> Task[Any, Any]:
    return SeamTask(SeamConfig(batch=2), with_features(SeamNets(SeamNet(), None)), Examples.of(read_dataset(faces)))


def fill(faces: Path) -> Task[Any, Any]:
    draw, parts = np.random.default_rng(0), {"strip": (16, 32, N_CHANNELS), "light": (4, 16, 32, 3), "wanted": (16, 32)}
    strips = np.zeros(3, [(name, np.float32 if name != "wanted" else np.bool_, shape) for name, shape in parts.items()])
    strips["strip"], strips["light"] = draw.random((3, 16, 32, N_CHANNELS)), draw.random((3, 4, 16, 32, 3))
    strips["wanted"] = True
    return FillTask(FillConfig(batch=2), FillNet(), strips, strips)


@pytest.mark.parametrize("make", [landmarks, detector, segmentation, seam, fill])
def test_a_step_keeps_everything_on_the_rank_s_device(
    make: Callable[[Path], Task[Any, Any]], faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "__float__", lambda value: 1.0)  # meta tensors have no values
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda value: True)
    task = make(faces)
    config = task.config  # type: ignore[attr-defined]
    trainer = Trainer(config, task, tmp_path, Group(device=META))
    batch = make_timed(trainer.task, trainer.moment(0))
    trainer.step(batch, 0.0)
    trainer.step(batch, 0.0)
    assert trainer.at == 2
    state = [value for entry in trainer.optimiser.state.values() for value in entry.values() if value.ndim]
    assert {value.device.type for value in (*trainer.net.parameters(), *trainer.average.net.parameters(), *state)} == {
        "meta"
    }
    here = replace(trainer.moment(0), group=Group())
    with pytest.raises(RuntimeError, match="device"):  # the network is on the device, the batch is not
        trainer.gradients(task.to_device(batch.batch, here), here)


@pytest.mark.parametrize("make", [landmarks, seam, fill])
def test_steps_that_a_gpu_records_ask_for_no_value(
    make: Callable[[Path], Task[Any, Any]], faces: Path, tmp_path: Path
) -> None:
    task = make(faces)
    assert task.captures
    trainer = Trainer(task.config, task, tmp_path, Group(device=META))  # type: ignore[attr-defined]
    made = make_timed(trainer.task, trainer.moment(0))
    inputs = task.to_device(made.batch, trainer.moment(0))
    loss, parts = trainer.gradients(inputs, trainer.moment(0))  # reading a value of a meta tensor raises
    assert loss.device == META
    assert all(isinstance(part, torch.Tensor) for part in parts.values())
