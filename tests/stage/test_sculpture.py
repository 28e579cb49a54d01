"""Faces that are carved more deeply: the same truth about other faces, and a lens that has a focus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("numba")

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes.bezier import distance_to_polyline, flatten
from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.stage import anatomy
from rotopaint_ai.stage.__main__ import main as stage
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.face_dataset import FaceDatasetOptions, make_dataset
from rotopaint_ai.stage.looks import draw_style
from rotopaint_ai.stage.puppet import Pose, PuppetBuild, draw_build, draw_pose
from rotopaint_ai.stage.scene import StageFrame, cut_out, render, render_looks, render_rigged
from rotopaint_ai.stage.studio import blur_by_depth, draw_studio
from rotopaint_ai.stage.view import Camera

CAMERA = Camera(160, 160, 52, (80, 80), 9.0)
SEEDS = [1, 12, 123, 1234]


@pytest.mark.parametrize("seed", SEEDS)
def test_splines_follow_a_sculpted_surface(seed: int) -> None:
    face = FaceSurface(draw_build(seed, sculpted=True), draw_pose(np.random.default_rng(seed)))
    for curve in anatomy.CURVES:
        flat = CAMERA.project(anatomy.dense(curve, face))[..., :2]
        line = flatten(fit_segments(flat, closed=curve.closed), curve.closed)
        assert distance_to_polyline(flat.reshape(-1, 2), line, curve.closed).max() < 0.6, curve.name


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bridge_seam_goes_level_over_the_nose_and_ends_on_the_sides(seed: int) -> None:
    build = draw_build(seed, sculpted=True)
    build = replace(build, sculpture=replace(build.sculpture, crest=0.5, crest_sag=0.0))
    face = FaceSurface(build, Pose())
    line = face.bridge_seam(np.linspace(0, 1, 801))
    level = line[np.abs(line[:, 0]) < 0.5 * build.seam_dip_a]
    assert np.ptp(level[:, 1]) < 0.12 * abs(build.seam_rise + build.seam_dip)
    for side, end in ((0, line[0]), (1, line[-1])):
        assert np.hypot(*(face.side_seam(side, np.linspace(0, 1, 801)) - end).T).min() < 0.01


def test_rings_round_the_eyes_stand_out_and_change_nothing_far_from_them() -> None:
    build = draw_build(12)
    plain, ringed = (
        FaceSurface(each, Pose())
        for each in (build, replace(build, sculpture=replace(build.sculpture, lid_rings=((1.3, 0.1, 0.03),))))
    )
    a, e = np.meshgrid(np.linspace(-1.2, 1.2, 60), np.linspace(-1.0, 1.0, 60))
    out = np.linalg.norm(ringed.surface(a, e) - plain.surface(a, e), axis=-1)
    assert 0.02 < out.max() < 0.07  # both rings at once, between the eyes
    assert out[e < -0.9].max() < 1e-3


def _seen(build: PuppetBuild) -> StageFrame:
    studio = replace(draw_studio(7), glow=0.0, focus_blur=0.0, grain=0.0)
    look = replace(draw_style(3), gap=0.04, depth=0.9, edge=0.3, wander=0.0)
    return next(render_looks(build, Pose(), studio, CAMERA, [look], texture=384))


def test_a_side_seam_without_strength_leaves_the_picture_clean_and_is_still_covered() -> None:
    build = replace(draw_build(7), seam_side_top=0.6, seam_side_bottom=0.6, seam_side_a=0.9)
    for strength in (1.0, 0.0):
        shown = _seen(replace(build, sculpture=replace(build.sculpture, side_strength=strength)))
        lines = {shape.name: flatten(shape.points, False) for shape in shown.shapes if shape.role == "seam"}
        rows, columns = np.nonzero(shown.seam > 0.6)
        at = np.stack([columns, rows], 1) + 0.5
        beside = distance_to_polyline(at, lines["seam_left"], False)
        is_side = (beside < 2) & (distance_to_polyline(at, lines["seam_bridge"], False) > 8)
        damage = np.abs(shown.plate - shown.clean).max(2)[rows, columns]
        assert is_side.sum() > 10
        assert (damage[is_side].mean() > 0.01) == (strength > 0)
        assert damage[~is_side].mean() > 0.01


def test_a_lens_blurs_as_much_as_a_place_is_out_of_focus() -> None:
    picture = np.random.default_rng(0).random((60, 80, 3)).astype(np.float32)
    sharp = blur_by_depth(picture, np.zeros((60, 80), np.float32))
    np.testing.assert_array_equal(sharp, picture)
    half = np.where(np.arange(80) < 40, 0.0, 3.0)[None].repeat(60, 0).astype(np.float32)
    blurred = blur_by_depth(picture, half)
    np.testing.assert_array_equal(blurred[:, :40], picture[:, :40])
    np.testing.assert_allclose(blurred[:, 40:], cv2.GaussianBlur(picture, (0, 0), 3.0)[:, 40:], atol=1e-5)
    layer = blur_by_depth(picture[..., 0], half)
    np.testing.assert_allclose(layer, blurred[..., 0], atol=1e-5)


def test_a_seam_out_of_focus_covers_what_it_damages() -> None:
    build = replace(draw_build(7, sculpted=True), seam_gap=0.012, seam_bevel=0.02, seam_depth=0.9)
    studio = replace(draw_studio(7), glow=0.0, focus_blur=0.0, grain=0.0, depth_blur=0.05)
    shown = render(build, Pose(yaw=0.3), studio, CAMERA, texture=384)
    differs = np.abs(shown.plate - shown.clean).max(2) > 1e-3
    assert differs[shown.seam > 0.6].mean() > 0.9
    assert not differs[shown.seam == 0].any()


def test_an_outline_blurs_to_both_sides() -> None:
    build, studio = draw_build(7, sculpted=True), replace(draw_studio(7), glow=0.0, focus_blur=0.0, grain=0.0)
    alpha = cut_out(build, Pose(), studio, CAMERA, texture=384).alpha
    sharp, blurred = (
        render(build, Pose(), replace(studio, depth_blur=blur), CAMERA, texture=384, clean=False).plate
        for blur in (0.0, 0.05)
    )
    changed = np.abs(blurred - sharp).max(2) > 0.01
    beside = cv2.dilate((alpha > 0).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    assert changed[(alpha == 0) & beside].mean() > 0.2
    assert changed[(alpha == 1) & (cv2.erode(alpha, np.ones((5, 5), np.uint8)) < 1)].mean() > 0.2


def test_a_sculpted_data_set_goes_on_as_one(tmp_path: Path) -> None:
    order = FaceDatasetOptions(characters=1, seed=301000, held_back=0.0, size=96, sculpted=True)
    assert make_dataset(tmp_path, order) == 4
    made = (tmp_path / "samples.jsonl").read_text(encoding="utf-8")
    assert make_dataset(tmp_path, order) == 4
    assert (tmp_path / "samples.jsonl").read_text(encoding="utf-8") == made
    with pytest.raises(UsageError, match=r"made with --sculpted, but no --sculpted was given"):
        make_dataset(tmp_path, replace(order, sculpted=False))


def test_a_data_set_of_an_earlier_version_is_plain(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "000070_0.json").write_text("{}")
    (tmp_path / "order.json").write_text('{"reach": 1.0, "size": 96, "looks": 0, "fronts": false}')
    order = FaceDatasetOptions(characters=0, seed=70, size=96)
    assert make_dataset(tmp_path, order) == 0
    with pytest.raises(UsageError, match=r"made with no --sculpted, but --sculpted was given"):
        make_dataset(tmp_path, replace(order, sculpted=True))


def test_seam_shots_do_not_go_on_with_faces_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["stage", "seams", str(tmp_path), "--characters", "1", "--poses", "1", "--looks", "1"]
    (tmp_path / "030000_0").mkdir()
    (tmp_path / "030000_0" / "truth.roto.json").touch()
    # the shot is of an earlier version, whose faces are plain
    for more, code in ((["--sculpted"], 2), ([], 0), (["--sculpted"], 2), ([], 0)):
        monkeypatch.setattr("sys.argv", [*words, *more])
        assert stage() == code


def test_a_sculpted_studio_differs_in_its_lens_alone() -> None:
    for seed in range(8):
        assert repr(replace(draw_studio(seed, sculpted=True), depth_blur=0.0)) == repr(draw_studio(seed))
    blurs = [draw_studio(seed, sculpted=True).depth_blur for seed in range(40)]
    assert min(blurs) == 0.0 < 0.005 < max(blurs) < 0.08


def test_a_rig_and_its_matte_are_sharp_alike() -> None:
    build, studio = draw_build(7, sculpted=True), replace(draw_studio(7), glow=0.0, focus_blur=0.0, grain=0.0)
    blurred = render_rigged(build, Pose(), replace(studio, depth_blur=0.05), CAMERA, "arm", texture=384)
    sharp = render_rigged(build, Pose(), studio, CAMERA, "arm", texture=384)
    np.testing.assert_array_equal(blurred.plate, sharp.plate)
