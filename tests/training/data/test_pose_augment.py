"""Depths of landmarks from keyed frames of a moving head, and pictures of that head rotated."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.shapes.head_structure import RigidStructure, choose_structure, fit_structure
from rotopaint_ai.shapes.revectorise.mirror_partners import frontalise, partners
from rotopaint_ai.training.data.pose_augment import cut_posed_face, turn_face

Array = npt.NDArray[np.float64]

NAMES = (
    *(f"jaw_{k}" for k in range(7)),
    *(f"{part}_{side}" for part in ("eye_in", "eye_out", "brow", "wing", "corner") for side in ("right", "left")),
    "nose",
    "chin",
)
MIRROR = (6, 5, 4, 3, 2, 1, 0, *(7 + k + (1 if k % 2 == 0 else -1) for k in range(10)), 17, 18)


def head() -> Array:
    """Positions [L, 3] of NAMES on half an ellipsoid, nose to the front; x right, y down, z to the viewer."""
    jaw = [(np.sin(a) * 1.0, 0.1 + 0.9 * np.cos(a)) for a in np.linspace(-1.4, 1.4, 7)]
    pairs = [(0.25, -0.3), (0.65, -0.32), (0.45, -0.55), (0.18, 0.15), (0.35, 0.45)]
    flat = np.array([*jaw, *((side * x, y) for x, y in pairs for side in (-1, 1)), (0, 0.05), (0, 0.8)])
    depth = 0.9 * np.sqrt(np.maximum(1.05 - (flat / (1.02, 1.05)) ** 2 @ (1, 1), 0))
    depth[NAMES.index("nose")] += 0.25
    return np.concatenate([flat, depth[:, None]], axis=1)


def seen(yaw_deg: Array, pitch_deg: Array, *, noise: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Landmarks [n, L, 2] of the rotated head in pixels, with moving mouth corners, and their depths [n, L]."""
    frames, depths = [], []
    for yaw, pitch in zip(np.radians(yaw_deg), np.radians(pitch_deg)):
        turn = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
        tilt = np.array([[1, 0, 0], [0, np.cos(pitch), np.sin(pitch)], [0, -np.sin(pitch), np.cos(pitch)]])
        places = head()
        places[15:17, 1] += rng.uniform(-0.08, 0.08)
        view = places @ (tilt @ turn).T
        frames.append(120 * view[:, :2] + rng.uniform(-40, 40, 2) + rng.normal(0, noise, (len(places), 2)))
        depths.append(120 * view[:, 2])
    return np.array(frames), np.array(depths)


@pytest.mark.parametrize("is_even", [True, False])
def test_mirrored_frames_tell_of_an_even_head_alone(is_even: bool) -> None:
    """Keyed from one side, tested on the other: mirror images help on a symmetric head, not on a lopsided one."""
    rng = np.random.default_rng(5)
    keyed, _ = seen(rng.uniform(5, 12, 30), rng.uniform(-2, 2, 30), noise=0.6, rng=rng)
    asked, _ = seen(rng.uniform(-30, -20, 10), rng.uniform(-8, 8, 10), noise=0.0, rng=rng)
    if not is_even:
        crooked = np.array([(14.0, 6.0) if name.endswith("right") else (0.0, 0.0) for name in NAMES])
        keyed, asked = keyed + crooked, asked + crooked
    even, own, chosen = fit_structure(keyed, MIRROR), fit_structure(keyed, None), choose_structure(keyed, asked, MIRROR)
    assert even is not None
    assert own is not None
    assert chosen is not None
    np.testing.assert_array_equal(chosen.places, (even if is_even else own).places)


def test_held_out_frames_without_landmarks_choose_nothing() -> None:
    rng = np.random.default_rng(5)
    keyed, _ = seen(rng.uniform(-20, 20, 30), rng.uniform(-8, 8, 30), noise=0.3, rng=rng)
    chosen, even = choose_structure(keyed, np.full((3, len(NAMES), 2), np.nan), MIRROR), fit_structure(keyed, MIRROR)
    assert chosen is not None
    assert even is not None
    np.testing.assert_array_equal(chosen.places, even.places)


@pytest.mark.parametrize("side", [0.0, 22.0])
def test_depth_of_keyed_and_of_new_views(side: float) -> None:
    rng = np.random.default_rng(3)
    keyed, _ = seen(side + rng.uniform(-14, 14, 40), rng.uniform(-8, 8, 40), noise=0.3, rng=rng)
    structure = fit_structure(keyed, MIRROR)
    assert structure is not None
    new, depth = seen(np.array([side - 25, side + 25.0]), np.array([10.0, -12.0]), noise=0.0, rng=rng)
    for landmarks, true in zip(new, depth):
        off = structure.depths(landmarks) - (true - true.mean())
        off = off - np.average(off, weights=structure.weight)
        rigid = [row for row, name in enumerate(NAMES) if not name.startswith("corner")]
        assert np.abs(off[rigid]).mean() < 0.06 * 120  # of a head 120 px deep


def test_too_few_frames_have_no_relief() -> None:
    rng = np.random.default_rng(3)
    keyed, _ = seen(np.linspace(-10, 10, 5), np.zeros(5), noise=0.3, rng=rng)
    assert fit_structure(keyed, MIRROR) is None


@pytest.mark.parametrize("flat", [(0, 1), (1,)])
def test_a_frame_that_is_a_point_or_a_line_is_ignored(flat: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    keyed, _ = seen(rng.uniform(-20, 20, 40), rng.uniform(-8, 8, 40), noise=0.3, rng=rng)
    without = fit_structure(keyed[1:], MIRROR)
    keyed[0][:, list(flat)] = 100.0
    found = fit_structure(keyed, MIRROR)
    assert found is not None
    assert without is not None
    assert np.array_equal(found.places, without.places)
    assert fit_structure(np.repeat(keyed[:1], 40, axis=0), MIRROR) is None


def test_partners_of_a_head_that_looks_aside_in_every_frame() -> None:
    rng = np.random.default_rng(4)
    keyed, _ = seen(rng.uniform(12, 34, 40), rng.uniform(-8, 8, 40), noise=0.3, rng=rng)
    faces = (keyed - keyed.mean(axis=1, keepdims=True)) / np.ptp(keyed, axis=1).max(axis=1)[:, None, None]
    mean = np.median(faces, axis=0)
    wanted = {name: NAMES[row] for name, row in zip(NAMES, MIRROR)}
    assert partners(NAMES, mean) != wanted  # the far half of the mean face is foreshortened
    assert partners(NAMES, frontalise(faces, mean, NAMES)) == wanted


def painted(landmarks: Array, size: int) -> npt.NDArray[np.uint8]:
    """Grey skin with a bright dot on each landmark."""
    picture = np.full((size, size, 3), 60, np.uint8)
    for point in landmarks:
        x, y = (int(v) for v in ((point - 0.5) * 16).round())
        cv2.circle(picture, (x, y), 24, (250, 250, 250), -1, cv2.LINE_AA, 4)
    return picture


def dot_near(picture: npt.NDArray[np.uint8], at: npt.NDArray[np.floating], reach: float) -> Array:
    ys, xs = np.mgrid[0 : picture.shape[0], 0 : picture.shape[1]] + 0.5
    light = np.maximum(picture[..., 0].astype(float) - 90, 0) * (np.hypot(xs - at[0], ys - at[1]) < reach)
    return np.asarray([(light * xs).sum(), (light * ys).sum()]) / max(float(light.sum()), 1e-9)


@pytest.mark.parametrize(("yaw", "pitch"), [(12.0, 0.0), (-14.0, 5.0), (0.0, -9.0)])
def test_a_turned_picture_and_its_landmarks_are_what_the_head_would_show(yaw: float, pitch: float) -> None:
    rng = np.random.default_rng(5)
    keyed, _ = seen(rng.uniform(-20, 20, 60), rng.uniform(-12, 12, 60), noise=0.2, rng=rng)
    structure = fit_structure(keyed, MIRROR)
    assert structure is not None
    still = np.random.default_rng(1)  # the mouth does not move
    now, _ = seen(np.array([6.0]), np.array([2.0]), noise=0.0, rng=still)
    then, _ = seen(np.array([6.0 + yaw]), np.array([2.0 + pitch]), noise=0.0, rng=np.random.default_rng(1))
    marks = now[0] - now[0].mean(axis=0) + 200
    wanted = then[0] - then[0].mean(axis=0)
    turn = turn_face(structure, marks, np.ones(len(marks)), np.radians(yaw), np.radians(pitch))
    assert turn is not None
    found = turn.landmarks - turn.landmarks.mean(axis=0)
    moved = np.linalg.norm(now[0] - now[0].mean(axis=0) - wanted, axis=1).mean()
    assert np.linalg.norm(found - wanted, axis=1).mean() < 0.25 * moved
    crop = cut_posed_face(painted(marks, 400), turn, np.diag([0.64, 0.64, 1.0]), 256, cv2.BORDER_REPLICATE)
    apart = np.linalg.norm(turn.landmarks[:, None] - turn.landmarks, axis=2) + np.eye(len(marks)) * 1e3
    alone = (apart.min(axis=1) > 16) & (turn.visible > 0.5)
    off = [np.linalg.norm(dot_near(crop, p * 0.64, 5) - p * 0.64) for p in turn.landmarks[alone]]
    assert alone.sum() > 8
    assert np.median(off) < 0.4
    assert np.max(off) < 1.5


def learned(rng: np.random.Generator) -> RigidStructure:
    """The head estimated from 60 keyed frames from many sides."""
    keyed, _ = seen(rng.uniform(-20, 20, 60), rng.uniform(-12, 12, 60), noise=0.2, rng=rng)
    structure = fit_structure(keyed, MIRROR)
    assert structure is not None
    return structure


def test_what_a_turn_takes_behind_the_face_is_hidden() -> None:
    rng = np.random.default_rng(5)
    structure = learned(rng)
    marks = seen(np.array([25.0]), np.array([0.0]), noise=0.0, rng=rng)[0][0] + 200
    turn = turn_face(structure, marks, np.ones(len(marks)), np.radians(45), 0.0)
    assert turn is not None
    hidden = np.flatnonzero(turn.visible < 0.5)
    assert len(hidden)
    assert (head()[hidden, 0] > -0.2).all(), [NAMES[row] for row in hidden]  # on the side that turns away, or the nose


def test_what_is_visible_after_a_turn_is_what_the_picture_shows_there() -> None:
    rng = np.random.default_rng(5)
    structure = learned(rng)
    marks = seen(np.array([20.0]), np.array([0.0]), noise=0.0, rng=rng)[0][0] + 200
    side = np.ptp(marks, axis=0).max()
    for yaw in (-30, 15, 30, 45):
        turn = turn_face(structure, marks, np.ones(len(marks)), np.radians(yaw), np.radians(6))
        assert turn is not None
        at = ((turn.landmarks - turn.corner) / turn.step).astype(np.float32)[:, None]
        shown = cv2.remap(turn.source, at, None, cv2.INTER_LINEAR)[:, 0]
        off = np.linalg.norm(shown - marks, axis=1)[turn.visible > 0.5] / side
        assert len(off) >= 8
        assert off.max() < 0.025
