"""Corrected projects as a source: which of human, finished roto and model wins in the same frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.errors import DocumentError, TrainingError, UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.project import Project, SeamSettings, State
from rotopaint_ai.project.plate_files import look
from rotopaint_ai.shapes import bezier, edit
from rotopaint_ai.shapes.roto import Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.training.data.dataset import Dataset, read_dataset, write_dataset
from rotopaint_ai.training.mining.join import JoinedFrame, join_sources
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.mined_samples import clear_dataset
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.sources import read_source

Array = npt.NDArray[np.float64]

CORNER, CHIN = "mouth_corner", "chin"  # the first lies on the mouth's first control point, the second on none
FIXED, TOUCHED = 1004, 1006  # frames that a person corrected


class Character(Protocol):
    """The fixture of this name."""

    folder: Path
    plates: str

    def roto(self, shot: int) -> Path: ...


def as_the_model_said(roto: RotoDocument) -> RotoDocument:
    """The shot after a run: all keys from the model, two landmarks in every frame, no frame equal to the previous
    one."""
    shapes = tuple(
        shape.with_keys({frame: replace(key, source="model") for frame, key in shape.keys.items()})
        for shape in roto.shapes
    )
    mouth = roto.shape("mouth")
    rows = {
        frame: (Landmark(*mouth.keys[frame].points[0][:2], 1.0), Landmark(120.0, 150.0 + frame - 1001, 1.0))
        for frame in mouth.keys
    }
    rows[FIXED] = (rows[FIXED][0], Landmark(*mouth.keys[FIXED].points[4][:2], 1.0))  # once, by chance, on a point
    return replace(roto, shapes=shapes, landmarks=LandmarkKeys((CORNER, CHIN), rows))


def corrected(said: RotoDocument) -> RotoDocument:
    """An artist pulls points of the mouth by 6 px in one frame and places the chin in another."""
    done = edit.move_points(said, "mouth", FIXED, {0: (6.0, 0.0), 4: (0.0, 6.0)})
    return edit.place_landmark(done, TOUCHED, CHIN, 125.0, 160.0)


def save(
    path: Path,
    said: RotoDocument,
    done: RotoDocument,
    plate: Path,
    *,
    seams: Mapping[str, SeamSettings] | None = None,
    colourspace: str | None = None,
) -> Path:
    """A project file as the user interface writes it."""
    project = Project.create(path, State(document=done, predicted=said, seams=seams or {}))
    project.set_note("plate", {"source": str(plate), "colourspace": colourspace})
    project.set_files(look({frame: Path(str(plate).replace("####", str(frame))) for frame in (1001, 1005, 1010)}))
    project.close()
    return path


@pytest.fixture
def shot(character: Character) -> Path:
    """The plate of the first shot."""
    return character.folder / "shot1" / "plate.####.png"


@pytest.fixture
def work(character: Character, shot: Path, tmp_path: Path) -> Path:
    """A project of the first shot in another folder than its plates."""
    said = as_the_model_said(document.read(character.roto(1)))
    (tmp_path / "work").mkdir()
    return save(tmp_path / "work" / "sh010.rotopaint", said, corrected(said), shot)


def at(rows: tuple[JoinedFrame, ...], frame: int) -> JoinedFrame:
    (found,) = [row for row in rows if row.frame == frame]
    return found


def test_a_landmark_moves_with_a_moved_point_that_it_lies_on(work: Path, character: Character) -> None:
    (take,) = read_source(work, None)
    mouth = document.read(character.roto(1)).shape("mouth")
    marks, was = take.frames[FIXED].landmarks, mouth.keys[FIXED].points
    assert marks[CORNER] == pytest.approx((was[0].x + 6, was[0].y, 1.0))
    assert marks[CHIN] == pytest.approx((was[4].x, was[4].y, 1.0))  # near that point in this frame only
    assert take.frames[TOUCHED].landmarks[CHIN] == (125.0, 160.0, 1.0)


def test_a_landmark_placed_by_hand_stays_where_it_was_placed(character: Character, shot: Path, tmp_path: Path) -> None:
    said = as_the_model_said(document.read(character.roto(1)))
    done = edit.place_landmark(corrected(said), FIXED, CORNER, 80.0, 120.0)
    (take,) = read_source(save(tmp_path / "a.rotopaint", said, done, shot), None)
    assert take.frames[FIXED].landmarks[CORNER] == (80.0, 120.0, 1.0)


def test_a_width_is_taken_only_where_a_person_set_it(character: Character, shot: Path, tmp_path: Path) -> None:
    said = as_the_model_said(document.read(character.roto(1)))
    assert said.shape("seam").width_px is not None  # a run widens its mattes by the expected error: not a label
    set_by_hand = {"seam": SeamSettings(width_px=3.0)}
    for name, seams, wanted in (("run", {}, None), ("hand", set_by_hand, 3.0)):
        (take,) = read_source(save(tmp_path / f"{name}.rotopaint", said, corrected(said), shot, seams=seams), None)
        assert {truth.shapes["seam"].width_px for truth in take.frames.values()} == {wanted}


@pytest.mark.parametrize("project_first", [True, False])
def test_beside_finished_roto_only_what_a_person_did_counts(
    work: Path, character: Character, project_first: bool
) -> None:
    roto = character.roto(1)
    sources = (work, roto) if project_first else (roto, work)
    joined = join_sources(sources, character.plates)  # not the project's plates, which its file names itself
    assert [row.frame for row in joined.rows] == list(range(1001, 1011))
    assert {row.shot for row in joined.rows} == {"shot1"}
    truth, finished = at(joined.rows, FIXED).truth, document.read(roto)
    moved = bezier.as_array(finished.shape("mouth").keys[FIXED].points)
    moved[0, 0] += 6
    moved[4, 1] += 6
    np.testing.assert_allclose(truth.shapes["mouth"].points, moved)
    assert truth.shapes["seam"].width_px == finished.shape("seam").width_px
    assert [name for name, shape in truth.shapes.items() if shape.is_on_sheet] == ["mouth"]
    assert [note for note in joined.notes if "eye_left" in note] == []
    assert [note for note in joined.notes if "shapes mouth of shot1 come from " in note] == [
        "roto.roto.json: shapes mouth of shot1 come from a project where a person corrected them"
        if project_first
        else "sh010.rotopaint: shapes mouth of shot1 come from here"
    ]


def as_a_pack_of(show: Dataset, roto: RotoDocument, *, start: int = 0) -> RotoDocument:
    """A run of a pack that was trained on a data set of one shot, with exactly that data set's landmarks and control
    points.

    `start`: closed shapes begin this many control points later, as another pack's might.
    """
    rows: dict[int, tuple[Landmark, ...]] = {}
    keys: dict[str, dict[int, Key]] = {spec.name: {} for spec in show.sheet.shapes}
    for row, sample in enumerate(show.samples):
        slots = show.sheet.point_rows()
        corner = show.truth.points[row, slots["seam"].start, :2] - roto.shape("seam").keys[sample.frame].points[0][:2]
        places = show.truth.landmarks[row] - corner
        rows[sample.frame] = tuple(Landmark(float(x), float(y), 1.0) for x, y in places)
        for spec in show.sheet.shapes:
            points = show.truth.points[row, slots[spec.name]].astype(np.float64)
            points[:, :2] -= corner
            points = np.roll(points, -start, axis=0) if spec.closed else points
            keys[spec.name][sample.frame] = Key(bezier.as_points(points))
    shapes = tuple(RotoShape(spec.name, spec.closed, spec.role, keys[spec.name]) for spec in show.sheet.shapes)
    return replace(roto, shapes=shapes, landmarks=LandmarkKeys(show.sheet.landmark_names, rows))


def centred(data: Dataset, frame: int, name: str) -> Array:
    """Control points of a shape, independent of the crop."""
    (row,) = [row for row, sample in enumerate(data.samples) if sample.frame == frame]
    points = data.truth.points[row, data.sheet.point_rows()[name], :2]
    return np.asarray(points - points.mean(axis=0))


def test_a_project_beside_bare_roto(character: Character, tmp_path: Path) -> None:
    finished, plate = character.roto(2), character.folder / "shot2" / "plate.####.png"
    mine(MineOptions((finished,), tmp_path / "show", plates=character.plates))
    show, roto, sheet = read_dataset(tmp_path / "show"), document.read(finished), tmp_path / "show" / "sheet.yaml"
    said = as_a_pack_of(show, roto)
    done = edit.move_points(said, "mouth", FIXED, {0: (2.0, 0.0)})
    work = save(tmp_path / "a.rotopaint", said, done, plate)
    mine(MineOptions((finished, work), tmp_path / "both", plates=character.plates, sheet=sheet))
    both = read_dataset(tmp_path / "both")
    # frames with roto only keep the landmarks on their shapes
    assert [(s.shot, s.frame) for s in both.samples] == [(s.shot, s.frame) for s in show.samples]
    plain = [row for row, sample in enumerate(both.samples) if sample.frame != FIXED]
    off = both.truth.landmarks[plain] - show.truth.landmarks[plain]
    off -= off.mean(axis=1, keepdims=True)  # the crops may differ by a pixel
    assert np.median(np.abs(off)) < 1.0  # or slid along the shapes a little, to fit the corrected frame
    assert np.abs(off).max() < 6.0
    # a shape that the pack drew and a person corrected has the pack's points
    drawn = bezier.as_array(done.shape("mouth").keys[FIXED].points)[:, :2]
    np.testing.assert_allclose(centred(both, FIXED, "mouth"), drawn - drawn.mean(axis=0), atol=0.01)


def test_a_project_of_another_pack_gets_the_sheets_points(character: Character, tmp_path: Path) -> None:
    finished, plate = character.roto(2), character.folder / "shot2" / "plate.####.png"
    mine(MineOptions((finished,), tmp_path / "show", plates=character.plates))
    show, sheet = read_dataset(tmp_path / "show"), tmp_path / "show" / "sheet.yaml"
    said = as_a_pack_of(show, document.read(finished), start=3)
    frames = range(1002, 1009)
    done = said
    for frame in frames:
        done = edit.move_points(done, "mouth", frame, {0: (0.2, 0.0)})
    mine(MineOptions((save(tmp_path / "old.rotopaint", said, done, plate),), tmp_path / "fixed", sheet=sheet))
    fixed = read_dataset(tmp_path / "fixed")
    off = [np.linalg.norm(centred(fixed, f, "mouth") - centred(show, f, "mouth"), axis=1).max() for f in frames]
    assert np.median(off) < 1.5  # three points further they lie some 20 px apart


def test_a_project_with_moved_plates_reports_it_and_uses_the_given_path(
    work: Path, character: Character, shot: Path
) -> None:
    there = shot.parent.rename(shot.parent.with_name("shot1_moved"))
    with pytest.raises(UsageError, match=r"sh010\.rotopaint: its plates are no longer at .*shot1.*; give --plates"):
        join_sources((work,), None)
    (take,) = read_source(work, str(there / "plate.####.png"))
    assert take.plate == str(there / "plate.####.png")


def test_other_pictures_in_the_place_of_the_plates_are_reported(work: Path, character: Character, shot: Path) -> None:
    other = str(shot.parent.with_name("shot2") / "plate.####.png")
    (take,) = read_source(work, other)  # one pattern for all sources, but the project's own has priority
    assert take.plate == str(shot)
    shot.parent.rename(shot.parent.with_name("gone"))
    (take,) = read_source(work, other)
    assert take.plate == other
    assert any("other pictures" in note for note in take.notes)


def test_corrections_drawn_on_a_plate_of_another_shape_are_refused(
    character: Character, shot: Path, tmp_path: Path
) -> None:
    said = replace(as_the_model_said(document.read(character.roto(1))), width=1920, height=1080)
    path = save(tmp_path / "big.rotopaint", said, corrected(said), shot)
    with pytest.raises(DocumentError, match=r"big\.rotopaint: drawn on 1920 x 1080, but plate is 240 x 180"):
        join_sources((path,), None)


def test_plates_are_read_in_the_colour_space_that_was_worked_in(
    character: Character, shot: Path, tmp_path: Path
) -> None:
    said = as_the_model_said(document.read(character.roto(1)))
    path = save(tmp_path / "a.rotopaint", said, corrected(said), shot, colourspace="ACEScg")
    rows = join_sources((character.roto(1), path), character.plates).rows
    assert {row.plate.colourspace for row in rows} == {"ACEScg"}


def test_of_many_projects_those_without_corrections_are_left_out(work: Path, character: Character) -> None:
    said = as_the_model_said(document.read(character.roto(2)))
    idle = save(work.with_name("sh020.rotopaint"), said, said, character.folder / "shot2" / "plate.####.png")
    joined = join_sources((idle, work), None)
    assert {row.frame for row in joined.rows} == {FIXED, TOUCHED}
    assert any(
        note.startswith("left out: sh020.rotopaint: no frame was corrected or accepted") for note in joined.notes
    )
    with pytest.raises(UsageError, match=r"sh020\.rotopaint: no frame was corrected or accepted"):
        join_sources((idle,), None)


def test_corrections_are_learnt_from_unless_their_shot_is_held_out_where_they_belong(
    character: Character, work: Path, tmp_path: Path
) -> None:
    said = as_the_model_said(document.read(character.roto(2)))
    other = save(
        work.with_name("sh020.rotopaint"), said, corrected(said), character.folder / "shot2" / "plate.####.png"
    )
    plain = mine(MineOptions((work, other), tmp_path / "set"))
    # both shots: roto alone would make the second the validation shot
    assert plain.n_samples == {"train": 4, "val": 0, "test": 0}
    samples = [
        replace(s, split="val" if s.shot == "shot2" else "train") for s in read_dataset(tmp_path / "set").samples
    ]
    write_dataset(tmp_path / "set", name="show", licence="own", sheet=plain.sheet, samples=samples)
    mined = mine(MineOptions((work, other), tmp_path / "fixes", sheet=tmp_path / "set" / "sheet.yaml"))
    assert {(s.shot, s.split) for s in read_dataset(tmp_path / "fixes").samples} == {
        ("shot1", "train"),
        ("shot2", "val"),
    }
    assert "shot2: validation, as in the data set of the sheet" in mined.notes


def test_a_data_set_whose_pictures_are_being_cut_anew_is_none(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("dataset.json", "images/hero_shot1_1001.jpg"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "samples.jsonl").write_text('{"image": "images/hero_shot1_1001.jpg"}\n')
    clear_dataset(tmp_path)  # the longest part of mining follows, and may be interrupted
    assert not (tmp_path / "images" / "hero_shot1_1001.jpg").exists()
    with pytest.raises(TrainingError, match=r"no dataset\.json"):
        read_dataset(tmp_path)
