"""Recipes: checked when loaded; every shipped one builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.pack import find_pack
from rotopaint_ai.training.data import augment
from rotopaint_ai.training.models.landmarks import config as losses
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config
from rotopaint_ai.training.models.landmarks.task import build_net
from rotopaint_ai.training.pack.network import find_network, find_task
from rotopaint_ai.training.trainer import config as recipes
from rotopaint_ai.training.trainer.config import PACK, SHOT, recipe_names
from rotopaint_ai.training.trainer.optim import OPTIMISERS


@pytest.mark.parametrize("name", [name for name in recipe_names() if find_task(name) in (PACK, SHOT)])
def test_every_shipped_recipe_builds(name: str) -> None:
    recipe = load_pack_config(name)
    assert recipe.name == name
    assert build_net(recipe, 5).heat_of_landmark.shape[0] == 5
    assert recipe.optimiser in OPTIMISERS
    assert all(part in augment.PARTS for part in recipe.augment)
    assert all(part in losses.LOSSES for part in recipe.losses)


@pytest.mark.parametrize("name", [name for name in recipe_names() if find_task(name) not in (PACK, SHOT)])
def test_every_recipe_of_one_network_is_a_config(name: str) -> None:
    config = recipes.load_config(find_network(name).config, name)
    assert config.name == config.task == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [("steps: 9\nsteps: 5", "'steps' occurs 2 times"), ("steps: !!int x", "not valid YAML"), ("[" * 5000, "not valid")],
)
def test_text_that_is_no_recipe_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(UsageError, match=f"r.yaml.*{reason}"):
        load_pack_config(tmp_path / "r.yaml")


def test_shipped_recipes_build_one_network() -> None:
    first, second = (build_net(load_pack_config(name), 3) for name in ("character", "shipped"))
    assert {k: v.shape for k, v in first.state_dict().items()} == {k: v.shape for k, v in second.state_dict().items()}


def test_overrides_reach_into_tables_and_the_yaml_reads_back(tmp_path: Path) -> None:
    recipe = load_pack_config(
        None, ["minutes=3", "augment.occluders=0.9", "augment.jpeg=0", "widths=[8, 16, 16, 16, 16]"]
    )
    assert recipe.minutes == 3.0
    assert recipe.augment["occluders"] == 0.9
    assert recipe.augment["jpeg"] == 0
    assert recipe.augment["noise"] == load_pack_config(None).augment["noise"] > 0
    assert recipe.widths == (8, 16, 16, 16, 16)
    path = tmp_path / "mine.yaml"
    path.write_text(recipe.to_yaml())
    assert load_pack_config(path) == recipe


def test_the_recipe_of_a_pack_is_one_also_where_an_older_version_wrote_it(tmp_path: Path) -> None:
    """Renamed fields and losses, and removed settings, load from old recipes; other values of removed settings are
    refused."""
    stored = load_pack_config(find_pack(None) / "recipe.yaml")
    assert stored.losses["anisotropy"] > 0
    assert (stored.elastic, stored.pose) == (0.4, 0.0)
    recipe = tmp_path / "old.yaml"
    recipe.write_text("minutes: 3\nturned: 0.5\nturned_yaw_deg: 12.0\n")
    assert load_pack_config(recipe).pose == 0.5
    recipe.write_text("minutes: 3\nturned_yaw_deg: 20.0\n")
    with pytest.raises(UsageError, match=r"old\.yaml: .*unknown field 'turned_yaw_deg'"):
        load_pack_config(recipe)


def test_numbers_are_read_as_people_write_them() -> None:
    assert load_pack_config(None, ["learning_rate=1e-3"]).learning_rate == 0.001  # a string in YAML 1.1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("minutes", "wanted key=value"),
        ("minuets=3", "unknown field 'minuets'"),
        ("batch=two", "batch is 'two'; wanted a whole number"),
        ("batch=true", "batch is True; wanted a whole number"),
        ("backbone=resnet", "backbone 'resnet': unknown; wanted one of dense"),
        ("optimiser=sgd", "optimiser 'sgd': unknown"),
        ("augment.rain=0.5", "augmentation 'rain': unknown"),
        ("losses.hope=1", "loss 'hope': unknown"),
        ("losses.place=-1", "losses: wanted"),
        ("widths=[10, 16, 16, 16, 16]", "wanted multiples of 8"),
        ("minutes=null", "minutes and steps are both null"),
        ("input_size=250", "input_size 250: wanted a multiple of 32"),
        ("batch=100000000", "batch 100000000: wanted 2 to 65536"),
        ("learning_rate=5", "learning_rate 5.0: wanted 0 to 1"),
        ("weight_decay=-1", "weight_decay -1.0: wanted 0 to 1"),
        ("warmup=2", "warmup 2.0: wanted 0 to 0.9"),
        ("clip=-1", "clip -1.0: wanted 0.001 or more"),
        ("rotation_deg=900", "rotation_deg 900.0: wanted 0 to 180"),
        ("shift=-3", "shift -3.0: wanted 0 to 0.5"),
        ("flip=7", "flip 7.0: wanted 0 to 1"),
        ("seed=-1", "seed -1: wanted 0 to"),
        ("small_size=2048", "small_size 2048: wanted 32 to 1024"),
        ("losses={coarse_heat: 0, coarse_place: 0, fine_heat: 0, place: 0}", "losses: none trains landmark positions"),
    ],
)
def test_a_wrong_setting_is_named(setting: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_pack_config(None, [setting])
    assert said in str(caught.value)


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"character, .*shipped"):
        load_pack_config("nowhere.yaml")


def test_a_recipe_is_frozen() -> None:
    with pytest.raises(AttributeError):
        PackConfig().batch = 3  # type: ignore[misc]
