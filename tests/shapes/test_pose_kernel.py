"""Corrections of errors that depend on the pose: applied where the face looks the same, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rotopaint_ai.shapes import pose_kernel
from rotopaint_ai.shapes.facespace import Array, Complex, face_space
from rotopaint_ai.shapes.refit import refit
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape

POSES, FRAMES = 10, range(1001, 1021)
SEAM = np.array([-45, -5 + 3j, 40 - 2j])
FACE = np.array([-40 - 30j, 40 - 30j, 0, -25 + 40j, 25 + 40j, 60j, -50 + 10j, 50 + 12j, -20 - 10j, 20 - 8j])
TURNED: Complex = np.array(np.random.default_rng(3).normal(0, 5, (POSES, len(FACE), 2)) @ [1, 1j], dtype=complex)
WRONG = np.random.default_rng(8).normal(0, 4, (POSES, 2)) @ [1, 1j]


def camera(frame: int, z: Complex) -> Complex:
    """The camera moves, zooms and rolls on every frame; a pose is held for two."""
    return np.asarray(zoom(frame) * z + 300 + 4 * (frame - 1001) + 200j)


def zoom(frame: int) -> complex:
    return complex((1 + 0.01 * (frame - 1001)) * np.exp(0.02j * (frame - 1001)))


def points(line: Complex) -> Points:
    return tuple(ControlPoint(z.real, z.imag) for z in line.tolist())


def model(wrong: Callable[[int], complex]) -> tuple[RotoDocument, RotoDocument]:
    """A prediction with an error in face space that depends on the pose, and the truth."""
    marks, said, true = {}, {}, {}
    for frame in FRAMES:
        pose = (frame - 1001) // 2
        head: Complex = SEAM + TURNED[pose, :3]
        face: Complex = FACE + TURNED[pose]
        true[frame] = Key(points(camera(frame, head)))
        said[frame] = Key(points(camera(frame, head) + wrong(frame) * zoom(frame)))
        marks[frame] = tuple(Landmark(z.real, z.imag, 2.0) for z in camera(frame, face).tolist())
    names = tuple(f"l{k}" for k in range(len(FACE)))

    def document(keys: dict[int, Key]) -> RotoDocument:
        return RotoDocument(
            960,
            540,
            1001,
            1020,
            landmarks=LandmarkKeys(names, marks),
            shapes=(RotoShape("seam", False, "matte", keys),),
        )

    return document(said), document(true)


def keyed(said: RotoDocument, true: RotoDocument, *frames: int) -> RotoDocument:
    human = {frame: replace(true.shapes[0].keys[frame], source="human") for frame in frames}
    shape = said.shapes[0]
    return replace(said, shapes=(shape.with_keys(dict(sorted({**shape.keys, **human}.items()))),))


def apart(document_keys: dict[int, Key], true: RotoDocument, frame: int) -> float:
    pairs = zip(document_keys[frame].points, true.shapes[0].keys[frame].points)
    return max(abs(complex(p.x - q.x, p.y - q.y)) for p, q in pairs)


def test_one_key_corrects_only_the_pose_held_before_a_moving_camera() -> None:
    said, true = model(lambda frame: WRONG[(frame - 1001) // 2])
    new = dict(refit(said, keyed(said, true, 1001, 1002, 1006, 1009, 1014))["seam"])
    before = {f: apart(dict(said.shapes[0].keys), true, f) for f in FRAMES}
    partners = [1005, 1010, 1013]
    assert min(before[f] for f in partners) > 1.9
    assert max(apart(new, true, f) / before[f] for f in partners) < 0.25
    assert max(apart(new, true, f) - before[f] for f in new if f not in partners) < 1.0  # of errors of 4 px


def test_errors_that_have_nothing_to_do_with_each_other_are_not_carried() -> None:
    """The two frames of a pose have independent errors: a correction of one tells nothing about the other."""
    draw = np.random.default_rng(11).normal(0, 4, (len(FRAMES), 2)) @ [1, 1j]
    said, true = model(lambda frame: draw[frame - 1001])
    new = refit(said, keyed(said, true, 1001, 1002, 1005, 1006, 1009, 1010, 1013, 1014, 1017))["seam"]
    worse = [apart(dict(new), true, f) - apart(dict(said.shapes[0].keys), true, f) for f in new]
    assert max(worse) < 0.6


def test_likeness_is_what_the_best_similarity_leaves_of_the_landmarks_both_show() -> None:
    said, _ = model(lambda frame: 0)
    space = face_space(said.landmarks)
    assert space is not None
    rows = np.arange(len(FRAMES))
    lines = np.array([[complex(p.x, p.y) for p in said.shapes[0].keys[f].points] * 3 for f in FRAMES])
    found = pose_kernel.likeness(space, rows, lines, np.array([0, 5]))
    assert found[[1, 4], [0, 1]] == pytest.approx(1, abs=1e-6)  # held: only the camera moved
    apart_by_solver = by_least_squares(space.points_FL, lines, np.abs(space.factor_F), 7, 0)
    assert found[7, 0] == pytest.approx(apart_by_solver, rel=1e-6)


def by_least_squares(marks: Complex, lines: Complex, size: Array, one: int, other: int) -> float:
    """The same by a linear solver: residuals of fitting each frame to the other, geometric mean."""
    near = abs(marks[:, :, None] - lines[:, None, :3]).min(2) / size[:, None]
    say = np.exp(-(near.mean(0) ** 2) / (2 * pose_kernel.ROUND**2))
    left = 1.0
    for a, b in ((one, other), (other, one)):
        design = np.stack([marks[a], np.ones(len(FACE))], 1) * np.sqrt(say)[:, None]
        fit = np.linalg.lstsq(design, marks[b] * np.sqrt(say), rcond=None)[0]
        left *= (abs(design @ fit - marks[b] * np.sqrt(say)) ** 2).sum() / say.sum()
    return float(np.exp(-np.sqrt(left) / (size[one] * size[other]) / (2 * pose_kernel.ALIKE**2)))


def test_hidden_landmarks_have_no_weight() -> None:
    said, _ = model(lambda frame: 0)
    rows = dict(said.landmarks.keys)
    rows[1002] = tuple(None if k in (3, 5) else mark for k, mark in enumerate(rows[1002]))
    space = face_space(replace(said.landmarks, keys=rows))
    assert space is not None
    lines = np.array([[complex(p.x, p.y) for p in said.shapes[0].keys[f].points] * 3 for f in FRAMES])
    assert pose_kernel.likeness(space, np.arange(20), lines, np.array([0]))[1, 0] == pytest.approx(1, abs=1e-4)


def test_the_likelier_covariance_is_less_of_a_surprise_whatever_the_size() -> None:
    same, free = np.array([[1, 0.9], [0.9, 1]], complex), np.eye(2, dtype=complex)
    twice, opposite = np.array([[3.0], [3.0]], complex), np.array([[3.0], [-3.0]], complex)
    assert pose_kernel.surprise(free, twice) == pytest.approx(
        2 * np.log(9)
    )  # by hand: (9 + 9) / 2 holds, determinant 1
    assert pose_kernel.surprise(same, twice) < pose_kernel.surprise(free, twice) < pose_kernel.surprise(same, opposite)
    gain = pose_kernel.surprise(free, twice) - pose_kernel.surprise(same, twice)
    assert gain == pytest.approx(pose_kernel.surprise(free, 7 * twice) - pose_kernel.surprise(same, 7 * twice))
    alone, small = np.array([[2.0 + 1j]]), np.eye(1, dtype=complex)
    assert pose_kernel.surprise(5 * small, alone) == pytest.approx(pose_kernel.surprise(small, alone))
