"""Crops: geometry both ways, pictures with known centres, parsing, hand keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotopaint_ai.crops import AUTO, Box, Crop, CropKeys, crop_around, cut, follow, is_settled, parse_crop
from rotopaint_ai.errors import CropError

coordinate = st.floats(-5000, 5000)


@given(x=coordinate, y=coordinate, side=st.floats(4, 4000), u=coordinate, v=coordinate, size=st.integers(16, 512))
def test_plate_to_crop_and_back(x: float, y: float, side: float, u: float, v: float, size: int) -> None:
    crop = Crop(x, y, side)
    back = crop.to_plate(crop.to_crop([u, v], size), size)
    np.testing.assert_allclose(back, [u, v], atol=1e-6)


def test_corners_of_a_crop_are_corners_of_its_picture() -> None:
    crop = Crop(100.0, 50.0, 40.0)
    np.testing.assert_allclose(crop.to_crop([[80, 30], [120, 70], [100, 50]], 256), [[0, 0], [256, 256], [128, 128]])


def disc(width: int, height: int, x: float, y: float, radius: float) -> np.ndarray:
    """A soft disc whose centre of mass is (x, y) in corner-origin pixels."""
    rows, columns = np.mgrid[:height, :width] + 0.5
    value = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * radius**2))
    return np.repeat(value[:, :, None], 3, axis=2).astype(np.float32)


def centre_of_mass(picture: np.ndarray) -> tuple[float, float]:
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]] + 0.5
    weight = picture[:, :, 0].astype(np.float64)
    return float((columns * weight).sum() / weight.sum()), float((rows * weight).sum() / weight.sum())


@pytest.mark.parametrize("side", [40.0, 64.0, 100.0, 130.0, 190.0])
@pytest.mark.parametrize("origin", [(0, 0), (-7, 11)])
def test_a_disc_lands_where_the_geometry_says(side: float, origin: tuple[int, int]) -> None:
    plate = disc(240, 200, 120.3, 98.6, 4.0)
    crop = Crop(121.7 + origin[0], 97.2 + origin[1], side)
    picture = cut(plate, origin, crop, 64)
    wanted = crop.to_crop([120.3 + origin[0], 98.6 + origin[1]], 64)
    np.testing.assert_allclose(centre_of_mass(picture), wanted, atol=0.02)


@pytest.mark.parametrize("side", [64.0, 128.0, 200.0, 256.0])
def test_shrinking_does_not_alias(side: float) -> None:
    plate = np.indices((256, 256)).sum(axis=0)[:, :, None].repeat(3, axis=2).astype(np.float32) % 2
    picture = cut(plate, (0, 0), Crop(128.0, 128.0, side), 64)
    expected_spread = 0.5 if side == 64 else 0.0  # at full size the checker stays, shrunk by 2 or more it is grey
    assert picture.std() == pytest.approx(expected_spread, abs=0.06)
    assert picture.mean() == pytest.approx(0.5, abs=0.02)


def test_outside_the_plate_its_edge_goes_on() -> None:
    plate = np.zeros((40, 60, 3), np.float32)
    plate[:, -1] = 3.5
    np.testing.assert_allclose(cut(plate, (0, 0), Crop(90.0, 20.0, 20.0), 16), 3.5)
    np.testing.assert_allclose(cut(plate, (0, 0), Crop(-200.0, 900.0, 100.0), 16), 0.0)


@pytest.mark.parametrize("side", [20.0, 33.0, 46.0, 92.0, 131.0, 190.0])
@pytest.mark.parametrize("x", [200.0, 200.3, 201.0, 201.9, 203.4])
def test_a_ramp_is_read_exactly_to_the_rim_of_a_crop(side: float, x: float) -> None:
    """Block means and samples between pixels keep a linear picture, if pixels beyond the crop's edge are read."""
    rows, columns = np.mgrid[:400, :420] + 0.5
    plate = np.repeat((3.0 * columns - 2.0 * rows)[:, :, None], 3, axis=2).astype(np.float32)
    crop = Crop(x, 198.7, side)
    at = np.stack(np.meshgrid(np.arange(16) + 0.5, np.arange(16) + 0.5), axis=2)
    wanted = crop.to_plate(at, 16) @ (3.0, -2.0)
    np.testing.assert_allclose(cut(plate, (0, 0), crop, 16)[..., 1], wanted, atol=0.1)  # 1/32 pixel, as OpenCV has it


def test_values_outside_0_to_1_survive() -> None:
    plate = np.full((64, 64, 3), -2.5, np.float32)
    np.testing.assert_allclose(cut(plate, (0, 0), Crop(32, 32, 40), 32), -2.5)


def test_parsing() -> None:
    assert parse_crop("100,50,300,320") == (None, Box(100, 50, 300, 320))
    assert parse_crop("1007: 10.5,-5,30,32") == (1007, Box(10.5, -5, 30, 32))
    assert parse_crop("auto") == AUTO
    assert parse_crop("1001:5e-05,-1E1,3.2e+1,32") == (1001, Box(5e-05, -10, 32, 32))
    assert parse_crop(Crop(20.00001, 20, 40).word(1001)) == (1001, Box(20.00001 - 20, 0, 40, 40))
    assert Box(100, 50, 300, 320).crop() == Crop(250, 210, 320)
    assert parse_crop("1,2,2,2") == (None, Box(1, 2, 2, 2))


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "a,b,c,d", "1,2,3,0", "1,2,-5,9", "1001;1,2,3,4", "1,2,nan,4", "1e,2,30,40"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(CropError, match="wanted X,Y,W,H"):
        parse_crop(text)


def test_hand_keys() -> None:
    keys = CropKeys.parse(["0,0,100,100", "1011:200,100,400,300"], first_frame=1001)
    assert isinstance(keys, CropKeys)
    assert keys.at(1001) == keys.at(990) == Crop(50, 50, 100)
    assert keys.at(1011) == keys.at(2000) == Crop(400, 250, 400)
    middle = keys.at(1006)
    assert (middle.x, middle.y) == (225, 150)
    assert middle.side == pytest.approx(math.sqrt(100 * 400))
    assert keys.is_key(1011)
    assert not keys.is_key(1006)
    assert CropKeys.parse(["auto"], first_frame=1) == AUTO


def test_crops_are_parsed_from_every_form() -> None:
    keys = CropKeys.parse(["0,0,100,100", "~1011:200,100,400,300"], first_frame=1001)
    assert isinstance(keys, CropKeys)
    assert keys.hints == {1011}
    assert [keys.is_key(frame) for frame in (1001, 1011)] == [True, False]
    assert keys.words() == ("1001:0.0,0.0,100.0,100.0", "~1011:200.0,50.0,400.0,400.0")
    assert CropKeys.parse(keys.words(), first_frame=1) == keys
    with pytest.raises(CropError, match="no crop is keyed"):
        CropKeys().at(1001)


@pytest.mark.parametrize("texts", [[], ["auto", "1,2,3,4"], ["1,2,3,4", "1001:1,2,3,4"]])
def test_crops_that_contradict_each_other_are_refused(texts: list[str]) -> None:
    with pytest.raises(CropError):
        CropKeys.parse(texts, first_frame=1001)


def test_the_crop_of_a_face_and_its_easing() -> None:
    face = np.array([[100.0, 100.0], [200.0, 150.0]])
    crop = crop_around(face)
    assert crop == Crop(150, 125, 130)
    assert follow(crop, face) == crop
    grown = follow(crop, np.array([[98.0, 100.0], [202.0, 150.0]]))
    assert grown.side == pytest.approx(130 * math.sqrt(1.04))  # half of the change, on a logarithmic scale
    assert follow(crop, face * 2).side == 260
    assert is_settled(crop, grown)
    assert is_settled(crop, Crop(152.5, 122.5, 130))  # 1.9 % of the side
    assert not is_settled(crop, Crop(150, 127.7, 130))  # 2.1 %
