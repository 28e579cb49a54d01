"""`run --project`: people's work stands in every result, the project takes it as one step, and nobody is run over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.errors import LockedError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange import formats
from rotopaint_ai.live.engine import LiveEngine
from rotopaint_ai.pipeline import carried_corrections as corrections_of_a_run
from rotopaint_ai.pipeline import shot_seams
from rotopaint_ai.pipeline.save_to_project import OpenProject
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.colour import DISPLAY, to_display
from rotopaint_ai.project import CropBox, Project, SeamSettings, State, corrections, face_groups, run_record
from rotopaint_ai.project.fingerprints import NOTE, PaintFingerprints
from rotopaint_ai.seams.strokes import Stroke, to_json
from rotopaint_ai.shapes import edit_layers, group_moves
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.rasterise import mattes_of
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

MOVE = 9.0


@pytest.fixture
def box(puppet: ModuleType) -> CropBox:
    frame, _, numbers = puppet.crop_text().rpartition(":")
    assert frame in ("", "1001")
    return CropBox(*map(float, numbers.split(",")))


@pytest.fixture
def run_project(plates: str, pack: Path, tmp_path: Path, box: CropBox) -> Iterator[Project]:
    """A project with a crop box and the results of one run."""
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State(crops={1001: box})).close()
    assert main(words(plates, pack, tmp_path)) == 0
    project = Project.open(path)
    yield project
    project.close()


def words(plates: str, pack: Path, folder: Path, *more: str) -> list[str]:
    out = str(folder / "out")
    return ["run", plates, "--out", out, "--model", str(pack), "--project", str(folder / "shot.rotopaint"), *more]


def moved(document: RotoDocument, frame: int, by: float = MOVE, name: str = "seam_middle") -> RotoDocument:
    """The document with a shape moved down by hand at a frame."""
    seam = document.shape(name)
    points = tuple(p._replace(y=p.y + by) for p in seam.at(frame))
    keys = {**seam.keys, frame: Key(points, "human")}
    return replace(document, shapes=tuple(seam.with_keys(keys) if s is seam else s for s in document.shapes))


def corrected(project: Project) -> State:
    """Two keyed frames, a hand landmark and a width, stored in the project as steps. Returns the state."""
    state = project.load().state
    assert state.document is not None
    document = moved(moved(state.document, 1003), 1004)
    seams = {"seam_middle": SeamSettings(width_px=7.5, feather_px=0.0, strength=0.0)}
    new = replace(state, document=document, seams=seams, names={"seam_middle": "Nose to chin"})
    project.append("fix", state, new)
    return new


def test_the_first_run_fills_the_project(run_project: Project, tmp_path: Path) -> None:
    loaded = run_project.load()
    assert [step.label for step in loaded.behind] == ["run"]
    assert loaded.state.document == loaded.state.predicted
    assert loaded.state.document == documents.read(tmp_path / "out" / "shapes.roto.json")
    assert len(run_project.files()) == 12
    assert run_project.note("out") == str(tmp_path / "out")
    assert run_project.note("run")["held"][0] == [1001, 1002]


def test_human_keys_and_settings_stand_in_every_result(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = corrected(run_project)
    assert before.document is not None
    assert before.predicted is not None
    run_project.close()
    capsys.readouterr()
    assert main(words(plates, pack, tmp_path, "--resume", "--export", "nuke", "--events")) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {each["frame"]: each["predicted"]["seam_middle"][0] for each in events if each.get("predicted")}
    assert {1003, 1004} < found.keys()  # and where the correction was carried over to
    assert found == {f: list(before.predicted.shape("seam_middle").keys[f].points[0]) for f in found}
    state = Project.open(tmp_path / "shot.rotopaint", write=False).load().state
    written = documents.read(tmp_path / "out" / "shapes.roto.json")
    for document in (state.document, written):
        assert document is not None
        seam = document.shape("seam_middle")
        assert [seam.keys[f] for f in (1003, 1004)] == [
            before.document.shape("seam_middle").keys[f] for f in (1003, 1004)
        ]
        assert (seam.width_px, seam.feather_px) == (7.5, 0.0)
        assert seam.keys[1005].source == "propagated"
    assert state.predicted is not None
    assert state.predicted.shape("seam_middle").keys == before.predicted.shape("seam_middle").keys
    exported, _ = formats.read(tmp_path / "out" / "shapes.nk", width=written.width, height=written.height)
    assert "Nose_to_chin" in [shape.name for shape in exported.shapes]
    matte = open_plate(tmp_path / "out" / "matte" / "seam_middle.####.exr")
    tops = [matte.read(frame).origin[1] for frame in (1003, 1005)]
    still = [min(p.y for p in written.shape("seam_middle").at(frame)) for frame in (1003, 1005)]
    assert tops[0] - tops[1] == pytest.approx(still[0] - still[1], abs=2)  # the matte is where the hand put the seam
    clean, plate = open_plate(tmp_path / "out" / "clean"), open_plate(plates)
    assert (clean.read(1003).rgb == plate.read(1003).rgb).all()  # strength 0: no paint shows


def grouped(project: Project, down: float) -> State:
    """The seam in a group that is moved down from the first frame on, stored as a step; on one frame it is also drawn
    by hand. Returns the state before."""
    state = project.load().state
    assert state.document is not None
    group = edit_layers.group(state.document, ["seam_middle"], "g")
    lower = edit_layers.set_pose(group, "g", [1001], LayerPose(y=down))
    predicted = group_moves.move_with_groups(state.predicted, group, lower)
    project.append("group", state, replace(state, document=moved(lower, 1004, by=0.0), predicted=predicted))
    return state


def test_a_group_teaches_nothing_where_a_part_of_the_shot_is_run(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    run_project.close()
    heights = []
    for down in (0.0, 8.0):
        folder = tmp_path / f"{down:g}"
        folder.mkdir()
        project = Project.open(Path(shutil.copy(tmp_path / "shot.rotopaint", folder)))
        grouped(project, down)
        project.close()
        assert main(words(plates, pack, folder, "--frames", "1006-1010")) == 0
        document = Project.open(folder / "shot.rotopaint", write=False).load().state.document
        assert document is not None
        seam = document.shape("seam_middle")
        assert "propagated" in {key.source for key in seam.keys.values()}
        heights.append([seam.at(frame)[1].y - down for frame in seam.frames])
    assert heights[1] == pytest.approx(heights[0], abs=0.01)


@pytest.mark.parametrize("down", [0.0, 200.0])
def test_a_group_places_what_a_run_finds_and_teaches_nothing(
    down: float, run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    state = grouped(run_project, down)
    assert state.document is not None
    run_project.close()
    assert main(words(plates, pack, tmp_path, "--resume", "--export", "nuke")) == 0
    after = Project.open(tmp_path / "shot.rotopaint", write=False).load().state
    written = documents.read(tmp_path / "out" / "shapes.roto.json")
    for document in (after.document, after.predicted, written):
        assert document is not None
        seam, was = document.shape("seam_middle"), state.document.shape("seam_middle")
        offsets = {f: seam.at(f)[1].y - was.at(f)[1].y for f in was.frames}
        assert offsets == pytest.approx(dict.fromkeys(was.frames, down), abs=3)  # what was drawn has put some right
        hand = [f for f, key in seam.keys.items() if key.source == "human"]
        assert hand == ([] if document is after.predicted else [1004])
    matte = coverage(tmp_path / "out" / "matte", "seam_middle", written)
    drawn_here = mattes_of(written.shapes, 1003, written.width, written.height)["seam_middle"]
    rows = [(each.sum(axis=1) @ np.arange(written.height)) / each.sum() for each in (matte, drawn_here.paste(192, 120))]
    assert rows[0] == pytest.approx(
        rows[1], abs=0.05, nan_ok=down > 100
    )  # the frame's own width beside that of the shot


def test_a_run_of_another_face_leaves_the_first_one_as_it_is(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, box: CropBox
) -> None:
    """Both names stand for the same face here, because the plates show only one."""
    named = face_groups.choose_face(corrected(run_project), "Anna", None)
    run_project.append("name face", run_project.load().state, named)
    errors = run_project.note("run")["errors"]
    run_project.close()
    crop = ("--crop", box.word(1001))
    assert main(words(plates, pack, tmp_path, "--resume", "--export", "nuke", "--face", "Bo", *crop)) == 0
    state = Project.open(tmp_path / "shot.rotopaint", write=False).load().state
    assert named.document is not None
    assert state.document is not None
    assert state.predicted is not None
    assert {shape.name for shape in state.predicted.shapes} == {shape.name for shape in named.document.shapes}
    for shape in named.document.shapes:
        aside, own = state.document.shape(f"Anna_{shape.name}"), state.document.shape(shape.name)
        assert (aside.layer, own.layer) == (Layer("Anna"), Layer("Bo"))
        assert aside.keys == shape.keys
        assert {key.source for key in own.keys.values()} == {"model"}
    nuke, _ = formats.read(tmp_path / "out" / "shapes.nk", width=192, height=120)
    assert {shape.name.split("/")[0] for shape in nuke.shapes} == {"Anna", "Bo"}
    assert coverage(tmp_path / "out" / "matte", "Anna_seam_middle", state.document).max() > 0.5
    found = corrections(tmp_path / "shot.rotopaint")
    assert (found.frames, {shape.name for shape in found.document.shapes}) == ((), state_names(state.predicted))
    before = OpenProject(tmp_path / "shot.rotopaint")
    before.take_face("Anna")
    before.project.close()
    project = Project.open(tmp_path / "shot.rotopaint", write=False)
    again = project.load().state
    assert project.note("run")["errors"] == errors
    assert [step.label for step in project.load().behind][-2:] == ["run", "choose face"]
    project.close()
    assert again.document is not None
    assert again.predicted == named.predicted
    assert again.document.landmarks == named.document.landmarks
    assert again.document.shape("seam_middle").keys == named.document.shape("seam_middle").keys
    assert again.seams == named.seams
    assert again.crops == named.crops
    assert again.faces["Bo"].pack == str(pack)  # with which it was run, here as there
    assert state.faces["Anna"].pack == str(pack)
    unnamed = [each for each in words(plates, pack, tmp_path, "--frames", "1001") if each not in ("--model", str(pack))]
    for face in ("Anna", "Bo"):  # the one in hand, and the other one
        assert main([*unnamed, "--overwrite", "--face", face, *crop]) == 0
        assert json.loads((tmp_path / "out" / "run.json").read_text())["job"]["model"] == str(pack)


def test_a_face_can_be_chosen_only_in_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "p.####.png", "--out", str(tmp_path), "--face", "Bo"]) == 2
    assert "--face: works only with a project; add --project FILE" in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--model", "nowhere"), ("--frames", "7-9"), ("gone.####.png",)])
def test_a_refused_run_changes_no_face(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    run_project.close()
    place = str(tmp_path / more[0]) if len(more) == 1 else plates
    assert main(words(place, pack, tmp_path, "--face", "Bo", *(more if len(more) > 1 else ()))) == 2
    assert Project.open(tmp_path / "shot.rotopaint", write=False).load().state.face == ""


def state_names(document: RotoDocument) -> set[str]:
    return {shape.name for shape in document.shapes}


def test_hold_outs_drawn_seams_and_profiles_are_in_a_runs_own_files(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    state = run_project.load().state
    assert state.document is not None
    seam = state.document.shape("seam_middle")
    x, y = seam.at(1003)[0][:2]
    box = tuple(ControlPoint(x + dx, y + dy) for dx, dy in ((-15, -15), (15, -15), (15, 15), (-15, 15)))
    away = RotoShape("hand_1", True, "matte", {1003: Key(box, "human")}, subtract=True)
    rows = (ControlPoint(20, 20), ControlPoint(60, 20))
    drawn = RotoShape("hand_seam_1", False, "seam", {1001: Key(rows, "human")}, width_px=6.0)
    document = replace(state.document, shapes=(*state.document.shapes, away, drawn))
    profile = ((1.0, 4.0),) * seam.n_points
    seams = {"seam_middle": SeamSettings(width_px=4.0, feather_px=0.0, profile=profile)}
    run_project.append("draw", state, replace(state, document=document, seams=seams))
    run_project.close()
    assert main(words(plates, pack, tmp_path, "--resume")) == 0
    written = documents.read(tmp_path / "out" / "shapes.roto.json")
    assert written.shape(seam.name).widths_at(1003)[0] == (2.0, 8.0, 0.0)
    expected = mattes_of(written.shapes, 1003, written.width, written.height)
    for name in (seam.name, drawn.name):
        found = coverage(tmp_path / "out" / "matte", name, written)
        assert np.abs(found - expected[name].paste(written.width, written.height)).max() < 2e-3  # half floats
    hidden = slice(round(y) - 12, round(y) + 12), slice(round(x) - 12, round(x) + 12)
    assert coverage(tmp_path / "out" / "matte", seam.name, written)[hidden].max() == 0.0
    clean, plate = (open_plate(source).read(1003).rgb for source in (tmp_path / "out" / "clean", plates))
    assert (clean[hidden] == plate[hidden]).all()
    assert (clean[18:22, 25:55] != plate[18:22, 25:55]).any()  # the drawn seam is painted


def coverage(folder: Path, shape: str, document: RotoDocument) -> np.ndarray:
    """A matte that a run wrote, pasted on the whole plate."""
    frame = open_plate(folder / f"{shape}.####.exr").read(1003)
    (x, y), (height, width) = frame.origin, frame.rgb.shape[:2]
    whole = np.zeros((document.height, document.width))
    whole[y : y + height, x : x + width] = frame.rgb[..., 0]
    return whole


def test_resume_redoes_only_the_edited_frames(run_project: Project, plates: str, pack: Path, tmp_path: Path) -> None:
    state = run_project.load().state
    assert state.document is not None
    run_project.append("fix", state, replace(state, document=moved(state.document, 1003, name="outline")))
    run_project.close()
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "clean").iterdir()}
    assert main(words(plates, pack, tmp_path, "--resume")) == 0
    again = [path.name for path, before in times.items() if path.stat().st_mtime_ns != before]
    assert [name.split(".")[1] for name in again] == ["1003"]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["timing"]["frames_in_this_process"] == 1


def test_a_frame_of_which_only_the_expected_error_is_new_is_not_painted_again(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrected(run_project)
    run_project.close()
    assert main(words(plates, pack, tmp_path)) == 0
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "clean").iterdir()}
    monkeypatch.setattr(corrections_of_a_run, "DIGITS", 1)
    assert main(words(plates, pack, tmp_path, "--resume")) == 0
    assert {path: path.stat().st_mtime_ns for path in times} == times
    errors = Project.open(tmp_path / "shot.rotopaint", write=False).note("run")["errors"]
    assert all(row["seam_middle"] == round(row["seam_middle"], 1) for row in errors.values())


def test_a_run_can_be_undone_and_other_frames_stay(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    before, known = corrected(run_project), run_project.note("run")
    run_project.close()
    assert main(words(plates, pack, tmp_path, "--frames", "1007-1008")) == 0
    project = Project.open(tmp_path / "shot.rotopaint")
    reported = project.note("run")
    assert reported["held"] == known["held"]
    assert set(reported["errors"]) == set(known["errors"])
    assert {f: row for f, row in reported["errors"].items() if f not in ("1007", "1008")} == {
        f: row for f, row in known["errors"].items() if f not in ("1007", "1008")
    }
    loaded = project.load()
    assert loaded.state.document is not None
    assert before.document is not None
    assert loaded.state.document.shape("outline").frames == before.document.shape("outline").frames
    assert [step.label for step in loaded.behind] == ["run", "fix", "run"]
    assert project.before(loaded.behind[-1].number, loaded.state) == before
    project.close()


def test_corrections_that_were_carried_on_are_carried_on_again(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    from rotopaint_ai.shapes.landmarks_follow import with_landmarks
    from rotopaint_ai.shapes.manual_keys import with_model_keys
    from rotopaint_ai.shapes.refit import refit

    state = run_project.load().state
    assert state.document is not None
    assert state.predicted is not None
    keyed = moved(state.document, 1003, name="outline")
    errors = run_record.from_json(run_project.note("run")).errors_by_shape()
    fixed = with_landmarks(keyed, with_model_keys(keyed, refit(state.predicted, keyed, errors)))
    assert fixed.landmarks != keyed.landmarks
    run_project.append("refit shot", state, replace(state, document=fixed))
    run_project.close()
    assert main(words(plates, pack, tmp_path)) == 0
    again = Project.open(tmp_path / "shot.rotopaint", write=False).load().state.document
    assert again is not None
    for frame, key in fixed.shape("outline").keys.items():
        for ours, theirs in zip(again.shape("outline").keys[frame].points, key.points):
            assert ours == pytest.approx(theirs, abs=0.05)
        for mark, other in zip(again.landmarks.keys[frame], fixed.landmarks.keys[frame]):
            assert (mark is None) == (other is None)
            assert mark is None or other is None or mark[:2] == pytest.approx(other[:2], abs=0.05)


def test_a_run_carries_corrections_over_before_it_paints(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = corrected(run_project)
    run_project.close()
    assert fixed.document is not None
    assert fixed.predicted is not None
    was, said = fixed.document.shape("seam_middle").keys, fixed.predicted.shape("seam_middle").keys
    for words_more in ((), ("--resume",)):  # and once more from what that has made
        assert main(words(plates, pack, tmp_path, *words_more)) == 0
        project = Project.open(tmp_path / "shot.rotopaint", write=False)
        state = project.load().state
        project.close()
        assert state.document is not None
        assert state.predicted is not None
        keys = state.document.shape("seam_middle").keys
        assert {f: key for f, key in keys.items() if key.source == "human"} == {f: was[f] for f in (1003, 1004)}
        carried = [f for f, key in keys.items() if key.source == "propagated"]
        assert f"corrections carried over: {len(carried)} keys moved" in capsys.readouterr().err
        assert carried
        assert all(keys[f].points[1].y - said[f].points[1].y == pytest.approx(MOVE, abs=MOVE / 2) for f in carried)
        assert state.predicted.shape("seam_middle").keys == said  # what the models say is nobody's correction
        written = documents.read(tmp_path / "out" / "shapes.roto.json")
        assert written.shape("seam_middle").keys == keys
        matte = coverage(tmp_path / "out" / "matte", "seam_middle", written)
        drawn = mattes_of(written.shapes, 1003, written.width, written.height)["seam_middle"].paste(192, 120)
        assert abs(matte - drawn).mean() < 0.01


def test_a_correction_reaches_the_stretches_that_are_read_after_its_own(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = corrected(run_project)
    run_project.close()
    monkeypatch.setattr(shot_seams, "STRETCH", 4)
    assert main(words(plates, pack, tmp_path)) == 0
    state = Project.open(tmp_path / "shot.rotopaint", write=False).load().state
    assert state.document is not None
    assert fixed.predicted is not None
    said, keys = fixed.predicted.shape("seam_middle").keys, state.document.shape("seam_middle").keys
    carried = [f for f, key in keys.items() if key.source == "propagated"]
    assert min(carried) < 1003
    assert max(carried) > 1008
    assert all(keys[f].points[1].y - said[f].points[1].y == pytest.approx(MOVE, abs=MOVE / 2) for f in carried)


@pytest.mark.parametrize("part", ["1003-1008", "1006-1010"])  # with the corrected frames, and without
def test_a_run_of_a_part_of_the_shot_carries_corrections_over_to_its_frames(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, part: str
) -> None:
    fixed = corrected(run_project)
    run_project.close()
    assert fixed.document is not None
    assert fixed.predicted is not None
    assert main(words(plates, pack, tmp_path, "--frames", part)) == 0
    project = Project.open(tmp_path / "shot.rotopaint", write=False)
    state = project.load().state
    project.close()
    assert state.document is not None
    was, keys = fixed.document.shape("seam_middle").keys, state.document.shape("seam_middle").keys
    said = fixed.predicted.shape("seam_middle").keys
    run = range(int(part[:4]), int(part[-4:]) + 1)
    carried = [f for f, key in keys.items() if key.source == "propagated"]
    assert carried
    assert {*carried} <= {*run}
    assert all(keys[f].points[1].y - said[f].points[1].y == pytest.approx(MOVE, abs=MOVE / 2) for f in carried)
    assert {f: key for f, key in keys.items() if f not in run} == {f: key for f, key in was.items() if f not in run}


def test_corrections_are_carried_over_in_a_run_of_a_part_though_other_frames_are_gone(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    corrected(run_project)
    run_project.close()
    left = shutil.copytree(Path(plates).parent, tmp_path / "left") / Path(plates).name
    for frame in (1001, 1002, 1011, 1012):
        Path(str(left).replace("####", str(frame))).unlink()
    assert main(words(str(left), pack, tmp_path, "--frames", "1003-1010", "--overwrite")) == 0
    state = Project.open(tmp_path / "shot.rotopaint", write=False).load().state
    assert state.document is not None
    assert "propagated" in {key.source for key in state.document.shape("seam_middle").keys.values()}


def test_a_project_of_another_plate_is_reported_and_one_of_another_size_refused(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_project.set_files({f: (n, size + 1, 0, "0" * 64) for f, (n, size, _, _) in run_project.files().items()})
    run_project.close()
    assert main(words(plates, pack, tmp_path, "--overwrite")) == 0
    assert "holds other pictures than those that shot.rotopaint was made on" in capsys.readouterr().err
    other = shutil.copytree(Path(plates).parent, tmp_path / "other") / Path(plates).name
    project = Project.open(tmp_path / "shot.rotopaint")
    project.set_files({f: (n, size + 1, 0, "0" * 64) for f, (n, size, _, _) in project.files().items()})
    known = project.note("plate")
    project.close()
    assert main(words(str(other), pack, tmp_path, "--overwrite")) == 2  # another shot
    assert f", {plates}; choose that plate, or another project" in capsys.readouterr().err
    project = Project.open(tmp_path / "shot.rotopaint")
    assert project.note("plate") == known
    project.close()
    assert main(words(str(other), pack, tmp_path, "--overwrite", "--force")) == 0
    project = Project.open(tmp_path / "shot.rotopaint")
    project.set_note("plate", {**(project.note("plate") or {}), "width": 64})
    project.close()
    assert main(words(plates, pack, tmp_path, "--overwrite")) == 2
    assert "choose that plate, or another project" in capsys.readouterr().err


def test_a_project_that_somebody_works_on_is_not_run_over(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = corrected(run_project)
    assert main(words(plates, pack, tmp_path)) == 2
    assert "works on it; press Run there, or add --leave-project" in capsys.readouterr().err
    assert main(words(plates, pack, tmp_path, "--leave-project")) == 0
    assert run_project.load().state == before
    seam = documents.read(tmp_path / "out" / "shapes.roto.json").shape("seam_middle")
    assert seam.keys[1003].source == "human"
    with pytest.raises(LockedError):
        Project.open(tmp_path / "shot.rotopaint").append("x", before, State())


def stale(path: Path, first: int = 1001, last: int = 1012) -> list[int]:
    """Frames whose clean plate does not match the project's state."""
    project = Project.open(path, write=False)
    painted = {int(frame): each for frame, each in project.note(NOTE).items()}
    found = PaintFingerprints().stale(project.load().state, range(first, last + 1), painted)
    project.close()
    return found


def clean(plates: str, pack: Path, folder: Path, *more: str) -> int:
    job = ["clean", plates, "--project", str(folder / "shot.rotopaint"), "--out", str(folder / "out")]
    return main([*job, "--model", str(pack), *more])


def test_touch_up_is_laid_again_by_every_run_and_clean(
    run_project: Project, plates: str, pack: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shot.rotopaint"
    assert stale(path) == []
    state = run_project.load().state
    assert state.document is not None
    middle = state.document.shape("seam_middle").at(1003)[1]
    x, y = int(middle.x), int(middle.y)
    stroke = Stroke(((x + 0.5, y + 0.5),), dx=0, dy=-12, radius_px=5.0, hardness=1.0)
    other, back = replace(stroke, source=1009), replace(stroke, dy=0, radius_px=2.0, source="plate")
    run_project.append("touch-up", state, replace(state, strokes={1003: (stroke,), 1005: (other, back)}))
    run_project.close()
    assert stale(path) == [1003, 1005]
    for command in ("run", "clean"):
        done = main(words(plates, pack, tmp_path, "--resume")) if command == "run" else clean(plates, pack, tmp_path)
        assert done == 0
        assert stale(path) == []
        paint, plate = open_plate(tmp_path / "out" / "clean").read(1003).rgb, open_plate(plates).read(1003).rgb
        assert (paint[y, x] == plate[y - 12, x]).all()  # copied from bare skin
        assert (paint[y, x] != plate[y, x]).any()
        painted = open_plate(tmp_path / "out" / "clean").read(1005).rgb
        assert (painted[y + 3, x] == open_plate(plates).read(1009).rgb[y - 9, x]).all()
        assert (painted[y, x] == open_plate(plates).read(1005).rgb[y, x]).all()  # under the stroke that brings it back
        shown = preview(plates, pack, tmp_path, path, 1005, painted.shape[:2])
        is_shown = shown.any(axis=2)
        assert is_shown[y, x]
        assert np.abs(shown - 255.0 * to_display(painted))[is_shown].max() <= 1.0  # it is written in 8 bits


def preview(plates: str, pack: Path, folder: Path, project: Path, frame: int, size: tuple[int, ...]) -> np.ndarray:
    """The panel engine's preview of a frame, black outside its region: (H, W, 3), 0 to 255."""
    with closing(Project.open(project, write=False)) as kept:
        state = kept.load().state
    assert state.document is not None
    engine = LiveEngine(folder)
    assert "error" not in engine.answer({"ask": "plate", "source": plates})
    assert "error" not in engine.answer({"ask": "pack", "model": str(pack)})
    asked = {"ask": "seam", "frame": frame, "shapes": documents.dumps(state.document), "settings": {}}
    rows = [to_json(stroke) for stroke in state.strokes[frame]]
    facts = engine.answer({**asked, "look": [0.0, 1.0, DISPLAY["view"]], "strokes": rows})
    x, y, width, height = facts["region"]
    pixels = np.fromfile(facts["block"], np.uint8)[: 3 * width * height]
    shown = np.zeros((*size, 3), np.uint8)
    shown[y : y + height, x : x + width] = pixels.reshape(height, width, 3)
    return shown


def test_clean_takes_shapes_from_the_project_and_notes_what_it_painted(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shot.rotopaint"
    corrected(run_project)
    assert clean(plates, pack, tmp_path) == 2
    assert "works on it; press Run there, or add --leave-project" in capsys.readouterr().err
    run_project.close()
    assert stale(path) == list(range(1001, 1013))
    assert clean(plates, pack, tmp_path, "--frames", "1003-1004") == 0
    assert set(stale(path)) == set(range(1001, 1013)) - {1003, 1004}
    assert (open_plate(tmp_path / "out" / "clean").read(1003).rgb == open_plate(plates).read(1003).rgb).all()
    assert clean(plates, pack, tmp_path, "--frames", "1004", "--method", "two-bank") == 0
    assert 1004 in stale(path)  # painted otherwise than the project says
    assert clean(plates, pack, tmp_path, "--leave-project", "--frames", "1004") == 0
    assert 1004 in stale(path)  # somebody else takes note of it


def test_a_clean_that_is_refused_leaves_what_is_noted(
    run_project: Project, plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_project.close()
    other = str(tmp_path / "other.1001.png")
    cv2.imwrite(other, np.zeros((8, 8, 3), np.uint8))
    assert clean(other, pack, tmp_path) == 2
    assert "choose that plate, or another project" in capsys.readouterr().err
    assert stale(tmp_path / "shot.rotopaint") == []


@pytest.mark.parametrize("is_old", [False, True])
def test_a_run_with_relative_paths_is_found_from_another_folder(
    plates: str, pack: Path, tmp_path: Path, box: CropBox, monkeypatch: pytest.MonkeyPatch, is_old: bool
) -> None:
    path = tmp_path / "shot.rotopaint"
    Project.create(path, State(crops={1001: box})).close()
    monkeypatch.chdir(tmp_path)
    assert main(words(os.path.relpath(plates), pack, Path(), "--frames", "1001-1002")) == 0
    with closing(Project.open(path)) as project:
        assert project.note("out") == str(tmp_path / "out")
        assert project.note("plate")["source"] == plates
        if is_old:  # as it was written once
            project.set_note("out", "out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert stale(path, 1001, 1002) == []
    assert clean(plates, pack, tmp_path, "--frames", "1001", "--method", "two-bank") == 0
    assert stale(path, 1001, 1002) == [1001]  # painted otherwise than the project says


def test_without_a_box_the_line_says_what_to_do(
    plates: str, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Project.create(tmp_path / "shot.rotopaint").close()
    assert main(words(plates, pack, tmp_path)) == 2
    assert "has no crop box yet; draw one in the panel, or give --crop" in capsys.readouterr().err
    assert main(["run", plates, "--out", str(tmp_path / "out")]) == 2
    assert "--crop is missing" in capsys.readouterr().err


def test_a_miner_finds_the_corrected_frames(run_project: Project, tmp_path: Path, plates: str) -> None:
    corrected(run_project)
    found = corrections(tmp_path / "shot.rotopaint")
    assert found.plate == plates
    assert [each.frame for each in found.frames] == [1003, 1004]
    assert found.frames[0].shapes["seam_middle"][0].y - found.frames[0].model_shapes["seam_middle"][0].y == MOVE
