"""A rig stands in the plate alone, and a camera that pans moves puppet and set alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from rotopaint_ai.stage import rigs
from rotopaint_ai.stage.puppet import Pose, draw_build
from rotopaint_ai.stage.puppet_shot import StageShot, film, write_shot
from rotopaint_ai.stage.scene import render, render_rigged
from rotopaint_ai.stage.studio import draw_studio
from rotopaint_ai.stage.view import Camera

CAMERA = Camera(192, 128, 35.0, (96.0, 64.0), 9.0)
BUILD = draw_build(7)
SHARP = replace(draw_studio(7), grain=0.0, glow=0.0, focus_blur=0.0)


@pytest.mark.parametrize("kind", rigs.KINDS)
def test_a_rig_is_where_its_coverage_says_and_clean_frames_are_without(kind: str) -> None:
    pose = Pose(yaw=0.1)
    held = render_rigged(BUILD, pose, SHARP, CAMERA, kind, texture=384)
    plain = render(BUILD, pose, SHARP, CAMERA, texture=384)
    assert np.array_equal(held.clean, plain.clean)
    assert np.array_equal(held.landmarks[:, :2], plain.landmarks[:, :2])
    assert held.rig is not None
    inside = held.rig > 0.9
    assert inside.sum() >= 10
    assert np.abs(held.plate - held.clean)[inside].max(1).mean() > 0.05
    differs = np.abs(plain.clean - held.plate).max(2) > 0
    assert not differs[:, [0, -1]][held.rig[:, [0, -1]] == 0].any()  # beside the puppet nothing takes the rig's shadow
    assert not held.seam.any()


def test_what_holds_the_head_follows_it_and_a_foot_stands() -> None:
    for kind in rigs.KINDS:
        one, other = (rigs.rig_meshes(kind, BUILD, Pose(yaw=yaw))[0].vertices for yaw in (0.0, 0.3))
        assert np.array_equal(one, other) == (kind == "magnet")


def test_an_arms_joints_are_balls_1_6_times_as_thick_as_its_bars() -> None:
    bars, *balls = rigs.rig_meshes("arm", BUILD, Pose(yaw=0.1))
    for ball in balls:
        middle = (ball.vertices.max(0) + ball.vertices.min(0)) / 2
        radius = np.linalg.norm(ball.vertices - middle, axis=1).max()
        bar_radius = np.linalg.norm(bars.vertices - middle, axis=1).min()  # a bar's rim stands about each joint
        assert radius == pytest.approx(1.6 * bar_radius, rel=1e-3)
    assert len(balls) == 2


def test_a_pan_moves_puppet_and_set_by_the_same_pixels() -> None:
    left, right = (replace(CAMERA, pan=pan, pan_reach=5) for pan in (-5.0, 5.0))
    a, b = (render_rigged(BUILD, Pose(), SHARP, camera, "arm", texture=384) for camera in (left, right))
    assert np.allclose(a.clean[:, :-10], b.clean[:, 10:], atol=1e-3)
    assert not np.allclose(a.clean[:, 10:], b.clean[:, 10:], atol=1e-3)


def test_a_camera_pans_from_frame_to_frame_through_held_poses() -> None:
    shot = StageShot(7, width=96, height=64, frames=3, hold=3, face_px=18.0, pan_px=8.0)
    eyes = [picture.landmarks[:, 0] for _, picture in film(shot, build=BUILD, studio=SHARP)]
    assert np.allclose([eyes[1] - eyes[0], eyes[2] - eyes[1]], 4.0)


def test_a_shot_with_a_rig_on_disk(tmp_path: Path) -> None:
    write_shot(tmp_path, StageShot(7, width=96, height=64, face_px=18.0, frames=1, rig="arm"), suffix=".png")
    names = sorted(path.name for path in tmp_path.glob("*.png"))
    assert names == ["clean.1001.png", "plate.1001.png", "rig.1001.png"]
