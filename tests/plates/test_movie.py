"""Movies: the right frame under each number, in order or not, and the same codes every time."""

from __future__ import annotations

import os
from pathlib import Path

import av
import numpy as np
import pytest

from rotopaint_ai.errors import DamagedFrameError, MissingFrameError, PlateError, UnsupportedPlateError
from rotopaint_ai.plates import clean_suffix, open_plate, write_clean

from .writers import load

# 48 frames whose grey level says their number; B frames, so that decoding order is not showing order.
_FRAMES = 48


def _movie(
    path: Path,
    *,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    key_every: int = 12,
    size: int = 64,
    options: dict[str, str] | None = None,
) -> Path:
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=25, options={"g": str(key_every), "bf": "3", "crf": "8"})
        stream.width = stream.height = size
        stream.pix_fmt = pixels
        for number in range(1, _FRAMES + 1):
            grey = np.full((size, size, 3), number * 5, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def _level(plate: object, number: int) -> float:
    frame = plate.read(number)  # type: ignore[attr-defined]
    return float(frame.codes.mean() / frame.maximum * 255)


def test_every_frame_by_its_number(tmp_path: Path) -> None:
    with open_plate(_movie(tmp_path / "m.mp4")) as plate:
        assert (plate.is_movie, plate.is_lossy, plate.fps, plate.width) == (True, True, 25.0, 64)
        assert plate.frames == tuple(range(1, _FRAMES + 1))
        assert (plate.missing, plate.colourspace, plate.name, clean_suffix(plate)) == ((), "Rec.709", "m", ".png")
        order = [*plate.frames, 48, 1, 30, 29, 28, 31, 13, 12, 48]
        assert [round(_level(plate, number) / 5) for number in order] == order


def test_random_access_gives_the_codes_of_playing_there(tmp_path: Path) -> None:
    path = _movie(tmp_path / "m.mp4", key_every=250)
    with open_plate(path) as plate:
        played = [plate.read(number).codes.tobytes() for number in plate.frames]
    with open_plate(path) as plate:
        for number in (40, 3, 47, 20, 19, 48, 1):
            assert plate.read(number).codes.tobytes() == played[number - 1]


def test_ten_bits_are_kept(tmp_path: Path) -> None:
    path = _movie(tmp_path / "m.mov", codec="prores_ks", pixels="yuv422p10le")
    with open_plate(path) as plate:
        frame = plate.read(30)
    assert frame.codes.dtype == np.uint16
    assert frame.codes.mean() / 65535 == pytest.approx(150 / 255, abs=0.01)
    write_clean(tmp_path / "c.png", frame, frame.rgb, np.zeros((64, 64), bool))
    np.testing.assert_array_equal(load(tmp_path / "c.png", "uint16")[0], frame.codes)


def test_changed_pixels_of_a_movie_go_into_a_png(tmp_path: Path) -> None:
    with open_plate(_movie(tmp_path / "m.mp4")) as plate:
        frame = plate.read(20)
    changed = np.zeros((64, 64), bool)
    changed[5:9, 7] = True
    rgb = frame.rgb.copy()
    rgb[changed] = 1.0
    write_clean(tmp_path / "c.png", frame, rgb, changed)
    after = load(tmp_path / "c.png", "uint8")[0]
    assert (after[changed] == 255).all()
    assert after[~changed].tobytes() == frame.codes[~changed].tobytes()


def test_beyond_the_end(tmp_path: Path) -> None:
    with open_plate(_movie(tmp_path / "m.mp4")) as plate:
        for number in (0, 49):
            with pytest.raises(MissingFrameError, match=rf"m\.mp4: frame {number} .*1-48"):
                plate.read(number)


def test_a_closed_movie_opens_again(tmp_path: Path) -> None:
    plate = open_plate(_movie(tmp_path / "m.mp4"))
    first = plate.read(5).fingerprint
    plate.close()
    assert plate.read(5).fingerprint == first
    plate.close()


def test_an_overwritten_movie_is_refused(tmp_path: Path) -> None:
    other = _movie(tmp_path / "other.mp4", size=128)
    with open_plate(_movie(tmp_path / "m.mp4")) as plate:
        plate.read(5)
        other.replace(tmp_path / "m.mp4")
        with pytest.raises(PlateError, match=r"m\.mp4: was overwritten"):
            plate.read(6)


def test_a_movie_whose_time_alone_changed_is_read_on(tmp_path: Path) -> None:
    path = _movie(tmp_path / "m.mp4")
    with open_plate(path) as plate:
        before = plate.read(5).fingerprint
        copy = path.read_bytes()
        os.utime(path, (1, 1))
        assert round(_level(plate, 6) / 5) == 6
        (tmp_path / "beside.mp4").write_bytes(copy)
        (tmp_path / "beside.mp4").replace(path)
        assert plate.read(5).fingerprint == before
        box = copy.index(b"mdat")  # the pictures, behind their size in bytes
        at = box + int.from_bytes(copy[box - 4 : box], "big") // 2
        path.write_bytes(copy[:at] + bytes([copy[at] ^ 1]) + copy[at + 1 :])
        with pytest.raises(PlateError, match=r"m\.mp4: was overwritten"):
            plate.read(6)


def test_cut_off_movies(tmp_path: Path) -> None:
    """A movie without its index is refused; a truncated stream is read as far as it goes."""
    data = _movie(tmp_path / "m.mp4").read_bytes()
    (tmp_path / "n.mp4").write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedFrameError, match=r"n\.mp4"):
        open_plate(tmp_path / "n.mp4")
    data = _movie(tmp_path / "m.mkv").read_bytes()
    (tmp_path / "n.mkv").write_bytes(data[: len(data) // 2])
    with open_plate(tmp_path / "m.mkv") as plate:
        assert plate.missing == ()
    with open_plate(tmp_path / "n.mkv") as plate:
        assert 5 < len(plate.frames) < _FRAMES
        assert plate.missing[0] == len(plate.frames) + 1
        assert _FRAMES - 3 <= plate.missing[-1] <= _FRAMES  # its header tells a duration; 3 may be out of order
        number = plate.frames[-2]
        assert round(_level(plate, number) / 5) == number


def test_frames_that_a_header_promises_and_the_file_lacks_are_missing(tmp_path: Path) -> None:
    data = _movie(tmp_path / "m.mp4", options={"movflags": "faststart"}).read_bytes()
    (tmp_path / "n.mp4").write_bytes(data[: (data.index(b"mdat") + len(data)) // 2])
    with open_plate(tmp_path / "m.mp4") as whole, open_plate(tmp_path / "n.mp4") as cut:
        assert whole.missing == ()
        assert 1 < len(cut.frames) < _FRAMES
        assert cut.missing == tuple(range(len(cut.frames) + 1, _FRAMES + 1))


def test_sound_alone_is_no_plate(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "m.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), format="s16", layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
    with pytest.raises(UnsupportedPlateError, match="no picture"):
        open_plate(tmp_path / "m.mkv")


def test_a_movie_of_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    path = _movie(tmp_path / "a.mov", codec="png", pixels="rgb24")
    path.write_bytes(path.read_bytes().replace(b"png ", b"zzzz"))
    with pytest.raises(UnsupportedPlateError, match=r"a\.mov: its codec is not supported"):
        open_plate(path)


def test_text_called_a_movie(tmp_path: Path) -> None:
    (tmp_path / "m.mp4").write_bytes(b"this is not a movie at all, really")
    with pytest.raises(DamagedFrameError, match=r"m\.mp4"):
        open_plate(tmp_path / "m.mp4")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "size", "n_frames", "dtype"),
    [
        ("nasa_13013.mp4", (320, 180), 325, np.uint8),  # two video streams: the first, which is the default
        ("flower.webm", (960, 540), 150, np.uint8),
        ("h264_10bits.mp4", (200, 200), 30, np.uint16),
        ("h265_video.mp4", (128, 128), 10, np.uint8),
        ("derived_prores422hq_friday.mov", (640, 480), 16, np.uint16),
        ("derived_truncated_flower.mp4", (960, 540), 45, np.uint8),
    ],
)
def test_shared_movies(shared: Path, name: str, size: tuple[int, int], n_frames: int, dtype: type) -> None:
    with open_plate(shared / "data/video" / name) as plate:
        assert (plate.width, plate.height) == size
        assert len(plate.frames) == n_frames
        last = plate.read(n_frames).codes
        assert last.dtype == dtype
        first = plate.read(1).codes.copy()
        try:
            plate.read(n_frames // 2)
        except PlateError as error:  # a cut-off stream may lack frames; they are named
            assert str(n_frames // 2) in str(error)  # noqa: PT017
        np.testing.assert_array_equal(plate.read(1).codes, first)
