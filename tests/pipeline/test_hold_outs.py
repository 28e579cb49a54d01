"""What stands in front of a face is held out of the paint over its seams, and stays as it is on the plate."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.inference.models import open_front
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Cancel, RunJob
from rotopaint_ai.pipeline.hold_outs import Fronts, face_crop
from rotopaint_ai.pipeline.render_frame import Format, draw_mattes, layer_names, look_at_seams
from rotopaint_ai.pipeline.run import gather, paint, run, track
from rotopaint_ai.plates import open_plate
from rotopaint_ai.project import CropBox, Project, SeamSettings, State
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.shapes.rasterise import EMPTY, Region
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, RotoDocument, RotoShape

WIDTH, HEIGHT = 192, 120
FRAMES = range(1001, 1007)  # every pose is held for two
Array = Any


def _job(puppet: ModuleType, plates: str, pack: Path, out: Path, **more: Any) -> RunJob:
    return RunJob(
        plates=plates, out=str(out), model=str(pack), **{"crops": (puppet.crop_text(),), "threads": 2, **more}
    )


def _run(job: RunJob) -> Path:
    assert run(job, lambda event: None, Cancel()).is_whole
    return Path(job.out)


def _files(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file() and ".rotopaint" not in path.parts]
    return {str(p.relative_to(out)): p.read_bytes() for p in files if p.name not in ("run.json", "index.html")}


def _plane(path: Path, channel: int = -1) -> Array:
    """A channel of an EXR on the whole plate."""
    source = OpenImageIO.ImageInput.open(str(path))
    spec, pixels = source.spec(), source.read_image("float")
    source.close()
    whole = np.zeros((HEIGHT, WIDTH), np.float32)
    whole[spec.y : spec.y + spec.height, spec.x : spec.x + spec.width] = pixels[..., channel]
    return whole


def _rgb(path: Path) -> Array:
    return np.stack([_plane(path, k) for k in range(3)], axis=2)


@pytest.fixture(scope="module")
def front_pack(puppet: ModuleType, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The puppet's pack, with a network that sees the hand."""
    return Path(puppet.add_front(shutil.copytree(pack, tmp_path_factory.mktemp("packs") / "front")))


@pytest.fixture(scope="module")
def hands(puppet: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(puppet.make_plates(tmp_path_factory.mktemp("hands"), FRAMES, with_hand=True))


@pytest.fixture(scope="module")
def held(puppet: ModuleType, hands: str, front_pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder in which the hand is held out."""
    return _run(_job(puppet, hands, front_pack, tmp_path_factory.mktemp("held") / "out"))


@pytest.fixture(scope="module")
def plain(puppet: ModuleType, hands: str, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run without the network."""
    return _run(_job(puppet, hands, pack, tmp_path_factory.mktemp("plain") / "out"))


@pytest.mark.parametrize("frame", FRAMES)
def test_a_hand_in_front_of_a_seam_stays_bit_for_bit(hands: str, held: Path, plain: Path, frame: int) -> None:
    front, seam = (_plane(held / f"matte/{name}.{frame}.exr") for name in ("front", "seam_middle"))
    plate = _rgb(Path(hands.replace("####", str(frame))))
    clean, painted = (_rgb(out / f"clean/plate.{frame}.exr") for out in (held, plain))
    assert (seam[front == 1] > 0.9).sum() > 20
    assert np.array_equal(clean[front == 1], plate[front == 1])
    assert not np.array_equal(painted[front == 1], plate[front == 1])
    assert np.array_equal(clean[front == 0], painted[front == 0])  # as without the hold-out
    assert (clean != plate).any()


def test_mattes_are_those_of_the_exported_shapes(held: Path, plain: Path) -> None:
    theirs = {name: data for name, data in _files(plain).items() if name.startswith("matte/")}
    ours = {name: data for name, data in _files(held).items() if name.startswith("matte/")}
    assert {name: data for name, data in ours.items() if "/front." not in name} == theirs


def test_the_front_is_where_the_hand_is(puppet: ModuleType, held: Path) -> None:
    for frame in FRAMES:
        x, y, radius = puppet.hand_at(frame, WIDTH, HEIGHT)
        ys, xs = np.mgrid[:HEIGHT, :WIDTH] + 0.5
        away = np.hypot(xs - x, ys - y)
        front = _plane(held / f"matte/front.{frame}.exr")
        assert (front[away < radius - 2] == 1).all()
        assert not front[away > radius + 3].any()


def test_a_held_frame_has_the_front_of_the_first_of_its_hold(held: Path) -> None:
    assert all(_same(held, "front", frame, frame + 1) for frame in FRAMES[::2])
    assert not _same(held, "front", 1001, 1003)


def _same(out: Path, name: str, a: int, b: int) -> bool:
    return (out / f"matte/{name}.{a}.exr").read_bytes() == (out / f"matte/{name}.{b}.exr").read_bytes()


def test_threads_and_tasks_change_no_bit(
    puppet: ModuleType, hands: str, front_pack: Path, held: Path, tmp_path: Path
) -> None:
    one = _run(_job(puppet, hands, front_pack, tmp_path / "one", threads=1))
    assert _files(one) == _files(held)
    tasks = _job(puppet, hands, front_pack, tmp_path / "tasks", resume=True)
    track(tasks, lambda event: None, Cancel())
    for first, last in ((1002, 1003), (1004, 1006), (1001, 1001)):  # the later frame of a hold first
        paint(tasks, FrameRange(first, last), lambda event: None, Cancel())
    gather(tasks, lambda event: None)
    assert _files(tmp_path / "tasks") == _files(held)


def test_with_nothing_in_front_all_files_are_those_of_a_pack_without_the_network(
    puppet: ModuleType, plates: str, pack: Path, front_pack: Path, tmp_path: Path
) -> None:
    ours, theirs = (
        _run(_job(puppet, plates, each, tmp_path / each.name, frames="1001-1004")) for each in (front_pack, pack)
    )
    files = _files(ours)
    fronts = [name for name in files if name.startswith("matte/front.")]
    assert len(fronts) == 4
    assert not any(_plane(ours / name).any() for name in fronts)
    assert {name: data for name, data in files.items() if name not in fronts} == _files(theirs)
    stages = [json.loads((out / "run.json").read_text())["timing"]["stages"] for out in (ours, theirs)]
    assert ["front" in each for each in stages] == [True, False]


def test_clean_of_the_runs_document_holds_out_what_the_run_held_out(
    hands: str, front_pack: Path, held: Path, tmp_path: Path
) -> None:
    shapes = held / "shapes.roto.json"
    assert main(["clean", hands, str(shapes), "--out", str(tmp_path), "--model", str(front_pack)]) == 0
    for frame in FRAMES:
        front = _plane(held / f"matte/front.{frame}.exr")
        plate = _rgb(Path(hands.replace("####", str(frame))))
        clean, ours = (_rgb(out / f"clean/plate.{frame}.exr") for out in (tmp_path, held))
        assert np.array_equal(clean[front == 1], plate[front == 1])
        assert np.abs(clean - ours).max() < 2e-3  # the document's points are rounded
    find = open_front(load_pack(front_pack))
    assert find is not None
    with open_plate(hands) as plate:
        fronts = Fronts.of_document(plate, roto_json.read(shapes), find)
        for frame in reversed(FRAMES):
            found = fronts.at(plate.read(frame)).paste(WIDTH, HEIGHT)
            assert np.array_equal(found, _plane(held / f"matte/front.{frame}.exr"))


def test_settings_of_clean_switch_the_hold_out_off(
    hands: str, front_pack: Path, held: Path, plain: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"seam_middle": {"hold_out": False}}), encoding="utf-8")
    words = ["clean", hands, str(held / "shapes.roto.json"), "--out", str(tmp_path), "--model", str(front_pack)]
    assert main([*words, "--settings", str(settings), "--frames", "1003"]) == 0
    clean, painted = (_rgb(out / "clean/plate.1003.exr") for out in (tmp_path, plain))
    assert np.abs(clean - painted).max() < 2e-3
    front = _plane(held / "matte/front.1003.exr")
    plate = _rgb(Path(hands.replace("####", "1003")))
    assert not np.array_equal(clean[front == 1], plate[front == 1])


def test_a_projects_setting_decides_in_a_run_and_in_clean(
    puppet: ModuleType, hands: str, front_pack: Path, held: Path, plain: Path, tmp_path: Path
) -> None:
    x, y, width, height = map(float, puppet.crop_text().split(","))
    state = State(crops={1001: CropBox(x, y, width, height)}, seams={"seam_middle": SeamSettings(hold_out=False)})
    project = tmp_path / "shot.rotopaint"
    Project.create(project, state).close()
    out = _run(_job(puppet, hands, front_pack, tmp_path / "out", crops=(), project=str(project)))
    assert np.array_equal(*(_rgb(each / "clean/plate.1001.exr") for each in (out, plain)))
    assert _plane(out / "matte/front.1001.exr").any()
    words = ["clean", hands, "--project", str(project), "--out", str(tmp_path / "again"), "--model", str(front_pack)]
    assert main([*words, "--frames", "1001-1002"]) == 0
    assert np.abs(_rgb(tmp_path / "again/clean/plate.1001.exr") - _rgb(plain / "clean/plate.1001.exr")).max() < 2e-3


def test_mattes_that_people_lend_and_documents_without_landmarks_are_not_held_out(
    hands: str, front_pack: Path, held: Path, plain: Path, tmp_path: Path
) -> None:
    document = roto_json.read(held / "shapes.roto.json")
    bare = tmp_path / "bare.roto.json"
    roto_json.write(bare, replace(document, landmarks=LandmarkKeys()))
    words = ["--model", str(front_pack), "--frames", "1001"]
    assert main(["clean", hands, str(bare), "--out", str(tmp_path / "bare"), *words]) == 0
    assert np.abs(_rgb(tmp_path / "bare/clean/plate.1001.exr") - _rgb(plain / "clean/plate.1001.exr")).max() < 2e-3
    mattes = ["--mattes", str(plain / "matte/seam_middle.####.exr")]
    assert main(["clean", hands, *mattes, "--out", str(tmp_path / "lent"), *words]) == 0
    front = _plane(held / "matte/front.1001.exr")
    lent = _rgb(tmp_path / "lent/clean/plate.1001.exr")
    assert not np.array_equal(lent[front == 1], _rgb(Path(hands.replace("####", "1001")))[front == 1])


def _line(name: str, y: float, **more: Any) -> RotoShape:
    points = tuple(ControlPoint(x, y, 0.0, 0.0, 0.0, 0.0) for x in (10.0, 90.0))
    return RotoShape(name, False, more.pop("role", "seam"), {1: Key(points)}, **more)


def test_a_seam_that_is_not_held_out_keeps_its_part_of_the_paint(hands: str) -> None:
    shapes = [_line("upper", 40.0), _line("lower", 44.0)]
    front = Region(30, 30, np.full((30, 20), 0.75, np.float32))
    paints = PaintTable(by_name={"lower": Paint(hold_out=False)})
    with open_plate(hands) as plate:
        frame, format = plate.read(1001), Format.of(plate)
    drawn = draw_mattes(shapes, 1, format)
    frame = replace(frame, number=1)
    bare, held = (look_at_seams(frame, replace(drawn, front=each), shapes, paints) for each in (EMPTY, front))
    assert bare is not None
    assert held is not None
    upper, lower = (
        Region(each.x - held.x, each.y - held.y, each.coverage).paste(*held.matte.shape[::-1])
        for each in drawn.regions.values()
    )
    upper[30 - held.y : 60 - held.y, 30 - held.x : 50 - held.x] *= np.float32(0.25)
    assert np.array_equal(held.matte, np.maximum(upper, lower))
    assert [part.front is None for part in held.parts] == [False, True]
    assert bare.held == (None, None)
    beside = look_at_seams(frame, replace(drawn, front=Region(30, 0, front.coverage[:5])), shapes, paints)
    assert beside is not None
    assert beside.held == (None, None)  # no seam is under it


def test_the_crop_is_around_the_landmarks_and_where_some_are_hidden_around_the_seams_too() -> None:
    corners = [(20.0, 30.0, 0.1), (120.0, 30.0, 0.1), (20.0, 110.0, 0.1), (120.0, 110.0, 0.1)]
    near = RotoShape("seam", False, "seam", {1: Key(tuple(ControlPoint(x, 70.0, 0, 0, 0, 0) for x in (20.0, 120.0)))})
    far = replace(near, name="neck", keys={1: Key((ControlPoint(70.0, 900.0, 0, 0, 0, 0),))})
    whole = face_crop(corners, [near, far], 1)
    assert whole is not None
    assert (whole.x, whole.y, whole.side) == (70, 70, 130)  # 1.3 times a width of 100
    hidden = face_crop([corners[0], None, corners[2], (70.0, 30.0, 0.1)], [near, far], 1)
    assert hidden == whole
    assert face_crop([corners[0], None, None, corners[3]], [near], 1) is None


def test_landmarks_that_a_person_copied_to_every_frame_make_no_hold(
    puppet: ModuleType, front_pack: Path, tmp_path: Path
) -> None:
    """Two frames with the same landmarks by hand, and the hand in only one."""
    for frame, with_hand in ((1001, True), (1002, False)):
        puppet.write_exr(tmp_path / f"plate.{frame}.exr", puppet.draw(1001, with_hand=with_hand))
    cx, cy, radius = puppet.face_at(1001, WIDTH, HEIGHT)
    find = open_front(load_pack(front_pack))
    assert find is not None
    with open_plate(str(tmp_path / "plate.####.exr")) as plate:
        for error, is_hold in ((0.0, False), (0.3, True)):
            row = tuple(roto_json.Landmark(cx + dx * radius, cy + dy * radius, error) for dx, dy in puppet.OFFSETS)
            marks = LandmarkKeys(puppet.NAMES, {1001: row, 1002: row})
            seam = RotoShape(
                "seam", False, "seam", {1001: Key((ControlPoint(0, cy), ControlPoint(WIDTH, cy)))}, width_px=80
            )
            document = RotoDocument(WIDTH, HEIGHT, 1001, 1002, landmarks=marks, shapes=(seam,))
            fronts = Fronts.of_document(plate, document, find)
            assert not fronts.at(plate.read(1001)).is_empty
            assert fronts.at(plate.read(1002)).is_empty is not is_hold


def test_a_hold_whose_first_frame_is_gone_takes_its_own_front(
    hands: str, front_pack: Path, held: Path, tmp_path: Path
) -> None:
    find = open_front(load_pack(front_pack))
    assert find is not None
    shutil.copytree(Path(hands).parent, tmp_path / "plates")
    with open_plate(str(tmp_path / "plates/plate.####.exr")) as plate:
        fronts = Fronts.of_document(plate, roto_json.read(held / "shapes.roto.json"), find)
        frame = plate.read(1002)
        (tmp_path / "plates/plate.1001.exr").unlink()
        front = _plane(held / "matte/front.1002.exr")
        assert np.abs(fronts.at(frame).paste(WIDTH, HEIGHT) - front).max() < 0.2  # other grain at the edge


def test_front_is_a_reserved_name() -> None:
    assert layer_names(["front", "Front", "all", "nose"]) == ["front_2", "Front_3", "all_2", "nose"]


def test_the_patch_of_a_seam_that_a_hand_half_covers_is_the_paint_that_is_left(
    hands: str, front_pack: Path, held: Path, tmp_path: Path
) -> None:
    words = ["clean", hands, str(held / "shapes.roto.json"), "--out", str(tmp_path), "--model", str(front_pack)]
    assert main([*words, "--frames", "1003", "--patch"]) == 0
    front, patch = _plane(held / "matte/front.1003.exr"), tmp_path / "patch/plate.1003.exr"
    alpha = _plane(patch, 3)
    assert not alpha[front == 1].any()
    assert alpha.max() > 0.9
    plate, clean = _rgb(Path(hands.replace("####", "1003"))), _rgb(tmp_path / "clean/plate.1003.exr")
    assert np.abs(plate * (1 - alpha[..., None]) + _rgb(patch) - clean).max() < 2e-3  # half floats


def test_the_figures_of_a_run_are_those_of_what_is_seen_of_its_seams(
    puppet: ModuleType, plates: str, pack: Path, held: Path, plain: Path, tmp_path: Path
) -> None:
    """With the hand held out, the visible part scores as it does without the hand; else the hand counts as face."""
    bare = _run(_job(puppet, plates, pack, tmp_path / "bare", frames="1001-1006"))
    reports = [json.loads((out / "run.json").read_text()) for out in (held, plain, bare)]
    ours, theirs, true = (np.array([row["seam"]["by_frame"][str(f)][0] for f in FRAMES]) for row in reports)
    assert (np.abs(ours / true - 1) < 0.25).all()
    assert (theirs < 0.5 * true).all()
    areas = [sum(report["matte_px"].values()) for report in reports]
    assert areas[0] == areas[1]  # mattes are those of the shapes
