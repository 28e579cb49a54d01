"""Held frames: grain and flicker are not motion; motion and a blink are not grain."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.crops import Crop, crop_around
from rotopaint_ai.landmarks import holds
from rotopaint_ai.landmarks.holds import HoldFinder, PictureChange, _shifts, compare

Grey = npt.NDArray[np.float32]


def scene(shift: float = 0.0, *, blink: bool = False) -> Grey:
    """Soft blobs and edges, 200 pixels square, drawn at a sub-pixel shift."""
    rows, columns = (np.mgrid[:200, :200] + 0.5).astype(np.float32)
    columns = columns - shift
    picture = 90 + 40 * np.sin(columns / 9) * np.cos(rows / 13) + 30 * np.tanh((columns - rows) / 4)
    if blink:
        picture += 60 * np.exp(-((columns - 60) ** 2 + (rows - 90) ** 2) / (2 * 5.0**2))
    return picture.astype(np.float32)


def grain(seed: int, sigma: float, blur: float = 0.0) -> Grey:
    noise = np.random.default_rng(seed).normal(0, 1, (200, 200)).astype(np.float32)
    if blur:
        noise = np.asarray(cv2.GaussianBlur(noise, (0, 0), blur), dtype=np.float32)
    return np.asarray(noise * (sigma / noise.std()), dtype=np.float32)


@pytest.mark.parametrize(("sigma", "blur"), [(0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (4.0, 1.0), (8.0, 1.5)])
@pytest.mark.parametrize("seed", range(5))
def test_new_grain_on_the_same_exposure_is_a_hold(sigma: float, blur: float, seed: int) -> None:
    a, b = (scene() + grain(10 * seed + index, sigma, blur) if sigma else scene() for index in range(2))
    assert compare(a, b).is_held


def test_flicker_is_a_hold() -> None:
    assert compare(scene() + grain(1, 1.0), scene() * 1.04 - 3 + grain(2, 1.0)).is_held


def test_frames_that_differ_by_compression_are_one_hold() -> None:
    def jpeg(picture: Grey) -> Grey:
        codes = cv2.imencode(".jpg", np.clip(picture, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
        return np.asarray(cv2.imdecode(codes, cv2.IMREAD_GRAYSCALE), dtype=np.float32)

    assert compare(jpeg(scene() + grain(1, 1.5)), jpeg(scene() + grain(2, 1.5))).is_held


@pytest.mark.parametrize(("shift", "sigma"), [(0.06, 0.5), (0.2, 2.0), (0.4, 4.0), (1.0, 8.0), (5.0, 2.0), (60.0, 2.0)])
def test_motion_is_not_a_hold(shift: float, sigma: float) -> None:
    assert not compare(scene() + grain(1, sigma), scene(shift) + grain(2, sigma)).is_held


def test_a_blink_in_a_still_face_is_not_a_hold() -> None:
    evidence = compare(scene() + grain(1, 2.0), scene(blink=True) + grain(2, 2.0))
    assert not evidence.is_held
    assert evidence.changed > 0.45


def test_a_face_that_disappears_is_not_a_hold() -> None:
    assert not compare(scene() + grain(1, 2.0), np.zeros((200, 200), np.float32)).is_held
    assert not compare(scene() + grain(1, 2.0), 90 + grain(2, 2.0)).is_held


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("blur", [1.0, 2.0, 4.0])
def test_a_picture_that_comes_out_of_a_blank_frame_is_not_a_hold(seed: int, blur: float) -> None:
    """A blank frame and one of pure grain are no hold; otherwise a face lost in one would not be searched in the
    other."""
    blank = np.full((200, 200), 90, np.float32)
    assert not compare(blank, 90 + grain(seed, 30.0, blur)).is_held
    assert not compare(90 + grain(seed, 30.0, blur), blank).is_held


@pytest.mark.parametrize("sigma", [0.0, 3.0])
@pytest.mark.parametrize("share", [0.3, 0.4, 0.6])
def test_a_dissolve_in_which_every_block_changes_is_not_a_hold(share: float, sigma: float) -> None:
    before, after = 90 + grain(1, 40.0, 3.0), 90 + grain(2, 40.0, 3.0)
    dissolved = before * (1 - share) + after * share
    assert not compare(before + grain(3, sigma), dissolved + grain(4, sigma)).is_held


def test_blank_frames_repeat_each_other() -> None:
    assert compare(np.full((200, 200), 20, np.float32), np.full((200, 200), 20.05, np.float32)).is_held


def test_pictures_too_small_to_judge_are_not_holds() -> None:
    assert not compare(scene()[:10, :10], scene()[:10, :10]).is_held


def test_a_slow_move_cannot_creep_through_a_hold() -> None:
    finder, held = HoldFinder(), []
    crop = Crop(100, 100, 180)
    for step in range(12):
        rgb = (((scene(0.02 * step) + grain(step, 2.0)) / 255) ** 2)[:, :, None].repeat(3, axis=2)
        held.append(finder.is_repeat(rgb, (0, 0)))
        if not held[-1]:
            finder.start(rgb, (0, 0), crop)
    assert held[0] is False
    assert held.count(False) >= 2  # 0.02 px per frame passes, 0.2 px over the whole hold does not


def test_a_window_outside_the_plate_is_no_evidence() -> None:
    finder = HoldFinder()
    rgb = np.ones((50, 50, 3), np.float32)
    finder.start(rgb, (0, 0), Crop(500, 500, 60))
    assert not finder.is_repeat(rgb, (0, 0))


@pytest.mark.shared
def test_repeats_of_the_rendered_puppets(shared: Path) -> None:
    """Every repeated exposure of the test shots, and nothing else: held faces under a moving camera are not repeats."""
    wrong, n_repeats = [], 0
    for truth in sorted(shared.glob("data/puppets/*/test*/truth.json")):
        finder = HoldFinder()
        for item in json.loads(truth.read_text(encoding="utf-8"))["frames"]:
            path = truth.parent / f"plate.{item['frame']}.jpg"
            code = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB).astype(np.float32) / 255
            rgb = code**2.2
            is_repeat = finder.is_repeat(rgb, (0, 0))
            n_repeats += is_repeat
            if is_repeat != bool(item.get("repeats")):
                wrong.append(f"{truth.parent.name} {item['frame']}")
            if not is_repeat:
                finder.start(rgb, (0, 0), crop_around(np.array([at[:2] for at in item["landmarks"].values()])))
    assert n_repeats > 0
    assert wrong == []


@pytest.mark.parametrize("shift", [-0.6, 0.3, 0.6])
def test_the_shift_is_measured_in_pixels_either_way(shift: float) -> None:
    """One Lucas-Kanade step finds a small shift of a smooth picture to a fifth, along rows as along columns."""
    for a, b in ((scene(), scene(shift)), (scene().T.copy(), scene(shift).T.copy())):
        found = compare(a + grain(1, 0.5), b + grain(2, 0.5))
        assert found.shift_px == pytest.approx(abs(shift), rel=0.35)
        assert found.moved > 9.0


def test_the_window_is_fixed_in_plate_space_for_any_data_window() -> None:
    """The same face in a data window that begins elsewhere; only what lies outside the crop has changed."""
    rgb = np.repeat((scene() / 255)[..., None], 3, axis=2).astype(np.float32)
    face = Crop(60, 60, 100)
    finder = HoldFinder()
    finder.start(rgb, (0, 0), face)
    elsewhere = rgb.copy()
    elsewhere[130:], elsewhere[:, 130:] = 1.0, 1.0
    assert finder.is_repeat(elsewhere, (0, 0))
    padded = np.pad(rgb, ((30, 0), (20, 0), (0, 0)), constant_values=0.5)
    assert finder.is_repeat(padded, (-20, -30))
    assert not finder.is_repeat(padded, (-30, -20))
    assert not finder.is_repeat(rgb, (0, 12))
    assert not finder.is_repeat(rgb, (12, 0))


def test_a_difference_along_gradients_gives_its_shift() -> None:
    """d = 0.3 dx - 0.4 dy + c on one-sided slopes: least squares finds the shift (0.3, -0.4), of length 0.5."""
    rng = np.random.default_rng(4)
    dx, dy = (rng.normal(mean, 1.0, (96, 96)).astype(np.float32) for mean in (1.5, 1.0))
    _, shift, _ = _shifts(0.3 * dx - 0.4 * dy + np.float32(0.2), dx, dy, 8)
    assert shift.shape == (3, 3)
    np.testing.assert_allclose(shift, 0.5, rtol=0.001)


def test_single_blocks_are_rated_by_their_f_values() -> None:
    """Expected: the F value of a plane fitted to 64 pixels (2 and 61 degrees of freedom)."""
    dx, dy, difference = np.random.default_rng(7).normal(0, 5, (3, 96, 96)).astype(np.float32)
    difference = difference + dx
    found = []
    for y, x in np.ndindex(12, 12):
        block = np.s_[8 * y : 8 * y + 8, 8 * x : 8 * x + 8]
        d = difference[block].ravel().astype(np.float64)
        slopes = np.stack([dx[block].ravel(), dy[block].ravel(), np.ones(64)], axis=1)
        left = float(np.linalg.lstsq(slopes, d, rcond=None)[1][0])
        found.append((((d - d.mean()) ** 2).sum() - left) / 2 / (left / 61))
    assert _shifts(difference, dx, dy, 8)[2] == pytest.approx(np.median(found), rel=0.01)


@pytest.mark.parametrize(
    ("moved", "drifted", "shift_px", "is_held"),
    [(2.0, 0.5, 2.0, False), (0.5, 2.0, 2.0, False), (2.0, 2.0, 0.5, True), (0.5, 0.5, 2.0, True)],
)
def test_one_region_that_moves_or_all_that_drift_is_motion(
    moved: float, drifted: float, shift_px: float, is_held: bool
) -> None:
    """The numbers are shares of the limits."""
    change = PictureChange(moved * holds.MOVED, drifted * holds.DRIFTED, shift_px * holds.LEAST_SHIFT_PX, 0.0)
    assert change.is_held is is_held


def test_motion_counts_over_what_shifted_gradients_explain_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of another position explain four times as much as of white noise; so the noise explains that of the
    motion."""
    reported = iter([(np.full((2, 2), 12.0), np.full((2, 2), 3.0), 1.0), (None, None, 4 * holds._F_MEDIAN)])
    monkeypatch.setattr(holds, "_shifts", lambda *given: next(reported))
    assert holds._shift_statistic(scene(), scene(), 8) == (3.0, 3.0, 3.0)
