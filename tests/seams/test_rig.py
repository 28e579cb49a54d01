"""Rig removal from pictures whose background is known."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from rotopaint_ai.seams import rig
from rotopaint_ai.seams.rig import Loan

SIZE = (160, 240)


def wall(*, seed: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A wall with texture at several sizes, about 0.3."""
    rng = np.random.default_rng(seed)
    tone = sum(
        k * cv2.GaussianBlur(rng.standard_normal(size).astype(np.float32), (0, 0), s) for k, s in ((0.9, 2), (2.0, 6))
    )
    return (0.3 * np.exp(0.8 * tone)[..., None] * np.array([1.0, 0.8, 0.6])).astype(np.float32)


def grained(picture: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(picture.shape)
    return (picture * (1 + 0.02 * noise)).astype(np.float32)


def arm(x: int = 90, width: int = 60) -> np.ndarray:
    matte = np.zeros(SIZE, np.float32)
    matte[40:, x : x + width] = 1.0
    return matte


def psnr(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((np.clip(a, 0, 1)[where] ** 0.45 - np.clip(b, 0, 1)[where] ** 0.45) ** 2)))


def test_a_clean_plate_in_other_light_fills_a_wide_matte_and_nothing_else_changes() -> None:
    clean, matte = wall(), arm()
    plate = grained(clean, 1)
    plate[matte > 0] = 0.02
    slope = np.linspace(0.6, 0.8, SIZE[1], dtype=np.float32)[None, :, None]
    filled = rig.fill(plate, matte, [Loan(grained(clean * slope, 2), np.ones(SIZE, bool), is_plate=True)])
    assert np.array_equal(filled.rgb[matte == 0], plate[matte == 0])
    assert psnr(filled.rgb, clean, matte > 0) > 33
    assert filled.shares == {"plate": 1.0}


def test_other_frames_fill_the_hole_only_where_nothing_covers_it() -> None:
    clean, matte = wall(), arm()
    plate = grained(clean, 1)
    plate[matte > 0] = 0.02
    loans = [Loan(grained(clean, 10 + k), arm(x) == 0) for k, x in enumerate((20, 40, 160))]
    loans += [Loan(wall(seed=7), np.ones(SIZE, bool))] * 3  # a puppet stands there
    filled = rig.fill(plate, matte, loans)
    assert psnr(filled.rgb, clean, matte > 0) > 40
    assert filled.shares == {"frames": 1.0}


def test_a_still_clean_plate_without_grain_gets_that_of_the_frame() -> None:
    clean, matte = np.full((*SIZE, 3), 0.3, np.float32), arm()
    plate = grained(clean, 1)
    filled = rig.fill(plate, matte, [Loan(clean, np.ones(SIZE, bool), is_plate=True)])
    inside = cv2.erode(matte, np.ones((21, 21), np.uint8)) > 0
    assert filled.rgb[inside].std() == pytest.approx(plate[inside].std(), rel=0.35)


def test_without_sources_a_textured_hole_is_filled_with_texture() -> None:
    clean, matte = wall(seed=3), arm()
    plate = clean.copy()
    plate[matte > 0] = 0.02
    filled = rig.fill(plate, matte, [])
    inside, outside = matte > 0, matte == 0
    fine = [cv2.Laplacian(np.log(v.mean(2)), cv2.CV_32F) for v in (filled.rgb, clean)]
    assert fine[0][inside].std() > 0.5 * fine[1][outside].std()
    assert np.median(filled.rgb[inside]) == pytest.approx(np.median(clean[inside]), rel=0.3)
    assert filled.shares == {"texture": 1.0}


def test_without_sources_a_hole_between_two_objects_is_filled_smoothly() -> None:
    """Patches of the picture were up to 8 dB further from the truth than plain inpainting."""
    clean, matte = np.full((*SIZE, 3), (0.1, 0.3, 0.2), np.float32), np.zeros(SIZE, np.float32)
    clean[80:] = (0.12, 0.01, 0.05)
    clean = np.asarray(cv2.GaussianBlur(clean, (0, 0), 1.0))
    matte[:, 110:120] = 1.0
    plate = np.where(matte[..., None] > 0, np.float32(0.6), grained(clean, 1))
    filled = rig.fill(plate, matte, [])
    away = np.ones(SIZE, bool)
    away[70:90] = False
    assert filled.shares == {"smooth": 1.0}
    assert psnr(filled.rgb, clean, (matte > 0) & away) > 40


def test_a_frame_fills_only_where_its_surroundings_agree() -> None:
    """An object that moved at one end of a hole must not decide over the whole frame."""
    clean, matte = wall(), arm(90, 12)
    plate = grained(clean, 1)
    plate[matte > 0] = 0.02
    other = grained(clean, 2)
    other[110:] = 0.2 * wall(seed=7)[110:]  # a dark puppet has moved there
    filled = rig.fill(plate, matte, [Loan(other, np.ones(SIZE, bool))])
    upper, lower = matte > 0, matte > 0
    upper[100:], lower[:125] = False, False
    assert psnr(filled.rgb, clean, upper) > 36
    assert psnr(filled.rgb, other, lower) < 25
    assert 0.4 < filled.shares["frames"] < 0.7


@pytest.mark.parametrize("seed", [0, 18, 39])
def test_texture_at_a_head_s_edge_is_no_brighter_than_anything_around(seed: int) -> None:
    """A patch with an edge in another place made a glowing spot beside the head, up to nine times the brightest
    light."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:120, :200].astype(np.float32)
    squash, radius = rng.uniform(0.2, 1.2), rng.uniform(20, 50)
    cx, cy = rng.uniform(120, 170), rng.uniform(40, 80)
    picture = np.full((120, 200, 3), (0.25, 0.3, 0.28), np.float32)
    picture[np.hypot(x - cx, (y - cy) * squash) < radius] = (0.2, 0.01, 0.1)
    picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), 0.7))
    beside = np.abs(y - 60 - 0.15 * (x - 100)) < rng.uniform(8, 14)
    matte = (beside & (x < cx - rng.uniform(0, radius))).astype(np.float32)
    made = rig.fill(picture, matte, ()).rgb
    assert (made[matte > 0].max(0) <= 1.01 * picture[matte == 0].max(0)).all()
    assert (made[matte > 0].min(0) >= 0.99 * picture[matte == 0].min(0)).all()


def shifted(picture: np.ndarray, shift: tuple[int, int]) -> np.ndarray:
    """A part of a larger picture that has moved by (x, y)."""
    return picture[40 - shift[1] : 200 - shift[1], 40 - shift[0] : 280 - shift[0]]


@pytest.mark.parametrize("shift", [(0, 0), (7, -4)])
def test_motion_is_that_of_the_background(shift: tuple[int, int]) -> None:
    big = wall(seed=4, size=(240, 320))
    now, other = shifted(big, (0, 0)), shifted(big, shift)
    found = rig.FreePoints(grained(now, 1), np.ones(SIZE, bool)).motions_to(grained(other, 2))[0]
    assert found[:, :2] == pytest.approx(np.eye(2), abs=0.005)
    assert found @ (120, 80, 1) - (120, 80) == pytest.approx(shift, abs=0.15)


def test_a_head_s_motion_does_not_hide_that_of_the_set_behind_it() -> None:
    """The head has more points, and still the set's motion must be found."""
    behind, head = wall(seed=4, size=(240, 320)), wall(seed=5, size=(240, 320))
    front = np.zeros(SIZE, bool)
    front[:, 80:] = True
    ways = ((7, -4), (-9, 3))
    now = np.where(front[..., None], shifted(head, (0, 0)), shifted(behind, (0, 0)))
    other = np.where(front[..., None], shifted(head, ways[0]), shifted(behind, ways[1]))
    found = rig.FreePoints(grained(now, 1), np.ones(SIZE, bool)).motions_to(grained(other, 2))
    moved = [each @ (120, 80, 1) - (120, 80) for each in found]
    for way in (*ways, (0, 0)):
        assert min(float(np.abs(each - way).max()) for each in moved) < 0.3


def test_of_several_alignments_of_a_clean_plate_the_best_around_the_hole_is_used() -> None:
    clean, matte = wall(), arm()
    plate = grained(clean, 1)
    plate[matte > 0] = 0.02
    everywhere = np.ones(SIZE, bool)
    wrong = Loan(np.roll(clean, 9, axis=1), everywhere, is_plate=True)
    filled = rig.fill(plate, matte, [wrong, Loan(clean, everywhere, is_plate=True)])
    assert psnr(filled.rgb, clean, matte > 0) > 33


def test_without_anything_to_track_nothing_moves() -> None:
    flat = np.full((*SIZE, 3), 0.2, np.float32)
    assert np.array_equal(rig.FreePoints(flat, np.ones(SIZE, bool)).motions_to(flat), [np.eye(2, 3)])


def test_a_march_restores_what_lies_between_its_8_bit_steps() -> None:
    ramp = np.linspace(0.5, 0.502, 240, dtype=np.float32)[None, :, None].repeat(160, 0).repeat(3, 2)
    ramp[0, 0], ramp[0, 1] = 0.0, 1.0
    hole = arm(width=10) > 0
    assert np.abs(rig.inpaint_hole(ramp, hole, 3.0, cv2.INPAINT_TELEA) - ramp[hole]).max() < 5e-4


def test_a_motion_of_reduced_pictures_is_that_of_the_same_places_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pixel's centre p lies at (p + 0.5) * shrink - 0.5 in the reduced picture, which shrinks by 1/4 and 10/37."""
    monkeypatch.setattr(rig, "SEARCH_PX", 30.0)
    points = rig.FreePoints(wall(size=(37, 120)), np.ones((37, 120), bool))
    assert points._size == (30, 9)
    shrink, small = np.array([30 / 120, 9 / 37]), np.array([[0.9, -0.2, 3.0], [0.3, 1.1, -2.0]])
    full = points._of_full_size(small)
    for place in np.array([(0.0, 0.0), (119.0, 5.0), (40.0, 36.0)]):
        there = small @ (*((place + 0.5) * shrink - 0.5), 1.0)
        assert full @ (*place, 1.0) == pytest.approx((there + 0.5) / shrink - 0.5)
