"""What stands in front of a face: masks without specks, in their place on the plate, with the plate's own edges."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.seams.front import (
    DOUBT,
    FAINT,
    LEAST_SHARE,
    NEAR_PX,
    SURE,
    Window,
    crop_on_plate,
    edge_slopes,
    find_front,
    without_specks,
)
from rotopaint_ai.shapes.rasterise import Region

Array = Any
SIZE = 96


class _Given:
    """A network whose answer means a given coverage."""

    size = SIZE

    def __init__(self, mask: Array) -> None:
        self.mask = mask

    def __call__(self, crops: Array, /) -> Array:
        assert crops.shape == (1, SIZE, SIZE, 3)
        return DOUBT + (SURE - DOUBT) * self.mask[None]


def _as_it_is(rgb: Array) -> Array:
    return np.asarray(rgb, np.float32)


def _front(rgb: Array, origin: tuple[int, int], crop: Crop, network: _Given) -> Region:
    """What stands in front of a seam as wide as the crop."""
    seam = np.array([[crop.x - crop.side, crop.y], [crop.x + crop.side, crop.y]])
    return find_front(rgb, origin, crop, [(seam, crop.side)], network, _as_it_is)


def _window(crop: Crop) -> Window:
    x, y = floor(crop.x - crop.side / 2), floor(crop.y - crop.side / 2)
    return x, y, x + ceil(crop.side) + 1, y + ceil(crop.side) + 1


def test_small_areas_are_false_alarms_and_thin_long_ones_are_not() -> None:
    mask = np.zeros((100, 100), np.float32)
    mask[10:13, 10:13] = 1.0  # 9 of 10,000 pixels
    mask[50, 20:60] = 0.5  # a twig: 20 pixels' worth
    mask[80:84, 80:84] = 0.5  # 8 pixels' worth
    assert LEAST_SHARE == 0.001
    kept = without_specks(mask)
    assert np.array_equal(kept[50], mask[50])
    assert kept.sum() == mask[50].sum()


def test_a_mask_lands_on_the_pixels_that_it_covers_in_its_crop() -> None:
    """A half-plane right of and below a corner: coverage by the area in plate pixels."""
    crop = Crop(150.0, 90.0, 2.0 * SIZE)  # two plate pixels for each of the mask's, from (54, -6)
    mask = np.zeros((SIZE, SIZE), np.float32)
    mask[30:, 20:] = 1.0
    front = crop_on_plate(mask, crop, _window(crop))
    whole = front.paste(400, 300)
    assert (front.x, front.y) == (54, -6)
    assert (whole[56:184, 96:244] == 1).all()  # 54 + 2 * 20 and -6 + 2 * 30, and the ramp of bilinear sampling
    assert not whole[:52].any()
    assert not whole[:, :92].any()
    assert whole[100, 93:95].tolist() == pytest.approx([0.25, 0.75])


def test_a_mask_of_a_small_crop_is_averaged() -> None:
    mask = np.zeros((SIZE, SIZE), np.float32)
    mask[::4] = 1.0
    crop = Crop(50.0, 50.0, SIZE / 4)
    front = crop_on_plate(mask, crop, _window(crop))
    assert front.coverage[2:-2, 2:-2] == pytest.approx(0.25)


def test_faint_coverage_is_none_and_nearly_full_is_full() -> None:
    mask = np.full((SIZE, SIZE), FAINT / 2, np.float32)
    rgb = np.full((SIZE, SIZE, 3), 0.5, np.float32)
    crop = Crop(SIZE / 2, SIZE / 2, SIZE)
    assert _front(rgb, (0, 0), crop, _Given(mask)).is_empty
    mask[20:60, 30:70] = 1 - FAINT / 2
    mask[20:60, 70:75] = 0.5
    front = _front(rgb, (0, 0), crop, _Given(mask))
    assert (front.x, front.y, front.coverage.shape) == (30, 20, (40, 45))
    assert (front.coverage[:, :40] == 1).all()
    assert front.coverage[:, 40:] == pytest.approx(0.5)
    mask[:] = np.nan
    assert _front(rgb, (0, 0), crop, _Given(mask)).is_empty


def test_only_what_covers_a_seam_comes_to_the_plate() -> None:
    """A hand to the left of a seam, and one across it: the second, and the plate pixels around it."""
    rgb, mask = np.full((2 * SIZE, 2 * SIZE, 3), 0.5, np.float32), np.zeros((SIZE, SIZE), np.float32)
    crop = Crop(float(SIZE), float(SIZE), 2.0 * SIZE)
    seam = [(np.array([[140.0, 10.0], [140.0, 180.0]]), 3.0)]
    mask[20:40, 10:40] = 1  # until x = 80 on the plate
    assert find_front(rgb, (0, 0), crop, seam, _Given(mask), _as_it_is).is_empty
    mask[50:60, 60:80] = 1  # plate x 120 to 160, y 100 to 120
    front = find_front(rgb, (0, 0), crop, seam, _Given(mask), _as_it_is)
    whole = front.paste(2 * SIZE, 2 * SIZE)
    assert (whole[102:118, 140 - NEAR_PX : 140 + NEAR_PX] == 1).all()
    assert not whole[:96].any()
    assert not whole[:, :100].any()


def test_what_the_network_doubts_is_not_in_front() -> None:
    rgb = np.full((SIZE, SIZE, 3), 0.5, np.float32)
    doubted = _Given(np.full((SIZE, SIZE), -DOUBT, np.float32))  # an answer of 0.275
    assert doubted(rgb[None]).max() > 0.25
    assert _front(rgb, (0, 0), Crop(SIZE / 2, SIZE / 2, SIZE), doubted).is_empty


def test_a_front_ends_where_the_pixels_end() -> None:
    rgb = np.full((60, 50, 3), 0.5, np.float32)
    mask = np.ones((SIZE, SIZE), np.float32)
    for side in (SIZE, 2 * SIZE):  # without and with sharpening
        front = _front(rgb, (10, 20), Crop(40.0, 40.0, float(side)), _Given(mask))
        assert (front.x, front.y) == (10, 20)
        assert front.coverage.shape == (60, 50)
        assert (front.coverage == 1).all()


def _hand(side: int, contrast: float) -> tuple[Array, Array]:
    """The coverage of a round hand before shaded skin, and the plate, whose grain is 0.01."""
    rows, columns = np.mgrid[:side, :side] + 0.5
    cover = np.clip(0.3 * side + 0.5 - np.hypot(rows - 0.55 * side, columns - 0.45 * side), 0, 1)
    skin = 0.5 + 0.1 * np.sin(columns / 170) * np.cos(rows / 210)
    grey = skin + contrast * cover + 0.01 * np.random.default_rng(0).standard_normal((side, side))
    return cover.astype(np.float32), np.repeat(grey[..., None], 3, axis=2).astype(np.float32)


@pytest.mark.parametrize(("contrast", "gain"), [(0.25, 2.5), (-0.15, 1.6), (0.0, 0.97)])
def test_on_a_large_plate_edges_follow_the_plate_and_are_no_worse_where_it_shows_none(
    contrast: float, gain: float
) -> None:
    """Six plate pixels for each of the network's; its mask is the true coverage, averaged. The error is the area
    between found and true coverage."""
    side = 6 * SIZE
    cover, rgb = _hand(side, contrast)
    crop = Crop(side / 2, side / 2, float(side))
    mask = cut(cover, (0, 0), crop, SIZE)
    found = _front(rgb, (0, 0), crop, _Given(mask)).paste(side, side)
    bilinear = crop_on_plate(mask, crop, _window(crop)).paste(side, side)
    assert np.abs(bilinear - cover).sum() > gain * np.abs(found - cover).sum()


def test_the_slope_of_a_mask_that_is_linear_in_its_guide_is_that_slope() -> None:
    guide = np.random.default_rng(1).random((20, 20)).astype(np.float32)
    assert edge_slopes(np.float32(0.3) * guide + np.float32(0.2), guide)[5:-5, 5:-5] == pytest.approx(0.3, rel=0.15)
    assert not edge_slopes(np.ones((20, 20), np.float32), np.full((20, 20), np.float32(0.5))).any()
