"""Details that sources omit or name differently: shots, sizes, shape names, COCO's other annotations."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from rotopaint_ai.cli.evaluate import not_measured
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.mining.join import join_sources
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.sources import read_source
from rotopaint_ai.training.mining.takes import parse_renames, shot_and_character

from .conftest import HEIGHT, WIDTH, Character


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("/jobs/pip/train01", ("train01", "pip")),
        ("/jobs/pip/sh010/plate", ("sh010", "pip")),
        ("/jobs/pip/sh010/plates/v003/1920x1080", ("sh010", "pip")),
        ("/jobs/pip/shot 010 a", ("shot 010 a", "pip")),
        ("/plates", ("plates", "")),
    ],
)
def test_a_shot_is_named_by_the_nearest_folder_not_called_plates(folder: str, names: tuple[str, str]) -> None:
    assert shot_and_character(Path(folder)) == names


def test_plates_in_a_folder_below_their_shots_and_side_by_side_keep_their_shots(
    character: Character, tmp_path: Path
) -> None:
    below, beside = [], tmp_path / "pip" / "plates"
    beside.mkdir(parents=True)
    for shot in (1, 2):
        target = tmp_path / "pip" / f"sh0{shot}0"
        shutil.copytree(character.roto(shot).parent, target / "plate")
        shutil.move(target / "plate" / "roto.roto.json", target / "roto.roto.json")
        below.append(target / "roto.roto.json")
        shutil.copy(target / "roto.roto.json", beside / f"sh0{shot}0.roto.json")
        for path in (target / "plate").glob("plate.*"):
            shutil.copy(path, beside / path.name.replace("plate", f"sh0{shot}0"))
    pattern = next((tmp_path / "pip" / "sh010" / "plate").glob("plate.*")).suffix
    rows = join_sources(below, f"{{dir}}/plate/plate.####{pattern}").rows
    assert {(row.character, row.shot) for row in rows} == {("pip", "sh010"), ("pip", "sh020")}
    rows = join_sources(sorted(beside.glob("*.roto.json")), f"{{dir}}/{{stem}}.####{pattern}").rows
    assert {row.shot for row in rows} == {"sh010", "sh020"}


def test_roto_of_a_larger_plate_is_scaled_to_its_proxy_and_else_refused(character: Character, tmp_path: Path) -> None:
    path = tmp_path / "roto.roto.json"
    content = json.loads(character.roto(1).read_text())
    path.write_text(json.dumps({**content, "width": 2 * WIDTH, "height": 2 * HEIGHT}))
    plates = character.plates.replace("{dir}", str(character.roto(1).parent))
    joined = join_sources([path], plates)
    own = read_source(character.roto(1), plates)[0].frames[1001].shapes["seam"]
    assert joined.rows[0].truth.shapes["seam"].points == pytest.approx(own.points / 2)
    assert joined.notes[0].endswith(f"is {WIDTH} x {HEIGHT}, it was drawn on {2 * WIDTH} x {2 * HEIGHT} and is scaled")
    path.write_text(json.dumps({**content, "width": WIDTH, "height": WIDTH}))
    with pytest.raises(DocumentError, match="has another aspect ratio; give the plates that it was drawn on"):
        join_sources([path], plates)


def _with_names(character: Character, folder: Path, names: dict[str, str]) -> Path:
    """The second shot's roto with other shape names, next to its plates."""
    shutil.copytree(character.roto(2).parent, folder)
    path = folder / character.roto(2).name
    roto = document.read(path)
    shapes = tuple(replace(shape, name=names.get(shape.name, shape.name)) for shape in roto.shapes)
    document.write(path, replace(roto, shapes=shapes))
    return path


def test_a_layer_before_a_shapes_name_makes_no_other_shape(character: Character, tmp_path: Path) -> None:
    path = _with_names(character, tmp_path / "hero" / "shot9", {"mouth": "Roto2/face/mouth"})
    joined = join_sources([character.roto(1), path], character.plates)
    assert {name for row in joined.rows for name in row.truth.shapes} == {"eye_right", "eye_left", "mouth", "seam"}
    assert any("Roto2/face/mouth is renamed to mouth" in note for note in joined.notes)


def test_a_shape_under_another_name_is_pointed_out_and_can_be_renamed(character: Character, tmp_path: Path) -> None:
    path = _with_names(character, tmp_path / "hero" / "shot9", {"mouth": "lips"})
    order = MineOptions((character.roto(1), path), tmp_path / "set", plates=character.plates, val=("none",))
    mined = mine(order)
    assert any("--rename 'lips=mouth'" in note for note in mined.notes)
    assert not any("eye" in note for note in mined.notes)
    again = join_sources(order.sources, order.plates, renames=parse_renames(["lips=mouth"]))
    assert {name for row in again.rows for name in row.truth.shapes} == {"eye_right", "eye_left", "mouth", "seam"}
    assert not again.notes


@pytest.mark.parametrize("text", ["lips", "=mouth", "lips="])
def test_an_empty_rename_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="wanted OLD=NEW"):
        parse_renames([text])


def test_renames_of_what_is_not_there_or_would_stand_twice_are_refused(character: Character) -> None:
    for renames, said in (({"ear": "mouth"}, "no such shape or landmark"), ({"mouth": "seam"}, "'seam' twice")):
        with pytest.raises(UsageError, match=said):
            join_sources([character.roto(1)], character.plates, renames=renames)


def _coco(folder: Path, names: list[str]) -> dict[str, Any]:
    """A face in each of some pictures, whose names have no frame numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, name in enumerate(names):
        cv2.imwrite(str(folder / name), np.full((80, 100, 3), 40 + 10 * at, np.uint8))
    return {
        "categories": [{"id": 1, "name": "face", "keypoints": ["eye_right", "eye_left", "chin"]}],
        "images": [{"id": at, "file_name": name, "width": 100, "height": 80} for at, name in enumerate(names)],
        "annotations": [
            {"id": at, "image_id": at, "category_id": 1, "keypoints": [20, 20, 2, 60 + at, 20, 2, 40, 60, 1]}
            for at in range(len(names))
        ],
    }


def test_coco_files_hold_more_than_faces(tmp_path: Path) -> None:
    content = _coco(tmp_path, ["a.png", "b.png"])
    content["categories"].insert(0, {"id": 9, "name": "person"})
    content["annotations"].append({"id": 7, "image_id": 0, "category_id": 9, "bbox": [1, 2, 3, 4]})
    content["annotations"][1]["keypoints"] = [0] * 9
    path = tmp_path / "faces.json"
    path.write_text(json.dumps(content))
    take = read_source(path, None)[0]
    assert [frame.landmarks["chin"] for frame in take.frames.values()] == [(40.0, 60.0, 0.0)]
    assert take.notes == ("1 faces without a single marked keypoint were left out",)


def test_pictures_without_numbers_in_one_folder_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "set" / "faces.json"
    content = _coco(path.parent, ["alice.png", "bob.png", "carol_1.png"])
    path.write_text(json.dumps(content))
    rows = join_sources([path], None).rows
    assert [(row.shot, row.frame) for row in rows] == [("set", 1), ("set", 2), ("set", 3)]
    shades = [round(float(row.plate.read(row.frame).codes[0, 0, 0])) for row in rows]
    assert shades == [40, 50, 60]


def test_frames_without_a_picture_are_named_beside_those_that_have_one(character: Character, tmp_path: Path) -> None:
    folder = tmp_path / "hero" / "late"
    folder.mkdir(parents=True)
    for path in character.roto(1).parent.glob("plate.*"):
        number = int(path.suffixes[0][1:]) + 4
        shutil.copy(path, folder / f"plate.{number}{path.suffix}")
    shutil.copy(character.roto(1), folder)
    note = join_sources([folder / character.roto(1).name], character.plates).notes[-1]
    assert note.endswith("4 frames have no picture and were left out (1001-1004); the plate has 1005-1014")


def test_an_unknown_placeholder_is_named(character: Character) -> None:
    with pytest.raises(UsageError, match=r"\{shot\} is not known; wanted \{dir\} or \{stem\}"):
        join_sources([character.roto(1)], "{shot}/plate.####.png")


def test_pictures_that_coco_keeps_for_tests_take_their_shots_along(character: Character, tmp_path: Path) -> None:
    content = json.loads(character.coco.read_text())
    for image in content["images"]:
        if image["file_name"].startswith("shot2"):
            image["split"] = "test"
    del content["annotations"][-1]  # a frame with roto only
    path = character.folder / "split.coco.json"
    path.write_text(json.dumps(content))
    rows = join_sources([character.roto(1), character.roto(2), path], character.plates).rows
    assert {(row.shot, row.split) for row in rows} == {("shot1", None), ("shot2", "test")}


def test_shots_are_for_tests_where_the_user_chose_them(tmp_path: Path) -> None:
    path = tmp_path / "set" / "faces.json"
    path.parent.mkdir()
    path.write_text(json.dumps(_coco(path.parent, ["alice.png", "bob.png"])))
    mined = mine(MineOptions((path,), tmp_path / "data", test=("all",)))
    assert mined.n_samples == {"train": 0, "val": 0, "test": 2}
    with pytest.raises(UsageError, match="--test nobody: no such shot; shots are set, all"):
        mine(MineOptions((path,), tmp_path / "data", test=("nobody",)))


def test_evaluate_reports_the_samples_it_left_out(character: Character, tmp_path: Path) -> None:
    mine(MineOptions((character.coco,), tmp_path / "set"))
    data = read_dataset(tmp_path / "set")
    asked = argparse.Namespace(split=None)
    held_out = data.subset(data.rows_of("val"))
    (line,) = not_measured(asked, data, held_out)
    assert line.startswith("not measured: 10 training samples (shot1); --split all")
    asked.split = "val"
    assert not_measured(asked, data, held_out) == []
