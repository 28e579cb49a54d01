"""Landmarks to shapes: exact where they must be, independent of landmarks elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Truth, read_dataset
from rotopaint_ai.training.models.shape_fit import ShapeGraph, add_warped_copies, fit_shapes

EXACT = 1e-6


def _model(faces: Path, noise: float = EXACT) -> tuple[Sheet, Truth, ShapeGraph]:
    data = read_dataset(faces)
    fits = fit_shapes(data.sheet, data.truth, noise_L=np.full(4, noise))
    return data.sheet, data.truth, ShapeGraph(data.sheet, fits)


def _run(model: ShapeGraph, landmarks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points, width = model(torch.tensor(landmarks, dtype=torch.float32))
    return points.numpy(), width.numpy()


def test_a_rigid_face_is_predicted_exactly_in_any_frame(faces: Path) -> None:
    _, truth, model = _model(faces)
    points, _ = _run(model, truth.landmarks)
    np.testing.assert_allclose(points, truth.points, atol=2e-3)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]]) * 7  # another space: rotated, seven times larger, translated
    moved, _ = _run(model, truth.landmarks @ turn.T + (1000, -500))
    wanted = np.concatenate([truth.points[..., :2] @ turn.T + (1000, -500), truth.points[..., 2:4] @ turn.T], -1)
    np.testing.assert_allclose(moved[..., :4], wanted, atol=0.02)


def test_width_scales_with_the_face_and_closed_shapes_have_none(faces: Path) -> None:
    _, truth, model = _model(faces)
    _, width = _run(model, truth.landmarks)
    _, double = _run(model, truth.landmarks * 2)
    assert 2.4 < width[:, 0].mean() < 3.6
    np.testing.assert_allclose(double[:, 0], width[:, 0] * 2, rtol=1e-4)
    assert (width[:, 1] == 0).all()


def test_a_shape_ignores_landmarks_that_it_does_not_hang_on(faces: Path) -> None:
    sheet, truth, model = _model(faces)
    dragged = truth.landmarks[:1].copy()
    dragged[0, sheet.landmark_row("brow")] += 9
    before, after = _run(model, truth.landmarks[:1])[0], _run(model, dragged)[0]
    rows = sheet.point_rows()
    np.testing.assert_array_equal(before[:, rows["seam"]], after[:, rows["seam"]])
    assert np.abs(before[:, rows["face"]] - after[:, rows["face"]]).max() > 0.5


def test_a_control_point_follows_the_landmark_that_it_sits_on(faces: Path) -> None:
    """The ridge regression saw no such motion in the samples: the point still follows its landmark."""
    sheet, truth, model = _model(faces, noise=0.01)
    dragged = truth.landmarks[:1].copy()
    dragged[0, 0] += (4.0, 3.0)
    points = _run(model, dragged)[0]
    assert np.linalg.norm(points[0, sheet.point_rows()["seam"].start, :2] - dragged[0, 0]) < 2.5


def test_a_linear_deformation_is_learnt() -> None:
    """A mouth that opens: the lower curve follows one landmark by a factor that is learnt from the samples."""
    rng = np.random.default_rng(0)
    names = ("a", "b", "c", "d")
    sheet = Sheet("mouth", tuple(LandmarkSpec(n) for n in names), (ShapeSpec("lip", False, 2, "matte", {}, ()),))
    opening = rng.uniform(0, 10, 60)
    base = np.array([[0, 0], [40, 0], [20, 30], [20, -25.0]])
    landmarks = np.repeat(base[None], 60, 0)
    landmarks[:, 2, 1] += opening
    points = np.zeros((60, 2, 6))
    points[:, :, 0], points[:, :, 1] = (10, 30), 15 + 0.6 * opening[:, None]
    points[:, 0, 4] = 5 + 0.2 * opening
    none = np.full((60, 1), np.nan, np.float32)
    truth = Truth(landmarks.astype(np.float32), np.ones((60, 4), np.float32), points.astype(np.float32), none)
    model = ShapeGraph(sheet, fit_shapes(sheet, truth, noise_L=np.full(4, EXACT)))
    got, width = _run(model, truth.landmarks)
    assert np.abs(got - truth.points).max() < 0.15  # the similarity step bends a straight motion a little
    assert (width == 0).all()


def test_known_noise_makes_the_shapes_steadier(faces: Path) -> None:
    """Control points are still, landmarks are noisy: a fit that knows the landmarks' error does not follow it."""
    sheet, truth, _ = _model(faces)
    rng = np.random.default_rng(1)
    few = truth.rows(np.arange(12))
    few = replace(few, landmarks=few.landmarks + rng.normal(0, 0.5, few.landmarks.shape).astype(np.float32))
    noisy = truth.landmarks + rng.normal(0, 1.0, truth.landmarks.shape).astype(np.float32)
    errors = []
    for noise in (EXACT, 0.03):
        model = ShapeGraph(sheet, fit_shapes(sheet, few, noise_L=np.full(4, noise)))
        errors.append(np.abs(_run(model, noisy)[0] - truth.points).mean())
    assert errors[1] < 0.9 * errors[0]


def test_unknown_shapes_and_landmarks_are_left_out_of_the_fit(faces: Path) -> None:
    sheet, truth, _ = _model(faces)
    points = truth.points.copy()
    points[5:, sheet.point_rows()["face"]] = np.nan
    fits = fit_shapes(sheet, replace(truth, points=points), noise_L=np.full(4, EXACT))
    known = Truth(truth.landmarks[:5], truth.visible[:5], truth.points[:5], truth.width[:5])
    of_five = fit_shapes(sheet, known, noise_L=np.full(4, EXACT))
    of_all = fit_shapes(sheet, truth, noise_L=np.full(4, EXACT))
    for fit, wanted in zip(fits, (of_all[0], of_five[1])):
        np.testing.assert_array_equal(fit.slope, wanted.slope)
    points[1:] = np.nan
    with pytest.raises(TrainingError, match="shape 'seam': known in 1 training samples"):
        fit_shapes(sheet, replace(truth, points=points), noise_L=np.full(4, EXACT))


def test_warped_copies_keep_shapes_on_landmarks(faces: Path) -> None:
    sheet, truth, _ = _model(faces)
    more = add_warped_copies(truth, copies=2, amount=0.1, rng=np.random.default_rng(0))
    assert len(more.landmarks) == 3 * len(truth.landmarks)
    start = sheet.point_rows()["seam"].start
    np.testing.assert_allclose(more.points[:, start, :2], more.landmarks[:, 0], atol=1e-3)
