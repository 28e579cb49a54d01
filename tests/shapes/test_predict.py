"""From landmarks to shapes: held frames stay equal, errors join, hidden points are None, human work stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.landmarks.track import FrameLandmarks, LandmarkTrack
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor, covering_widths, predict, to_document, to_points
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
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
PLATE = {"width": 640, "height": 360, "first_frame": 1001, "last_frame": 1004}


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


def track(*frames: FrameLandmarks) -> LandmarkTrack:
    return LandmarkTrack(tuple("abc"), {item.frame: item for item in frames})


def test_shapes_follow_their_landmarks() -> None:
    (shapes,) = predict(track(frame(1001)), SHEET, model)
    np.testing.assert_allclose(shapes.points_PK[:, :2], [[3, 0], [33, 40], [10, 100], [10, 100], [10, 100]])


def test_expected_error_joins_landmarks_and_residual() -> None:
    (shapes,) = predict(track(frame(1001)), SHEET, model)
    assert shapes.expected_error_px_S == pytest.approx([np.hypot((3 + 5) / 2, 3), 1.0])


def test_width_comes_from_the_model_or_else_from_the_sheet() -> None:
    (from_sheet,) = predict(track(frame(1001)), SHEET, model)
    assert from_sheet.width_px_S[0] == pytest.approx(0.1 * 100)  # the face is 100 px high
    assert np.isnan(from_sheet.width_px_S[1])
    (from_model,) = predict(track(frame(1001)), SHEET, wide_model)
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


def test_the_document_of_a_shot() -> None:
    shot = track(
        frame(1001),
        frame(1002, visible_L=np.array([1.0, 0.2, 0.9])),
        frame(1003, visible_L=np.array([0.1, 0.2, 0.9])).with_hand({2: (1.0, 2.0)}),
        frame(1004, lost="gone"),
    )
    document = to_document(shot, predict(shot, SHEET, model), SHEET, **PLATE)  # type: ignore[arg-type]
    assert document.landmarks.keys[1001] == (Landmark(0, 0, 3), Landmark(30, 40, 5), Landmark(10, 100, 1))
    assert document.landmarks.keys[1002][1] is None
    assert document.landmarks.keys[1003] == (None, None, Landmark(1, 2, 0))
    assert document.landmarks.hand == {1003: frozenset("c")}
    seam = document.shape("seam")
    assert seam.frames == (1001, 1002, 1003)  # a lost frame has no keys
    assert {key.source for key in seam.keys.values()} == {"model"}
    assert seam.keys[1001].points[1] == ControlPoint(33, 40, 1, 1, 1, 1)
    assert (seam.closed, seam.role, seam.feather_px, seam.taper) == (False, "seam", 1.5, (0.2, 0.0))
    assert seam.width_px == pytest.approx(10.0)
    assert seam.visible == {1003: False}  # both landmarks that it sits on are hidden
    eye = document.shape("eye")
    assert (eye.width_px, eye.visible) == (None, {})


def test_human_work_stays_exactly_as_it_is() -> None:
    shot = track(frame(1001), frame(1002))
    shapes = predict(shot, SHEET, model)
    mine = Key((ControlPoint(7, 7), ControlPoint(8, 8)), source="human", interpolation="hold")
    eye = RotoShape("eye", True, keys={1001: Key(to_points(np.zeros((4, 6))), source="human")})
    keep = RotoDocument(
        width=640, height=360, first_frame=1001, last_frame=1002,
        landmarks=LandmarkKeys(("c", "a"), {1002: (Landmark(5, 6), Landmark(9, 9, 2))}, {1002: frozenset("c")}),
        shapes=(
            RotoShape("seam", False, "seam", keys={1002: mine, 1001: Key(to_points(np.zeros((2, 6))))}, width_px=4.0),
            eye,
            RotoShape("garbage", True, keys={1001: Key(to_points(np.ones((3, 6))), source="human")}),
        ),
    )  # fmt: skip
    document = to_document(shot, shapes, SHEET, **PLATE, keep=keep)  # type: ignore[arg-type]
    seam = document.shape("seam")
    assert seam.keys[1002] == mine
    assert seam.keys[1001].points[0] == ControlPoint(3, 0, 1, 1, 1, 1)  # a model key is renewed
    assert (seam.width_px, seam.feather_px) == (4.0, 0.0)
    assert document.shape("eye") == eye  # rebuilt with another number of points: it is theirs
    assert document.shape("garbage").keys[1001].source == "human"
    assert document.landmarks.keys[1002] == (Landmark(0, 0, 3), Landmark(30, 40, 5), Landmark(5, 6, 0))
    assert document.landmarks.hand == {1002: frozenset("c")}


def test_no_frames_make_an_empty_document() -> None:
    document = to_document(track(), list[FrameShapes](), SHEET, **PLATE)  # type: ignore[arg-type]
    assert [shape.keys for shape in document.shapes] == [{}, {}]
    assert document.landmarks.keys == {}


def test_a_doubtful_seam_gets_a_wider_matte() -> None:
    errors, widths = np.array([0.5, 10.0, 1.0]), np.array([6.0, 6.0, np.nan])
    shapes = FrameShapes(1, np.zeros((3, 6)), errors, widths, np.ones(3, bool))
    np.testing.assert_allclose(covering_widths(shapes), [7.0, 6.0 + 2 * 0.2 * 6.0, np.nan])
