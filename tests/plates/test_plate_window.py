"""A frame of which only some pixels are in memory is the frame: its pixels, and what is written of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.errors import PlateError
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.clean_writer import write_clean
from rotopaint_ai.plates.plate import Frame, open_plate
from rotopaint_ai.plates.plate_window import Area, PixelRect, WindowedCodes, own_memory

HEIGHT, WIDTH = 200, 48
AREA = Area(10.5, 55.0, 30.0, 87.0)


def _save(folder: Path, compression: str = "zip", suffix: str = "exr", *, at: int = 0) -> str:
    """A frame of noise whose data window starts `at` rows below the top of the plate."""
    rows = np.random.default_rng(1).random((HEIGHT, WIDTH, 3)).astype(np.float16)
    kind = OpenImageIO.HALF if suffix == "exr" else OpenImageIO.UINT8
    spec = OpenImageIO.ImageSpec(WIDTH, HEIGHT, 3, kind)
    spec.attribute("compression", compression)
    spec.y, spec.full_y, spec.full_height, spec.full_width = at, 0, HEIGHT + at, WIDTH
    oiio.save(folder / f"plate.1001.{suffix}", spec, rows if suffix == "exr" else np.rint(rows * 255).astype(np.uint8))
    return str(folder / f"plate.####.{suffix}")


def _read(pattern: str, near: Area | None = None) -> Frame:
    with open_plate(pattern) as plate:
        return plate.read(1001, near=near)


def _n_kept(frame: Frame) -> int:
    return frame.codes.nbytes // (3 * frame.codes.dtype.itemsize)


@pytest.mark.parametrize("is_read_so", [True, False])
@pytest.mark.parametrize(
    ("compression", "suffix", "at", "kept"),
    [
        ("zip", "exr", 0, 20 * 32),
        ("zips", "exr", 0, 20 * 32),
        ("none", "exr", 7, 20 * 32),
        ("zip", "exr", 7, 20 * 32),
        ("", "dpx", 0, 20 * 32),
        ("piz", "exr", 0, WIDTH * 64),  # packed anew from the frame's codes: whole rows, 32 to 96
    ],
)
def test_pixels_inside_and_outside_are_the_same(
    tmp_path: Path, compression: str, suffix: str, at: int, kept: int, is_read_so: bool
) -> None:
    pattern = _save(tmp_path, compression, suffix, at=at)
    frame = _read(pattern)
    narrow = _read(pattern, AREA.grown(5.0) if is_read_so else None).narrowed(AREA)
    assert _n_kept(narrow) == kept
    assert narrow.codes.shape == frame.codes.shape
    for x, y, width, height in ((12, 60, 9, 20), (0, 0, 48, 200), (3, 60, 20, 4), (12, 40, 4, 30), (0, 500, 4, 3)):
        meant, origin = frame.region(x, y, width, height)
        found, there = narrow.region(x, y, width, height)
        np.testing.assert_array_equal(found, meant)
        assert there == origin
    np.testing.assert_array_equal(narrow.rgb, frame.rgb)
    assert narrow.fingerprint == frame.fingerprint


@pytest.mark.parametrize("compression", ["zip", "zips", "none", "piz"])
@pytest.mark.parametrize(("left", "top"), [(12, 70), (5, 10)])  # inside the window, and outside
def test_clean_plates_are_the_same_bytes(tmp_path: Path, compression: str, left: int, top: int) -> None:
    frame = _read(_save(tmp_path, compression))
    narrow = frame.narrowed(AREA)
    assert narrow is not frame
    paint, where = np.full((9, 12, 3), 0.25, np.float32), np.ones((9, 12), bool)
    for name, each in (("a", frame), ("b", narrow)):
        write_clean(tmp_path / name / "plate.1001.exr", each, paint, where, at=(left, top))
    assert (tmp_path / "a/plate.1001.exr").read_bytes() == (tmp_path / "b/plate.1001.exr").read_bytes()


def test_inside_the_window_the_file_is_not_read_again_and_outside_it_once() -> None:
    n_read = []

    def again() -> np.ndarray:  # type: ignore[type-arg]
        n_read.append(1)
        return codes

    codes = np.arange(120.0).reshape(10, 6, 2)
    window = WindowedCodes(codes.shape, PixelRect(3, 7, 1, 5), codes[3:7, 1:5].copy(), again)
    np.testing.assert_array_equal(window[3:7, 1:2, [1, 0]], codes[3:7, 1:2, [1, 0]])
    np.testing.assert_array_equal(window[5:5], codes[5:5])
    np.testing.assert_array_equal(window.narrowed(PixelRect(4, 6, 1, 3))[4:6, 2:3], codes[4:6, 2:3])
    assert not n_read
    np.testing.assert_array_equal(window[2:4, 1:5], codes[2:4, 1:5])
    np.testing.assert_array_equal(window[4], codes[4])
    np.testing.assert_array_equal(np.asarray(window), codes)
    assert n_read == [1]


def test_what_would_save_little_and_what_is_written_whole_stays_as_it_is(tmp_path: Path) -> None:
    frame = _read(_save(tmp_path))
    assert frame.narrowed(Area(-5.0, 5.0, 500.0, 195.0)) is frame
    assert frame.narrowed(Area(0.0, 500.0, 48.0, 600.0)) is frame
    assert _n_kept(_read(_save(tmp_path), Area(0.0, 500.0, 48.0, 600.0))) == WIDTH * HEIGHT
    png = _read(_save(tmp_path, suffix="png"), AREA)
    assert _n_kept(png) == WIDTH * HEIGHT
    assert png.narrowed(AREA) is png


def test_a_plate_that_changed_meanwhile_is_reported(tmp_path: Path) -> None:
    narrow = _read(_save(tmp_path)).narrowed(AREA)
    (tmp_path / "plate.1001.exr").write_bytes((tmp_path / "plate.1001.exr").read_bytes() + b"more")
    np.testing.assert_array_equal(narrow.region(12, 70, 4, 4)[0].shape, (4, 4, 3))
    with pytest.raises(PlateError, match=r"plate\.1001\.exr: was overwritten during this run"):
        narrow.region(0, 0, 4, 4)


def test_pixels_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused memory mapping is not an error of the disk."""

    def refuse(n_bytes: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("rotopaint_ai.plates.plate_window._pages", refuse)
    with pytest.raises(MemoryError, match="no 1144 MB"):
        own_memory((10_000, 10_000, 3), "float32")
