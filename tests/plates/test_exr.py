"""EXR plates: which pixels are the picture, and that a clean plate changes nothing else."""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path

import numpy as np
import OpenImageIO as oiio
import pytest

from rotopaint_ai.errors import DamagedFrameError, PlateError, UnsupportedPlateError, UsageError
from rotopaint_ai.plates import Frame, exr_header, open_plate, write_clean

from .writers import load, metadata, picture, save, spots

LOSSLESS = ("none", "rle", "zips", "zip", "piz")
LOSSY = ("pxr24", "b44", "b44a", "dwaa", "dwab")


def _frame(path: Path) -> Frame:
    with open_plate(path) as plate:
        return plate.read(plate.frames[0])


def _clean(source: Path, target: Path, value: float = 0.25) -> np.ndarray:
    """Write `source` with `value` in some pixels; returns the mask of these."""
    frame = _frame(source)
    changed = spots(*frame.codes.shape[:2])
    rgb = frame.rgb.copy()
    rgb[changed] = value
    write_clean(target, frame, rgb, changed)
    return changed


@pytest.mark.parametrize("tile", [0, 16])
@pytest.mark.parametrize(
    ("compression", "dtype"),
    [*product(LOSSLESS + LOSSY, [np.float16]), *product(LOSSLESS + ("pxr24", "dwaa", "dwab"), [np.float32])],
)  # B44 stores float without loss and without packing
def test_only_changed_pixels_differ(tmp_path: Path, compression: str, dtype: type, tile: int) -> None:
    """Also in lossy files: changed chunks are stored raw, not compressed again."""
    names = ("R", "G", "B", "A")
    codes = picture(53, 71, 4).astype(dtype)
    attributes = {"compression": compression, "owner": "us"}
    plate = save(tmp_path / "p.exr", codes, names=names, attributes=attributes, tile=tile)
    before = load(plate, "float")[0]
    changed = _clean(plate, tmp_path / "c.exr")
    after = load(tmp_path / "c.exr", "float")[0]
    assert after[~changed].tobytes() == before[~changed].tobytes()
    assert after[..., 3].tobytes() == before[..., 3].tobytes()
    assert (after[changed][:, :3] == 0.25).all()
    assert metadata(tmp_path / "c.exr") == metadata(plate)


@pytest.mark.parametrize("compression", ["none", "zip", "piz"])
def test_layers_of_other_types_keep_their_bits(tmp_path: Path, compression: str) -> None:
    """One part with half colour, float depth with NaN and infinity, and 32-bit ids beyond float's precision."""
    path = tmp_path / "p.exr"
    spec = oiio.ImageSpec(40, 50, 5, oiio.FLOAT)
    spec.channelnames = ("R", "G", "B", "Z", "crypto.id")
    spec.channelformats = tuple(oiio.TypeDesc(t) for t in ("half", "half", "half", "float", "float"))
    spec.attribute("compression", compression)
    values = picture(40, 50, 5)
    values[3, 4:7, 3] = np.nan, np.inf, -np.inf
    ids = np.arange(2000, dtype=np.uint32) * np.uint32(2_000_001)
    values[..., 4] = ids.view(np.float32).reshape(50, 40)
    output = oiio.ImageOutput.create(str(path))
    assert output.open(str(path), spec)
    output.write_image(values)
    output.close()
    before = load(path, "float")[0]
    changed = _clean(path, tmp_path / "c.exr")
    after = load(tmp_path / "c.exr", "float")[0]
    assert after[..., 3:].tobytes() == before[..., 3:].tobytes()
    assert after[~changed].tobytes() == before[~changed].tobytes()


def test_nan_infinity_and_every_other_half_survive(tmp_path: Path) -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256, 1).repeat(3, axis=2)
    plate = save(tmp_path / "p.exr", every, attributes={"compression": "zip"})
    changed = _clean(plate, tmp_path / "c.exr")
    frame, back = _frame(plate), _frame(tmp_path / "c.exr")
    assert back.codes[~changed].tobytes() == frame.codes[~changed].tobytes() == every[~changed].tobytes()


def test_bytes_of_untouched_chunks_are_copied(tmp_path: Path) -> None:
    """One changed row: the file differs in that row's chunk only."""
    plate = save(tmp_path / "p.exr", picture(64, 160).astype(np.float16), attributes={"compression": "none"})
    frame = _frame(plate)
    changed = np.zeros((160, 64), bool)
    changed[80, 5] = True
    write_clean(tmp_path / "c.exr", frame, frame.rgb * 2, changed)
    old, new = plate.read_bytes(), (tmp_path / "c.exr").read_bytes()
    assert len(old) == len(new)
    assert 0 < sum(a != b for a, b in zip(old, new, strict=True)) <= 3 * 2


def test_windows_and_pixel_aspect(tmp_path: Path) -> None:
    codes = picture(30, 20).astype(np.float16)
    attributes = {"PixelAspectRatio": 2.0}
    path = save(tmp_path / "p.exr", codes, data_at=(-5, 7), display=(10, 3, 40, 22), attributes=attributes)
    with open_plate(path) as plate:
        frame = plate.read(1)
        assert (plate.width, plate.height, plate.pixel_aspect) == (40, 22, 2.0)
    assert frame.origin == (-15, 4)
    assert frame.rgb.shape == (20, 30, 3)
    region, at = frame.region(-20, 6, 12, 100)
    assert at == (-15, 6)
    np.testing.assert_array_equal(region, frame.rgb[2:, :7])
    assert frame.region(500, 500, 4, 4)[0].size == 0
    _clean(path, tmp_path / "c.exr")
    assert metadata(tmp_path / "c.exr") == metadata(path)


def test_a_part_of_the_window_is_enough_to_write(tmp_path: Path) -> None:
    path = save(tmp_path / "p.exr", picture(30, 40).astype(np.float16), data_at=(4, 6), display=(0, 0, 50, 60))
    frame = _frame(path)
    rgb, changed = np.full((3, 5, 3), 0.5, np.float32), np.ones((3, 5), bool)
    write_clean(tmp_path / "c.exr", frame, rgb, changed, at=(10, 20))
    expected = frame.codes.copy()
    expected[14:17, 6:11] = 0.5
    np.testing.assert_array_equal(_frame(tmp_path / "c.exr").codes, expected)
    with pytest.raises(UsageError, match="do not fit"):
        write_clean(tmp_path / "c.exr", frame, rgb, changed, at=(32, 20))
    with pytest.raises(UsageError, match="do not fit"):
        write_clean(tmp_path / "c.exr", frame, rgb, changed)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("R", "G", "B", "A", "spec.R", "spec.G", "spec.B"), (0, 1, 2)),
        (("depth.Z", "beauty.R", "beauty.G", "beauty.B"), (1, 2, 3)),
        (("Y",), (0,)),
        (("left.Y", "right.Y"), (0,)),
        (("mask",), (0,)),
    ],
)
def test_which_channels_are_the_picture(tmp_path: Path, names: tuple[str, ...], chosen: tuple[int, ...]) -> None:
    codes = picture(20, 20, len(names)).astype(np.float16)
    path = save(tmp_path / "p.exr", codes, names=names)
    frame = _frame(path)
    np.testing.assert_array_equal(frame.codes, codes[..., list(chosen)])
    assert frame.rgb.shape == (20, 20, 3)
    changed = _clean(path, tmp_path / "c.exr")
    after, untouched = load(tmp_path / "c.exr", "half")[0], [i for i in range(len(names)) if i not in chosen]
    order = [metadata(path)["channels"].index(name) for name in names]
    np.testing.assert_array_equal(after[..., order][..., untouched], codes[..., untouched])
    assert (after[..., order][changed][:, list(chosen)] == 0.25).all()


def test_parts_of_a_multipart_file(tmp_path: Path) -> None:
    path = tmp_path / "p.exr"
    specs = []
    for name, channels in (("depth", ("Z",)), ("rgba", ("R", "G", "B")), ("normals", ("N.x", "N.y", "N.z"))):
        spec = oiio.ImageSpec(33, 44, len(channels), oiio.HALF)
        spec.channelnames = channels
        spec.attribute("oiio:subimagename", name)
        spec.attribute("compression", "zip" if name == "rgba" else "piz")
        specs.append(spec)
    output = oiio.ImageOutput.create(str(path))
    assert output.open(str(path), tuple(specs))
    for index, spec in enumerate(specs):
        if index:
            assert output.open(str(path), spec, "AppendSubimage")
        output.write_image(picture(33, 44, spec.nchannels, seed=index).astype(np.float16))
    output.close()
    before = load(path, "half")
    changed = _clean(path, tmp_path / "c.exr")
    after = load(tmp_path / "c.exr", "half")
    assert [a.tobytes() for a in after[::2]] == [b.tobytes() for b in before[::2]]
    assert after[1][~changed].tobytes() == before[1][~changed].tobytes()
    assert (after[1][changed] == 0.25).all()


@pytest.mark.parametrize(
    ("names", "words"),
    [(("Y", "RY", "BY"), "luminance-chroma"), (("Z",), "no colour"), (("N.x", "N.y"), r"no colour.*N\.x")],
)
def test_what_is_no_picture_is_refused(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    path = save(tmp_path / "p.exr", picture(8, 8, len(names)).astype(np.float16), names=names)
    with pytest.raises(UnsupportedPlateError, match=rf"p\.exr.*{words}"):
        open_plate(path)


def test_ids_as_colour_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "p.exr", np.ones((8, 8, 3), np.uint32))
    with pytest.raises(UnsupportedPlateError, match="integers"):
        open_plate(path)


def test_cut_off_files_say_how_much_is_there(tmp_path: Path) -> None:
    codes = picture(64, 160).astype(np.float16)
    whole = save(tmp_path / "p.exr", codes, attributes={"compression": "zips"}).read_bytes()
    (tmp_path / "q.exr").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFrameError, match=r"q\.exr: \d+ of 160 chunks"):
        open_plate(tmp_path / "q.exr")
    (tmp_path / "r.exr").write_bytes(whole[:100])
    with pytest.raises(DamagedFrameError, match=r"r\.exr: cut off in its header"):
        open_plate(tmp_path / "r.exr")


def test_a_header_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    whole = bytearray(save(tmp_path / "p.exr", picture(16, 16).astype(np.float16)).read_bytes())
    at = whole.index(b"dataWindow\0box2i\0") + len(b"dataWindow\0box2i\0") + 4
    whole[at : at + 16] = struct.pack("<4i", 0, 0, 900_000, 900_000)
    (tmp_path / "q.exr").write_bytes(whole)
    with pytest.raises(DamagedFrameError, match="900001 x 900001"):
        open_plate(tmp_path / "q.exr")


def test_a_long_name_in_a_cut_off_header_is_reported_in_short(tmp_path: Path) -> None:
    head = struct.pack("<Ii", 20000630, 2 | 0x400) + b"renderer_attribute_with_a_long_name\0string\0"
    (tmp_path / "p.exr").write_bytes(head + struct.pack("<i", 9) + b"cut")
    with pytest.raises(
        DamagedFrameError, match=r"value of attribute 'renderer_attribute_with_\.\.\.'\); it is damaged"
    ):
        open_plate(tmp_path / "p.exr")


@pytest.mark.parametrize(("kind", "size"), [(b"box2i", 8), (b"box2f", 16)])
def test_a_window_of_another_type_or_size_is_damage(tmp_path: Path, kind: bytes, size: int) -> None:
    whole = save(tmp_path / "p.exr", picture(16, 16).astype(np.float16)).read_bytes()
    window = b"dataWindow\0box2i\0" + struct.pack("<i", 16)
    at = whole.index(window) + len(window)
    other = b"dataWindow\0" + kind + b"\0" + struct.pack("<i", size) + whole[at : at + size]
    (tmp_path / "q.exr").write_bytes(whole[: at - len(window)] + other + whole[at + 16 :])
    with pytest.raises(DamagedFrameError, match=r"q\.exr: 'dataWindow' in its header is malformed"):
        open_plate(tmp_path / "q.exr")


def test_a_plate_that_was_rendered_again_meanwhile(tmp_path: Path) -> None:
    path = save(tmp_path / "p.exr", picture(16, 16).astype(np.float16))
    frame = _frame(path)
    save(path, picture(16, 16, seed=2).astype(np.float16), attributes={"compression": "none"})
    with pytest.raises(PlateError, match="overwritten"):
        write_clean(tmp_path / "c.exr", frame, frame.rgb, np.ones((16, 16), bool))
    assert not list(tmp_path.glob(".*"))
    assert not (tmp_path / "c.exr").exists()


def test_a_clean_plate_may_replace_its_plate(tmp_path: Path) -> None:
    path = save(tmp_path / "p.exr", picture(16, 16).astype(np.float16))
    changed = _clean(path, path, 0.75)
    assert (_frame(path).codes[changed] == 0.75).all()


@pytest.mark.parametrize(
    ("above", "below", "fps"), [(24000, 1001, 24000 / 1001), (-25, 1, None), (0, 1, None), (25, 0, None)]
)
def test_a_frame_rate_is_above_zero_or_none(tmp_path: Path, above: int, below: int, fps: float | None) -> None:
    """`framesPerSecond` is a rational of a signed and an unsigned number; only a rate above zero is one."""
    spec = oiio.ImageSpec(6, 4, 3, oiio.FLOAT)
    spec.attribute("FramesPerSecond", oiio.TypeDesc("rational"), (25, 1))
    source = oiio.ImageOutput.create(str(tmp_path / "p.exr"))
    source.open(str(tmp_path / "p.exr"), spec)
    assert source.write_image(picture(6, 4, 3))
    source.close()
    raw = (tmp_path / "p.exr").read_bytes().replace(b"FramesPerSecond", b"framesPerSecond")  # as OpenEXR spells it
    stated = b"framesPerSecond\0rational\0" + struct.pack("<iiI", 8, 25, 1)
    assert stated in raw
    (tmp_path / "p.exr").write_bytes(raw.replace(stated, stated[:-8] + struct.pack("<iI", above, below)))
    assert exr_header.parse_header((tmp_path / "p.exr").read_bytes(), "p.exr").parts[0].fps == fps
    with open_plate(tmp_path / "p.exr") as plate:
        assert plate.fps == (24.0 if fps is None else pytest.approx(fps))
