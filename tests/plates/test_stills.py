"""PNG, TIFF and JPEG plates: native codes, bit depth and metadata on the way through."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.errors import DamagedFrameError, PlateError, UnsupportedPlateError, UsageError
from rotopaint_ai.plates import clean_suffix, open_plate, write_clean
from rotopaint_ai.plates.png import _png_chunk
from rotopaint_ai.plates.stills import StillDetail, _channel_order, _header_of_still, _is_lossy, _snap_codes

from .writers import load, metadata, picture, save, spots

_SOFT = ("DateTime", "Software", "openexr:lineOrder", "oiio:RowsPerChunk", "tiff:RowsPerStrip")


def _clean(source: Path, target: Path) -> np.ndarray:
    with open_plate(source) as plate:
        frame = plate.read(1)
    changed = spots(*frame.codes.shape[:2])
    rgb = frame.rgb.copy()
    rgb[changed] = 0.25
    write_clean(target, frame, rgb, changed)
    return changed


def _codes(dtype: type, channels: int) -> np.ndarray:
    top = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    return (picture(61, 47, channels).astype(np.float64) * top).astype(dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_comes_back_with_all_its_channels(tmp_path: Path, dtype: type, channels: int) -> None:
    names = {1: ("Y",), 2: ("Y", "A"), 3: (), 4: ()}[channels]
    attributes = {
        "oiio:UnassociatedAlpha": 1,
        "ImageDescription": "shot 10",
        "PixelAspectRatio": 2.0,
        "XResolution": 50.0,
    }
    codes = _codes(dtype, channels)
    path = save(tmp_path / "p.png", codes, names=names, attributes=attributes)
    changed = _clean(path, tmp_path / "c.png")
    after = load(tmp_path / "c.png", np.dtype(dtype).name)[0]
    n_colours = 1 if channels < 3 else 3
    assert after[~changed].tobytes() == codes[~changed].tobytes()
    np.testing.assert_array_equal(after[..., n_colours:], codes[..., n_colours:])
    assert (after[changed][:, :n_colours] == round(0.537099 * np.iinfo(dtype).max)).all()  # the sRGB code of 0.25
    assert metadata(tmp_path / "c.png") == metadata(path)


def test_side_chunks_of_a_png_are_copied(tmp_path: Path) -> None:
    """One before and one after the pixels, of a type that no library knows."""
    data = save(tmp_path / "p.png", _codes(np.uint8, 3)).read_bytes()
    before, after = _png_chunk(b"stUd", b"shot 10"), _png_chunk(b"noTe", b"last")
    pixels_at, end_at = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    (tmp_path / "p.png").write_bytes(data[:pixels_at] + before + data[pixels_at:end_at] + after + data[end_at:])
    _clean(tmp_path / "p.png", tmp_path / "c.png")
    written = (tmp_path / "c.png").read_bytes()
    assert written.index(before) < written.index(b"IDAT") < written.index(after) < written.index(b"IEND")


def test_a_large_png_is_one_valid_stream(tmp_path: Path) -> None:
    """Strips are compressed separately; the joined stream needs the right checksum."""
    codes = np.random.default_rng(1).integers(0, 9, (900, 700, 3), np.uint8)
    _clean(save(tmp_path / "p.png", codes), tmp_path / "c.png")
    data, stream, at = (tmp_path / "c.png").read_bytes(), b"", 8
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body, checksum = data[at + 4 : at + 8 + length], data[at + 8 + length : at + 12 + length]
        assert zlib.crc32(body) == int.from_bytes(checksum, "big")
        stream += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    assert len(zlib.decompress(stream)) == 900 * (700 * 3 + 1)


_TIFFS: list[tuple[Any, int, dict[str, Any]]] = [
    (np.uint8, 3, {"compression": "lzw"}),
    (np.uint8, 4, {"compression": "zip", "oiio:UnassociatedAlpha": 1}),
    (np.uint16, 4, {"compression": "zip"}),  # premultiplied
    (np.uint16, 3, {"compression": "none", "planarconfig": "separate"}),
    (np.uint16, 1, {"compression": "packbits"}),
    (np.uint32, 3, {"compression": "none"}),
    (np.float16, 3, {"compression": "zip"}),
    (np.float32, 3, {"compression": "zip", "tiff:Predictor": 3}),
]


@pytest.mark.parametrize(("dtype", "channels", "attributes"), _TIFFS)
def test_tiff_keeps_depth_and_metadata(tmp_path: Path, dtype: type, channels: int, attributes: dict[str, Any]) -> None:
    codes = _codes(dtype, channels)
    more = {"ImageDescription": "shot 10", "Artist": "us", "XResolution": 72.0, "PixelAspectRatio": 1.0}
    path = save(tmp_path / "p.tif", codes, attributes=attributes | more)
    changed = _clean(path, tmp_path / "c.tif")
    kind = {"float16": "half", "float32": "float", "uint32": "uint"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    before, after = load(path, kind)[0], load(tmp_path / "c.tif", kind)[0]
    assert after[~changed].tobytes() == before[~changed].tobytes()
    np.testing.assert_array_equal(after[..., 3:], before[..., 3:])
    old, new = metadata(path), metadata(tmp_path / "c.tif")
    assert {k: v for k, v in new.items() if k not in _SOFT} == {k: v for k, v in old.items() if k not in _SOFT}


@pytest.mark.parametrize("bits", [2, 4, 6, 10, 12, 14])
def test_tiff_of_odd_depths(tmp_path: Path, bits: int) -> None:
    """Changed codes are rounded to the file's own steps, not truncated."""
    dtype = np.uint8 if bits < 8 else np.uint16
    path = save(tmp_path / "p.tif", _codes(dtype, 3), attributes={"oiio:BitsPerSample": bits, "compression": "none"})
    changed = _clean(path, tmp_path / "c.tif")
    with open_plate(tmp_path / "c.tif") as plate, open_plate(path) as original:
        after, before = plate.read(1).codes, original.read(1).codes
    assert after[~changed].tobytes() == before[~changed].tobytes()
    top = np.iinfo(dtype).max
    nearest = np.rint(0.537099 * ((1 << bits) - 1)) / ((1 << bits) - 1)
    np.testing.assert_allclose(after[changed] / top, nearest, atol=1.5 / top)
    assert metadata(tmp_path / "c.tif")["oiio:BitsPerSample"] == str(bits)


def test_jpeg_comes_back_as_png_of_the_decoded_codes(tmp_path: Path) -> None:
    path = save(tmp_path / "p.0012.jpg", _codes(np.uint8, 3))
    with open_plate(path) as plate:
        assert (plate.is_lossy, clean_suffix(plate), plate.colourspace) == (True, ".png", "sRGB")
        frame = plate.read(12)
    write_clean(tmp_path / "c.0012.png", frame, frame.rgb, np.zeros(frame.codes.shape[:2], bool))
    np.testing.assert_array_equal(load(tmp_path / "c.0012.png", "uint8")[0], frame.codes)
    with pytest.raises(UsageError, match=r"\.png"):
        write_clean(tmp_path / "c.0012.jpg", frame, frame.rgb, np.zeros(frame.codes.shape[:2], bool))


def test_other_pages_of_a_tiff_are_copied(tmp_path: Path) -> None:
    path, second = tmp_path / "p.tif", _codes(np.uint16, 4)
    save(path, _codes(np.uint8, 3), attributes={"compression": "lzw"})
    output = OpenImageIO.ImageOutput.create(str(path))
    spec = OpenImageIO.ImageSpec(second.shape[1], second.shape[0], 4, OpenImageIO.UINT16)
    spec.attribute("oiio:UnassociatedAlpha", 1)
    assert output.open(str(path), spec, "AppendSubimage")
    output.write_image(second)
    output.close()
    _clean(path, tmp_path / "c.tif")
    pages = load(tmp_path / "c.tif", "uint16")
    assert len(pages) == 2
    np.testing.assert_array_equal(pages[1], second)


def test_float_pictures_of_lossy_kinds_become_exr(tmp_path: Path) -> None:
    path = save(tmp_path / "p.hdr", picture(40, 30) * 8)
    with open_plate(path) as plate:
        assert (plate.is_lossy, clean_suffix(plate), plate.colourspace) == (True, ".exr", "linear")
        frame = plate.read(1)
    write_clean(tmp_path / "c.exr", frame, frame.rgb, np.zeros((30, 40), bool))
    np.testing.assert_array_equal(load(tmp_path / "c.exr", "float")[0], frame.codes)


def test_grey_plates_stay_grey(tmp_path: Path) -> None:
    path = save(tmp_path / "p.png", _codes(np.uint8, 1), names=("Y",))
    with open_plate(path) as plate:
        frame = plate.read(1)
    assert frame.rgb.shape == (47, 61, 3)
    np.testing.assert_array_equal(frame.rgb[..., 0], frame.rgb[..., 2])
    _clean(path, tmp_path / "c.png")
    assert metadata(tmp_path / "c.png")["channels"] == ("Y",)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_cut_off_files_are_refused(tmp_path: Path, suffix: str) -> None:
    data = save(tmp_path / f"p{suffix}", _codes(np.uint8, 3)).read_bytes()
    (tmp_path / f"p{suffix}").write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(DamagedFrameError, match=rf"p\{suffix}"), open_plate(tmp_path / f"p{suffix}") as plate:
        plate.read(1)


def test_files_that_are_not_what_they_are_called(tmp_path: Path) -> None:
    save(tmp_path / "p.png", _codes(np.uint8, 3)).rename(tmp_path / "p.exr")
    with pytest.raises(DamagedFrameError, match=r"named \.exr but holds a PNG"):
        open_plate(tmp_path / "p.exr")
    (tmp_path / "q.exr").touch()
    with pytest.raises(DamagedFrameError, match="empty"):
        open_plate(tmp_path / "q.exr")
    (tmp_path / "r.dat").write_bytes(b"hello world, this is text")
    with pytest.raises(PlateError, match="not a kind of plate"):
        open_plate(tmp_path / "r.dat")


@pytest.mark.parametrize(
    ("names", "places"),
    [
        (["A", "B", "G", "R"], (3, 2, 1)),
        (["A", "Y"], (1,)),
        (["cyan", "magenta", "key"], (0, 1, 2)),
        (["depth", "mask"], (0,)),
    ],
)
def test_the_colours_are_found_by_name_and_else_the_first_ones_are_taken(
    names: list[str], places: tuple[int, ...]
) -> None:
    assert _channel_order(SimpleNamespace(channelnames=names), Path("p.tif")) == places


def test_a_picture_without_channels_is_refused() -> None:
    with pytest.raises(PlateError, match=r"p\.tif: has no channels"):
        _channel_order(SimpleNamespace(channelnames=[]), Path("p.tif"))


@pytest.mark.parametrize(("stored", "read"), [(0.5, 0.5), (2.0, 2.0), (0.0, 1.0), (1e6, 1.0)])
def test_a_pixel_aspect_is_read_and_an_impossible_one_is_square(tmp_path: Path, stored: float, read: float) -> None:
    header = _header_of_still(_Source(spec=_spec(tmp_path, PixelAspectRatio=stored)), tmp_path / "p.tif")
    assert header.pixel_aspect == pytest.approx(read)


def test_the_data_window_is_counted_from_the_display_windows_corner(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    spec.x, spec.y, spec.full_x, spec.full_y, spec.full_width, spec.full_height = 7, 9, 2, 3, 40, 30
    header = _header_of_still(_Source(spec), tmp_path / "p.tif")
    assert (header.x, header.y, header.width, header.height) == (5, 6, 40, 30)
    assert (header.data_width, header.data_height) == (8, 6)


def test_volumes_are_refused(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    spec.depth = 2
    with pytest.raises(UnsupportedPlateError, match="are not read"):
        _header_of_still(_Source(spec), tmp_path / "p.tif")


@pytest.mark.parametrize(
    ("bits", "code", "snapped"),
    [
        (10, np.uint16(32768), 512 << 6 | 512 >> 4),
        (12, np.uint16(40), 2 << 4),
        (6, np.uint8(200), 49 << 2 | 49 >> 4),
        (4, np.uint8(100), 6 << 4 | 6),
        (2, np.uint8(90), 0b01010101),
        (16, np.uint16(12345), 12345),
        (0, np.uint8(77), 77),
        (10, np.float32(0.3), 0.3),
    ],
)
def test_codes_are_snapped_to_the_bits_that_a_file_has(bits: int, code: Any, snapped: float) -> None:
    """By hand: the nearest of the few possible codes, whose bits repeat from the top down."""
    detail = StillDetail(None, (0,), code.dtype, bits)
    found = _snap_codes(np.array([code]), detail)
    assert found.dtype == code.dtype
    assert found[0] == code.dtype.type(snapped)


@pytest.mark.parametrize(
    ("name", "attributes", "is_lossy"),
    [
        ("p.tif", {"compression": "jpeg:90"}, True),
        ("p.tif", {"compression": "zip:6"}, False),
        ("p.TIFF", {}, False),
        ("p.tif", {"tiff:ColorSpace": "CMYK"}, True),
        ("p.png", {"compression": "zip"}, False),
        ("p.jpg", {}, True),
    ],
)
def test_what_cannot_be_written_again_as_it_was_is_lossy(name: str, attributes: dict[str, str], is_lossy: bool) -> None:
    spec = OpenImageIO.ImageSpec(8, 6, 3, "uint8")
    for key, value in attributes.items():
        spec.attribute(key, value)
    assert _is_lossy(spec, Path(name)) == is_lossy


class _Source:
    """A fake of OpenImageIO's open file."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    def spec(self) -> Any:
        return self._spec


def _spec(tmp_path: Path, **attributes: float) -> Any:
    """The ImageSpec of an 8 x 6 picture; writes the picture too, because the reader checks the size of its file."""
    save(tmp_path / "p.tif", _codes(np.uint8, 3)[:6, :8])
    spec = OpenImageIO.ImageSpec(8, 6, 3, "uint8")
    for name, value in attributes.items():
        spec.attribute(name, value)
    return spec


def test_the_png_of_a_jpeg_keeps_its_exif_data(tmp_path: Path) -> None:
    """Above all the orientation: viewers that turn the plate have to turn the clean plate, too."""
    exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"  # orientation 6
    cv2.imwrite(str(tmp_path / "a.jpg"), (picture(48, 32, 3) * 255).astype(np.uint8))
    data = (tmp_path / "a.jpg").read_bytes()
    body = b"Exif\0\0" + exif
    (tmp_path / "a.jpg").write_bytes(data[:2] + b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body + data[2:])
    _clean(tmp_path / "a.jpg", tmp_path / "a.png")
    assert _png_chunk(b"eXIf", exif) in (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data)
    _clean(tmp_path / "a.jpg", tmp_path / "b.png")
    assert b"eXIf" not in (tmp_path / "b.png").read_bytes()
