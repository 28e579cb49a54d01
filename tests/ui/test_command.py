"""`rotopaint panel`, and the standalone host behind it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from rotopaint_ai.cli import panel as command
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import nuke
from rotopaint_ui.standalone import app

from .conftest import make_document


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_the_command_opens_the_window_on_a_plate(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str | None, Path | None]] = []
    monkeypatch.setattr(app, "main", lambda source, out: calls.append((source, out)) or 0)
    assert command.execute(parsed()) == 0
    assert command.execute(parsed("plate.####.exr", "--out", "here")) == 0
    assert calls == [(None, None), ("plate.####.exr", Path("here"))]


def test_without_qt_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "rotopaint_ui.standalone.app")
    monkeypatch.setitem(sys.modules, "PySide6.QtCore", None)
    with pytest.raises(UsageError, match=r"pip install 'rotopaint-ai\[ui\]'"):
        command.execute(parsed())


def test_the_standalone_export_is_a_script_that_reads_back(tmp_path: Path) -> None:
    said = app.Standalone().export(make_document(), tmp_path / "shapes.roto.json")
    assert str(tmp_path / "shapes.nk") in said
    found = nuke.read(tmp_path / "shapes.nk")
    assert [shape.name for shape in found.shapes] == ["RotoPaint_AI/seam", "RotoPaint_AI/eye"]
