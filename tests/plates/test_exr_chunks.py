"""EXR rows that are unpacked here: the same codes as OpenImageIO's, and the same files refused."""

from __future__ import annotations

import struct
from os import truncate
from pathlib import Path

import numpy as np
import OpenImageIO as oiio
import pytest

from rotopaint_ai.errors import DamagedFrameError
from rotopaint_ai.plates import exr, open_plate
from rotopaint_ai.plates.exr_chunks import predict_bytes, unpredict
from rotopaint_ai.plates.exr_header import parse_header
from rotopaint_ai.plates.picture import contents
from rotopaint_ai.plates.plate_window import Area

from .writers import load, picture, save

TOP_LEFT = Area(0.0, 0.0, 9.0, 9.0)


@pytest.mark.parametrize("compression", ["zip", "zips", "none"])
@pytest.mark.parametrize("order", ["increasingY", "decreasingY"])
def test_codes_are_those_of_openimageio(tmp_path: Path, compression: str, order: str) -> None:
    """Noise, stored raw where ZIP gains nothing, beside flat parts; channels are not in the file's order."""
    codes = picture(53, 71, 4)
    codes[:32] = np.random.default_rng(2).integers(0, 0x7C00, codes[:32].shape).astype(np.uint16).view(np.float16)
    attributes = {"compression": compression, "openexr:lineOrder": order}
    path = save(
        tmp_path / "p.exr", codes.astype(np.float16), names=("R", "G", "B", "A"), attributes=attributes, data_at=(5, -3)
    )
    assert exr.read(path).codes.tobytes() == load(path, "half")[0][..., :3].tobytes()


def test_half_and_float_side_by_side(tmp_path: Path) -> None:
    path, spec = tmp_path / "p.exr", oiio.ImageSpec(40, 50, 4, oiio.FLOAT)
    spec.channelnames = ("R", "G", "B", "Z")
    spec.channelformats = tuple(oiio.TypeDesc(kind) for kind in ("half", "half", "float", "float"))
    spec.attribute("compression", "zip")
    output = oiio.ImageOutput.create(str(path))
    assert output is not None
    assert output.open(str(path), spec)
    output.write_image(picture(40, 50, 4))
    output.close()
    found = exr.read(path).codes
    assert found.dtype == np.float32
    assert found.tobytes() == load(path, "float")[0][..., :3].tobytes()


@pytest.mark.parametrize("near", [None, TOP_LEFT])
@pytest.mark.parametrize("at", [0, -1])  # inside what is looked at, and far from it
@pytest.mark.parametrize("damage", ["row", "size", "bytes", "check"])
def test_a_damaged_chunk_is_refused_wherever_it_lies(tmp_path: Path, near: Area | None, at: int, damage: str) -> None:
    path = save(tmp_path / "p.0001.exr", picture(64, 80).astype(np.float16), attributes={"compression": "zip"})
    data = bytearray(path.read_bytes())
    with open_plate(path) as plate:
        table = plate.read(1).native.picture.header.detail.exr.tables_at  # type: ignore[union-attr]
        offset = struct.unpack_from("<5Q", data, table)[at]
        if damage == "row":
            struct.pack_into("<i", data, offset, 7)
        elif damage == "check":  # the stream's last four bytes are not counted as its own
            struct.pack_into("<i", data, offset + 4, struct.unpack_from("<i", data, offset + 4)[0] - 4)
        elif damage == "size":
            struct.pack_into("<i", data, offset + 4, 1 << 30)
        else:
            data[offset + 60 : offset + 80] = bytes(20)
        path.write_bytes(data)
        with pytest.raises(DamagedFrameError, match=r"p\.0001\.exr: some of its pixels are missing or cut off"):
            plate.read(1, near=near)


def test_what_is_known_to_be_sound_is_not_unpacked_beside_what_is_wanted(tmp_path: Path) -> None:
    path = save(tmp_path / "p.0001.exr", picture(64, 80).astype(np.float16), attributes={"compression": "zip"})
    near = Area(0, 0, 64, 30)
    with open_plate(path) as plate:
        before = plate.read(1, near=near)
        data = bytearray(path.read_bytes())
        offset = struct.unpack_from("<5Q", data, before.native.picture.header.detail.exr.tables_at)[4]  # type: ignore[union-attr]
        data[offset + 60 : offset + 80] = bytes(20)
        path.write_bytes(data)
        after = plate.read(1, near=near, fingerprint=before.fingerprint)
        assert after.codes[:30].tobytes() == before.codes[:30].tobytes()
        with pytest.raises(DamagedFrameError):
            plate.read(1, near=near)


@pytest.mark.parametrize("compression", ["zip", "none"])
def test_channels_lie_in_the_order_of_their_names(tmp_path: Path, compression: str) -> None:
    """OpenEXR sorts channels by name in any case; here the names of the first and the last are swapped."""
    path = save(tmp_path / "p.exr", picture(20, 20).astype(np.float16), attributes={"compression": compression})
    data = bytearray(path.read_bytes())
    at = data.index(b"chlist\0") + 11
    assert bytes((data[at], data[at + 36])) == b"BR"
    data[at], data[at + 36] = data[at + 36], data[at]
    path.write_bytes(data)
    assert exr.read(path).codes.tobytes() == load(path, "half")[0].tobytes()


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "p.exr", picture(64, 64).astype(np.float16), attributes={"compression": "zip"})
    with contents(path) as data:
        truncate(path, 300)
        assert len(data[200:300]) == 100
        with pytest.raises(DamagedFrameError, match=r"p\.exr: became shorter while it was read"):
            data[299:301]
        with pytest.raises(DamagedFrameError, match=r"p\.exr: became shorter while it was read"):
            parse_header(data, path.name)


@pytest.mark.parametrize("n", [0, 1, 2, 1001, 1 << 16])
def test_zip_differences_are_undone(n: int) -> None:
    raw = np.random.default_rng(3).integers(0, 256, n).astype(np.uint8)
    if n:
        assert unpredict(predict_bytes(raw).tobytes()).tobytes() == raw.tobytes()
    else:
        assert unpredict(b"").size == 0


def test_zip_differences_by_hand() -> None:
    """Even bytes 1 and 3, then the odd byte 2, as differences plus 128."""
    assert predict_bytes(np.array([1, 2, 3], np.uint8)).tobytes() == bytes((1, 130, 127))
