"""The README's commands, word for word, on frames of the demo's own shot."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.exchange import document, formats
from rotopaint_ai.inference.pack import find_pack
from rotopaint_ai.inference.sample import find_sample

README = Path(__file__).resolve().parents[2] / "README.md"
NOT_HERE = {"panel", "train", "demo"}  # a window, minutes of training, and the sample itself, which its own tests run


def _commands() -> list[list[str]]:
    lines = re.findall(r"^ {4}rotopaint (.*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line.split(" #")[0]) for line in lines]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the commands name: a plate, two shots with an artist's script, and the pack that training would
    make."""
    for place in (".", "sh010", "sh020"):
        (tmp_path / place).mkdir(exist_ok=True)
        for frame in (1001, 1002):
            (tmp_path / place / f"plate.{frame}.exr").symlink_to(find_sample() / f"plate.{frame}.exr")
    truth = document.read(find_sample() / "truth.roto.json")
    for shot in ("sh010", "sh020"):
        formats.write(tmp_path / shot / "roto.nk", truth)
    (tmp_path / "pip").symlink_to(find_pack("puppet"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readmes_commands_do_what_it_says(show: Path) -> None:
    commands = _commands()
    assert {words[0] for words in commands} == {"run", "panel", "mine", "train", "evaluate"}
    for name, *words in commands:
        if name not in NOT_HERE:
            expanded = [
                each for word in words for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
            ]
            assert main([name, *expanded]) == 0, name
    names = {"shapes.roto.json", "shapes.nk", "matte", "clean", "report"}
    assert names <= {path.name for path in (show / "shot010").iterdir()}
    assert (show / "shot010/clean/plate.1002.exr").is_file()
    assert (show / "shot010/report/index.html").is_file()
    assert (show / "report.html").stat().st_size > 1_000
