"""Shapes under names that an artist gives them: undone, kept, exported; their own name stays what models know."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.names import rename_shapes, with_name
from rotopaint_ui.inspector.export_tab import ExportTab
from rotopaint_ui.inspector.shapes_tab import EYE, NAME, ShapesTab
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.session.session import ShotSession

from .conftest import FakeHost, make_document
from .mouse import LEFT, NONE


@pytest.fixture
def tab(qtbot: QtBot, session: ShotSession) -> ShapesTab:
    tab = ShapesTab(session)
    qtbot.addWidget(tab)
    session.listeners.append(tab.refresh)
    tab.resize(320, 400)
    tab.show()
    tab.refresh()
    return tab


def test_typing_in_the_tree_renames_in_one_step(qtbot: QtBot, tab: ShapesTab, session: ShotSession) -> None:
    tab.row_of("seam").setText(NAME, "Bridge")
    qtbot.waitUntil(lambda: session.state.names == {"seam": "Bridge"}, timeout=120_000)
    assert session.edits.last_step == "rename shape"
    assert tab.row_of("seam").text(NAME) == "Bridge"
    eye = tab.tree.visualRect(tab.tree.indexFromItem(tab.row_of("seam"), EYE)).center()
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, eye)
    assert session.hidden == {"seam"}  # the eye of a renamed shape is its own
    session.edits.undo()
    assert tab.row_of("seam").text(NAME) == "seam"


def test_given_names_that_meet_another_shapes_own_name_are_not_handed_on() -> None:
    document = make_document()
    assert rename_shapes(document, {"seam": "Bridge"}).shape("Bridge").role == "seam"
    for meets in ("eye", "EYE"):  # given when the pack's shapes were other ones
        assert rename_shapes(document, {"seam": meets}) == document


def test_a_name_that_another_shape_has_is_refused_in_one_line(
    qtbot: QtBot, tab: ShapesTab, session: ShotSession
) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    tab.row_of("seam").setText(NAME, "Eye")
    qtbot.waitUntil(lambda: bool(said), timeout=120_000)
    assert said == ["seam: another shape is called Eye; choose a name that is free"]
    assert tab.row_of("seam").text(NAME) == "seam"
    assert not session.edits.can_undo


def test_a_refused_name_is_said_of_the_shape_as_it_is_shown(session: ShotSession) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    assert session.names.rename("seam", "ball")
    assert not session.names.rename("seam", "eye")
    assert not session.names.rename("seam", "a/b")
    assert said[0] == "ball: another shape is called eye; choose a name that is free"
    assert said[1].startswith("ball: the name holds '/'")
    assert session.names.in_message("shape 'seam': gone, not shape 'eye'") == "shape 'ball': gone, not shape 'eye'"


@pytest.mark.parametrize(
    ("given", "why"),
    [("a/b", "holds '/'"), ("x" * 101, "is 101 long"), (".hidden", "begins with a dot"), ("a\nb", "holds")],
)
def test_names_that_files_cannot_hold_are_refused(given: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        with_name({}, make_document(), "seam", given)


def test_typing_the_original_name_clears_the_given_one() -> None:
    names = with_name({}, make_document(), "seam", " Bridge ")
    assert names == {"seam": "Bridge"}
    assert with_name(names, make_document(), "seam", "") == with_name(names, make_document(), "seam", "seam") == {}
    swapped = with_name(names, make_document(), "eye", "seam")  # the name is free now
    assert [shape.name for shape in rename_shapes(make_document(), swapped).shapes] == ["Bridge", "seam"]
    with pytest.raises(UsageError, match="another shape is called seam"):
        with_name(swapped, make_document(), "seam", "")


def test_exports_carry_the_given_names(qtbot: QtBot, session: ShotSession, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = ExportTab(session, None)
    qtbot.addWidget(tab)
    exports = ExportRunner(session, FakeHost(), tab, tab)
    asked: list[Any] = []
    monkeypatch.setattr(exports._counter, "ask", lambda *words: asked.append(words[-1]))
    assert session.names.rename("seam", "Bridge")
    tab.count_wanted.emit(0.5)
    assert [shape.name for shape in asked[0].shapes] == ["Bridge", "eye"]
    assert session.shapes_file.save() is False  # the working file keeps own names: models and later runs know them
    assert session.shapes_file.path is not None
    assert documents.read(session.shapes_file.path).shapes[0].name == "seam"
    exports.shut_down()
