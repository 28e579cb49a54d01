"""Several faces of a shot in the panel, by real keys: named, chosen, and brought back with what was known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.state import CropBox
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.shot_files import PlateFacts

from .conftest import grabbed
from .mouse import ALT, CTRL, LEFT, SHIFT, spot

K = Qt.Key


def type_face(qtbot: QtBot, panel: Panel, name: str) -> None:
    field = panel.top.face.lineEdit()
    assert field is not None
    qtbot.mouseDClick(field, LEFT)
    field.selectAll()
    qtbot.keyClicks(field, name)
    qtbot.keyClick(field, K.Key_Return)


@pytest.fixture
def two(qtbot: QtBot, shot: Panel) -> Panel:
    """A shot of two faces: the run's face is named Anna, and Bo is the current one."""
    shot.session.run = replace(shot.session.run, held=((1002, 1003),))
    shot.session.start_project()
    type_face(qtbot, shot, "Anna")
    type_face(qtbot, shot, "Bo")
    return shot


def test_the_first_name_groups_the_models_shapes(qtbot: QtBot, shot: Panel) -> None:
    type_face(qtbot, shot, "Anna")
    assert (shot.session.state.face, shot.session.edits.last_step) == ("Anna", "name face")
    assert shot.session.document is not None
    assert {layer.name for layer in shot.session.document.layers} == {"Anna"}
    assert "its shapes a group of that name" in shot.status.text.text()
    type_face(qtbot, shot, "An/na")
    assert (shot.session.state.face, shot.top.face.currentText()) == ("Anna", "Anna")
    assert "holds '/'" in shot.status.text.text()


def test_another_name_takes_another_face_and_the_first_one_stays(qtbot: QtBot, two: Panel) -> None:
    session = two.session
    assert session.document is not None
    assert [shape.name for shape in session.document.shapes] == ["Anna_seam", "Anna_eye"]
    assert session.run.errors == {}  # nothing is known of Bo's frames but that some are held, which the plate says
    assert session.hold_frames(1003) == range(1002, 1004)
    assert [two.top.face.itemText(row) for row in range(two.top.face.count())] == ["Anna", "Bo"]
    two.top.show_pack("kubo")
    type_face(qtbot, two, "Anna")
    assert [shape.name for shape in session.document.shapes] == ["seam", "eye"]
    assert session.run.errors[1003]["seam"] == 2.0
    assert two.top.chosen_pack is None  # with which Anna was run
    type_face(qtbot, two, "Bo")
    assert two.top.chosen_pack == "kubo"
    for _ in range(2):
        qtbot.keyClick(two.canvas, K.Key_Z, CTRL)
    assert (session.state.face, session.edits.last_step) == ("Bo", "choose face")


def test_error_rows_show_the_current_face(qtbot: QtBot, two: Panel) -> None:
    assert two.timeline._shown_names() == ()
    type_face(qtbot, two, "Anna")
    assert two.timeline._shown_names() == ("seam", "eye")


def test_hidden_and_painted_stay_so_under_the_other_names(qtbot: QtBot, two: Panel) -> None:
    session = two.session
    type_face(qtbot, two, "Anna")
    session.show("eye", False)
    session.painting.note([1001, 1002], session.state)
    stale = session.stale_frames()
    type_face(qtbot, two, "Bo")
    assert session.hidden == {"Anna_eye"}
    assert session.stale_frames() == stale


def test_undo_of_a_face_change_keeps_hidden_and_locked_shapes(qtbot: QtBot, two: Panel) -> None:
    session = two.session
    type_face(qtbot, two, "Anna")
    session.show("eye", False)
    session.lock("seam", True)
    type_face(qtbot, two, "Bo")
    assert (session.hidden, session.locked) == ({"Anna_eye"}, {"Anna_seam"})
    qtbot.keyClick(two.canvas, K.Key_Z, CTRL)
    assert (session.state.face, session.hidden, session.locked) == ("Anna", {"eye"}, {"seam"})
    qtbot.keyClick(two.canvas, K.Key_Z, CTRL | SHIFT)
    assert (session.state.face, session.hidden, session.locked) == ("Bo", {"Anna_eye"}, {"Anna_seam"})


def test_faces_are_there_when_the_project_is_opened_again(qtbot: QtBot, two: Panel, facts: PlateFacts) -> None:
    project = two.session.project.path
    assert project is not None
    two.session.close()
    two.session.open_project(project)
    two.session.open(facts)
    assert (two.session.state.face, sorted(two.session.state.faces)) == ("Bo", ["Anna"])
    type_face(qtbot, two, "Anna")
    assert two.session.run.errors[1003]["seam"] == 2.0


def test_a_group_of_a_face_is_renamed_with_it(qtbot: QtBot, two: Panel) -> None:
    two.inspector.shapes._rename_layer("Anna", "Lena")
    assert sorted(two.session.state.faces) == ["Lena"]
    assert [two.top.face.itemText(row) for row in range(two.top.face.count())] == ["Bo", "Lena"]
    assert two.session.edits.last_step == "rename face"


def brightest(panel: Panel, place: tuple[float, float]) -> int:
    """The brightest green within two pixels of a place of the plate, without landmarks drawn."""
    centre = spot(panel.canvas, place)
    seen = grabbed(panel.canvas)
    return int(seen[centre.y() - 2 : centre.y() + 3, centre.x() - 2 : centre.x() + 3, 1].max())


def test_shapes_of_another_face_are_dimmed_until_they_are_selected(qtbot: QtBot, two: Panel) -> None:
    qtbot.keyClick(two.canvas, K.Key_L, SHIFT)
    aside = brightest(two, (22, 20))
    type_face(qtbot, two, "Anna")
    own = brightest(two, (22, 20))
    assert 30 < aside < 0.75 * own
    type_face(qtbot, two, "Bo")
    two.session.select("Anna_eye", also=("Anna_seam",))
    assert brightest(two, (22, 20)) > 0.9 * own


def test_a_key_goes_from_face_to_face(qtbot: QtBot, two: Panel) -> None:
    for name in ("Anna", "Bo", "Anna"):
        qtbot.keyClick(two.canvas, K.Key_PageDown, ALT)
        assert (two.session.state.face, two.top.face.currentText()) == (name, name)
    qtbot.keyClick(two.canvas, K.Key_Z, CTRL)
    assert two.session.state.face == "Bo"


def test_the_key_says_why_where_there_is_one_face(qtbot: QtBot, shot: Panel) -> None:
    qtbot.keyClick(shot.canvas, K.Key_PageDown, ALT)
    assert shot.status.text.text() == "This shot has no other face: type a name into the box Face beside the packs"


def test_a_face_that_was_never_run_has_its_box_back(qtbot: QtBot, panel: Panel, facts: PlateFacts) -> None:
    session, box = panel.session, CropBox(5.0, 6.0, 30.0, 32.0)
    session.open(facts)
    session.edits.push("crop box", replace(session.state, crops={1002: box}))
    for name in ("Anna", "Bo", "Anna"):
        type_face(qtbot, panel, name)
        assert session.state.crops == ({} if name == "Bo" else {1002: box})
