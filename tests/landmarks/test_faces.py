"""Faces on plates: their position in plate space, the choice among them, and tracking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rotopaint_ai.crops import CropKeys
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.landmarks.faces import (
    MARGIN,
    DetectedFace,
    _overlap,
    drop_overlapping,
    faces_of,
    find_faces,
    follow_face,
    letterbox,
    search_windows,
)
from rotopaint_ai.landmarks.track import Picture


class RedBoxes:
    """A detector of 64 x 32 pictures that takes red rectangles for faces, with a score by their redness."""

    size = (64, 32)

    def __init__(self, smallest: int = 3) -> None:
        self.smallest = smallest
        self.asked = 0

    def __call__(self, pictures: Picture) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
        self.asked += len(pictures)
        red = pictures[0, ..., 0] - pictures[0, ..., 2]
        boxes, scores = np.zeros((1, 2, 4), np.float32), np.zeros((1, 2), np.float32)
        for k, half in enumerate((slice(0, 32), slice(32, 64))):
            ys, xs = np.nonzero(red[:, half] > 0.3)
            if len(xs) and np.ptp(xs) + 1 >= self.smallest:
                x = xs + half.start
                boxes[0, k] = (x.min(), ys.min(), x.max() + 1, ys.max() + 1)
                scores[0, k] = red[ys[0], x[0]]
        return boxes, scores, np.ones((1, 2, 4, 4), np.float32), np.zeros((1, 2, 5, 2), np.float32)


def _plate(*boxes: tuple[int, int, int, int], size: tuple[int, int] = (640, 320)) -> Picture:
    picture = np.full((size[1], size[0], 3), 0.1, np.float32)
    for x, y, w, h in boxes:
        picture[y : y + h, x : x + w] = (1.0, 0.1, 0.1)
    return picture


def _same(picture: Picture) -> Picture:
    return picture


def test_faces_lie_where_they_are_in_plate_space() -> None:
    # ten plate pixels are one detector pixel; the data window begins at (100, -50)
    [face] = find_faces(_plate((200, 100, 80, 90)), (100, -50), RedBoxes(), _same)
    assert face.box == pytest.approx((300, 50, 380, 140))
    crop = face.crop()
    assert (crop.x, crop.y, crop.side) == pytest.approx((340, 95, 90 * MARGIN))


def test_the_largest_face_comes_first() -> None:
    faces = find_faces(_plate((40, 100, 60, 60), (400, 100, 120, 120)), (0, 0), RedBoxes(), _same)
    assert [round(face.side) for face in faces] == [120, 60]


def test_small_faces_are_looked_for_in_windows() -> None:
    detector = RedBoxes(smallest=4)  # 40 px of the plate, but 24 of a window
    [face] = find_faces(_plate((500, 40, 30, 30)), (0, 0), detector, _same)
    assert detector.asked == 5
    assert face.box == pytest.approx((500, 40, 530, 70), abs=6)
    assert find_faces(_plate((500, 40, 30, 30)), (0, 0), RedBoxes(smallest=4), _same, closer=False) == []


def test_windows_cover_the_plate() -> None:
    covered = np.zeros((108, 201), int)
    for x, y, w, h in search_windows(201, 108):
        assert x + w <= 201
        assert y + h <= 108
        covered[y : y + h, x : x + w] += 1
    assert covered.min() >= 1


def test_upright_plates_are_fitted_too() -> None:
    picture, scale = letterbox(_plate((20, 100, 60, 60), size=(100, 320)), 64, 32)
    assert picture.shape == (32, 64, 3)
    assert scale == pytest.approx(0.1)
    [face] = find_faces(_plate((20, 100, 60, 60), size=(100, 320)), (0, 0), RedBoxes(), _same)
    assert face.box == pytest.approx((20, 100, 80, 160))


def _face(x: float, side: float, score: float = 0.9) -> DetectedFace:
    return DetectedFace((x, 0, x + side, side), score, np.ones((4, 4)), np.zeros((5, 2)))


def test_overlap_is_the_share_of_the_smaller_box() -> None:
    """10 x 4 and 12 x 2 px with 2 x 2 px in common: 4 of 24."""
    wide, flat = (0.0, 0.0, 10.0, 4.0), (8.0, 1.0, 20.0, 3.0)
    assert _overlap(wide, flat) == _overlap(flat, wide) == pytest.approx(4 / 24)
    assert _overlap(wide, (11.0, 0.0, 12.0, 4.0)) == 0


def test_a_box_in_a_surer_one_is_the_same_face() -> None:
    kept = drop_overlapping([_face(10, 20, 0.6), _face(0, 40, 0.9), _face(100, 40, 0.7)])
    assert [face.score for face in kept] == [0.9, 0.7]


def test_nonsense_of_a_model_is_no_face() -> None:
    rows = [
        np.array([[0, 0, 9, 9], [np.nan, 0, 9, 9], [5, 5, 5, 5]]),
        np.array([0.2, 0.9, 0.9]),
        np.ones((3, 4, 4)),
        np.zeros((3, 5, 2)),
    ]
    assert faces_of(rows, 1.0) == []


def _shot(*rows: Sequence[DetectedFace]) -> dict[int, Sequence[DetectedFace]]:
    return {1001 + 10 * k: row for k, row in enumerate(rows)}


def test_the_face_that_is_meant_is_large_and_sure_and_stays_the_same() -> None:
    face = follow_face(_shot([_face(0, 60), _face(200, 80)], [_face(20, 100), _face(230, 76)], [_face(150, 80)]))
    assert face is not None
    assert [found.box[0] for found in face.found.values()] == [200, 230, 150]
    assert "took 1001:195,-5,90,90 (sure by 90%, the largest of 2 faces), found in 3 of 3 frames" in face.note
    assert face.is_doubtful


def test_another_face_is_not_taken_for_it() -> None:
    face = follow_face(_shot([_face(0, 60)], [_face(400, 60)], [_face(10, 200)], [_face(30, 50)]))
    assert face is not None
    assert list(face.found) == [1001, 1031]
    assert "found in 2 of 4 frames looked at" in face.note
    assert face.is_doubtful
    alone = follow_face(_shot([_face(0, 60)], [_face(10, 60)]))
    assert alone is not None
    assert not alone.is_doubtful


def test_a_face_that_comes_later_is_found() -> None:
    face = follow_face(_shot([], [_face(5, 50)]))
    assert face is not None
    assert list(face.found) == [1011]
    assert follow_face(_shot([], [])) is None


def test_what_was_found_later_does_not_interrupt_the_following() -> None:
    face = follow_face(_shot([_face(0, 50)], [_face(20, 50)], [_face(40, 50)]))
    assert face is not None
    keys = face.keys()
    assert [keys.is_key(frame) for frame in (1001, 1011, 1021)] == [True, False, False]
    assert keys.at(1011).x == pytest.approx(45)
    again = CropKeys.parse(keys.words(), first_frame=1)
    assert again == keys


@pytest.mark.parametrize(("n", "wanted"), [(1, [1]), (5, [1, 2, 3, 4, 5]), (100, [1, 34, 67, 100])])
def test_frames_to_look_at_are_spread(n: int, wanted: list[int]) -> None:
    assert evenly_spread(list(range(1, n + 1)), max(4, min(n, 5)) if n < 100 else 4) == wanted
