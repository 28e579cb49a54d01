"""Mining as a whole on a synthetic character: data set, sheet, residuals, and suspicious frames."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.cli import mine as command
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document, nuke
from rotopaint_ai.plates import exr_writer
from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.mining.label_checks import find_held, find_lag
from rotopaint_ai.training.mining.mine import MineReport, mine
from rotopaint_ai.training.mining.options import STAGES, Exclusion, MineOptions, ShotContent, choose_val
from rotopaint_ai.training.mining.sources import read_source
from rotopaint_ai.training.mining.takes import plate_of

Array = npt.NDArray[np.float64]


class Character(Protocol):
    """The fixture of this name."""

    folder: Path
    coco: Path
    plates: str

    def roto(self, shot: int) -> Path: ...

    def edit(self, shot: int, name: str, frame: int, points: Array) -> None: ...


def _order(character: Character, out: Path, *, coco: bool = True, **more: Any) -> MineOptions:
    sources = (character.roto(1), character.roto(2), *((character.coco,) if coco else ()))
    return MineOptions(sources=sources, out=out, plates=character.plates, **more)


def _kinds(mined: MineReport) -> set[tuple[str, int, str]]:
    return {(shot, frame, issue.kind) for shot, frame, issue in mined.issues}


class Whole(NamedTuple):
    """The data set of the whole character, mining's report, and the progress by stage."""

    out: Path
    mined: MineReport
    reported: dict[str, list[tuple[int, int]]]


@pytest.fixture(scope="module")
def whole(unedited: Character, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Mined once for all tests that only read it."""
    out, reported = tmp_path_factory.mktemp("whole") / "set", defaultdict(list)
    mined = mine(_order(unedited, out), progress=lambda stage, done, total: reported[stage].append((done, total)))
    return Whole(out, mined, reported)


def test_a_character_becomes_a_data_set(whole: Whole) -> None:
    out, mined, seen = whole
    assert list(seen) == list(STAGES)
    assert all(parts == sorted(parts) and parts[-1][0] == parts[-1][1] for parts in seen.values())
    assert mined.n_samples == {"train": 10, "val": 10, "test": 0}
    assert not _kinds(mined)
    data = read_dataset(out)
    assert data.sheet == mined.sheet
    assert {sample.shot for sample in data.samples if sample.split == "val"} == {"shot2"}
    assert {sample.character for sample in data.samples} == {"hero"}
    specs = {spec.name: spec for spec in data.sheet.shapes}
    assert specs["seam"].role == "seam"
    assert not specs["seam"].closed
    assert set(specs["mouth"].on_landmarks.values()) >= {"mouth_0", "mouth_1", "mouth_2", "mouth_3"}
    assert dict(specs["seam"].on_landmarks) == {0: "seam_0", specs["seam"].n_points - 1: "seam_1"}
    mirror = {mark.name: mark.mirror for mark in data.sheet.landmarks}
    assert mirror["eye_left_top"] == "eye_right_top"
    assert (mirror["mouth_0"], mirror["mouth_1"]) == ("mouth_2", None)
    for line in mined.table:
        assert line.p95_px <= 0.25, line
    listed = json.loads((out / "mining" / "residuals.json").read_text(encoding="utf-8"))
    assert {(row["shape"], row["shot"]) for row in listed} == {
        (shape, shot) for shape in specs for shot in ("shot1", "shot2", "all")
    }


def test_truth_lands_on_the_picture(unedited: Character, whole: Whole) -> None:
    character, data = unedited, read_dataset(whole.out)
    coco = json.loads(character.coco.read_text(encoding="utf-8"))
    names = coco["categories"][0]["keypoints"]
    by_picture = {image["file_name"]: note for image, note in zip(coco["images"], coco["annotations"])}
    for row, sample in enumerate(data.samples):
        marks = np.array(by_picture[f"{sample.shot}/plate.{sample.frame}.png"]["keypoints"]).reshape(-1, 3)
        given = {name: mark for name, mark in zip(names, marks) if mark[2] > 0}
        assert set(sample.landmarks) >= set(given)  # landmarks on shapes are added
        assert all(sample.landmarks[name][2] == (mark[2] == 2) for name, mark in given.items())
        offset = np.array([sample.landmarks[n][:2] for n in given]) - np.array([m[:2] for m in given.values()])
        assert sample.pixel_scale == 1.0  # a face of 100 px keeps its own pixels
        x, y = np.rint(-offset[0]).astype(int)
        np.testing.assert_allclose(offset, np.tile([-x, -y], (len(offset), 1)), atol=0.002)
        plate = cv2.cvtColor(
            cv2.imread(str(character.folder / sample.shot / f"plate.{sample.frame}.png")), cv2.COLOR_BGR2RGB
        )
        rows, columns = slice(max(y, 0), y + sample.height), slice(max(x, 0), x + sample.width)
        there = plate[rows, columns]
        here = data.picture(row)[max(-y, 0) :, max(-x, 0) :][: there.shape[0], : there.shape[1]]
        assert np.abs(here.astype(int) - there.astype(int)).mean() < 2.0  # JPEG
        box = sample.face_box
        assert box is not None
        assert 0.5 < max(box[2:]) / sample.width < 0.72
        roto = document.read(character.roto(int(sample.shot[-1])))
        for spec in data.sheet.shapes:
            points = np.array(sample.shapes[spec.name].points)
            points[:, :2] += [x, y]
            drawn = bezier.as_array(roto.shape(spec.name).at(sample.frame))
            assert bezier.curve_distance(points, drawn, spec.closed)[0] < 0.25


def test_control_points_are_the_same_anatomy_in_both_hands(whole: Whole) -> None:
    data = read_dataset(whole.out)
    slots = data.sheet.point_rows()
    assert any(spec.on_landmarks for spec in data.sheet.shapes)
    for spec in data.sheet.shapes:
        for point, name in spec.on_landmarks.items():
            off = (
                data.truth.points[:, slots[spec.name]][:, point, :2]
                - data.truth.landmarks[:, data.sheet.landmark_row(name)]
            )
            assert np.nanmax(np.linalg.norm(off, axis=1)) < 0.6, (spec.name, name)


def test_without_landmarks_the_shapes_own_points_serve(character: Character, tmp_path: Path) -> None:
    mined = mine(_order(character, tmp_path / "set", coco=False, val=("none",)))
    assert mined.n_samples == {"train": 20, "val": 0, "test": 0}
    names = mined.sheet.landmark_names
    assert all(any(name.startswith(shape.name + "_") for shape in mined.sheet.shapes) for name in names)
    mirror = {mark.name: mark.mirror for mark in mined.sheet.landmarks}
    assert all(mirror[name] == name.replace("right", "left") for name in names if "eye_right" in name)
    for spec in mined.sheet.shapes:
        assert spec.on_landmarks
        assert set(spec.on_landmarks.values()) <= set(spec.from_landmarks)


def test_a_sheet_is_followed(unedited: Character, whole: Whole, tmp_path: Path) -> None:
    first, path = whole.mined, whole.out / "sheet.yaml"
    text = path.read_text(encoding="utf-8")
    mouth = next(spec for spec in first.sheet.shapes if spec.name == "mouth")
    assert f"n_points: {mouth.n_points}" in text
    again = mine(_order(unedited, tmp_path / "two", sheet=path))
    assert again.sheet == first.sheet
    one, two = read_dataset(whole.out).truth, read_dataset(tmp_path / "two").truth
    landed = [slot for spec in first.sheet.shapes for slot in _on(first, spec.name)]
    np.testing.assert_allclose(one.points[:, landed, :2], two.points[:, landed, :2], atol=0.3)


def _on(mined: MineReport, name: str) -> list[int]:
    spec = next(spec for spec in mined.sheet.shapes if spec.name == name)
    given = {point for point, mark in spec.on_landmarks.items() if mark != f"{name}_p{point}"}
    return [mined.sheet.point_rows()[name].start + point for point in sorted(given)]


def test_nuke_scripts_are_mined_like_documents(character: Character, tmp_path: Path) -> None:
    for shot in (1, 2):
        roto = document.read(character.roto(shot))
        nuke.write_verified(character.roto(shot).with_name("roto.nk"), roto)
    sources = tuple(character.roto(shot).with_name("roto.nk") for shot in (1, 2))
    mined = mine(MineOptions(sources=sources, out=tmp_path / "set", plates=character.plates))
    assert set(mined.sheet.shape_names) == {"eye_right", "eye_left", "mouth", "seam"}
    assert all(line.p95_px <= 0.25 for line in mined.table)


def test_what_is_wrong_is_found_and_left_out(character: Character, tmp_path: Path) -> None:
    roto = document.read(character.roto(1))
    at = {name: bezier.as_array(roto.shape(name).at(1004)) for name in ("mouth", "seam")}
    character.edit(1, "mouth", 1004, np.roll(at["mouth"], 4, axis=0))
    eyes = [bezier.as_array(roto.shape(name).at(1006)) for name in ("eye_right", "eye_left")]
    character.edit(1, "eye_right", 1006, eyes[1][:8])
    character.edit(1, "eye_left", 1006, np.vstack((eyes[0], eyes[0][-1:])))
    seam = bezier.as_array(roto.shape("seam").at(1008))
    seam[5, :2] += (0.0, 15.0)
    character.edit(1, "seam", 1008, seam)
    mined = mine(_order(character, tmp_path / "set"))
    assert {("shot1", 1004, "twisted"), ("shot1", 1006, "swapped"), ("shot1", 1008, "jumped")} <= _kinds(mined)
    assert {frame for _, frame, _ in _kinds(mined)} <= {1004, 1006, 1008}
    listed = json.loads((tmp_path / "set" / "mining" / "suspicious.json").read_text(encoding="utf-8"))
    assert all((tmp_path / "set" / "mining" / entry["picture"]).is_file() for entry in listed)
    listing = tmp_path / "set" / "mining" / "suspicious.txt"
    lines = listing.read_text(encoding="utf-8").splitlines()[1:]
    assert [line.partition("  # ")[0] for line in lines] == ["shot1:1006", "shot1:1008"]  # a twist is corrected
    cleaned = mine(_order(character, tmp_path / "set", exclude=Exclusion.parse(["suspicious"])))
    assert not cleaned.notes
    assert len(listing.read_text(encoding="utf-8").splitlines()) == 3  # kinds are excluded after detection
    listing.write_text("shot1:1006\n", encoding="utf-8")  # a person confirmed 1008
    again = mine(_order(character, tmp_path / "set", exclude=Exclusion.parse([f"@{listing}", "suspicious"])))
    assert listing.read_text(encoding="utf-8") == "shot1:1006\n"
    assert again.notes[-1] == "mining/suspicious.txt was edited and is kept; the new list is suspicious.new.txt"
    assert "shot1:1008  # jumped" in listing.with_name("suspicious.new.txt").read_text(encoding="utf-8")
    assert cleaned.excluded == 2
    left = {sample.frame for sample in read_dataset(tmp_path / "set").samples if sample.shot == "shot1"}
    assert left == {1001, 1002, 1003, 1004, 1005, 1007, 1009, 1010}
    assert len(list((tmp_path / "set" / "images").iterdir())) == 18


def test_roto_of_another_frame_is_found() -> None:
    rng = np.random.default_rng(0)
    moves = rng.uniform(0.0, 4.0, 30)
    picture = moves + rng.normal(0, 0.1, 30)
    assert find_lag(moves, np.abs(picture)) == 0
    assert find_lag(np.concatenate(([0.5], moves[:-1])), np.abs(picture)) == 1
    assert find_lag(np.append(moves[1:], 0.5), np.abs(picture)) == -1


def test_roto_held_over_a_moving_plate_is_found() -> None:
    change = np.array([np.nan, 5, 0.1, 5, 0.1, 5, 0.1, 5, 0.1, 5.0])
    motion = np.array([np.nan, 2, 0.0, 2, 0.0, 0, 0.0, 2, 3.0, 2.0])
    found = find_held(np.arange(10), list(range(1001, 1011)), motion, change)
    assert [(each.row, each.about) for each in found] == [(5, "roto"), (8, "plate")]


def test_exclusions_and_held_out_shots(tmp_path: Path) -> None:
    wanted = Exclusion.parse(["shot1:1003-1005,swapped", "shot2"])
    assert wanted.covers("shot1", 1004)
    assert not wanted.covers("shot1", 1006)
    assert wanted.covers("shot2", 1)
    assert wanted.kinds == {"swapped"}
    with pytest.raises(UsageError, match="no such shot"):
        wanted.check(["shot1"])
    listed = tmp_path / "suspicious.txt"
    listed.write_text("shot1:1003  # jumped: mouth: away for one frame\n\n# shot1:1004\nshot2\n", encoding="utf-8")
    read = Exclusion.parse([f"@{listed}", "held"])
    assert [read.covers("shot1", frame) for frame in (1003, 1004)] == [True, False]
    assert read.covers("shot2", 7)
    assert read.kinds == {"held"}
    with pytest.raises(UsageError, match="the file cannot be read"):
        Exclusion.parse(["@nowhere.txt"])
    shots = {key: ShotContent(5, {"eye"}) for key in (("a", "1"), ("a", "2"), ("b", "1"))}
    assert choose_val(shots, []) == {("a", "2")}
    assert choose_val(shots, ["1"]) == {("a", "1"), ("b", "1")}
    with pytest.raises(UsageError, match="every shot"):
        choose_val({("a", "1"): ShotContent(5, {"eye"})}, ["1"])


def test_a_shot_that_alone_has_a_shape_is_not_held_out() -> None:
    shots = {("a", "1"): {"eye"}, ("a", "2"): {"eye"}, ("a", "3"): {"eye", "ear"}}
    assert choose_val({key: ShotContent(9, names) for key, names in shots.items()}, []) == {("a", "2")}
    apart = {("a", "1"): ShotContent(9, {"eye"}), ("a", "2"): ShotContent(9, {"ear"})}
    assert choose_val(apart, []) == set()
    assert choose_val({}, []) == set()


def test_of_many_small_shots_a_tenth_of_the_frames_is_held_out() -> None:
    bare = {("a", "1"): ShotContent(9, {"eye"}), ("a", "2"): ShotContent(9, {"eye"})}
    bare[("a", "3")] = ShotContent(9, {"eye"}, has_shapes=False)
    assert choose_val(bare, []) == {("a", "2")}  # landmarks alone do not show how shapes are drawn
    groups = {("people", f"group{at:02d}"): ShotContent(2, {"eye"}) for at in range(30)}
    assert choose_val(groups, []) == {("people", f"group{at}") for at in (27, 28, 29)}
    uneven = {("a", "1"): ShotContent(100, {"eye"}), ("a", "2"): ShotContent(5, {"eye"})}
    assert choose_val(uneven, []) == {("a", "2")}  # the other one is more than half


def test_plates_may_name_the_source() -> None:
    assert plate_of(Path("/a/b/sh010.roto.json"), "{dir}/../{stem}/plate.%04d.exr") == "/a/b/../sh010/plate.%04d.exr"
    with pytest.raises(UsageError, match="--plates"):
        plate_of(Path("/a/b.nk"), None)


def test_the_published_folder_is_read(tmp_path: Path) -> None:
    shot = tmp_path / "lionel" / "shot3"
    shot.mkdir(parents=True)
    square = [[[0, 9, 30, -9], [0, 0, 0, 0]], [[30, 0, 30, 0], [0, 9, 30, -9]], [[30, 0, 0, 0], [30, 0, 0, 0]]]
    arc = [[[5, 2, 20, -2], [5, 0, 9, 0]]]
    (shot / "raw_shapes-shot3-frame012.json").write_text(json.dumps({"left_eye": square, "nose_seam": arc}))
    (shot / "revec_shapes-shot3-frame012.json").write_text(json.dumps({"points": [[1, 2], [0, 0], [3, 4]]}))
    cv2.imwrite(str(shot / "image-shot3-frame012.png"), np.zeros((40, 40, 3), np.uint8))
    (take,) = read_source(tmp_path / "lionel", None)
    truth = take.frames[12]
    assert (take.character, take.shot) == ("lionel", "shot3")
    assert truth.picture == shot / "image-shot3-frame012.png"
    assert truth.landmarks == {"left_eye_0": (1, 2, 1), "left_eye_2": (3, 4, 1)}
    assert truth.shapes["left_eye"].closed
    np.testing.assert_allclose(truth.shapes["left_eye"].points[1], [30, 0, -9, 0, 0, 9])
    np.testing.assert_allclose(truth.shapes["nose_seam"].points, [[5, 5, 0, 0, 2, 0], [20, 9, -2, 0, 0, 0]])
    assert truth.shapes["nose_seam"].role == "seam"


@pytest.mark.parametrize("text", ["{", "[]", '{"images": []}', '{"images": [], "annotations": [3], "categories": []}'])
def test_what_is_no_coco_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match="not a COCO keypoint file"):
        read_source(path, None)


def test_coco_alone_gives_landmarks_alone(character: Character, tmp_path: Path) -> None:
    mined = mine(MineOptions(sources=(character.coco,), out=tmp_path / "set"))
    assert mined.n_samples == {"train": 10, "val": 10, "test": 0}
    assert not mined.sheet.shapes
    assert {mark.name: mark.mirror for mark in mined.sheet.landmarks}["seam_0"] == "seam_1"


def test_frames_without_a_picture_are_named(character: Character, tmp_path: Path) -> None:
    (character.folder / "shot1" / "plate.1003.png").unlink()
    mined = mine(_order(character, tmp_path / "set"))
    assert mined.n_samples["train"] == 9
    assert any("1 frames have no picture" in note and "1003" in note for note in mined.notes)
    assert mined.n_missing == 1
    shot = next(row["shot"] for row in map(json.loads, (tmp_path / "set/samples.jsonl").read_text().splitlines()))
    silent = mine(_order(character, tmp_path / "set", exclude=Exclusion.parse([f"{shot}:1003-1003"])))
    assert silent.n_missing == 0


def test_a_shape_open_here_and_closed_there_is_refused(character: Character, tmp_path: Path) -> None:
    path = character.roto(2)
    content = json.loads(path.read_text(encoding="utf-8"))
    for shape in content["shapes"]:
        shape["closed"] = True
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DocumentError, match="shape 'seam': open in shot1, closed in shot2"):
        mine(_order(character, tmp_path / "set"))


def test_the_command_reports_its_result(
    character: Character, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    words = [str(character.roto(1)), str(character.coco), "--plates", character.plates, "--out", str(tmp_path / "set")]
    assert command.execute(parser.parse_args([*words, "--exclude", "shot1:1001"])) == 0
    said = capsys.readouterr().out
    assert "mouth" in said
    assert "15 landmarks, 4 shapes; 1 frames excluded" in said


def _command_words(character: Character, out: Path, *more: str) -> list[str]:
    return ["mine", str(character.roto(1)), str(character.coco), "--plates", character.plates, "--out", str(out), *more]


def test_a_frame_that_cannot_be_measured_is_left_out_and_named(
    character: Character, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sorted(character.folder.glob("shot1/plate.*.png")):
        rgb = np.asarray(cv2.imread(str(path)), np.float32) / 255
        broken = np.full_like(rgb, np.nan) if path.name == "plate.1003.png" else rgb
        planes = list(zip("RGB", np.moveaxis(broken, 2, 0)))
        size = (0, 0, rgb.shape[1], rgb.shape[0])
        exr_writer.write(path.with_suffix(".exr"), planes, data_at=(0, 0), display=size, pixel_aspect=1.0)
        path.unlink()
    words = ["mine", str(character.roto(1)), "--plates", "{dir}/plate.####.exr", "--out", str(tmp_path / "set")]
    assert main(words) == 3
    assert "shot1 1003: what it shows cannot be measured (NaN or infinite pixels)" in capsys.readouterr().err
    frames = {sample.frame for sample in read_dataset(tmp_path / "set").samples}
    assert frames == {*range(1001, 1011)} - {1003}


def test_events_are_json_lines_that_end_with_the_figures(
    character: Character, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_command_words(character, tmp_path / "set", "--events")) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {event["event"] for event in events[:-1]} == {"progress"}
    assert events[-1]["event"] == "finished"
    assert sum(events[-1]["samples"].values()) == len(read_dataset(tmp_path / "set").samples)
    assert (events[-1]["landmarks"], events[-1]["shapes"], events[-1]["unreadable"]) == (15, 4, [])


def test_a_data_set_is_not_written_among_the_plates(character: Character, capsys: pytest.CaptureFixture[str]) -> None:
    folder = character.folder / "shot1"
    before = sorted(path.name for path in folder.iterdir())
    assert main(_command_words(character, folder)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rotopaint mine: --out {folder}: plate itself lies in {folder}")
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--tolerance", "nan", "--tolerance nan: wanted above 0, up to 100 pixels"),
        ("--tolerance", "inf", "--tolerance inf: wanted above 0, up to 100 pixels"),
        ("--size", "9999999", "--size 9999999: wanted 32 to 8192 pixels"),
    ],
)
def test_numbers_out_of_bounds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, text: str
) -> None:
    assert main(["mine", "roto.nk", "--out", str(tmp_path / "set"), option, value]) == 2
    assert capsys.readouterr().err == f"rotopaint mine: {text}\n"


def test_an_exclusion_that_covers_no_frame_is_named() -> None:
    exclude = Exclusion.parse(["shot1:1001-1004,shot1:5000-6000", "shot2"])
    assert exclude.idle({("shot1", 1004), ("shot2", 5001)}) == ["--exclude shot1:5000-6000: covers no frame of shot1"]


@pytest.mark.shared
def test_puppets_as_an_artist_left_them(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "puppets" / "A_pip"
    sources = (folder / "train01" / "roto.nk", folder / "landmarks.train.coco.json")
    exclude = Exclusion.parse(["train01:1011-1030", "train02", "train03", "train04"])
    mined = mine(MineOptions(sources, tmp_path / "set", "{dir}/plate.####.jpg", val=("none",), exclude=exclude))
    assert mined.n_samples["train"] == 10
    assert max(line.mean_px for line in mined.table) <= 0.25
    seam = next(spec for spec in mined.sheet.shapes if spec.name == "seam_bridge")
    assert set(seam.on_landmarks.values()) >= {f"seam_bridge_{k}" for k in (0, 1, 3, 4, 6, 7, 8)}
    truth = document.read(folder / "train01" / "truth.roto.json")
    data = read_dataset(tmp_path / "set")
    slot = data.sheet.point_rows()["seam_bridge"]
    off = []
    for row, sample in enumerate(data.samples):
        if sample.shot != "train01":
            continue
        names = [n for n, p in zip(truth.landmarks.names, truth.landmarks.keys[sample.frame]) if p is not None]
        marks = dict(zip(truth.landmarks.names, truth.landmarks.keys[sample.frame]))
        plate = np.array([[marks[n].x, marks[n].y] for n in names if n in sample.landmarks])
        here = np.array([sample.landmarks[n][:2] for n in names if n in sample.landmarks]) / sample.pixel_scale
        points = data.truth.points[row, slot].astype(np.float64) / sample.pixel_scale
        points[:, :2] += np.median(plate - here, axis=0)
        off.append(
            bezier.curve_distance(points, bezier.as_array(truth.shape("seam_bridge").at(sample.frame)), False)[0]
        )
    assert np.mean(off) < 0.25


def _stills(folder: Path, sizes: list[tuple[int, int]]) -> Path:
    """Photographs of many sizes with numbered names, two per group, as in face data sets; and their COCO file."""
    images, annotations = [], []
    for row, (width, height) in enumerate(sizes):
        name = f"set/group{row // 2}/face.{10 * row:04d}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), np.full((height, width, 3), 10 + row, np.uint8))
        images.append({"id": row, "file_name": name, "width": width, "height": height})
        points = [20, 30, 2, width - 20, 30, 2, width / 2, height - 20, 1]
        annotations.append({"id": row, "image_id": row, "category_id": 1, "keypoints": points})
    category = {"id": 1, "name": "face", "keypoints": ["eye_right", "eye_left", "chin"]}
    path = folder / "faces.coco.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": [category]}))
    return path


def test_stills_of_many_sizes_are_no_sequence(tmp_path: Path) -> None:
    coco = _stills(tmp_path, [(100, 100), (120, 90), (90, 130), (90, 130), (80, 80), (200, 160)])
    mined = mine(MineOptions((coco,), tmp_path / "set", val=("group2",)))
    assert mined.n_samples == {"train": 4, "val": 2, "test": 0}
    assert not mined.failed
    samples = read_dataset(tmp_path / "set").samples
    assert [(s.shot, s.frame) for s in samples] == [(f"group{r // 2}", 10 * r) for r in range(6)]
    wide = next(s for s in samples if s.frame == 50)
    across = (wide.landmarks["eye_left"][0] - wide.landmarks["eye_right"][0]) / wide.pixel_scale
    assert across == pytest.approx(160, abs=0.01)  # 200 px wide, both eyes 20 px from the rim


def test_two_labels_of_one_picture_are_refused(tmp_path: Path) -> None:
    path = _stills(tmp_path, [(100, 100), (120, 90)])
    content = json.loads(path.read_text())
    content["annotations"][1]["image_id"] = 0
    path.write_text(json.dumps(content))
    with pytest.raises(DocumentError, match=r"face\.0000\.png is annotated twice"):
        read_source(path, None)


def test_the_command_mines_as_the_function_does() -> None:
    """A face in a smaller picture has fewer pixels than the network's crop of it."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    reported, usual = parser.parse_args(["roto.nk", "--out", "made"]), MineOptions((), Path("made"))
    assert (reported.size, reported.tolerance, reported.licence) == (usual.size, usual.tolerance_px, usual.licence)
