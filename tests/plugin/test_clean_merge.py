"""Clean frames in the comp, and everything without a screen."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document as roto_document
from rotopaint_nuke import clean_merge, roto_node

from .conftest import FakeNuke, Format, Node
from .test_host import read
from .test_roto_node import document, shapes_in


def run_folder(folder: Path, suffix: str = ".exr") -> Path:
    """A run's folder with shapes and two clean frames."""
    (folder / "clean").mkdir(parents=True)
    for frame in (1001, 1002):
        (folder / "clean" / f"plate.v2.{frame}{suffix}").touch()
    roto_document.write(folder / "shapes.roto.json", document())
    return folder / "shapes.roto.json"


def test_clean_frames_lie_over_the_plate_inside_our_shapes(fake_nuke: FakeNuke) -> None:
    plate = fake_nuke.add(read("/s/plate.%04d.exr", colorspace="ACES - ACEScg"))
    shapes, _ = roto_node.export(fake_nuke, document(), plate)
    merge, is_update = clean_merge.set_up(fake_nuke, plate, "/r/clean/plate.####.exr", (1001, 1004))
    clean = merge.input(1)
    assert not is_update
    assert (merge.input(0), merge.input(2)) == (plate, shapes)
    assert (merge["operation"].value(), merge["maskChannelMask"].value()) == ("copy", "rgba.alpha")
    assert [clean[k].value() for k in ("file", "first", "last")] == ["/r/clean/plate.####.exr", 1001, 1004]
    assert clean["colorspace"].value() == "ACES - ACEScg"
    assert fake_nuke.steps[-1] == "RotoPaint AI clean plate"
    assert fake_nuke.selectedNodes() == [plate]


def test_a_second_time_renews_the_file_and_adds_nothing(fake_nuke: FakeNuke) -> None:
    plate = fake_nuke.add(read("/s/plate.%04d.exr"))
    roto_node.export(fake_nuke, document(), plate)
    first, _ = clean_merge.set_up(fake_nuke, plate, "/r/v1/clean/plate.####.exr", (1001, 1004))
    n_nodes = len(fake_nuke.nodes)
    again, is_update = clean_merge.set_up(fake_nuke, plate, "/r/v2/clean/plate.####.exr", (1001, 1010))
    assert is_update
    assert again is first
    assert len(fake_nuke.nodes) == n_nodes
    assert again.input(1)["file"].value() == "/r/v2/clean/plate.####.exr"


def test_two_plates_have_patches_of_their_own(fake_nuke: FakeNuke) -> None:
    made = []
    for name in ("Read1", "Read2"):
        plate = fake_nuke.add(Node("Read", name, file="", colorspace="default", raw=False))
        roto_node.export(fake_nuke, document(), plate)
        made.append(clean_merge.set_up(fake_nuke, plate, f"/{name}/a.####.exr", (1, 2))[0])
    assert made[0].input(1) is not made[1].input(1)
    assert [merge.input(1)["file"].value() for merge in made] == ["/Read1/a.####.exr", "/Read2/a.####.exr"]


def test_without_shapes_there_is_nothing_to_patch(fake_nuke: FakeNuke) -> None:
    plate = fake_nuke.add(read("/s/plate.%04d.exr"))
    with pytest.raises(UsageError, match="Read1: has no RotoPaint_AI node yet"):
        clean_merge.set_up(fake_nuke, plate, "/r/clean/plate.####.exr", (1, 2))
    assert fake_nuke.nodes == [plate]


@pytest.mark.parametrize("suffix", [".exr", ".png"])
def test_the_pattern_of_clean_frames_is_found_beside_the_shapes(tmp_path: Path, suffix: str) -> None:
    shapes = run_folder(tmp_path / "r", suffix)
    assert clean_merge.clean_pattern(shapes) == f"{(tmp_path / 'r').as_posix()}/clean/plate.v2.####{suffix}"
    assert clean_merge.clean_pattern(tmp_path / "none" / "shapes.roto.json") is None


def test_a_batch_builds_node_and_patch_from_files(fake_nuke: FakeNuke, tmp_path: Path) -> None:
    plate = fake_nuke.add(read("/s/plate.%04d.exr"))
    plate.selected = False
    batch: Any = import_module("rotopaint_nuke.batch")
    node = batch.build(run_folder(tmp_path / "r"), read="Read1", with_clean=True)
    assert node.input(0) is plate
    assert len(shapes_in(node).shapes) == 2
    assert [each.name() for each in fake_nuke.allNodes("Merge2")] == ["RotoPaint_AI_Patch"]
    assert batch.build(tmp_path / "r" / "shapes.roto.json", read="Read1") is node


def test_a_batch_says_what_is_missing(fake_nuke: FakeNuke, tmp_path: Path) -> None:
    batch: Any = import_module("rotopaint_nuke.batch")
    shapes = tmp_path / "shapes.roto.json"
    with pytest.raises(DocumentError, match=r"shapes\.roto\.json: cannot be read"):
        batch.build(shapes)
    roto_document.write(shapes, document())
    with pytest.raises(UsageError, match="Read7: no such node"):
        batch.build(shapes, read="Read7")
    plate = fake_nuke.add(read("/s/plate.%04d.exr"))
    with pytest.raises(UsageError, match="holds no clean frames"):
        batch.build(shapes, read="Read1", with_clean=True)
    plate.size = Format(2048, 1556, 2.0)
    with pytest.raises(UsageError, match="Read1: is 2048 x 1556"):
        batch.build(shapes, read="Read1")


def test_the_menu_command_says_what_it_made(fake_nuke: FakeNuke, tmp_path: Path) -> None:
    host: Any = import_module("rotopaint_nuke.host")
    shapes = run_folder(tmp_path / "r")
    with pytest.raises(UsageError, match="0 Read nodes are selected"):
        host.set_up_clean(shapes)
    plate = fake_nuke.add(read("/s/plate.%04d.exr"))
    roto_node.export(fake_nuke, document(), plate)
    assert host.set_up_clean(shapes) == "Made RotoPaint_AI_Patch; one undo reverts it"
    with pytest.raises(UsageError, match="holds no clean frames"):
        host.set_up_clean(tmp_path / "shapes.roto.json")
