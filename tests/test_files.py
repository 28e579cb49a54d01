"""Saving beside and renaming: what goes wrong keeps its words, and the old file stays."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rotopaint_ai.files import replacing, write_text


def test_an_error_of_the_system_names_the_file_and_one_of_words_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(OSError, match="no space") as full, replacing(path):
        raise OSError(errno.ENOSPC, "no space")
    assert full.value.filename == str(path)
    with pytest.raises(OSError, match=r"^connection reset$"), replacing(path):
        raise OSError("connection reset")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
