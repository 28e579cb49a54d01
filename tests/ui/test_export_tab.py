"""Exports: keys counted beside the screen, every format of the table offered, failures told by file."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ui import clerk
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.inspector.export import count_text, file_text
from rotopaint_ui.panel import Panel

from .conftest import make_document


def test_keys_that_move_in_a_line_are_needed_only_at_its_ends() -> None:
    """The seam moves by a pixel a frame and the eye stands: two keys and one tell the whole motion."""
    facts = clerk.answer({"ask": "reduce", "tolerance_px": 0.5}, documents.dumps(make_document()))
    assert (facts["before"], facts["after"]) == (10, 3)
    assert facts["worst_px"] < 1e-6
    assert facts["shapes"]["seam"][:2] == [5, 2]
    assert count_text(facts) == "10 \u2192 3 keys, at most 0.00 px off"


def test_a_file_that_cannot_be_written_is_told_and_the_others_are_there(tmp_path: Path) -> None:
    targets = [str(tmp_path / "a.nk"), str(tmp_path / "no.such.suffix"), str(tmp_path / "b.svg")]
    request = {"ask": "export", "tolerance_px": 0.0, "targets": targets, "reduced": None}
    facts = clerk.answer(request, documents.dumps(make_document()))
    assert [("error" in row) for row in facts["files"]] == [False, True, False]
    assert (tmp_path / "a.nk").is_file()
    assert (tmp_path / "b.svg").is_file()
    assert "read back, at most 0.0" in file_text(facts["files"][0])
    assert "no shape format has this suffix" in file_text(facts["files"][1])


def test_a_damaged_question_gets_one_line() -> None:
    assert "error" in clerk.answer({"ask": "reduce", "tolerance_px": 0.5}, "{")
    assert "error" in clerk.answer({"ask": "sing"}, "")


def test_every_format_that_can_be_written_is_offered_with_what_it_loses(qtbot: QtBot, panel: Panel) -> None:
    tab = panel.inspector.export
    assert set(tab.formats) == {each.suffixes[0] for each in FORMATS if each.write is not None}
    assert not tab.export.isEnabled()
    assert tab.empty.isVisibleTo(tab)


def test_the_count_follows_the_tolerance(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> None:
    with qtbot.waitSignal(panel.jobs.read, timeout=120_000):
        panel.open_plate(PlateChoice(plate), out)
    panel.inspector.setCurrentWidget(panel.inspector.export)
    tab = panel.inspector.export
    qtbot.waitUntil(lambda: tab.count.text() == "10 \u2192 3 keys, at most 0.00 px off", timeout=120_000)
    tab.reduces.setChecked(False)
    qtbot.waitUntil(lambda: tab.count.text() == "10 keys, all kept", timeout=120_000)
    assert tab.tolerance_px == 0.0
    assert Path(tab.folder.text()) == out / "export"
