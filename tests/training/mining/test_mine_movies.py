"""Mining straight from movies: the same frames and shapes as from the pictures that the movie was made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.exchange import document
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions

CODECS = {
    "shot.mp4": ("libx264", "yuv420p", {"crf": "4", "bf": "3", "g": "12"}),
    "shot.webm": ("libvpx-vp9", "yuv420p", {"crf": "4", "b": "0", "cpu-used": "8"}),
    "shot.mov": ("prores_ks", "yuv422p10le", {}),
}
NUMBERS = range(1, 11)  # frames of a movie count from 1


@pytest.fixture(scope="module")
def shot(unedited: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a shot's roto and plates, its frames counted from 1."""
    folder = tmp_path_factory.mktemp("shot")
    roto = document.read(unedited.roto(1))
    shapes = tuple(s.with_keys({frame - 1000: key for frame, key in s.keys.items()}) for s in roto.shapes)
    document.write(folder / "shot.roto.json", replace(roto, first_frame=1, last_frame=10, shapes=shapes))
    for number in NUMBERS:
        (folder / f"plate.{number:04}.png").symlink_to(unedited.folder / f"shot1/plate.{1000 + number}.png")
    return folder


@pytest.fixture(scope="module")
def from_pictures(shot: Path) -> Dataset:
    """Mined from the pictures."""
    return _mined(shot, "plate.####.png")


def _mined(shot: Path, plates: str) -> Dataset:
    out = shot / "sets" / plates
    mine(MineOptions((shot / "shot.roto.json",), out, f"{{dir}}/{plates}"))
    return read_dataset(out)


def _film(shot: Path, name: str) -> None:
    """Write the plates as a movie."""
    codec, pixels, options = CODECS[name]
    pictures = [cv2.imread(str(shot / f"plate.{number:04}.png")) for number in NUMBERS]
    with av.open(str(shot / name), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pixels
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="bgr24")))
        container.mux(stream.encode(None))


def _likeness(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    """Correlation of two pictures; Rec.709 of movies and sRGB of pictures differ by a curve."""
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.shape == other.shape else 0.0


@pytest.mark.parametrize("name", CODECS)
def test_a_movie_gives_the_samples_of_its_pictures(shot: Path, from_pictures: Dataset, name: str) -> None:
    _film(shot, name)
    data = _mined(shot, name)
    assert [s.frame for s in data.samples] == [s.frame for s in from_pictures.samples] == list(NUMBERS)
    assert [s.shapes for s in data.samples] == [s.shapes for s in from_pictures.samples]
    for row in range(len(data)):
        alike = [_likeness(data.picture(row), from_pictures.picture(at)) for at in range(len(data))]
        assert int(np.argmax(alike)) == row
        assert alike[row] > 0.98
