"""The script that makes the shipped pack: its steps fit together, and make a very small pack."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from rotopaint_ai.cli import Parser
from rotopaint_ai.cli import main as rotopaint
from rotopaint_ai.inference.models import open_detector, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.stage.__main__ import main as stage
from rotopaint_ai.training.models.detection import task as detection
from rotopaint_ai.training.models.fill import task as fill
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.seam import features
from rotopaint_ai.training.models.segmentation import task as segmentation
from rotopaint_ai.training.pack import train as making
from rotopaint_ai.training.pack.network import find_network, find_task
from rotopaint_ai.training.trainer.config import PACK, load_config
from rotopaint_ai.training.trainer.launch import DONE
from scripts import shipped_pack
from scripts.shipped_pack import TRAIN, Looks, Step, Training, all_steps

from ..conftest import copy_shipped

SMALL = ("batch=2", "small_share=1")


def _parsed(step: Step) -> object:
    """The options of a training, which are checked as the command checks them."""
    parser = Parser(prog="train")
    import_module("rotopaint_ai.cli.train").add_arguments(parser)
    return parser.parse_args(step.command[len(TRAIN) :])


def test_every_step_begins_with_what_one_before_it_made(tmp_path: Path) -> None:
    made: set[str] = {"none"}
    for step in all_steps(tmp_path):
        if step.command[: len(TRAIN)] != TRAIN:
            made.add(step.command[4])
            continue
        given = vars(_parsed(step))  # type: ignore[arg-type]
        assert set(given["datasets"]) | {given["init"]} <= made
        assert {word.removeprefix("start=") for word in given["set"] if word.startswith("start=")} <= made
        made.add(given["out"])
    assert str(tmp_path / "puppet") in made


def test_every_training_is_one_that_its_recipe_knows_and_counts_steps(tmp_path: Path) -> None:
    trainings = [step for step in all_steps(tmp_path, 0.01) if step.command[: len(TRAIN)] == TRAIN]
    tasks = []
    for given in (vars(_parsed(step)) for step in trainings):  # type: ignore[arg-type]
        tasks.append(task := find_task(given["recipe"]))
        network = None if task == PACK else find_network(task).config
        config = (
            load_pack_config(given["recipe"], given["set"])
            if network is None
            else load_config(network, given["recipe"], given["set"])
        )
        assert (config.minutes, config.threads) == (None, 1)
        # a hundredth of the numbers in the tables
        assert config.steps in (62, 72, 45, 54, 30, 24, 200, 40, 4, 50)
    assert tasks == ["pack"] * 3 + ["seam"] * 4 + ["fill", "fill", "detector", "segmentation"]


def test_a_step_that_fails_ends_it_and_what_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    again = (
        f"import pathlib; p = pathlib.Path({str(count)!r}); p.write_text(p.read_text() + 'x' if p.exists() else 'x')"
    )
    there = tmp_path / "there"
    there.touch()
    steps = [
        Step((sys.executable, "-c", "raise SystemExit(9)"), there),
        Step((sys.executable, "-c", again)),
        Step((sys.executable, "-c", "raise SystemExit(7)"), tmp_path / "missing"),
    ]
    monkeypatch.setattr(shipped_pack, "all_steps", lambda *given: iter(steps))
    assert shipped_pack.main([str(tmp_path)]) == 7
    assert count.read_text() == "x"


def run_here(command: Sequence[str]) -> CompletedProcess[str]:
    """Run a step in this process, where torch is loaded already."""
    python, _, module, *words = command
    assert python == sys.executable
    run = {"rotopaint_ai": rotopaint, "rotopaint_ai.stage": stage}[module]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *words])
        return CompletedProcess(command, run())


def test_one_of_each_step_gives_a_pack_whose_card_names_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs each step once, very small. Most ONNX files are copies of the shipped pack's: exporting would double the
    time, and the networks' own tests do that."""
    monkeypatch.setenv(DONE, "1")  # this process does not restart
    monkeypatch.setattr(shipped_pack.subprocess, "run", run_here)
    for module in (detection, features, fill, making, segmentation):
        monkeypatch.setattr(module, "export_checked", copy_shipped)
    cut: dict[str, object] = {
        "FACES": (shipped_pack.FACES[0]._replace(size=160),),
        "SEAM_FACES": shipped_pack.SEAM_FACES._replace(size=160, looks=0),
        "FEATURE_FACES": (shipped_pack.FEATURE_FACES[0]._replace(size=160, looks=0),),
        "FEATURE_SETTINGS": ("batch=2",),
        "SCULPTED_FACES": (shipped_pack.SCULPTED_FACES[0]._replace(size=160, looks=0),),
        "SCULPTED_SETTINGS": ("batch=2", "kept=0.5"),
        "MORE_FACES": (shipped_pack.SCULPTED_FACES[0]._replace(size=160, looks=0),),
        "FRONT_FACES": shipped_pack.FRONT_FACES._replace(size=160, looks=0),
        "LANDMARKS": (Training(2000, 1, ("prior=false", "mirrored=false")),),
        "LOOKS": (Looks(1, 30000, poses=1, looks=1),),
        "ASTRAY_LOOKS": (Looks(1, 200000, poses=1, looks=1),),
        "FILL_STEPS": 2000,
        "ASTRAY_STEPS": 2000,
        "FRONT_STEPS": 2000,
    }
    for name, table in cut.items():
        monkeypatch.setattr(shipped_pack, name, table)
    words = [str(tmp_path), "--share", "0.001", *(word for setting in SMALL for word in ("--set", setting))]
    assert shipped_pack.main(words) == 0
    pack = load_pack(tmp_path / "puppet")
    assert (pack.name, pack.card["default"], pack.card["licence"]) == ("puppet", True, "Apache-2.0")
    assert pack.card["training"]["command"] == "python scripts/shipped_pack.py OUT --share 0.001 " + " ".join(
        f"--set {setting}" for setting in SMALL
    )
    assert pack.card["reads_mirrored"] is False
    assert {"seam", "fill"} <= set(pack.card["training"])
    models = open_models(pack, device="cpu", threads=1)
    assert models.find_seams is not None
    assert models.fill is not None
    assert models.find_front is not None
    assert open_detector(pack) is not None
    card = (tmp_path / "puppet" / "card.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in card
    assert shipped_pack.main(words) == 0  # every step is done
    assert json.loads(card) == json.loads((tmp_path / "puppet" / "card.json").read_text(encoding="utf-8"))
