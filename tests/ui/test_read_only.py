"""A project that another panel has open: nothing in the owner's folder is written, and one line says who has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes import edit
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.inspector.export_tab import ExportTab
from rotopaint_ui.inspector.frame_tab import FrameTab
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.autosave import Autosave
from rotopaint_ui.services.shot_jobs import ShotJobs
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.settings.preferences import Preferences

from .conftest import FakeHost


@pytest.fixture
def reader(session: ShotSession, facts: PlateFacts, out: Path) -> Iterator[ShotSession]:
    """A second session on the project that the first one has open, with a change of its own."""
    session.start_project(results=read_run_results(out))
    path = session.project.path
    assert path is not None
    reader = ShotSession()
    reader.open_project(path)
    reader.open(facts, out)
    document = reader.document
    assert document is not None
    wide = edit.replace_shape(document, "seam", replace(document.shape("seam"), width_px=9.0))
    reader.edits.push("seam", replace(reader.state, document=wide))
    yield reader
    reader.close()
    session.close()


def files_of(folder: Path) -> dict[Path, bytes]:
    """The files that artists read; the project file is left out, because its owner writes to it meanwhile."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".rotopaint" not in path.name)
    return {path: path.read_bytes() for path in found}


def test_the_line_names_who_has_it_and_the_way_out(reader: ShotSession) -> None:
    assert reader.project.refusal is not None
    assert reader.project.path is not None
    assert reader.project.refusal.startswith(
        f"{reader.project.path.name}: {reader.project.lock_owner} has the project open"
    )
    assert reader.project.refusal.endswith("close it there, or choose another folder")


def test_run_and_make_are_refused(reader: ShotSession, out: Path) -> None:
    owner, said, before = QObject(), list[str](), files_of(out)

    def engine() -> Engine:
        raise AssertionError("the engine was asked for")

    jobs = ShotJobs(reader, engine, owner)
    jobs.message_sent.connect(lambda text, kind: said.append(text))
    jobs.run(PlateChoice("plate.####.png"), None, Preferences())
    jobs.make_clean(PlateChoice("plate.####.png"), None, Preferences(), patch=False)
    assert said == [reader.project.refusal] * 2
    assert not jobs.is_running
    assert files_of(out) == before


def test_edits_that_cannot_be_saved_are_refused_and_not_shown(qtbot: QtBot, reader: ShotSession, panel: Panel) -> None:
    path, plate = reader.project.path, reader.plate
    assert path is not None
    assert plate is not None
    session = panel.session
    session.open_project(path)
    session.open(plate)
    session.select("seam")
    state, width = session.state, panel.inspector.seam.width_px
    panel.commands["accept"].trigger()
    width.setValue(9.0)
    assert not session.names.rename("seam", "Nose")
    session.corrections.refit()
    session.corrections.spread(1001, 1001, 1003)
    panel.commands["find_face"].trigger()
    panel.commands["clear_touchup"].trigger()
    assert session.state is state
    assert not panel.commands["accept"].isChecked()
    assert width.value() == 4.0
    lines = [
        line for line in panel.status.history if f"Read only: {session.project.lock_owner} has the project open" in line
    ]
    assert len(lines) == 7


def test_autosave_says_it_once_and_save_each_time(qtbot: QtBot, reader: ShotSession, out: Path) -> None:
    owner, said, before = QObject(), list[str](), files_of(out)
    autosave = Autosave(reader, lambda: True, owner)
    autosave.failed.connect(said.append)
    autosave.set_rest(0)
    autosave.touch()
    qtbot.waitUntil(lambda: len(said) == 1, timeout=120_000)
    autosave._write_beside()
    assert said == [f"Not saved: {reader.project.refusal}"]
    autosave.save()
    assert said == [f"Not saved: {reader.project.refusal}"] * 2
    assert files_of(out) == before


def test_exports_go_anywhere_but_into_the_owners_folder(
    qtbot: QtBot, reader: ShotSession, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = ExportTab(reader, None)
    qtbot.addWidget(tab)
    tab.refresh()
    exports, said, asked = ExportRunner(reader, FakeHost(), tab, tab), list[str](), list[object]()
    exports.message_sent.connect(lambda text, kind: said.append(text))
    monkeypatch.setattr(exports._writer, "ask", lambda *words: asked.append(words))
    exports.export()
    assert (said, asked) == ([reader.project.refusal], [])
    tab.folder.setText(str(tmp_path / "mine"))
    exports.export()
    assert len(asked) == 1
    exports.shut_down()


def test_notes_that_cannot_be_saved_cannot_be_typed(qtbot: QtBot, reader: ShotSession) -> None:
    tab = FrameTab(reader)
    qtbot.addWidget(tab)
    tab.show()
    tab.refresh()
    qtbot.keyClicks(tab.note, "lip jumps")
    assert tab.note.text() == ""
    assert "read only" in tab.note.placeholderText()
