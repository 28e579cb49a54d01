"""Following a face: settling on it, staying on it, losing it honestly, finding it again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rotopaint_ai.crops import Box, CropKeys
from rotopaint_ai.errors import CropError
from rotopaint_ai.landmarks.detect import Follower, LostLimits, propose

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
    assert found.origins == ("predicted", "predicted", "hand")


def test_a_face_seen_where_the_plate_has_no_pixels_is_lost() -> None:
    """A sure model that sees its face in every crop, also in the smeared border of the plate."""

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


def test_non_finite_landmarks_are_a_loss_and_not_a_crash() -> None:
    def broken(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, visible = detect(crops)
        return np.full_like(points, np.nan), error, visible

    follow = follower(100, 90)
    follow.detect = broken
    found = follow.step(1001, plate(100, 90))
    assert found.lost == "the model gave no finite landmarks"
    assert np.isfinite(found.points_LC).all()


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


def doubted(errors: Sequence[float], limit: float) -> list[bool]:
    """Whether frames that the model reads with these expected errors (shares of the crop) are lost."""
    left = list(errors)

    def unsure(crops: Picture) -> tuple[Picture, Picture, Picture]:
        points, error, seen = detect(crops)
        return points, np.full_like(error, left[0] * SIZE), np.ones_like(seen)

    box = Box(55, 45, 90, 90)
    limits = LostLimits(doubt=limit, error_ratio=100.0)
    follow = Follower(unsure, SIZE, CropKeys({1: box.crop()}), display=lambda rgb: rgb, limits=limits, holds=None)
    found = []
    for frame in range(1, len(errors) + 1):
        found.append(follow.step(frame, plate(100, 90)).lost is not None)
        left.pop(0)
    return found


def test_a_shot_that_the_model_doubts_from_the_start_shows_no_face() -> None:
    assert doubted([0.06] * 12, 0.045) == [True] * 12
    assert doubted([0.06] * 12, float("inf")) == [False] * 12
    one_good = [0.06, 0.06, 0.01, *[0.06] * 9]
    assert doubted(one_good, 0.045) == [True] * 12


def test_a_face_is_not_doubted_any_more_after_a_few_exposures() -> None:
    assert doubted([0.01] * 8 + [0.06] * 12, 0.045) == [False] * 20
    assert doubted([0.01, 0.06, 0.01, 0.06, 0.01, 0.01, 0.06, 0.01], 0.045) == [False] * 8
