"""Several seams chosen in Shapes are set together, with the keys and the mouse of an artist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QDoubleSpinBox
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import make_document

NAMES = ("left", "right", "bridge")
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A shot with three seams of 4, 4 and 6 px, all selected with Ctrl and the mouse; the Seam tab is in front."""
    document = make_document()
    seam = document.shape("seam")
    seams = tuple(replace(seam, name=name, width_px=width) for name, width in zip(NAMES, (4.0, 4.0, 6.0)))
    documents.write(out / "shapes.roto.json", replace(document, shapes=(*seams, document.shape("eye"))))
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=120_000)
    panel.inspector.setCurrentWidget(panel.inspector.shapes)
    for name, held in zip(NAMES, (Qt.KeyboardModifier.NoModifier, *2 * (Qt.KeyboardModifier.ControlModifier,))):
        click_row(qtbot, panel, name, held)
    panel.inspector.setCurrentWidget(panel.inspector.seam)
    return panel


def click_row(
    qtbot: QtBot, panel: Panel, name: str, held: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    tree = panel.inspector.shapes.tree
    box = tree.visualItemRect(panel.inspector.shapes.row_of(name))
    qtbot.mouseClick(tree.viewport(), LEFT, held, QPoint(box.left() + 30, box.center().y()))


def type_number(qtbot: QtBot, box: QDoubleSpinBox, text: str) -> None:
    box.setFocus()
    box.selectAll()
    qtbot.keyClicks(box, text)
    qtbot.keyClick(box, Qt.Key.Key_Return)


def widths(panel: Panel) -> dict[str, float | None]:
    document = panel.session.state.document
    assert document is not None
    return {name: document.shape(name).width_px for name in NAMES}


def test_a_closed_shape_beside_seams_has_no_width_to_show(qtbot: QtBot, shot: Panel) -> None:
    for name in ("left", "right"):
        shot.inspector.setCurrentWidget(shot.inspector.shapes)
        click_row(qtbot, shot, name, Qt.KeyboardModifier.ControlModifier)
    click_row(qtbot, shot, "eye", Qt.KeyboardModifier.ControlModifier)
    assert shot.session.selection.shapes == {"bridge", "eye"}
    shot.inspector.setCurrentWidget(shot.inspector.seam)
    assert shot.inspector.seam.width_px.text() == "6.00 px"


def test_a_width_is_taken_by_every_chosen_seam_in_one_step(qtbot: QtBot, shot: Panel) -> None:
    seam = shot.inspector.seam
    assert (seam.width_px.text(), seam.feather_px.text()) == ("mixed", "0.00 px")
    type_number(qtbot, seam.width_px, "6")
    assert widths(shot) == dict.fromkeys(NAMES, 6.0)
    assert seam.width_px.text() == "6.00 px"
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert widths(shot) == {"left": 4.0, "right": 4.0, "bridge": 6.0}
    assert seam.width_px.text() == "mixed"


def test_a_taper_is_set_for_all_and_leaves_the_other_end_as_it_was(qtbot: QtBot, shot: Panel) -> None:
    session, seam = shot.session, shot.inspector.seam
    session.seams.set({"left": replace(session.seams.of("left"), taper=(0.1, 0.3))})
    assert (seam.taper_start.text(), seam.taper_end.text()) == ("mixed", "mixed")
    type_number(qtbot, seam.taper_start, "20")
    assert {name: session.seams.of(name).taper for name in NAMES} == {
        "left": (0.2, 0.3),
        "right": (0.2, 0.0),
        "bridge": (0.2, 0.0),
    }


def test_methods_that_differ_are_mixed_and_going_back_means_all(qtbot: QtBot, shot: Panel) -> None:
    session, seam = shot.session, shot.inspector.seam
    session.seams.set({"right": replace(session.seams.of("right"), method="two-bank", width_px=9.0)})
    assert seam.method.currentIndex() == -1
    qtbot.mouseClick(seam.reset, LEFT)
    assert session.state.seams == {}
    assert widths(shot) == {"left": 4.0, "right": 4.0, "bridge": 6.0}


def test_hold_outs_that_differ_are_between_and_a_click_sets_all(qtbot: QtBot, shot: Panel) -> None:
    session, box = shot.session, shot.inspector.seam.hold_out
    assert box.checkState() is Qt.CheckState.Checked
    for seams, state in ((("right",), Qt.CheckState.PartiallyChecked), (NAMES, Qt.CheckState.Unchecked)):
        session.seams.set({name: replace(session.seams.of(name), hold_out=False) for name in seams})
        assert box.checkState() is state
    for is_held in (True, False):
        box.click()
        assert [session.seams.of(name).hold_out for name in NAMES] == [is_held] * 3
        assert box.checkState() is (Qt.CheckState.Checked if is_held else Qt.CheckState.Unchecked)
    session.edits.undo()
    assert all(session.seams.of(name).hold_out for name in NAMES)
    session.seams.set({"right": replace(session.seams.of("right"), hold_out=False)})
    box.click()
    assert all(session.seams.of(name).hold_out for name in NAMES)


def test_row_clicks_and_return_in_a_box_return_the_keys(qtbot: QtBot, shot: Panel) -> None:
    shot.canvas.setFocus()
    shot.inspector.setCurrentWidget(shot.inspector.shapes)
    click_row(qtbot, shot, "right")
    assert shot.session.selection.shape == "right"
    assert QApplication.focusWidget() is shot.canvas
    shot.inspector.setCurrentWidget(shot.inspector.seam)
    type_number(qtbot, shot.inspector.seam.width_px, "5")
    qtbot.waitUntil(lambda: QApplication.focusWidget() is shot.canvas, timeout=120_000)
    frame = shot.review_bar.frame
    frame.setFocus()
    frame.selectAll()
    qtbot.keyClicks(frame, "1002")
    qtbot.keyClick(frame, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: QApplication.focusWidget() is shot.canvas, timeout=120_000)
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Right)
    assert shot.session.frame == 1003


def test_choosing_a_view_leaves_the_keys_to_the_viewer(qtbot: QtBot, shot: Panel) -> None:
    view = shot.view_bar.view
    shot.view_bar.show_views(["Raw"])
    view.setFocus()
    view.showPopup()
    qtbot.waitUntil(view.view().isVisible, timeout=120_000)
    qtbot.keyClick(view.view(), Qt.Key.Key_Down)
    qtbot.keyClick(view.view(), Qt.Key.Key_Return)
    assert shot.view_bar.look.view == "Raw"
    qtbot.waitUntil(lambda: shot.focusWidget() is shot.canvas, timeout=20_000)  # whichever window is in front
