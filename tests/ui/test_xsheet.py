"""The exposure sheet of a face kit: read from CSV, shown on the timeline, kept with the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent

from rotopaint_ai.errors import UsageError
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.session.xsheet import pieces_at, read_xsheet

SHEET = "frame,brow,mouth\n1001,B12,M03\n1003,,M07\n1005,B13,\n"


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "kit.csv"
    path.write_text(SHEET, encoding="utf-8-sig")  # as spreadsheets write it
    return path


@pytest.fixture
def shot(panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A panel with the results of a run, in a project."""
    panel.session.open(facts, out)
    results = read_run_results(out)
    panel.session.take_results(results)
    panel.session.start_project(None, results)
    return panel


def drop(panel: Panel, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    copy, none = Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    panel.dropEvent(QDropEvent(QPointF(5, 5), copy, data, Qt.MouseButton.LeftButton, none))


def test_an_empty_cell_goes_on_wearing_the_piece_above(sheet: Path) -> None:
    found = read_xsheet(sheet)
    assert found == {"brow": {1001: "B12", 1005: "B13"}, "mouth": {1001: "M03", 1003: "M07"}}
    assert pieces_at(found, 1004) == {"brow": "B12", "mouth": "M07"}
    assert pieces_at(found, 1000) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "wanted a heading"),
        ("frame,brow\n", "wanted a heading"),
        ("frame,brow\nx,1\n", "row 2 has 'x' for its frame"),
        ("brow,frame\nB1\n", "row 2 has '' for its frame"),
    ],
)
def test_what_is_no_sheet_is_reported_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_xsheet(tmp_path / "a.csv")


def test_a_dropped_sheet_shows_on_the_timeline_and_in_the_frame(shot: Panel, sheet: Path) -> None:
    nothing, height = shot.timeline.grab().toImage(), shot.timeline.minimumSizeHint().height()
    drop(shot, sheet)
    assert shot.timeline.grab().toImage() != nothing
    assert shot.timeline.minimumSizeHint().height() > height
    assert "mouth M07" in shot.timeline.tip(1003)
    shot.session.go_to(1003)
    assert ("Mouth", "M07") in shot.inspector.frame.rows()
    assert shot.status.text.text() == "kit.csv: 4 exposures of brow, mouth"


def test_a_sheet_that_cannot_be_read_leaves_what_was_shown(shot: Panel, sheet: Path, tmp_path: Path) -> None:
    drop(shot, sheet)
    (tmp_path / "bad.csv").write_text("frame,brow\nx,1\n")
    drop(shot, tmp_path / "bad.csv")
    assert "row 2" in shot.status.text.text()
    assert set(shot.session.xsheet) == {"brow", "mouth"}


def test_the_project_keeps_it(shot: Panel, sheet: Path) -> None:
    drop(shot, sheet)
    path = shot.session.project.path
    assert path is not None
    shot.session.close()
    other = ShotSession()
    other.open_project(path)
    kept = other.view_note["xsheet"]
    assert kept == {"brow": {"1001": "B12", "1005": "B13"}, "mouth": {"1001": "M03", "1003": "M07"}}
    other.close()
