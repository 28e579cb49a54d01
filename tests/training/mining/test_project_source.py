"""Project files as a source: corrected and accepted frames, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.project import Project, State
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet, dump_sheet
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.sources import read_source

NAMES = ("nose", "chin", "brow")


class Character(Protocol):
    """The fixture of this name."""

    folder: Path
    plates: str

    def roto(self, shot: int) -> Path: ...


def project_of(character: Character, path: Path, *, human: dict[str, set[int]], marks: dict[int, str]) -> Path:
    """A shot in work: the model keyed every frame, a person some."""
    roto = document.read(character.roto(1))
    shapes = tuple(
        shape.with_keys(
            {
                frame: replace(key, source="human" if frame in human.get(shape.name, ()) else "model")
                for frame, key in shape.keys.items()
            }
        )
        for shape in roto.shapes
    )
    points = {f: (Landmark(100.0 + f - 1001, 90.0, 1.0), Landmark(110.0, 150.0, 1.0), None) for f in range(1001, 1011)}
    landmarks = LandmarkKeys(NAMES, points, {1009: frozenset({"chin"})})
    state = State(document=replace(roto, shapes=shapes, landmarks=landmarks), marks=marks)
    project = Project.create(path, state)
    project.set_note("plate", {"source": str(character.folder / "shot1" / "plate.####.png"), "colourspace": None})
    project.close()
    return path


def test_corrected_and_accepted_frames_are_taken(character: Character, tmp_path: Path) -> None:
    path = project_of(
        character,
        tmp_path / "sh010.rotopaint",
        human={"mouth": {1003, 1008}, "seam": {1003}},
        marks={1006: "accepted", 1008: "needs work"},
    )
    (take,) = read_source(path, None)
    assert sorted(take.frames) == [1003, 1006, 1009]  # keyed, accepted, a landmark placed; 1008 needs work
    assert take.notes == ("3 corrected frames used: 2 shapes and 1 landmarks by hand, the rest as accepted",)
    assert take.frames[1006].landmarks == {"nose": (105.0, 90.0, 1.0), "chin": (110.0, 150.0, 1.0)}
    kept = document.read(character.roto(1)).shape("mouth").at(1003)
    np.testing.assert_allclose(take.frames[1003].shapes["mouth"].points, bezier.as_array(kept))


def test_a_project_is_mined(character: Character, tmp_path: Path) -> None:
    human = {"mouth": {1003, 1004, 1005}, "seam": {1007}}
    path = project_of(character, tmp_path / "sh010.rotopaint", human=human, marks={1010: "accepted"})
    mined = mine(MineOptions((path,), tmp_path / "set", val=("none",), character="hero"))
    assert mined.n_samples["train"] == 6
    samples = read_dataset(tmp_path / "set").samples
    assert [(s.character, s.shot, s.frame) for s in samples] == [
        ("hero", "shot1", frame) for frame in (1003, 1004, 1005, 1007, 1009, 1010)
    ]
    assert set(mined.sheet.shape_names) == {"eye_right", "eye_left", "mouth", "seam"}
    assert {"nose", "chin"} <= set(mined.sheet.landmark_names)


def test_a_projects_points_are_those_of_the_pack_that_drew_it(character: Character, tmp_path: Path) -> None:
    human = {"mouth": set(range(1001, 1011))}
    path = project_of(character, tmp_path / "sh010.rotopaint", human=human, marks={})
    roto = document.read(character.roto(1))
    shapes = tuple(
        ShapeSpec(shape.name, shape.closed, shape.n_points, shape.role, {}, ("nose", "chin")) for shape in roto.shapes
    )
    sheet = tmp_path / "pack" / "sheet.yaml"
    sheet.parent.mkdir()
    sheet.write_text(dump_sheet(Sheet("hero", (LandmarkSpec("nose"), LandmarkSpec("chin")), shapes)), encoding="utf-8")
    mine(MineOptions((path,), tmp_path / "set", val=("none",), sheet=sheet))
    data = read_dataset(tmp_path / "set")
    for shape in roto.shapes:
        for row, sample in enumerate(data.samples):
            found = data.truth.points[row, data.sheet.point_rows()[shape.name], :2] / sample.pixel_scale
            drawn = bezier.as_array(shape.at(sample.frame))[:, :2]
            np.testing.assert_allclose(found - found.mean(axis=0), drawn - drawn.mean(axis=0), atol=0.5)


def test_projects_without_work_are_refused_in_one_line(character: Character, tmp_path: Path) -> None:
    path = project_of(character, tmp_path / "idle.rotopaint", human={}, marks={})
    project = Project.open(path)
    state = project.load().state
    project.reset(replace(state, document=replace(state.document, landmarks=LandmarkKeys(NAMES))))
    project.close()
    with pytest.raises(UsageError, match=r"idle\.rotopaint: no frame was corrected or accepted"):
        read_source(path, None)
    Project.create(tmp_path / "empty.rotopaint", State()).close()
    with pytest.raises(UsageError, match="holds no shapes yet"):
        read_source(tmp_path / "empty.rotopaint", None)
