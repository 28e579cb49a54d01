"""DPX and Cineon plates: codes against OpenImageIO and by hand, and patches that touch no other bit."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import DamagedFrameError, UnsupportedPlateError
from rotopaint_ai.plates import film, open_plate, write_clean

from .writers import load, picture, save, spots

_METHODS = ("Filled, method A", "Filled, method B", "Packed")
_CASES = [(8, "Packed"), *((10, method) for method in _METHODS), *((12, m) for m in _METHODS[::2]), (16, "Packed")]


def _made(path: Path, bits: int, packing: str, channels: int, endian: str, width: int) -> np.ndarray:
    """A DPX file by OpenImageIO, and its codes."""
    top = (1 << bits) - 1
    codes = np.rint(picture(width, 19, channels) * top).astype(np.uint16)
    spread = codes * 257 if bits == 8 else codes << (16 - bits) | codes >> max(0, 2 * bits - 16)
    wide = (spread if bits < 16 else codes).astype(np.uint16)
    attributes = {"oiio:BitsPerSample": bits, "dpx:Packing": packing, "oiio:Endian": endian, "Software": "us"}
    save(path, wide if bits > 8 else codes.astype(np.uint8), attributes=attributes)
    return codes


@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize(("bits", "packing"), _CASES)
@pytest.mark.parametrize("channels", [3, 4])
def test_codes_and_patches(tmp_path: Path, bits: int, packing: str, channels: int, endian: str) -> None:
    path = tmp_path / "p.0007.dpx"
    codes = _made(path, bits, packing, channels, endian, 32)
    with open_plate(path) as plate:
        frame = plate.read(7)
    np.testing.assert_array_equal(frame.codes, codes[..., :3])
    changed = spots(19, 32)
    rgb = frame.rgb.copy()
    rgb[changed] = 0.25
    write_clean(tmp_path / "c.0007.dpx", frame, rgb, changed)
    with open_plate(tmp_path / "c.0007.dpx") as plate:
        back = plate.read(7)
    assert back.codes[~changed].tobytes() == frame.codes[~changed].tobytes()
    np.testing.assert_allclose(back.rgb[changed], 0.25, atol=0.25 * 4 / (1 << min(bits, 10)) + 0.002)
    assert (tmp_path / "c.0007.dpx").read_bytes()[:2048] == path.read_bytes()[:2048]
    if channels == 4:
        before, after = load(path, "uint16")[0], load(tmp_path / "c.0007.dpx", "uint16")[0]
        np.testing.assert_array_equal(after[..., 3], before[..., 3])


def test_writing_what_was_read_gives_the_same_file(tmp_path: Path) -> None:
    """All pixels are marked `changed` but none differs: padding bits, header and user data stay, too."""
    for bits, packing in _CASES:
        path = tmp_path / f"b{bits}{packing[-1]}.dpx"
        _made(path, bits, packing, 3, "big", 31 if bits == 16 else 32)
        data = bytearray(path.read_bytes())
        if (bits, packing) == (10, "Filled, method A"):
            offset = struct.unpack_from(">I", data, 4)[0]
            data[offset + 3] |= 3  # padding that is not zero
            path.write_bytes(data)
        with open_plate(path) as plate:
            frame = plate.read(plate.frames[0])
        write_clean(tmp_path / "c.dpx", frame, frame.rgb, np.ones(frame.codes.shape[:2], bool))
        assert (tmp_path / "c.dpx").read_bytes() == bytes(data), (bits, packing)


def test_a_ten_bit_word_by_hand(tmp_path: Path) -> None:
    """Method A: red in bits 31-22, green in 21-12, blue in 11-2."""
    path = tmp_path / "p.dpx"
    _made(path, 10, "Filled, method A", 3, "big", 32)
    data = bytearray(path.read_bytes())
    struct.pack_into(">I", data, struct.unpack_from(">I", data, 4)[0], 95 << 22 | 685 << 12 | 1023 << 2)
    data[801] = 3  # transfer characteristic: logarithmic
    path.write_bytes(data)
    with open_plate(path) as plate:
        assert plate.colourspace == "Cineon"
        frame = plate.read(1)
    assert frame.codes[0, 0].tolist() == [95, 685, 1023]
    assert frame.rgb[0, 0, :2] == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize(("packing", "shift"), [(5, 2), (6, 0)])
def test_a_cineon_word_by_hand(tmp_path: Path, packing: int, shift: int) -> None:
    """Red, green and blue of 10 bits in a 32-bit word; the two spare bits are on the right (5) or the left (6)."""
    head = bytearray(1024)
    struct.pack_into(">II", head, 0, 0x802A5FD7, 1024)
    struct.pack_into(">BB", head, 192, 0, 3)  # orientation, channels
    struct.pack_into(">BBII", head, 198, 10, 0, 2, 1)  # bits, width, height
    struct.pack_into(">BB", head, 680, 0, packing)
    words = struct.pack(">2I", *((red << 20 | 685 << 10 | 1023) << shift for red in (95, 0)))
    (tmp_path / "p.0001.cin").write_bytes(bytes(head) + words)
    with open_plate(tmp_path / "p.0001.cin") as plate:
        assert plate.read(1).codes.tolist() == [[[95, 685, 1023], [0, 685, 1023]]]


_SPACES = [(1, "Cineon"), (2, "linear"), (3, "Cineon"), (6, "Rec.709"), (0, "Cineon")]


@pytest.mark.parametrize(("transfer", "space"), _SPACES)
def test_the_header_says_the_colour_space(tmp_path: Path, transfer: int, space: str) -> None:
    path = tmp_path / "p.dpx"
    _made(path, 10, "Filled, method A", 3, "big", 32)
    data = bytearray(path.read_bytes())
    data[801] = transfer
    path.write_bytes(data)
    with open_plate(path) as plate:
        assert plate.colourspace == space
    with open_plate(path, colourspace="srgb") as plate:
        assert plate.read(1).colourspace == "sRGB"


@pytest.mark.parametrize(("orientation", "down", "right"), [(1, 1, -1), (2, -1, 1), (3, -1, -1)])
def test_files_from_below_or_the_right_are_turned_and_patched_in_place(
    tmp_path: Path, orientation: int, down: int, right: int
) -> None:
    path = tmp_path / "p.dpx"
    codes = _made(path, 10, "Filled, method A", 3, "big", 32)
    data = bytearray(path.read_bytes())
    struct.pack_into(">H", data, 768, orientation)
    path.write_bytes(data)
    with open_plate(path) as plate:
        frame = plate.read(1)
    np.testing.assert_array_equal(frame.codes, codes[::down, ::right])
    changed = np.zeros((19, 32), bool)
    changed[2, 3] = True
    rgb = frame.rgb.copy()
    rgb[changed] = 1.0
    write_clean(tmp_path / "c.dpx", frame, rgb, changed)
    with open_plate(tmp_path / "c.dpx") as plate:
        back = plate.read(1)
    assert back.codes[2, 3].tolist() == [685] * 3
    np.testing.assert_array_equal(back.codes[~changed], frame.codes[~changed])


def test_cut_off_and_odd_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.dpx"
    _made(path, 10, "Filled, method A", 3, "big", 32)
    whole = path.read_bytes()
    path.write_bytes(whole[:-700])
    with pytest.raises(DamagedFrameError, match=r"p\.dpx: cut off after 13 of 19 lines"):
        open_plate(path)
    path.write_bytes(whole[:1000])
    with pytest.raises(DamagedFrameError, match="cut off in its DPX header"):
        open_plate(path)
    for at, value, words in ((803, 7, "7 bits"), (800, 102, "element type 102")):
        data = bytearray(whole)
        data[at] = value
        path.write_bytes(data)
        with pytest.raises(UnsupportedPlateError, match=words):
            open_plate(path)


@pytest.mark.shared
def test_cineon_against_another_reader(shared: Path, tmp_path: Path) -> None:
    path = shared / "data/formats/cineon/checker.cin"
    with open_plate(path) as plate:
        frame = plate.read(1)
        assert (plate.colourspace, plate.width, plate.height) == ("Cineon", 160, 90)
    np.testing.assert_array_equal(frame.codes, load(path, "uint16")[0] >> 6)
    write_clean(tmp_path / "c.cin", frame, frame.rgb, np.ones((90, 160), bool))
    assert (tmp_path / "c.cin").read_bytes() == path.read_bytes()


@pytest.mark.shared
def test_a_sequence_with_holes_and_a_broken_frame(shared: Path) -> None:
    with open_plate(shared / "data/formats/dpx_sequences/MissingSecondFrame") as plate:
        assert plate.missing == (2,)
        assert plate.read(3).rgb.shape == (60, 80, 3)
    with (
        open_plate(shared / "data/formats/dpx_sequences/SecondAndBody/######.dpx") as plate,
        pytest.raises(DamagedFrameError, match=r"000002\.dpx"),
    ):
        plate.read(2)


def test_a_file_that_is_cut_off_while_it_is_read_ends_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renderer overwrites it in place: reading a mapped page that is gone would kill the process."""
    path = tmp_path / "p.0007.dpx"
    codes, unpack = _made(path, 10, "Filled, method A", 3, "big", 32), film._turned_codes

    def cut(*given: object) -> object:
        os.truncate(path, 0)
        return unpack(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(film, "_turned_codes", cut)
    np.testing.assert_array_equal(film.read(path).codes, codes)
    with pytest.raises(DamagedFrameError, match="is empty"):
        film.read(path)
