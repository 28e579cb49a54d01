"""What the panel learns of Nuke's Read nodes, and how it treats a selection that is not one plate."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ui.host import PlateChoice

from .conftest import FakeNuke, Format, Node
from .test_roto_node import document


@pytest.fixture
def host(fake_nuke: FakeNuke) -> Any:
    return import_module("rotopaint_nuke.host").NukeHost()


def read(file: str, **more: Any) -> Node:
    knobs = {"first": 1001, "last": 1040, "frame": "", "colorspace": "default (linear)", "raw": False}
    node = Node("Read", "Read1", file=file, **{**knobs, **more})
    node.selected = True
    return node


@pytest.mark.parametrize(
    ("node", "choice"),
    [
        (read("/s/plate.%04d.exr"), PlateChoice("/s/plate.%04d.exr", "1001-1040", None)),
        (read("/s/plate.####.dpx", colorspace="Cineon"), PlateChoice("/s/plate.####.dpx", "1001-1040", "Cineon")),
        (read("/s/a.%04d.exr", raw=True), PlateChoice("/s/a.%04d.exr", "1001-1040", "linear")),
        (read("/s/a.%04d.exr", colorspace="ACES - ACEScg"), PlateChoice("/s/a.%04d.exr", "1001-1040", "ACES - ACEScg")),
        (read("/s/shot.mov", colorspace="rec709"), PlateChoice("/s/shot.mov", None, "Rec.709")),
    ],
)
def test_the_selected_read_is_the_plate(fake_nuke: FakeNuke, host: Any, node: Node, choice: PlateChoice) -> None:
    fake_nuke.add(node)
    assert host.chosen_plate() == choice


def test_missing_ambiguous_empty_and_shifted_reads_are_refused(fake_nuke: FakeNuke, host: Any) -> None:
    with pytest.raises(UsageError, match="0 Read nodes are selected"):
        host.chosen_plate()
    first = fake_nuke.add(read(""))
    with pytest.raises(UsageError, match="has no file"):
        host.chosen_plate()
    fake_nuke.add(read("/s/a.%04d.exr"))
    with pytest.raises(UsageError, match="2 Read nodes"):
        host.chosen_plate()
    fake_nuke.nodes.remove(first)
    fake_nuke.nodes[0]["frame"].setValue("frame+1")
    with pytest.raises(UsageError, match="shifts its frames"):
        host.chosen_plate()


def test_export_goes_behind_the_read_whose_plate_is_open(fake_nuke: FakeNuke, host: Any) -> None:
    node = fake_nuke.add(read("/s/plate.%04d.exr"))
    host.chosen_plate()
    assert host.export(document(), Path("shapes.roto.json")).startswith("Made RotoPaint_AI with 2 shapes")
    assert fake_nuke.allNodes("RotoPaint")[0].input(0) is node
    assert host.export(document(), Path("shapes.roto.json")).startswith("Updated RotoPaint_AI")
    fake_nuke.nodes.remove(node)
    assert host.export(document(), Path("shapes.roto.json")).startswith("Updated")


def test_a_read_of_another_size_is_refused_before_anything_is_made(fake_nuke: FakeNuke, host: Any) -> None:
    node = fake_nuke.add(read("/s/plate.%04d.exr"))
    node.size = Format(128, 96)
    host.chosen_plate()
    with pytest.raises(UsageError, match="Read1: is 128 x 96, the shapes are 64 x 48"):
        host.export(document(), Path("shapes.roto.json"))
    assert fake_nuke.nodes == [node]
    assert fake_nuke.steps == []


def test_nukes_own_python_never_runs_the_engine(host: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setenv("ROTOPAINT_PYTHON", str(python))
    assert host.engine().python == str(python)
    monkeypatch.setenv("ROTOPAINT_PYTHON", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no such file"):
        host.engine()
