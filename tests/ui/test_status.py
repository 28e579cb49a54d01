"""What the status line says is in the words of the panel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import rotopaint_ai
from rotopaint_ai.project.state import SeamSettings, State
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.panel.status_line import _PANEL_WORDS, StatusLine
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import move_points

STARTED = {
    "event": "started",
    "width": 64,
    "height": 48,
    "first_frame": 1001,
    "last_frame": 1006,
    "pixel_aspect": 1.0,
    "fps": 24.0,
    "landmarks": ["nose"],
    "shapes": [{"name": "seam", "closed": False, "role": "seam", "feather_px": 0.0}],
}


def moved(state: State, dx: float) -> State:
    assert state.document is not None
    return replace(state, document=move_points(state.document, "seam", [1001], [0], dx, 0.0))


def test_undo_during_a_drag_is_refused_with_a_reason(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, undo = panel.session, panel.commands["undo"]
    session.open(facts, out)
    session.take_results(read_run_results(out))
    session.edits.push("move points", moved(session.state, 2.0))
    session.edits.begin("move points")
    session.edits.preview(moved(session.state, 1.0))
    undo.trigger()
    assert panel.status.text.text() == "Let go of the drag first, or leave it with Esc"
    assert session.edits.is_dragging
    session.edits.abort()
    session.runs.take_event(STARTED)
    session.runs.show_live()
    for command in ("undo", "redo"):
        panel.commands[command].trigger()
        assert panel.status.text.text() == "The run is under way: look, and edit when it has ended"
    panel.inspector.history.list.setCurrentRow(0)
    panel.inspector.history.list.itemClicked.emit(panel.inspector.history.list.item(0))
    assert session.edits.labels == ("move points",)
    session.runs.end_live()
    undo.trigger()
    assert panel.status.text.text() == "Undone: move points"
    session.edits.undo()
    undo.setEnabled(True)
    undo.trigger()
    assert panel.status.text.text() == "Nothing to be undone"


def test_a_drag_keeps_its_tool(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, canvas = panel.session, panel.canvas
    session.open(facts, out)
    session.take_results(read_run_results(out))
    panel.commands["tool.transform"].trigger()
    session.edits.begin("move points")
    session.edits.preview(moved(session.state, 1.0))
    canvas._is_held = True
    panel.commands["tool.landmark"].trigger()
    assert panel.status.text.text() == "Let go of the drag first, or leave it with Esc"
    assert (canvas.tool, canvas.context.takes, session.edits.is_dragging) == ("transform", "points", True)
    assert panel.commands["tool.transform"].isChecked()
    assert not panel.commands["tool.landmark"].isChecked()
    canvas.cancel_gesture()
    session.edits.abort()
    panel.commands["tool.landmark"].trigger()
    assert canvas.tool == "landmark"


def test_saving_says_where(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, save = panel.session, panel.commands["save"]
    save.trigger()
    assert panel.status.text.text() == "Open a plate first"
    session.open(facts, out)
    session.take_results(read_run_results(out))
    session.start_project()
    session.edits.push("move points", moved(session.state, 2.0))
    save.trigger()
    assert panel.status.text.text() == f"Saved in {session.project.path}, shapes in shapes.roto.json"
    save.trigger()  # there is nothing new, but the hand wants to know
    assert panel.status.text.text().startswith("Saved in ")
    session.edits.begin("move points")
    session.edits.preview(moved(session.state, 1.0))
    panel.status.say("Move points")
    save.trigger()
    assert panel.status.text.text() == "Move points"
    session.edits.abort()


def test_a_line_without_room_ends_in_dots_and_is_whole_in_its_tip(qtbot: QtBot) -> None:
    long = "plate.1003.exr: the file ends after 17 of 4,096 lines; copy it again, or leave it out with In and Out"
    line, other = StatusLine(), StatusLine()
    for each in (line, other):
        qtbot.addWidget(each)
        each.resize(500, 30)
        each.show()
    line.say(long)
    room = line.text.width()
    dots = line.text.fontMetrics().elidedText(long, Qt.TextElideMode.ElideRight, room)
    assert dots.endswith("\u2026")
    other.say(dots)
    assert other.text.width() == room
    assert line.text.grab().toImage() == other.text.grab().toImage()
    assert line.text.toolTip() == long


def test_a_long_name_makes_no_window_wider(panel: Panel, facts: PlateFacts) -> None:
    panel.top.show_plate(facts)
    narrow = panel.minimumSizeHint().width()
    panel.top.show_plate(replace(facts, name="v017_" * 40))
    assert panel.minimumSizeHint().width() == narrow
    assert panel.top.name.toolTip() == facts.source


@pytest.mark.parametrize(
    ("engine", "panel_says"),
    [
        (
            "--resume: the pack has changed; starting from the first frame",
            "The earlier run is not gone on with: the pack has changed; starting from the first frame",
        ),
        ("device cuda: p.onnx fell back; use --device cpu", "device cuda: p.onnx fell back; choose cpu as Device in"),
        (
            "stopped on request; the same command with --resume goes on from here",
            "stopped on request; Run goes on from here",
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


def test_the_work_is_called_saved_where_it_is(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, saved = panel.session, panel.status.saved
    assert saved.text() == ""
    session.open(facts, out)
    session.take_results(read_run_results(out))
    session.seams.set({"seam": SeamSettings(grain=0.5)})
    session.seams.set({"seam": SeamSettings(width_px=9.0)})
    assert saved.text() == "Not saved yet"  # nothing but shapes.roto.json keeps it
    session.start_project(out / "shot.rotopaint")
    panel._updates.refresh()
    assert saved.text() == "Saved"
    assert str(out / "shot.rotopaint") in saved.toolTip()
    panel.autosave.save()
    assert saved.toolTip().endswith("shapes.roto.json is written")


def test_a_device_that_was_wanted_and_not_had_is_reported_as_trouble(panel: Panel) -> None:
    line = panel.top.device
    panel.top.show_device("CPU (no CUDA provider in this onnxruntime), 8 ms/frame", "cuda")
    assert line.text() == "cuda was asked for: CPU, 8 ms/frame"
    assert line.toolTip().startswith("CPU (no CUDA provider in this onnxruntime), 8 ms/frame\n")
    assert line.property("kind") == "trouble"
    panel.top.show_device("CPU, 8 ms/frame", "auto")
    assert (line.text(), line.property("kind")) == ("CPU, 8 ms/frame", "plain")


def test_diagnostics_hold_versions_shot_and_what_was_said(panel: Panel, facts: PlateFacts, out: Path) -> None:
    panel.session.open(facts, out)
    panel.status.say("plate.1043.exr: torn; render it again", "trouble")
    assert panel.status.copy.isVisible()
    panel.status.copy.click()
    text = QApplication.clipboard().text()
    for part in ("RotoPaint AI", "Qt", "Plate plate.####.png: 64 x 48", "plate.1043.exr: torn", "numpy"):
        assert part in text
    assert "on the clipboard" in panel.status.text.text()


def test_what_is_dropped_is_opened(panel: Panel, plate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(panel, "open_path", opened.append)
    data = QMimeData()
    place, left, none = QPoint(5, 5), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(place, Qt.DropAction.CopyAction, data, left, none)
    enter.ignore()
    QApplication.sendEvent(panel, enter)
    assert not enter.isAccepted()  # a text is nothing to open
    data.setUrls([QUrl.fromLocalFile(plate)])
    enter = QDragEnterEvent(place, Qt.DropAction.CopyAction, data, left, none)
    QApplication.sendEvent(panel, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(panel, QDropEvent(QPointF(place), Qt.DropAction.CopyAction, data, left, none))
    assert opened == [plate]
