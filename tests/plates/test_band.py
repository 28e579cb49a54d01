"""A frame of which only some rows are in memory is the frame: its pixels, and what is written of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.errors import PlateError
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.band import Band
from rotopaint_ai.plates.clean import write_clean
from rotopaint_ai.plates.plate import Frame, open_plate

HEIGHT, WIDTH = 200, 48


def _plate(folder: Path, compression: str = "zip", suffix: str = "exr", *, at: int = 0) -> Frame:
    """A frame of noise, its data window `at` rows below the top of the plate."""
    rows = np.random.default_rng(1).random((HEIGHT, WIDTH, 3)).astype(np.float16)
    kind = OpenImageIO.HALF if suffix == "exr" else OpenImageIO.UINT8
    spec = OpenImageIO.ImageSpec(WIDTH, HEIGHT, 3, kind)
    spec.attribute("compression", compression)
    spec.y, spec.full_y, spec.full_height, spec.full_width = at, 0, HEIGHT + at, WIDTH
    oiio.save(folder / f"plate.1001.{suffix}", spec, rows if suffix == "exr" else np.rint(rows * 255).astype(np.uint8))
    with open_plate(str(folder / f"plate.####.{suffix}")) as plate:
        return plate.read(1001)


def _n_kept(frame: Frame) -> int:
    return frame.codes.nbytes // (WIDTH * 3 * frame.codes.dtype.itemsize)


@pytest.mark.parametrize(
    ("compression", "at", "kept"), [("zip", 0, 48), ("zips", 0, 32), ("none", 7, 32), ("zip", 7, 32)]
)
def test_rows_inside_and_outside_are_the_same(tmp_path: Path, compression: str, at: int, kept: int) -> None:
    frame = _plate(tmp_path, compression, at=at)
    narrow = frame.narrowed(55.0, 87.0)  # zip packs 16 rows together: 48 to 96, seven rows below 48 to 80
    assert _n_kept(narrow) == kept
    assert narrow.codes.shape == frame.codes.shape
    for y, height in ((60, 20), (0, 200), (40, 30), (80, 100), (500, 3), (60, 0)):
        meant, origin = frame.region(3, y, 20, height)
        found, there = narrow.region(3, y, 20, height)
        np.testing.assert_array_equal(found, meant)
        assert there == origin
    np.testing.assert_array_equal(narrow.rgb, frame.rgb)


@pytest.mark.parametrize("compression", ["zip", "zips", "none", "piz"])
@pytest.mark.parametrize("top", [70, 10])  # inside the band, and outside
def test_clean_plates_are_the_same_bytes(tmp_path: Path, compression: str, top: int) -> None:
    frame = _plate(tmp_path, compression)
    narrow = frame.narrowed(60.0, 90.0)
    assert narrow is not frame
    paint, where = np.full((9, 12, 3), 0.25, np.float32), np.ones((9, 12), bool)
    for name, each in (("a", frame), ("b", narrow)):
        write_clean(tmp_path / name / "plate.1001.exr", each, paint, where, at=(5, top))
    assert (tmp_path / "a/plate.1001.exr").read_bytes() == (tmp_path / "b/plate.1001.exr").read_bytes()


def test_inside_the_band_the_file_is_not_read_again() -> None:
    def again() -> np.ndarray:  # type: ignore[type-arg]
        raise AssertionError("read")

    codes = np.arange(40.0).reshape(10, 2, 2)
    band = Band(codes, 3, 7, again)
    np.testing.assert_array_equal(band[3:7, :1, [1, 0]], codes[3:7, :1, [1, 0]])
    np.testing.assert_array_equal(band[5:5], codes[5:5])
    with pytest.raises(AssertionError, match="read"):
        band[2:4]


def test_what_would_save_little_and_what_is_written_whole_stays_as_it_is(tmp_path: Path) -> None:
    frame = _plate(tmp_path)
    assert frame.narrowed(5.0, 195.0) is frame
    assert frame.narrowed(500.0, 600.0) is frame
    png = _plate(tmp_path, suffix="png")
    assert png.narrowed(60.0, 90.0) is png


def test_a_plate_that_changed_meanwhile_is_told(tmp_path: Path) -> None:
    narrow = _plate(tmp_path).narrowed(60.0, 90.0)
    (tmp_path / "plate.1001.exr").write_bytes((tmp_path / "plate.1001.exr").read_bytes() + b"more")
    np.testing.assert_array_equal(narrow.region(0, 70, 4, 4)[0].shape, (4, 4, 3))
    with pytest.raises(PlateError, match=r"plate\.1001\.exr: was written anew while it was worked on"):
        narrow.region(0, 0, 4, 4)
