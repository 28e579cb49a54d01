"""From landmarks to shapes: held frames stay equal, errors add up, uncertain seams are wider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor, covering_widths
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

Numbers = npt.NDArray[np.float32]

SHEET = Sheet(
    "tiny",
    tuple(LandmarkSpec(name) for name in "abc"),
    (
        ShapeSpec(
            "seam", closed=False, role="seam", n_points=2, on_landmarks={0: "a", 1: "b"}, from_landmarks=("a", "b"),
            width_share=0.1, feather_px=1.5, taper=(0.2, 0.0),
        ),
        ShapeSpec("eye", closed=True, n_points=3, from_landmarks=("c",)),
    ),
)  # fmt: skip
FACE = np.array([[0.0, 0.0], [30.0, 40.0], [10.0, 100.0]])


def model(landmarks: Numbers) -> tuple[Numbers, Numbers | None]:
    """Seam from a to b shifted by 3 px, eye around c; tangents 1; widths unknown."""
    points = np.ones((len(landmarks), 5, 6), np.float32)
    points[:, 0:2, :2] = landmarks[:, 0:2] + (3, 0)
    points[:, 2:5, :2] = landmarks[:, 2:3]
    return points, None


def wide_model(landmarks: Numbers) -> tuple[Numbers, Numbers | None]:
    return model(landmarks)[0], np.array([[6.5, np.nan]] * len(landmarks), np.float32)


def frame(number: int, points: npt.ArrayLike = FACE, **changes: object) -> FrameLandmarks:
    plain = FrameLandmarks(
        number, np.array(points, dtype=np.float64), np.array([3.0, 5.0, 1.0]), np.ones(3), np.zeros(3, bool), number
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_shapes_follow_their_landmarks() -> None:
    (shapes,) = ShapePredictor(SHEET, model)([frame(1001)])
    np.testing.assert_allclose(shapes.points_PK[:, :2], [[3, 0], [33, 40], [10, 100], [10, 100], [10, 100]])


def test_expected_error_joins_landmarks_and_residual() -> None:
    (shapes,) = ShapePredictor(SHEET, model)([frame(1001)])
    assert shapes.expected_error_px_S == pytest.approx([np.hypot((3 + 5) / 2, 3), 1.0])


def test_width_comes_from_the_model_or_else_from_the_sheet() -> None:
    (from_sheet,) = ShapePredictor(SHEET, model)([frame(1001)])
    assert from_sheet.width_px_S[0] == pytest.approx(0.1 * 100)  # the face is 100 px high
    assert np.isnan(from_sheet.width_px_S[1])
    (from_model,) = ShapePredictor(SHEET, wide_model)([frame(1001)])
    assert from_model.width_px_S[0] == pytest.approx(6.5)


def test_equal_landmarks_give_equal_shapes_in_any_batch() -> None:
    calls: list[int] = []

    def batch_dependent(landmarks: Numbers) -> tuple[Numbers, Numbers | None]:
        calls.append(len(landmarks))
        points, width = model(landmarks)
        return points + np.float32(len(landmarks) * 1e-3), width

    predictor = ShapePredictor(SHEET, batch_dependent)
    first = predictor([frame(1001), frame(1002), frame(1003, FACE + 5)])
    later = predictor([frame(1004, FACE + 5), frame(1005, FACE + 5)])
    np.testing.assert_array_equal(first[0].points_PK, first[1].points_PK)
    np.testing.assert_array_equal(first[2].points_PK, later[1].points_PK)
    assert calls == [2]
    assert predictor([]) == []


def test_a_doubtful_seam_gets_a_wider_matte() -> None:
    errors, widths = np.array([0.5, 10.0, 1.0]), np.array([6.0, 6.0, np.nan])
    shapes = FrameShapes(1, np.zeros((3, 6)), errors, widths, np.ones(3, bool))
    np.testing.assert_allclose(covering_widths(shapes), [7.0, 6.0 + 2 * 0.2 * 6.0, np.nan])
