"""A studio's components come from its own file, which a recipe names; the package is unchanged."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.training.models.landmarks.config import LOSSES, load_pack_config
from rotopaint_ai.training.models.seam import task as seam
from rotopaint_ai.training.pack.network import TrainOptions, find_task, train_network
from rotopaint_ai.training.pack.train import train_pack

from ..conftest import copy_shipped

HEAD = '''
"""Landmarks straight from the pooled pyramid: no heat-maps."""
import torch
from torch import nn
from rotopaint_ai.training.models.landmarks.config import LOSSES
from rotopaint_ai.training.models.landmarks.net import HEADS, LandmarkNet, LandmarkOutput
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS


class Pooled(LandmarkNet):
    def __init__(self, n_landmarks, **pyramid):
        super().__init__(**pyramid)
        self.n_landmarks = n_landmarks
        self.out = nn.Linear(pyramid["neck"], 6 * n_landmarks)

    def locate(self, features, neck, jitter):
        said = self.out(neck.float().mean((2, 3))).unflatten(1, (self.n_landmarks, 6))
        side = 4 * neck.shape[3]
        return LandmarkOutput(said[..., :2].sigmoid() * side, said[..., 2], said[..., 3], said[..., 4:])


@HEADS.register("pooled")
def build(n_landmarks, config):
    return Pooled(n_landmarks, **config.pyramid())


@LOSSES.register("far")
def far(said, target):
    return (said.points - target.points).abs().sum(2)


class Still(nn.Module):
    """The mean face, laid on the middle of the landmarks."""

    def __init__(self, truth):
        super().__init__()
        marks, points = torch.tensor(truth.landmarks), torch.tensor(truth.points)
        points[..., :2] -= marks.mean(1, keepdim=True)
        self.register_buffer("points", points.mean(0))
        self.register_buffer("wide", torch.full((truth.width.shape[1],), 2.0))

    def forward(self, landmarks):
        places = self.points[:, :2] + landmarks.mean(1, keepdim=True)
        tangents = self.points[:, 2:].expand(len(landmarks), -1, -1)
        return torch.cat((places, tangents), 2), landmarks[:, :1, 0] * 0 + self.wide


@SHAPE_MODELS.register("still")
def still(known):
    return Still(known.truth)
'''
RECIPE = """
plugins: [myhead.py]
head: pooled
shape_model: still
losses: {far: 1.0, coarse_heat: 0, coarse_place: 0, fine_heat: 0}
input_size: 64
small_size: 64
widths: [8, 8, 8, 8, 8]
depths: [1, 1, 1, 1]
neck: 8
minutes: null
steps: 2
batch: 4
threads: 1
prior: false
mirrored: false
"""
RARE = """
from rotopaint_ai.training.models.landmarks.net import HEADS

HEADS.register("rare")(lambda n_landmarks, config: None)
"""
NETWORK = """
from dataclasses import dataclass
from rotopaint_ai.training.models.seam.task import SeamConfig, SeamTask
from rotopaint_ai.training.trainer.task import NETWORKS, Network


@dataclass(frozen=True, slots=True)
class MyConfig(SeamConfig):
    task: str = "my-seams"


NETWORKS.register("my-seams")(Network(MyConfig(), SeamTask.prepare, file="my.onnx", card=("my",)))
"""


def test_custom_head_loss_and_shape_model_train_into_a_pack(faces: Path, tmp_path: Path) -> None:
    (tmp_path / "myhead.py").write_text(HEAD)
    (tmp_path / "mine.yaml").write_text(RECIPE)
    report = train_pack(TrainOptions([faces], tmp_path / "pack", recipe=tmp_path / "mine.yaml", init="none"))
    models = open_models(load_pack(report.pack), device="cpu", threads=1)
    assert max(report.parity.values()) < 0.01
    marks = np.random.default_rng(0).uniform(10, 50, (1, 4, 2)).astype(np.float32)
    moved = np.concatenate([marks, marks * 2 + np.array([7, 3], np.float32)])
    points = models.predict_shapes(moved).points_NPK
    # a mean face that is only translated: it follows the mean of the landmarks
    np.testing.assert_allclose(
        points[1, :, :2] - points[0, :, :2], [moved[1].mean(0) - moved[0].mean(0)] * 7, atol=1e-3
    )
    np.testing.assert_allclose(points[1, :, 2:], points[0, :, 2:], atol=1e-4)
    recipe = (tmp_path / "pack" / "recipe.yaml").read_text()
    assert "head: pooled" in recipe
    assert "shape_model: still" in recipe


def test_a_network_of_a_studio_trains_by_the_same_door(
    faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "export_checked", partial(copy_shipped, name="seam.onnx"))
    (tmp_path / "mynet.py").write_text(NETWORK)
    recipe = tmp_path / "my.yaml"
    recipe.write_text("task: my-seams\nplugins: [mynet.py]\nminutes: null\nsteps: 1\nbatch: 2\n")
    assert find_task(str(recipe)) == "my-seams"
    train_network("my-seams", TrainOptions([str(faces)], tmp_path / "my.onnx", str(recipe)))
    assert json.loads((tmp_path / "my.json").read_text())["steps"] == 1


def _install(folder: Path, module: str, text: str) -> None:
    """An installed package of one module, as pip leaves it, with its entry point."""
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[rotopaint_ai.parts]\nhouse = {module}\n")
    (folder / f"{module}.py").write_text(text)


def test_an_installed_package_registers_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = "from rotopaint_ai.training.models.landmarks.config import LOSSES\nLOSSES.register('house')(abs)\n"
    _install(tmp_path / "site", "studio_parts", loss)
    (tmp_path / "mine.yaml").write_text("losses: {house: 1.0}\n")
    with pytest.raises(UsageError, match="house"):
        load_pack_config(tmp_path / "mine.yaml")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for _ in range(2):  # imported once
        assert load_pack_config(tmp_path / "mine.yaml").losses["house"] == 1.0
    LOSSES._parts.pop("house")


def test_an_installed_package_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path / "site", "broken_parts", "1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    said = "plugin 'house' of the installed package broken_parts: ZeroDivisionError: division by zero; repair it, or"
    with pytest.raises(UsageError, match=re.escape(said)):
        find_task("character")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: mine.py", "plugins is 'mine.py'; wanted a list of Python files"),
        ("plugins: [nowhere.py]", "no such Python file; give its path relative to the recipe"),
        ("plugins: [broken.py]", "ZeroDivisionError: division by zero; repair it, or remove it"),
    ],
)
def test_plugins_that_cannot_be_run_are_reported(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(said)):
        find_task(str(tmp_path / "mine.yaml"))


def test_a_plugin_of_the_command_line_is_added_to_a_shipped_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(RARE)
    monkeypatch.chdir(tmp_path)
    config = load_pack_config("character", ["plugins=[mine.py]", "head=rare"])
    assert (config.head, config.plugins) == ("rare", (str(tmp_path / "mine.py"),))
    assert config.pose == load_pack_config("character").pose > 0  # the rest comes from the recipe
    (tmp_path / "kept.yaml").write_text(config.to_yaml())
    monkeypatch.chdir("/")
    assert load_pack_config(tmp_path / "kept.yaml") == config
