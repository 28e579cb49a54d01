"""ExportRunner: keys counted beside the screen, every format of the table offered, failures told by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ai.project.corrected_frames import corrections
from rotopaint_ui.engine import export_worker
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.inspector.export_tab import ExportTab, count_text, file_text
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.shot_jobs import ShotJobs
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.settings.preferences import Preferences

from .conftest import FakeHost, make_document


def test_keys_that_move_in_a_line_are_needed_only_at_its_ends() -> None:
    """The seam moves by a pixel per frame and the eye does not move: two keys and one are enough."""
    facts = export_worker.answer({"ask": "reduce", "tolerance_px": 0.5}, documents.dumps(make_document()))
    assert (facts["before"], facts["after"]) == (10, 3)
    assert facts["worst_px"] < 1e-6
    assert facts["shapes"]["seam"][:2] == [5, 2]
    assert count_text(facts) == "10 \u2192 3 keys, at most 0.00 px off"


def test_a_file_that_cannot_be_written_is_reported_and_the_others_are_there(tmp_path: Path) -> None:
    targets = [str(tmp_path / "a.nk"), str(tmp_path / "no.such.suffix"), str(tmp_path / "b.svg")]
    request = {"ask": "export", "tolerance_px": 0.0, "targets": targets, "reduced": None}
    facts = export_worker.answer(request, documents.dumps(make_document()))
    assert [("error" in row) for row in facts["files"]] == [False, True, False]
    assert (tmp_path / "a.nk").is_file()
    assert (tmp_path / "b.svg").is_file()
    assert "read back, at most 0.0" in file_text(facts["files"][0])
    assert "no shape format has this suffix" in file_text(facts["files"][1])


def test_a_damaged_question_gets_one_line() -> None:
    assert "error" in export_worker.answer({"ask": "reduce", "tolerance_px": 0.5}, "{")
    assert "error" in export_worker.answer({"ask": "sing"}, "")


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


def test_selected_shapes_alone_are_exported(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> None:
    with qtbot.waitSignal(panel.jobs.read, timeout=120_000):
        panel.open_plate(PlateChoice(plate), out)
    tab = panel.inspector.export
    panel.inspector.setCurrentWidget(tab)
    tab.selected.click()
    tab.export.click()
    assert "Nothing is selected" in panel.status.text.text()
    panel.session.select("seam")
    qtbot.waitUntil(lambda: tab.count.text().startswith("5 "), timeout=120_000)
    for suffix, box in tab.formats.items():
        box.setChecked(suffix == ".roto.json")
    tab.host.setChecked(False)
    with qtbot.waitSignal(panel.exports.ended, timeout=120_000):
        tab.export.click()
    written = documents.read(Path(tab.folder.text()) / "shapes.roto.json")
    assert [shape.name for shape in written.shapes] == ["seam"]


def test_the_panel_ends_an_export_with_its_mattes(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> None:
    with qtbot.waitSignal(panel.jobs.read, timeout=120_000):
        panel.open_plate(PlateChoice(plate), out)
    tab = panel.inspector.export
    tab.mattes.setChecked(True)
    tab.host.setChecked(False)
    with qtbot.waitSignal(panel.exports.ended, timeout=120_000) as ended:
        panel.export()
    assert ended.args == [True], panel.status.text.text()
    assert list((out / "export" / "matte").rglob("*.exr"))
    assert panel.status.text.text().startswith(f"Mattes in {out / 'export' / 'matte'}; ")


@pytest.fixture
def exports(qtbot: QtBot, session: ShotSession) -> Iterator[ExportRunner]:
    """Exports of the session with only mattes ticked."""
    tab = ExportTab(session, None)
    qtbot.addWidget(tab)
    tab.refresh()
    tab.formats[".nk"].setChecked(False)
    tab.mattes.setChecked(True)
    exports = ExportRunner(session, FakeHost(), tab, tab)
    yield exports
    exports.shut_down()


def mattes_exported(qtbot: QtBot, exports: ExportRunner, jobs: ShotJobs) -> tuple[list[tuple[str, str]], bool]:
    """The messages of the export, and whether it succeeded."""
    said: list[tuple[str, str]] = []
    exports.message_sent.connect(lambda text, kind: said.append((text, kind)))
    exports.mattes_wanted.connect(lambda document, folder: jobs.draw_mattes(document, folder, Preferences()))
    jobs.drew.connect(exports.take_mattes)
    with qtbot.waitSignal(exports.ended, timeout=120_000) as ended:
        exports.export()
    jobs.shut_down()
    return said, ended.args == [True]


def test_mattes_alone_are_reported_when_they_are_drawn(
    qtbot: QtBot, exports: ExportRunner, session: ShotSession, engine_of: Callable[[str], Engine], out: Path
) -> None:
    owner = QObject()
    jobs = ShotJobs(session, lambda: engine_of(""), owner)
    said, is_good = mattes_exported(qtbot, exports, jobs)
    assert is_good
    text = f"Mattes in {out / 'export' / 'matte'}; 10 \u2192 3 keys, at most 0.00 px off"
    assert said[-1] == (text, "good")
    assert not exports.is_running


def test_mattes_that_fail_fail_the_export(
    qtbot: QtBot, exports: ExportRunner, session: ShotSession, engine_of: Callable[[str], Engine]
) -> None:
    owner = QObject()
    jobs = ShotJobs(session, lambda: engine_of("import sys; sys.exit('the disk is full; make room')"), owner)
    said, is_good = mattes_exported(qtbot, exports, jobs)
    assert not is_good
    assert said[-1] == ("Mattes: the disk is full; make room", "trouble")


def test_mattes_that_cannot_begin_fail_the_export(qtbot: QtBot, exports: ExportRunner, session: ShotSession) -> None:
    def engine() -> Engine:
        raise UsageError("no engine; set ROTOPAINT_PYTHON")

    owner = QObject()
    said, is_good = mattes_exported(qtbot, exports, ShotJobs(session, engine, owner))
    assert not is_good
    assert said[-1] == ("Mattes: no engine; set ROTOPAINT_PYTHON", "trouble")


def test_an_export_goes_where_it_was_sent_whatever_is_typed_or_opened_meanwhile(
    qtbot: QtBot, session: ShotSession, facts: PlateFacts, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab, host = ExportTab(session, "Export"), FakeHost()
    qtbot.addWidget(tab)
    for box in tab.formats.values():
        box.setChecked(False)
    tab.mattes.setChecked(True)
    tab.folder.setText(str(tmp_path / "first"))
    exports, asked, drawn = ExportRunner(session, host, tab, tab), list[Any](), list[Path]()
    exports.mattes_wanted.connect(lambda document, folder: drawn.append(folder))
    monkeypatch.setattr(exports._writer, "ask", lambda engine, request, reply, *more: asked.append((request, reply)))
    exports.export()
    session.open(replace(facts, name="other"), tmp_path / "other")
    tab.folder.setText(str(tmp_path / "second"))
    request, reply = asked[0]
    documents.write(Path(request["reduced"]), make_document())
    reply({"files": []})
    assert drawn == [tmp_path / "first"]
    assert host.exported == [(make_document(), out / "shapes.roto.json")]
    exports.shut_down()


def test_a_folder_that_is_none_is_refused_before_anything_is_written(exports: ExportRunner, tmp_path: Path) -> None:
    said: list[str] = []
    exports.message_sent.connect(lambda text, kind: said.append(text))
    (tmp_path / "a file").touch()
    for given in ("  ", str(tmp_path / "a file")):
        exports._tab.folder.setText(given)
        exports.export()
        assert not exports.is_running
    assert said[0] == "Export: no folder is given; name one in the Export tab"
    assert said[1].startswith(f"{tmp_path / 'a file'}: is no folder that can be written to (")
    assert said[1].endswith("choose another folder")


def test_a_file_that_the_disk_refuses_is_reported_without_numbers_of_errors(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    target = str(tmp_path / "a file" / "shapes.svg")
    request = {"ask": "export", "tolerance_px": 0.0, "targets": [target], "reduced": None}
    (row,) = export_worker.answer(request, documents.dumps(make_document()))["files"]
    assert row["error"].startswith(f"{target}: cannot be written (")
    assert "Errno" not in row["error"]


def test_the_tab_says_what_waits_for_training(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, tab = panel.session, panel.inspector.export
    session.open(facts, out)
    session.take_results(read_run_results(out))
    panel.inspector.setCurrentWidget(tab)
    assert tab.training.text() == "Frames that you correct or accept wait in the project for training."
    session.start_project(out / "shot.rotopaint")
    session.review.mark([1001, 1002], "accepted")
    session.review.mark([1003], "needs work")
    assert tab.training.text() == "2 corrected or accepted frames wait in the project: rotopaint mine shot.rotopaint"
    assert [each.frame for each in corrections(out / "shot.rotopaint").frames] == [1001, 1002]
