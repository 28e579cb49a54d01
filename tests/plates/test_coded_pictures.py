"""Pictures as bytes in memory: what comes back, and what is none."""

from __future__ import annotations

import io
import struct

import cv2
import numpy as np
import pytest

from rotopaint_ai.plates import coded_pictures

HEIGHT, WIDTH = 8, 12


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def drawn(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A grey ramp, which half-size colour planes do not blur."""
    return np.repeat((np.arange(height * width, dtype=np.uint8) + 40).reshape(height, width, 1), 3, 2)


def test_a_raw_picture_is_read_where_it_lies() -> None:
    data = npy(drawn())
    found = coded_pictures.decode(data)
    assert found is not None
    assert np.array_equal(found, drawn())
    assert not found.flags.writeable


def test_planes_are_the_brightness_and_both_differences_at_half_size() -> None:
    """BT.601: grey has colour differences of 128; black has luma 16, white 235."""
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture[:, 6:] = 255
    found = coded_pictures.planes(picture)
    assert found is not None
    assert found.shape == (12, 12)
    assert (found[:8, :6] == 16).all()
    assert (found[:8, 6:] == 235).all()
    assert (found[8:] == 128).all()
    assert coded_pictures.planes(picture[:7]) is None
    assert coded_pictures.planes(picture[:, :7]) is None


def test_planes_are_decoded_into_a_picture_of_their_size_alone() -> None:
    planes = coded_pictures.planes(drawn())
    assert planes is not None
    data, place = memoryview(npy(planes)), np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert coded_pictures.decode_into(data, place)
    assert np.abs(place.astype(int) - drawn()).max() <= 2
    assert np.array_equal(coded_pictures.decode(data), place)
    for height, width in ((HEIGHT - 2, WIDTH), (HEIGHT, WIDTH + 2), (HEIGHT + 2, WIDTH)):
        assert not coded_pictures.decode_into(data, np.zeros((height, width, 3), np.uint8))
    assert not coded_pictures.decode_into(memoryview(npy(drawn())), place)  # no planes
    assert not coded_pictures.decode_into(data[:-1], place)


def test_a_raw_picture_whose_head_or_body_is_cut_is_none() -> None:
    data = npy(drawn())
    assert coded_pictures.decode(data[:-1]) is None
    assert coded_pictures.decode(data[:40]) is None
    assert coded_pictures.decode(data[:8] + bytes([data[8] + 1]) + data[9:]) is None
    assert coded_pictures.decode(npy(drawn().astype(np.uint16))) is None


@pytest.mark.parametrize("kind", [".png", ".jpg"])
def test_coded_pictures_come_back_as_red_green_blue(kind: str) -> None:
    picture = np.full((16, 24, 3), (200, 100, 30), np.uint8)
    data = cv2.imencode(kind, picture[..., ::-1])[1].tobytes()
    found = coded_pictures.decode(data)
    assert found is not None
    assert np.abs(found.astype(int) - picture).max() <= (0 if kind == ".png" else 3)
    if kind == ".jpg":
        place = np.zeros_like(picture)
        assert coded_pictures.decode_into(memoryview(data), place)
        assert np.array_equal(place, found)
        assert not coded_pictures.decode_into(memoryview(data), np.zeros((24, 16, 3), np.uint8))


def test_a_picture_of_more_pixels_than_memory_is_asked_for_is_none() -> None:
    """The header is enough: 8193 x 8192 pixels are a row more than 64 Mi, 8192 x 8192 are not."""

    def head(width: int, height: int) -> bytes:
        return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)

    assert coded_pictures._promised_pixels(head(8192, 8192)) == 64 << 20
    assert coded_pictures._promised_pixels(head(8192, 8192)[:-1]) == 0
    assert coded_pictures.decode(head(8193, 8192)) is None
    assert coded_pictures.decode(b"GIF89a" + bytes(40)) is None


def test_a_clip_grows_pictures_at_the_right_and_below_to_an_even_size() -> None:
    pictures = [np.full((15, 20, 3), 60, np.uint8), np.full((10, 21, 3), 180, np.uint8)]
    data = coded_pictures.encode_clip(pictures)
    last, first = coded_pictures.decode_clip(data, [1, 0])
    assert first.shape == last.shape == (16, 22, 3)
    assert np.abs(first.astype(int) - 60).max() <= 4
    assert np.abs(last.astype(int) - 180).max() <= 4
    for numbers in ([2], [coded_pictures.CLIP_LENGTH]):
        with pytest.raises(ValueError, match="cannot be read as a clip"):
            coded_pictures.decode_clip(data, numbers)
