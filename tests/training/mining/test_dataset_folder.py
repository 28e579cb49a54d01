"""The folder of a data set: other people's files in it are never replaced, also not through links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rotopaint_ai.errors import RotopaintError, UsageError
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.mined_samples import locked_dataset
from rotopaint_ai.training.mining.options import MineOptions


@pytest.mark.parametrize(
    "name", ["sheet.yaml", "samples.jsonl", "images/holiday.jpg", "shards/000000.tar", "mining/suspicious.txt"]
)
def test_files_of_others_are_neither_replaced_nor_joined(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="not written by RotoPaint, and a data set would overwrite it"):
        mine(MineOptions((tmp_path / "roto.nk",), tmp_path))
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / ".rotopaint").exists()


def test_a_source_that_is_not_there_leaves_nothing_and_takes_no_folder(tmp_path: Path) -> None:
    (tmp_path / "used/.rotopaint").mkdir(parents=True)
    (tmp_path / "used/.rotopaint/folder.json").write_text("of a run")
    for name in ("used", "new"):
        with pytest.raises(RotopaintError):
            mine(MineOptions((tmp_path / "gone.nk",), tmp_path / name))
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "used").rglob("*")] == [".rotopaint", "folder.json"]


@pytest.mark.parametrize("name", ["images", "shards", "mining", ".rotopaint"])
def test_nothing_is_written_through_a_link_in_a_data_set(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a symbolic link, which is never written through"):
        mine(MineOptions((tmp_path / "roto.nk",), tmp_path / "set"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_set_that_was_mined_before_is_mined_anew_by_one_at_a_time(tmp_path: Path) -> None:
    # written by a version without a mark
    (tmp_path / "dataset.json").write_text(json.dumps({"format": "rotopaint-dataset"}))
    with locked_dataset(tmp_path):
        (tmp_path / "dataset.json").unlink()  # as while its pictures are cropped again
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "a_0001.jpg").touch()
        with pytest.raises(UsageError, match="another process mines into it"), locked_dataset(tmp_path):
            pass
    with locked_dataset(tmp_path):  # interrupted half-way, and restarted
        pass


def test_what_was_mined_from_sources_that_are_not_given_now_stays(tmp_path: Path) -> None:
    one, two = tmp_path / "one.nk", tmp_path / "two.nk"
    for sources in ((one,), (one, two), (two, one)):
        with locked_dataset(tmp_path / "set", sources):
            (tmp_path / "set/dataset.json").write_text(json.dumps({"format": "rotopaint-dataset"}))
    with locked_dataset(tmp_path / "set"):  # as packing does
        pass
    with pytest.raises(UsageError, match=r"holds what was mined from .*one\.nk, not given now"):
        mine(MineOptions((two,), tmp_path / "set"))
    with locked_dataset(tmp_path / "set", (two,), overwrite=True):
        pass
    with locked_dataset(tmp_path / "set", (two,)):
        pass
