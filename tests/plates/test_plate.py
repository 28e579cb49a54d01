"""Plates as a whole: frames by number, refusals, threads, and what a frame hands out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError, UsageError
from rotopaint_ai.plates import open_plate, write_clean

from .writers import picture, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Frames 1001-1006 without 1004; 1003 is truncated, 1005 has another size, 1006 is empty."""
    for number in (1001, 1002, 1003):
        save(tmp_path / f"sh.{number}.exr", picture(20, 10, seed=number).astype(np.float16))
    save(tmp_path / "sh.1005.exr", picture(10, 20).astype(np.float16))
    cut = tmp_path / "sh.1003.exr"
    cut.write_bytes(cut.read_bytes()[:-50])
    (tmp_path / "sh.1006.exr").touch()
    return tmp_path


def test_each_bad_frame_is_named_and_the_others_are_read(folder: Path) -> None:
    with open_plate(folder / "sh.####.exr") as plate:
        assert (plate.name, plate.suffix, plate.padding, plate.fps) == ("sh", ".exr", 4, 24.0)
        assert plate.frames == (1001, 1002, 1003, 1005, 1006)
        assert plate.missing == (1004,)
        assert plate.read(1002).number == 1002
        with pytest.raises(DamagedFrameError, match=r"sh\.1003\.exr"):
            plate.read(1003)
        with pytest.raises(MissingFrameError, match=r"sh\.1004\.exr"):
            plate.read(1004)
        with pytest.raises(PlateError, match=r"sh\.1005\.exr: 10 x 20 pixels where the plate is 20 x 10"):
            plate.read(1005)
        with pytest.raises(DamagedFrameError, match=r"sh\.1006\.exr.*empty"):
            plate.read(1006)


def test_a_file_that_vanishes_after_listing(folder: Path) -> None:
    with open_plate(folder / "sh.1001.exr") as plate:
        (folder / "sh.1002.exr").unlink()
        with pytest.raises(MissingFrameError, match=r"sh\.1002\.exr"):
            plate.read(1002)


def test_broken_first_frames_do_not_hide_the_plate(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"p.{number:04d}.exr").write_bytes(b"\x76\x2f\x31\x01 nothing")
    save(tmp_path / "p.0003.exr", picture(20, 10).astype(np.float16))
    with open_plate(tmp_path) as plate:
        assert (plate.width, plate.height) == (20, 10)


def test_reading_from_threads_gives_the_same(folder: Path) -> None:
    with open_plate(folder / "sh.####.exr") as plate, ThreadPoolExecutor(4) as pool:
        one = {number: plate.read(number).codes.tobytes() for number in (1001, 1002)}
        many = pool.map(lambda number: (number, plate.read(number).codes.tobytes()), [1001, 1002] * 10)
        assert all(one[number] == codes for number, codes in many)


def test_fingerprints_follow_the_content(folder: Path) -> None:
    with open_plate(folder / "sh.####.exr") as plate:
        first = plate.read(1001).fingerprint
        assert first == plate.read(1001).fingerprint != plate.read(1002).fingerprint
        (folder / "sh.1001.exr").write_bytes((folder / "sh.1002.exr").read_bytes())
        assert plate.read(1001).fingerprint == plate.read(1002).fingerprint


def test_without_native_there_is_no_writing_back(folder: Path) -> None:
    with open_plate(folder / "sh.1001.exr") as plate:
        frame = plate.read(1001, keep_native=False)
    assert frame.native is None
    with pytest.raises(UsageError, match="keep_native"):
        write_clean(folder / "c.exr", frame, frame.rgb, np.zeros((10, 20), bool))


def test_shapes_and_types_are_checked(folder: Path) -> None:
    with open_plate(folder / "sh.1001.exr") as plate:
        frame = plate.read(1001)
    for rgb, changed in (
        (frame.rgb[..., :2], np.zeros((10, 20), bool)),
        (frame.rgb, np.zeros((10, 20), np.uint8)),
        (frame.rgb[:5], np.zeros((5, 20), bool)),
    ):
        with pytest.raises(UsageError, match="frame 1001"):
            write_clean(folder / "c.exr", frame, rgb, changed)
    assert not (folder / "c.exr").exists()


def test_the_file_s_own_numbers_cannot_be_changed_by_mistake(folder: Path) -> None:
    with open_plate(folder / "sh.1001.exr") as plate, pytest.raises(ValueError, match="read-only"):
        plate.read(1001).codes[0, 0] = 0


@pytest.mark.shared
def test_a_single_channel_sequence_from_100(shared: Path) -> None:
    with open_plate(shared / "data/sequences/noface_grey_from100") as plate:
        assert (plate.frames[0], plate.frames[-1], plate.missing) == (100, 250, ())
        frame = plate.read(100)
    assert frame.codes.shape == (240, 320, 1)
    assert frame.rgb.shape == (240, 320, 3)
    assert 0 <= frame.rgb.min() < frame.rgb.max() <= 1


@pytest.mark.shared
def test_a_moving_data_window(shared: Path) -> None:
    with open_plate(shared / "data/formats/exr/Beachball/singlepart.0001.exr") as plate:
        assert plate.frames == (1, 2, 8)
        assert (plate.width, plate.height) == (2048, 1556)
        assert [plate.read(number).origin for number in plate.frames] == [(654, 245), (759, 367), (1384, 328)]
