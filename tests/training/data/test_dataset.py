"""The data set's folder: what is written is read back, and errors are refused by name."""

from __future__ import annotations

import json
import resource
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.dataset import join, read_dataset, read_picture
from rotopaint_ai.training.data.memory import load_pictures, shrink_memory


def test_what_is_written_is_read_back(faces: Path) -> None:
    data = read_dataset(faces)
    line = json.loads((faces / "samples.jsonl").read_text().splitlines()[3])
    assert data.licence == "CC0-1.0"
    assert data.sheet.landmark_names == ("eye_right", "eye_left", "chin", "brow")
    np.testing.assert_allclose(data.truth.landmarks[3, 2], line["landmarks"]["chin"][:2], atol=1e-4)
    np.testing.assert_allclose(data.truth.points[3, 1], line["shapes"]["seam"]["points"][1], atol=1e-4)
    assert data.truth.width[3, 0] == 3.0
    assert np.isnan(data.truth.width[3, 1])
    assert len(data.rows_of("train")) == 24
    assert len(data.rows_of("test")) == 4


def _broken(faces: Path, folder: Path, change: dict[str, object]) -> Path:
    lines = (faces / "samples.jsonl").read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    for name in ("dataset.json", "sheet.yaml"):
        (folder / name).write_text((faces / name).read_text())
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": "learn"}, "split is 'learn'; wanted one of train, val, test"),
        ({"image": "../outside.png"}, "lies outside"),
        ({"landmarks": {"chin": [1, 2, 1], "tail": [1, 2, 1]}}, "'tail' is not in the sheet"),
        ({"landmarks": {"chin": [1, 2, 1]}}, "1 landmarks known"),
        ({"landmarks": {"chin": [1, 2], "brow": [1, 2, 1]}}, "landmarks: chin is a list of 2; wanted a list of 3"),
        (
            {"shapes": {"seam": {"points": [[0, 0]]}, "other": None}},
            "seam: points 1 is a list of 2",
        ),
        ({"shapes": {"seam": {"points": [[0, 0, 0, 0, 0, 0]]}}}, "has 1 points; the sheet says 3"),
        (
            {"landmarks": {"chin": [1e300, 2, 1], "brow": [1, 2, 1]}},
            "chin 1 is 1e+300; wanted a number of at most 1,000,000",
        ),
        ({"width": 10**9}, "width is 1000000000; wanted a whole number of at most 65,536"),
        ({"height": 0}, "height is 0; wanted a whole number of at least 1"),
        ({"pixel_scale": 0}, "pixel_scale is 0; wanted a number of at least 0.001"),
        ({"pixel_scale": 1e-300}, "pixel_scale is 1e-300; wanted a number of at least 0.001"),
        ({"face_box": [0, 0, 0, 5]}, "face_box 3 is 0; wanted a number above 0"),
    ],
)
def test_a_wrong_line_is_named(faces: Path, tmp_path: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(TrainingError, match=r"samples\.jsonl line 2") as caught:
        read_dataset(_broken(faces, tmp_path, change))
    assert said in str(caught.value)


def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no dataset\.json"):
        read_dataset(tmp_path)


def test_a_missing_landmark_is_unknown(faces: Path, tmp_path: Path) -> None:
    change = {"landmarks": {"chin": [1, 2, 1], "brow": [3, 4, 0], "eye_left": None}}
    truth = read_dataset(_broken(faces, tmp_path, change)).truth
    assert np.isnan(truth.landmarks[1, :2]).all()
    assert truth.visible[1, 3] == 0


def test_pictures_are_shrunk_with_their_truth(faces: Path) -> None:
    data = read_dataset(faces)
    full = load_pictures(data, side_px=1000, margin=1.3)
    assert full.pictures[0].shape == (96, 96, 3)
    half = shrink_memory(full, 0.5)
    assert half.pictures[0].shape == (48, 48, 3)
    np.testing.assert_allclose(half.truth.points, full.truth.points / 2)
    x, y = half.truth.landmarks[0, 0]  # the centre of a red disc of 4 px radius
    r, g, b = half.pictures[0][int(y), int(x)]
    assert r > 200
    assert max(g, b) < 90


def test_a_picture_of_another_size_is_refused(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(_broken(faces, tmp_path, {"width": 64}))
    (tmp_path / "images").symlink_to(faces / "images")
    with pytest.raises(TrainingError, match=r"is 96x96; samples\.jsonl says 64x96"):
        data.picture(1)


def _bombs() -> Iterator[tuple[str, bytes]]:
    """A PNG and a JPEG of a few hundred bytes whose headers claim 60,000 x 60,000 pixels."""
    _, png = cv2.imencode(".png", np.zeros((16, 16, 3), np.uint8))
    head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + bytes(png[24:29])
    yield "png", bytes(png[:12]) + head + struct.pack(">I", zlib.crc32(head)) + bytes(png[33:])
    _, jpeg = cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))
    start = bytes(jpeg).index(b"\xff\xc0") + 5
    yield "jpeg", bytes(jpeg[:start]) + struct.pack(">HH", 60_000, 60_000) + bytes(jpeg[start + 4 :])


@pytest.mark.parametrize(("kind", "data"), list(_bombs()), ids=["png", "jpeg"])
def test_a_picture_with_an_enormous_header_size_takes_no_memory(kind: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TrainingError, match="cannot be read as a picture"):
        read_picture(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_data_sets_with_one_sheet_join(faces: Path) -> None:
    data = read_dataset(faces)
    both = join([data, data])
    assert len(both) == 2 * len(data)
    np.testing.assert_array_equal(both.picture(len(data)), data.picture(0))


def test_data_sets_with_other_sheets_do_not_join(faces: Path, tmp_path: Path) -> None:
    folder = _broken(faces, tmp_path, {})
    sheet = (faces / "sheet.yaml").read_text().replace("chin", "jaw")
    (folder / "sheet.yaml").write_text(sheet)
    (folder / "samples.jsonl").write_text((faces / "samples.jsonl").read_text().replace("chin", "jaw"))
    with pytest.raises(TrainingError, match="different landmarks or shapes"):
        join([read_dataset(faces), read_dataset(folder)])
