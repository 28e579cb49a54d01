"""The stage tells the truth about its pictures, and the same truth every time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("numba")

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.shapes.bezier import distance_to_polyline, flatten
from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.sheet import mirror_permutation, parse_sheet
from rotopaint_ai.stage import anatomy, front_objects
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.face_dataset import FaceDatasetOptions, make_dataset, sample_pictures
from rotopaint_ai.stage.looks import draw_style
from rotopaint_ai.stage.mesh import ball
from rotopaint_ai.stage.puppet import Pose, draw_build, draw_pose
from rotopaint_ai.stage.puppet_shot import StageShot, poses, write_shot
from rotopaint_ai.stage.scene import StageFrame, render, render_fronts
from rotopaint_ai.stage.studio import draw_studio
from rotopaint_ai.stage.view import Camera

CAMERA = Camera(160, 160, 52, (80, 80), 9.0)


def picture(seed: int = 7, pose: Pose | None = None) -> StageFrame:
    build = replace(draw_build(seed), seam_gap=0.012, seam_bevel=0.02, seam_depth=0.9)
    studio = replace(draw_studio(seed), glow=0.0, focus_blur=0.0)
    return render(build, pose or Pose(yaw=0.2), studio, CAMERA, texture=384)


@pytest.fixture(scope="module")
def shown() -> StageFrame:
    return picture()


def test_same_seed_same_picture(shown: StageFrame) -> None:
    again = picture()
    np.testing.assert_array_equal(shown.plate, again.plate)
    np.testing.assert_array_equal(shown.landmarks, again.landmarks)


def test_plate_and_clean_differ_only_at_the_seam(shown: StageFrame) -> None:
    differs = np.abs(shown.plate - shown.clean).max(2) > 0
    assert differs[shown.seam > 0.6].mean() > 0.95
    assert not differs[shown.seam == 0].any()


def test_the_seam_lies_on_its_splines(shown: StageFrame) -> None:
    rows, cols = np.nonzero(shown.seam > 0.6)
    seen = np.stack([cols, rows], 1) + 0.5
    lines = [flatten(s.points, s.closed) for s in shown.shapes if s.role == "seam"]
    nearest = np.min([distance_to_polyline(seen, line, False) for line in lines], axis=0)
    assert nearest.max() < 0.5 * max(s.width_px or 0 for s in shown.shapes) + 1.5


def test_control_points_sit_on_their_landmarks(shown: StageFrame) -> None:
    marks = dict(zip(anatomy.all_landmark_names(), shown.landmarks))
    for curve, shape in zip(anatomy.CURVES, shown.shapes):
        for index, name in curve.landmarks.items():
            np.testing.assert_allclose(shape.points[index, :2], marks[name][:2], atol=1e-6)


@pytest.mark.parametrize("seed", [1, 12, 123])
def test_splines_follow_the_surface(seed: int) -> None:
    face = FaceSurface(draw_build(seed), draw_pose(np.random.default_rng(seed)))
    for curve in anatomy.CURVES:
        flat = CAMERA.project(anatomy.dense(curve, face))[..., :2]
        line = flatten(fit_segments(flat, closed=curve.closed), curve.closed)
        assert distance_to_polyline(flat.reshape(-1, 2), line, curve.closed).max() < 0.6, curve.name


def test_the_sheet_mirrors_back_and_forth() -> None:
    order = np.array(mirror_permutation(anatomy.puppet_sheet()))
    np.testing.assert_array_equal(order[order], np.arange(len(order)))
    names = anatomy.all_landmark_names()
    assert names[order[names.index("seam_bridge_0")]] == "seam_bridge_8"
    assert names[order[names.index("mouth_outer_0")]] == "mouth_outer_4"


def test_an_occluder_hides_landmarks() -> None:
    build, studio = draw_build(3), draw_studio(3)
    open_view = render(build, Pose(), studio, CAMERA, texture=384, clean=False)
    hidden = render(build, Pose(), studio, CAMERA, texture=384, clean=False, hidden=True)
    np.testing.assert_array_equal(open_view.landmarks[:, :2], hidden.landmarks[:, :2])
    assert hidden.landmarks[:, 2].sum() < open_view.landmarks[:, 2].sum()


def test_poses_are_held_on_twos() -> None:
    frames = list(poses(StageShot(5, frames=8, hold=2)))
    assert [held for _, held, _ in frames] == [1001, 1001, 1003, 1003, 1005, 1005, 1007, 1007]
    assert frames[0][2] == frames[1][2]
    assert frames[1][2] != frames[2][2]


def test_each_take_has_motion_of_its_own() -> None:
    first, second, again = (list(poses(StageShot(5, frames=4, take=take))) for take in (1, 2, 2))
    assert second == again
    assert [held for _, held, _ in first] == [held for _, held, _ in second]
    assert all(a[2] != b[2] for a, b in zip(first, second))


def test_a_shot_on_disk(tmp_path: Path) -> None:
    write_shot(tmp_path, StageShot(5, width=120, height=80, face_px=25, frames=2), suffix=".png")
    assert sorted(p.name for p in tmp_path.glob("plate*")) == ["plate.1001.png", "plate.1002.png"]
    truth = document.read(tmp_path / "truth.roto.json")
    assert truth.shape("seam_bridge").frames == (1001, 1002)
    assert truth.shape("seam_bridge").at(1001) == truth.shape("seam_bridge").at(1002)
    assert len(json.loads((tmp_path / "crop.json").read_text())["crop"]) == 4


def test_heads_turn_further_by_the_reach() -> None:
    plain, far = (draw_pose(np.random.default_rng(3), reach=reach) for reach in (1.0, 1.4))
    assert plain.yaw != 0.0
    assert far == replace(plain, yaw=1.4 * plain.yaw, pitch=1.4 * plain.pitch, roll=1.4 * plain.roll)


def test_a_dataset_goes_on_where_it_stopped(tmp_path: Path) -> None:
    order = FaceDatasetOptions(characters=1, seed=70, held_back=0.0)
    assert make_dataset(tmp_path, order) == 4
    first = (tmp_path / "samples.jsonl").read_text()
    kept = (tmp_path / "images/000070_0.jpg").stat().st_mtime_ns
    (tmp_path / "images/000070_3.json").unlink()
    assert make_dataset(tmp_path, order) == 4
    assert (tmp_path / "samples.jsonl").read_text() == first
    assert (tmp_path / "images/000070_0.jpg").stat().st_mtime_ns == kept
    assert parse_sheet((tmp_path / "sheet.yaml").read_text()) == anatomy.puppet_sheet()


def test_other_looks_of_a_seam_are_the_same_face_in_the_same_place() -> None:
    order = FaceDatasetOptions(characters=1, size=128, looks=2)
    plain, *others = (picture for picture, _ in sample_pictures(70, 1, order))
    alone = [picture for picture, _ in sample_pictures(70, 1, replace(order, looks=0))]
    np.testing.assert_array_equal(alone[0].plate, plain.plate)
    assert len(others) == 2
    for other in others:
        assert other.plate.shape == (128, 128, 3)
        np.testing.assert_allclose(other.landmarks, plain.landmarks)
        assert not np.array_equal(other.plate, plain.plate)
    assert not np.array_equal(others[0].seam, others[1].seam)


def test_a_dataset_with_objects_in_front_tells_what_covers_each_face(tmp_path: Path) -> None:
    order = FaceDatasetOptions(characters=1, seed=170000, held_back=0.0, size=128, fronts=True)
    assert make_dataset(tmp_path, order) == 4
    read = [
        [cv2.imread(str(path.with_suffix(f".{kind}.png")), cv2.IMREAD_GRAYSCALE) / 255 for kind in ("front", "skin")]
        for path in sorted(tmp_path.glob("images/*.jpg"))
    ]
    for front, skin in read:
        assert front.shape == skin.shape == (128, 128)
        assert (front + skin).max() < 1.02  # a pixel shows one or the other
        assert skin.mean() > 0.05
    with pytest.raises(UsageError, match=r"made with --fronts, but no --fronts was given"):
        make_dataset(tmp_path, replace(order, fronts=False))


def _with_a_ball(defocus_px: float, *, n: int = 1) -> StageFrame:
    """A face with a red ball in front of its nose, or without one."""
    at = FaceSurface(draw_build(7), Pose()).surface(np.array(0.0), np.array(-0.2)) + np.array([0, 0, 0.3])
    mesh = ball(at, np.full(3, 0.2), front_objects.MATERIAL)
    meshes = [replace(mesh, colour=np.tile([0.9, 0.05, 0.05], (len(mesh.vertices), 1)))] * n
    studio = replace(draw_studio(7), glow=0.0, focus_blur=0.0, grain=0.0)
    looks = [draw_style(1)]
    return next(render_fronts(draw_build(7), Pose(), studio, CAMERA, looks, meshes, defocus_px=defocus_px, texture=384))


def test_what_stands_in_front_is_where_its_colour_is() -> None:
    bare = _with_a_ball(0.0, n=0)
    for defocus in (0.0, 2.0):
        shown = _with_a_ball(defocus)
        wholly = shown.front - bare.front > 0.99
        assert wholly.sum() > 100
        assert (shown.skin[wholly] < 0.01).all()
        assert (shown.plate[wholly, 0] > 3 * shown.plate[wholly, 1]).mean() > 0.9
        assert shown.seam[wholly].max() < 0.01


def test_objects_out_of_focus_have_soft_edges_and_leave_the_rest() -> None:
    sharp, soft = _with_a_ball(0.0), _with_a_ball(2.0)
    between = [((each.front > 0.05) & (each.front < 0.95)).sum() for each in (sharp, soft)]
    assert between[1] > 2 * between[0]
    far = cv2.dilate((sharp.front > 0).astype(np.uint8), np.ones((31, 31))) == 0
    np.testing.assert_allclose(soft.plate[far], sharp.plate[far], atol=1e-5)
    assert sharp.front.sum() == pytest.approx(soft.front.sum(), rel=0.03)


def test_a_dataset_does_not_go_on_with_pictures_of_another_size(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "000070_0.json").write_text("{}")
    (tmp_path / "order.json").write_text('{"reach": 1.0}')  # of 320 px, as earlier versions made them
    with pytest.raises(UsageError, match=r"made with --size 320, but --size 512 was given; name another folder"):
        make_dataset(tmp_path, FaceDatasetOptions(characters=1, seed=70, size=512))


def test_a_dataset_does_not_go_on_with_heads_that_turn_further(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "000070_0.json").write_text("{}")  # of a run that was stopped
    (tmp_path / "order.json").write_text('{"reach": 1.0}')
    with pytest.raises(UsageError, match=r"made with --reach 1, but --reach 1\.4 was given; name another folder"):
        make_dataset(tmp_path, FaceDatasetOptions(characters=1, seed=70, reach=1.4))
    (tmp_path / "order.json").unlink()
    (tmp_path / "dataset.json").write_text('{"reach": 1.0}')  # of one that ended, as earlier versions left it
    with pytest.raises(UsageError, match="--reach 1,"):
        make_dataset(tmp_path, FaceDatasetOptions(characters=1, seed=70, reach=1.4))
