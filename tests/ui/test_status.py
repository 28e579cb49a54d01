"""What the status line says is in the words of the panel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import rotopaint_ai
from rotopaint_ui import edits
from rotopaint_ui.panel import Panel
from rotopaint_ui.session import PlateFacts, State, read_results
from rotopaint_ui.status import _PANEL_WORDS, StatusLine


def moved(state: State, dx: float) -> State:
    assert state.document is not None
    return replace(state, document=edits.move_points(state.document, "seam", [1001], [0], dx, 0.0))


def test_undo_in_a_drag_says_that_the_drag_comes_first(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, undo = panel.session, panel.commands["undo"]
    session.open(facts, out)
    session.take_results(read_results(out))
    session.act("move points", moved(session.state, 2.0))
    session.begin("move points")
    session.preview(moved(session.state, 1.0))
    undo.trigger()
    assert panel.status.text.text() == "Let go of the drag first, or leave it with Esc"
    assert session.is_dragging
    session.abort()
    undo.trigger()
    assert panel.status.text.text() == "Undone: move points"
    session.undo()
    undo.setEnabled(True)
    undo.trigger()
    assert panel.status.text.text() == "Nothing to be undone"


@pytest.mark.parametrize(
    ("engine", "panel_says"),
    [
        (
            "--resume: the pack has changed; starting from the first frame",
            "The earlier run is not gone on with: the pack has changed; starting from the first frame",
        ),
        ("device cuda: p.onnx fell back; use --device cpu", "device cuda: p.onnx fell back; choose cpu as Device in"),
        (
            "stopped because somebody asked; the same command with --resume goes on from here",
            "stopped because somebody asked; Run goes on from here",
        ),
    ],
)
def test_options_of_the_command_line_become_the_panels_commands(qtbot: QtBot, engine: str, panel_says: str) -> None:
    line = StatusLine()
    qtbot.addWidget(line)
    line.say(engine, "trouble")
    for shown in (line.text.text(), line.text.toolTip(), line.history[-1][len("00:00:00 x ") :]):
        assert shown.startswith(panel_says)
        assert "--" not in shown


def test_the_engine_still_says_what_is_put_into_other_words() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(rotopaint_ai.__file__).parent.rglob("*.py")]
    for said, _ in _PANEL_WORDS:
        assert any(said in source for source in sources), said
