"""Pictures of a data set: our own are removed, other files stay."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import PlateError
from rotopaint_ai.plates import Frame
from rotopaint_ai.training.mining.mined_samples import clear_dataset, cut_picture, remove_pictures


def _mined(folder: Path) -> set[str]:
    """A data set as `mine` writes it, with foreign files next to its own; their names."""
    theirs = {"images/holiday.jpg", "images/notes.txt", "mining/mine.jpg", "kept.jpg"}
    for name in ("images/a_0001.jpg", "images/a_0002.jpg", "mining/a_0002.jpg", *theirs):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"picture")
    lines = [{"image": f"images/a_000{n}.jpg"} for n in (1, 2)] + [{"image": "../kept.jpg"}, {"image": "kept.jpg"}]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "mining" / "suspicious.json").write_text(json.dumps([{"picture": "a_0002.jpg"}, {"picture": None}]))
    (folder / "dataset.json").write_text("{}")
    return theirs


def _left(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in (".jpg", ".txt")}


def test_packing_into_shards_removes_the_pictures_of_the_data_set_alone(tmp_path: Path) -> None:
    theirs = _mined(tmp_path / "set")
    remove_pictures(tmp_path / "set")
    assert _left(tmp_path / "set") == {*theirs, "mining/a_0002.jpg"}


def test_mining_anew_removes_what_was_mined_before_alone(tmp_path: Path) -> None:
    theirs = _mined(tmp_path / "set")
    clear_dataset(tmp_path / "set")
    assert _left(tmp_path / "set") == theirs
    assert not (tmp_path / "set" / "dataset.json").exists()


def test_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    _mined(tmp_path / "set")
    (tmp_path / "set" / "images").rename(tmp_path / "elsewhere")
    (tmp_path / "set" / "images").symlink_to(tmp_path / "elsewhere")
    remove_pictures(tmp_path / "set")
    assert (tmp_path / "elsewhere" / "a_0001.jpg").exists()


def test_the_folder_is_removed_with_its_last_picture(tmp_path: Path) -> None:
    for name in _mined(tmp_path / "set"):
        (tmp_path / "set" / name).unlink()
    remove_pictures(tmp_path / "set")
    assert not (tmp_path / "set" / "images").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_plate_that_cannot_be_measured_becomes_no_picture(value: float) -> None:
    """A few such pixels are no reason."""
    codes = np.full((64, 64, 3), 0.5, np.float32)
    frame = Frame(1001, codes, (0, 0), 64, 64, "linear", None, None, None, "")
    codes[:8] = value
    cut_picture(frame, Crop(32.0, 32.0, 48.0), 48)
    codes[:48] = value
    with pytest.raises(PlateError, match="cannot be measured"):
        cut_picture(frame, Crop(32.0, 32.0, 48.0), 48)
