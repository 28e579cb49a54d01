"""Saving beside and renaming: what goes wrong keeps its words, and the old file stays."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange.formats import write
from rotopaint_ai.files import file_bytes, replacing, write_text
from rotopaint_ai.shapes.roto import RotoDocument


def test_an_error_of_the_system_names_the_file_and_one_of_words_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(OSError, match="no space") as full, replacing(path):
        raise OSError(errno.ENOSPC, "no space")
    assert full.value.filename == str(path)
    with pytest.raises(OSError, match=r"^connection reset$"), replacing(path):
        raise OSError("connection reset")
    with pytest.raises(OSError, match="denied") as refused, replacing(path) as beside:
        raise OSError(errno.EACCES, "denied", str(beside))
    assert refused.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes among the files")
def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.nk")
    with pytest.raises(UsageError, match=r"a\.nk: is a pipe, a socket or a device, which a file would replace"):
        write_text(tmp_path / "a.nk", "x")
    with pytest.raises(UsageError, match=r"a\.nk: is a pipe"):
        write(tmp_path / "a.nk", RotoDocument(100, 80, 1, 1))
    assert stat.S_ISFIFO((tmp_path / "a.nk").stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nk"]


def test_a_file_that_is_larger_than_it_may_be_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(11))
    assert file_bytes(tmp_path / "a", 11) == bytes(11)
    with pytest.raises(UsageError, match="a: has 11 bytes; wanted 10 at most"):
        file_bytes(tmp_path / "a", 10)


def test_a_folder_in_a_files_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.nk").mkdir()
    for act in (lambda: write_text(tmp_path / "a.nk", "x"), lambda: write(tmp_path / "a.nk", RotoDocument(9, 8, 1, 1))):
        with pytest.raises(UsageError, match=r"a\.nk: is a folder, so no file can be written there"):
            act()
