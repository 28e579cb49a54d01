"""Following a face: settle on it, keep it, report its loss, and find it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rotopaint_ai.crops import CROP_MARGIN, Box, Crop, CropKeys
from rotopaint_ai.errors import CropError
from rotopaint_ai.landmarks.detect import (
    FaceReading,
    Follower,
    LostLimits,
    _crop_grid,
    _crops_around,
    instability,
    jitter_crops,
    propose,
    read,
)

from .dots import FACE, HEIGHT, SIZE, WIDTH, Picture, detect, plate


def follower(x: float, y: float, *, side: float = 90.0, **more: object) -> Follower:
    box = Box(x - side / 2, y - side / 2, side, side)
    return Follower(detect, SIZE, CropKeys({1001: box.crop()}), display=lambda rgb: rgb, **more)  # type: ignore[arg-type]


def test_a_rough_box_settles_on_the_face() -> None:
    found = follower(120, 95, side=110).step(1001, plate(100, 90))
    np.testing.assert_allclose(found.points_LC, FACE + (100, 90), atol=0.15)
    assert found.crop is not None
    assert found.crop.side == pytest.approx(45 * 1.3, rel=0.05)
    assert (found.crop.x, found.crop.y) == pytest.approx((100, 92.5), abs=1.0)
    assert found.lost is None
    np.testing.assert_allclose(found.expected_error_px_L, 0.5 * found.crop.side / SIZE)


def test_the_crop_follows_a_moving_growing_face() -> None:
    follow = follower(60, 100)
    for step in range(25):
        x, scale = 60 + 8 * step, 1.0 + 0.02 * step
        found = follow.step(1001 + step, plate(x, 100, scale=scale))
        np.testing.assert_allclose(found.points_LC, FACE * scale + (x, 100), atol=0.3)
        assert found.lost is None
        assert found.held_from == 1001 + step


def test_a_face_that_walks_is_read_once_a_frame_and_one_that_leaps_again() -> None:
    """Crops are 58.5 px: 4 px are 7 % of one, and 6 px are 10 %, beyond the 8 % by which a crop may lag."""
    follow, n_read = follower(60, 90), [0]

    def counted(crops: Picture) -> tuple[Picture, Picture, Picture]:
        n_read[0] += 1
        return detect(crops)

    follow.step(1001, plate(60, 90))
    follow.detect = counted
    for frame, at, n in ((1002, (64, 90), 1), (1003, (64, 94), 2), (1004, (70, 94), 4), (1005, (70, 88), 6)):
        follow.step(frame, plate(*at))
        assert n_read[0] == n


def test_origin_of_an_overscan_plate_is_respected() -> None:
    found = follower(92, 85).step(1001, plate(100, 90), origin=(-8, -5))
    np.testing.assert_allclose(found.points_LC, FACE + (92, 85), atol=0.15)


def test_a_face_that_leaves_is_called_lost_and_found_again() -> None:
    follow = follower(100, 90)
    follow.step(1001, plate(100, 90))
    gone = follow.step(1002, np.zeros((HEIGHT, WIDTH, 3), np.float32))
    assert gone.lost is not None
    assert "expected error" in gone.lost
    back = follow.step(1003, plate(104, 90))
    assert back.lost is None
    np.testing.assert_allclose(back.points_LC, FACE + (104, 90), atol=0.15)


def test_a_jump_out_of_the_crop_is_searched_for() -> None:
    follow = follower(100, 90)
    follow.step(1001, plate(100, 90))
    found = follow.step(1002, plate(140, 75))
    assert found.lost is None
    np.testing.assert_allclose(found.points_LC, FACE + (140, 75), atol=0.15)


@pytest.mark.parametrize(("unusual", "wanted"), [(3.0, (165, 90)), (1.5, (100, 90))])
def test_after_a_cut_a_face_read_with_unusual_errors_is_looked_for_around_it(
    unusual: float, wanted: tuple[float, float]
) -> None:
    """Where a crop shows no dots, the model sees a face in its middle, `unusual` times as unsure as of the last one."""

    def dreaming(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, seen = detect(crops)
        blank = ~seen.astype(bool).any(axis=1)
        points[blank] = FACE * SIZE / 58.5 + SIZE / 2 - (0, 2.7)
        error[blank], seen[blank] = 0.5 * unusual, 1.0
        return points, error, seen

    follow = follower(100, 90)
    follow.detect = dreaming
    follow.step(1001, plate(100, 90))
    found = follow.step(1002, plate(165, 90))
    assert found.lost is None
    np.testing.assert_allclose(found.points_LC, FACE + wanted, atol=2.0)


@pytest.mark.parametrize(
    ("error_px", "is_lost", "wanted"), [(9.0, False, "found"), (9.0, True, "lost"), (4.0, True, "found")]
)
def test_what_a_search_finds_counts_where_it_is_a_face_or_less_in_doubt(
    error_px: float, is_lost: bool, wanted: str
) -> None:
    crop = Box(0, 0, 90, 90).crop()
    readings = {
        name: FaceReading(crop, FACE + 45, np.full(3, error), np.ones(3))
        for name, error in (("lost", 6.0), ("found", error_px))
    }

    class Scripted(Follower):
        def _read_settled(self, *asked: object, **how: object) -> FaceReading:
            return readings["found"]

        def _lost(self, reading: FaceReading) -> str | None:
            return "lost" if is_lost or reading is readings["lost"] else None

    follow = Scripted(detect, SIZE, CropKeys({1001: crop}), display=lambda rgb: rgb)
    best = follow._search(plate(100, 90), (0, 0), [readings["lost"]], crop)
    assert best is readings[wanted]


def test_a_hand_box_wins_at_its_frame() -> None:
    two = plate(80, 100) + plate(240, 100)
    keys = CropKeys({1001: Box(45, 65, 70, 70).crop(), 1003: Box(205, 65, 70, 70).crop()})
    follow = Follower(detect, SIZE, keys, display=lambda rgb: rgb)
    near = [follow.step(frame, two).points_LC.mean(axis=0)[0] for frame in (1001, 1002, 1003)]
    assert near == pytest.approx([80, 80, 240], abs=1)


def test_repeats_are_found_and_read_through_the_same_crop() -> None:
    follow = follower(100, 90)
    first = follow.step(1001, plate(100, 90, noise=0.01, seed=1))
    second = follow.step(1002, plate(100, 90, noise=0.01, seed=2))
    third = follow.step(1003, plate(101, 90, noise=0.01, seed=3))
    assert (second.held_from, third.held_from) == (1001, 1003)
    assert second.crop == first.crop


def test_hand_points_are_kept() -> None:
    found = follower(100, 90).step(1001, plate(100, 90), hand={2: (101.0, 117.0)})
    np.testing.assert_array_equal(found.points_LC[2], [101.0, 117.0])
    assert found.expected_error_px_L[2] == 0
    assert found.hand_L.tolist() == [False, False, True]


def test_a_face_seen_where_the_plate_has_no_pixels_is_lost() -> None:
    """A confident model that finds its face in every crop, also in the smeared border of the plate."""

    def sure(crops: Picture) -> tuple[Picture, Picture, Picture]:
        n = len(crops)
        points = np.tile(FACE * 1.5 + SIZE / 2, (n, 1, 1)).astype(np.float32)
        return points, np.full((n, len(FACE)), 0.5, np.float32), np.ones((n, len(FACE)), np.float32)

    beyond = CropKeys({1001: Box(WIDTH + 40, 60, 60, 60).crop(), 1002: Box(100, 60, 60, 60).crop()})
    follow = Follower(sure, SIZE, beyond, display=lambda rgb: rgb)
    gone = follow.step(1001, plate(100, 90))
    assert gone.lost is not None
    assert "outside the plate" in gone.lost
    assert follow.step(1002, plate(100, 90)).lost is None


@pytest.mark.parametrize("factor", [np.nan, 1e4, 1e30], ids=["no numbers", "far away", "huge"])
def test_landmarks_that_are_nowhere_are_a_loss_and_not_a_crash(factor: float) -> None:
    def broken(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, visible = detect(crops)
        return points * np.float32(factor), error, visible

    follow = follower(100, 90)
    follow.detect = broken
    found = follow.step(1001, plate(100, 90))
    assert found.lost == "the model gave no finite landmarks near the crop"
    assert np.abs(found.points_LC).max() < 1000


@pytest.mark.parametrize("value", [0.0, 1e30, -1e7], ids=["all at one place", "huge", "far away"])
def test_landmarks_that_are_no_face_are_a_loss(value: float) -> None:
    def broken(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, visible = detect(crops)
        return np.full_like(points, value), error, visible

    follow = follower(100, 90)
    follow.detect = broken
    assert all(follow.step(frame, plate(100, 90)).lost is not None for frame in (1001, 1002, 1003))


def test_a_face_is_proposed_anywhere_on_the_plate() -> None:
    box = propose(
        plate(230, 120), (0, 0), width=WIDTH, height=HEIGHT, detect=detect, size_px=SIZE, display=lambda rgb: rgb
    )
    assert box.x + box.width / 2 == pytest.approx(230, abs=2)
    assert box.y + box.height / 2 == pytest.approx(122.5, abs=2)
    with pytest.raises(CropError, match="draw a box"):
        propose(
            np.zeros((HEIGHT, WIDTH, 3), np.float32), (0, 0),
            width=WIDTH, height=HEIGHT, detect=detect, size_px=SIZE, display=lambda rgb: rgb,
        )  # fmt: skip


def test_a_face_is_looked_for_from_edge_to_edge() -> None:
    """By hand: sides of 180, 110 and 66 px, about half a side apart, are 3 x 1, 6 x 3 and 11 x 5 crops."""
    crops = _crop_grid(400, 200)
    for side, n in ((180, 3), (110, 18), (66, 55)):
        found = [crop for crop in crops if crop.side == pytest.approx(side)]
        assert len(found) == n
        assert (min(c.x for c in found), max(c.x for c in found)) == pytest.approx((side / 2, 400 - side / 2))
        assert min(c.y for c in found) == pytest.approx(side / 2)
        assert n == 3 or max(c.y for c in found) == pytest.approx(200 - side / 2)


def test_a_lost_face_is_looked_for_half_a_side_off_every_way() -> None:
    places = {(crop.x, crop.y) for crop in _crops_around(Crop(100, 50, 80))}
    assert places == {(x, y) for x in (60, 100, 140) for y in (10, 50, 90)}


def blind(crops: Picture) -> tuple[Picture, Picture, Picture]:
    """A model with the same, confident output for every crop."""
    n, low, high = len(crops), FACE.min(axis=0), FACE.max(axis=0)
    face = (FACE - (low + high) / 2) / (high - low).max() * SIZE / CROP_MARGIN + SIZE / 2
    points = np.tile(face, (n, 1, 1)).astype(np.float32)
    return points, np.full((n, len(FACE)), 0.5, np.float32), np.ones((n, len(FACE)), np.float32)


def test_landmarks_of_a_face_stay_where_the_crop_moves_and_others_follow_it() -> None:
    """By hand: the five crops' middles lie 0, and four times 0.2 sides, from their mean; a landmark in the middle of
    each crop has a mean distance of 0.8 * 0.2 = 0.16 sides."""
    crop = Crop(100, 92.5, 90.0)
    crops = [crop, *jitter_crops(crop)]

    def middle(pictures: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, visible = blind(pictures)
        return np.full_like(points, SIZE / 2), error, visible

    def share(model: Callable[[Picture], tuple[Picture, Picture, Picture]]) -> float:
        return instability(read(plate(100, 90), (0, 0), crops, detect=model, size_px=SIZE, display=lambda rgb: rgb))

    assert share(detect) < 0.003  # faces cut off by a moved crop would be less stable
    assert share(middle) == pytest.approx(0.16, abs=1e-4)


def test_a_face_is_cut_off_by_no_crop_that_judges_it() -> None:
    crop, half = Crop(100, 92.5, 90.0), 90.0 / CROP_MARGIN / 2
    for moved in jitter_crops(crop):
        reach = moved.side / 2 - half
        assert max(abs(moved.x - crop.x), abs(moved.y - crop.y)) <= reach


def doubted(faces: Sequence[bool | None], limit: float) -> list[bool]:
    """Whether frames are lost that show a face, or on which the model is blind; None: frames where no face is
    expected."""
    left = list(faces)

    def model(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, visible = detect(crops) if left[0] else blind(crops)
        return points, error if left[0] is not None else np.full_like(error, SIZE), visible

    box = Box(70, 62.5, 60, 60)
    limits = LostLimits(instability=limit)
    follow = Follower(model, SIZE, CropKeys({1: box.crop()}), display=lambda rgb: rgb, limits=limits, holds=None)
    found = []
    for frame in range(1, len(faces) + 1):
        found.append(follow.step(frame, plate(100, 90)).lost is not None)
        left.pop(0)
    return found


def test_a_shot_on_which_the_model_is_blind_from_the_start_shows_no_face() -> None:
    assert doubted([False] * 12, 0.05) == [True] * 12
    assert doubted([False] * 12, float("inf")) == [False] * 12
    one_good = [False, False, True, *[False] * 9]
    assert doubted(one_good, 0.05) == [True] * 12


def test_what_is_found_after_the_face_was_lost_answers_for_itself() -> None:
    """For example the next shot after a cut at which the plate was not split."""
    assert doubted([True] * 9 + [None] + [False] * 3, 0.05) == [False] * 9 + [True] * 4
    assert doubted([True] * 9 + [None] + [False] * 3 + [True], 0.05)[-1] is False


def test_neighbouring_crops_are_read_until_most_exposures_show_a_face() -> None:
    """From then on the median of eight cannot exceed the limit, whatever the other frames show."""
    asked: list[int] = []

    def model(crops: Picture) -> tuple[Picture, Picture, Picture]:
        asked.append(len(crops))
        return detect(crops)

    limits = LostLimits(instability=0.05)
    follow = Follower(
        model, SIZE, CropKeys({1: Box(70, 62.5, 60, 60).crop()}), display=lambda rgb: rgb, limits=limits, holds=None
    )
    doubts = []
    for frame in range(1, 9):
        doubts.append(follow.is_doubtful)
        follow.step(frame, plate(100, 90))
    assert doubts == [True] * 5 + [False] * 3
    assert asked.count(len(jitter_crops(Crop(0, 0, 1)))) == 5


def test_a_face_is_not_doubted_any_more_after_a_few_exposures() -> None:
    assert doubted([True] * 8 + [False] * 12, 0.05) == [False] * 20
    assert doubted([True, False, True, False, True, True, False, True], 0.05)[4:] == [False] * 4
