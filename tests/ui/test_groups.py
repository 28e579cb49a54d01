"""Groups of shapes, made and moved with real keys and a real mouse; places are worked out by hand (see `mouse`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDropEvent, QImage, QPainter
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes.layers import LayerPose
from rotopaint_ui.inspector.shapes_tab import ERROR, LOCK, NAME, ShapesTab
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.repeats import repeated_correction
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.timeline.axis import Axis
from rotopaint_ui.timeline.dope_sheet import DopeSheet, SheetArea
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import make_document
from .mouse import CTRL, LEFT, NONE, SHIFT, Near, drag, spot


def xy(session: ShotSession, shape: str, frame: int) -> list[tuple[float, float]]:
    assert session.document is not None
    return [(p.x, p.y) for p in session.document.shape(shape).at(frame)]


def pose(session: ShotSession, frame: int) -> LayerPose:
    assert session.document is not None
    return session.document.layers[0].pose_at(frame)


def painted(session: ShotSession, hand: tuple[int, ...]) -> QImage:
    """The first row of the dope sheet as drawn, with landmarks placed on the frames of `hand`."""
    image = QImage(300, 40, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.black)
    painter = QPainter(image)
    DopeSheet(session).paint(painter, SheetArea(Axis.whole(1001, 1006, 300), 0.0, 1), hand, ())
    painter.end()
    return image


@pytest.fixture
def grouped(canvas: Canvas, session: ShotSession) -> ShotSession:
    """The eye (20, 8), (28, 8), (24, 14) in a group, which is selected."""
    session.select("eye")
    assert canvas.edit("group")
    return session


def test_a_landmark_placed_by_hand_is_no_key_of_a_group(grouped: ShotSession) -> None:
    assert painted(grouped, (1003,)) == painted(grouped, ())
    grouped.select(None)
    assert painted(grouped, (1003,)) != painted(grouped, ())


def test_a_group_is_moved_from_key_to_key_and_its_shapes_go_along(
    qtbot: QtBot, canvas: Canvas, grouped: ShotSession
) -> None:
    session = grouped
    canvas.tool = "transform"
    drag(qtbot, canvas, (22, 9), (27, 11))
    assert session.edits.last_step == "move group"
    assert xy(session, "eye", 1001) == Near([(25, 10), (33, 10), (29, 16)])
    assert xy(session, "eye", 1006) == Near([(25, 10), (33, 10), (29, 16)])  # one key: it lies there throughout
    session.go_to(1005)
    drag(qtbot, canvas, (27, 11), (35, 11))
    assert xy(session, "eye", 1005) == Near([(33, 10), (41, 10), (37, 16)])
    assert xy(session, "eye", 1003) == Near([(29, 10), (37, 10), (33, 16)])
    assert xy(session, "eye", 1001) == Near([(25, 10), (33, 10), (29, 16)])
    assert xy(session, "seam", 1001) == [(10, 20), (30, 20), (50, 20)]
    assert DopeSheet(session).rows[0].sources == {1001: "human", 1005: "human"}
    assert canvas.edit("delete_key")
    assert xy(session, "eye", 1005) == Near([(25, 10), (33, 10), (29, 16)])
    steps = [session.edits.undo() for _ in range(4)]
    assert steps == ["delete group key", "move group", "move group", "group"]
    assert session.document is not None
    assert session.document.layers == ()


def test_a_group_that_is_moved_teaches_nothing(qtbot: QtBot, canvas: Canvas, grouped: ShotSession) -> None:
    """Its shapes stay the models': no frame counts as keyed or corrected, and the predictions move along."""
    canvas.tool = "transform"
    drag(qtbot, canvas, (22, 9), (27, 11))
    assert canvas.edit("nudge_right")
    grouped.edits.end_burst()
    state = grouped.state
    assert state.document is not None
    assert state.predicted is not None
    assert {key.source for key in state.document.shape("eye").keys.values()} == {"model"}
    assert state.predicted.shape("eye").keys == state.document.shape("eye").keys
    assert grouped.review.corrected_frames() == frozenset()
    assert repeated_correction(state.predicted, state.document, grouped.hold_frames) is None
    assert DopeSheet(grouped).rows[0].sources == {1001: "human"}  # the key of the group itself is a person's
    assert [grouped.edits.undo() for _ in range(2)] == ["nudge group", "move group"]
    assert grouped.state.predicted == make_document()


def test_a_group_turns_and_scales_about_its_pivot_and_is_nudged(
    qtbot: QtBot, canvas: Canvas, grouped: ShotSession
) -> None:
    """The pivot is moved to (20, 8), and the mouse goes a quarter turn around it."""
    session, said = grouped, list[str]()
    session.message_sent.append(said.append)
    session.edits.made.append(said.append)
    canvas.tool = "transform"
    drag(qtbot, canvas, (24, 11), (20, 8))  # the pivot, from the middle of the box
    assert (session.edits.last_step, said[-1].split(":")[0]) == ("group", "Moved the pivot")
    right = canvas.view.to_screen(28, 14) + QPointF(12 + 20, 0)  # outside of the box, to the right
    start, end = canvas.view.to_plate(right), (20.0, 8.0)
    across, down = start[0] - end[0], start[1] - end[1]
    drag(qtbot, canvas, start, (end[0] - down, end[1] + across))  # a quarter clockwise
    assert session.edits.last_step == "rotate group"
    assert pose(session, 1001).degrees == pytest.approx(90, abs=1.5)
    assert (pose(session, 1001).pivot_x, pose(session, 1001).pivot_y) == pytest.approx((20, 8), abs=0.1)
    assert xy(session, "eye", 1001)[0] == pytest.approx((20, 8), abs=0.1)
    assert xy(session, "eye", 1001)[1][1] == pytest.approx(16, abs=0.3)
    before = xy(session, "eye", 1001)
    for _ in range(2):
        assert canvas.edit("nudge_right")
    session.edits.end_burst()
    assert session.edits.last_step == "nudge group"
    assert xy(session, "eye", 1001) == Near([(x + 2, y) for x, y in before])


def test_a_scaled_group_keeps_its_pivot(qtbot: QtBot, canvas: Canvas, grouped: ShotSession) -> None:
    session = grouped
    canvas.tool = "transform"
    corner = canvas.view.to_plate(canvas.view.to_screen(28, 14) + QPointF(12, 12))
    middle = (24.0, 11.0)
    to = (middle[0] + 2 * (corner[0] - middle[0]), middle[1] + 2 * (corner[1] - middle[1]))
    drag(qtbot, canvas, corner, to)
    assert session.edits.last_step == "scale group"
    assert xy(session, "eye", 1001) == Near([(16, 5), (32, 5), (24, 17)])
    assert xy(session, "eye", 1005) == Near([(16, 5), (32, 5), (24, 17)])


def test_a_group_that_is_scaled_to_nothing_again_and_again_keeps_a_size(
    qtbot: QtBot, canvas: Canvas, grouped: ShotSession
) -> None:
    """Each drag moves the corner of the box (12 screen pixels outside) to the box's middle, (24, 11)."""
    canvas.tool = "transform"
    for _ in range(3):
        x, y = (max(each) for each in zip(*xy(grouped, "eye", 1001)))
        drag(qtbot, canvas, canvas.view.to_plate(canvas.view.to_screen(x, y) + QPointF(12, 12)), (24, 11))
        assert grouped.edits.last_step == "scale group"
    assert (pose(grouped, 1001).scale_x, pose(grouped, 1001).scale_y) == (0.001, 0.001)
    assert [grouped.edits.undo() for _ in range(3)] == ["scale group", "scale group", "group"]  # the third did nothing


@pytest.mark.parametrize("way", ["drag", "nudge", "key"])
def test_the_first_key_of_a_group_has_its_pivot_within(
    qtbot: QtBot, canvas: Canvas, grouped: ShotSession, way: str
) -> None:
    """The pivot is the middle of the box from (20, 8) to (28, 14), or the mean of the points, (24, 10), not the plate's
    corner."""
    canvas.tool = "transform"
    if way == "drag":
        drag(qtbot, canvas, (22, 9), (27, 9))
    else:
        assert canvas.edit("nudge_right" if way == "nudge" else "set_key")
    found = pose(grouped, 1001)
    assert (found.pivot_x, found.pivot_y) == pytest.approx((24, 11) if way == "drag" else (24, 10), abs=1e-6)


@pytest.fixture
def tab(qtbot: QtBot, session: ShotSession) -> ShapesTab:
    tab = ShapesTab(session)
    qtbot.addWidget(tab)
    session.listeners.append(tab.refresh)
    tab.resize(320, 400)
    tab.show()
    tab.refresh()
    return tab


def fall(tab: ShapesTab, on: str) -> None:
    """The event that Qt sends to the tree when the selected rows are dropped on a row."""
    row = tab.row_of(on) if on in ("seam", "eye") else tab.tree.layer_row(on)
    place = QPointF(tab.tree.visualItemRect(row).center())
    data = tab.tree.mimeData(tab.tree.selectedItems())
    tab.tree.dropEvent(QDropEvent(place, Qt.DropAction.MoveAction, data, LEFT, NONE))


def test_shapes_are_dragged_into_a_group_and_out_of_it(
    qtbot: QtBot, canvas: Canvas, session: ShotSession, tab: ShapesTab
) -> None:
    session.select("eye")
    canvas.edit("group")
    assert tab.row_of("eye").parent() is tab.tree.layer_row("group_1")
    assert tab.row_of("seam").text(ERROR) == "0.20"
    assert tab.row_of("seam").foreground(ERROR).style() != Qt.BrushStyle.NoBrush  # in the colour of its doubt
    assert tab.tree.topLevelItem(0) is tab.tree.layer_row("group_1")  # groups first
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, tab.tree.visualItemRect(tab.row_of("seam")).center())
    assert session.selection.shapes == {"seam"}
    fall(tab, "eye")
    qtbot.waitUntil(lambda: session.edits.last_step == "into group")
    assert tab.row_of("seam").parent() is tab.tree.layer_row("group_1")
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, tab.tree.visualItemRect(tab.tree.layer_row("group_1")).center())
    assert (session.selection.layer, session.selection.shapes) == ("group_1", {"seam", "eye"})
    place = tab.tree.visualRect(tab.tree.indexFromItem(tab.tree.layer_row("group_1"), LOCK)).center()
    qtbot.mouseClick(tab.tree.viewport(), LEFT, NONE, QPoint(place))
    assert session.locked == {"seam", "eye"}
    tab.tree.layer_row("group_1").setText(NAME, "face")
    qtbot.waitUntil(lambda: session.edits.last_step == "rename group")
    assert session.selection.layer == "face"
    session.select("eye")
    assert session.selection.layer is None


def test_a_badly_named_group_keeps_its_name(qtbot: QtBot, canvas: Canvas, session: ShotSession, tab: ShapesTab) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    session.select("eye")
    canvas.edit("group")
    tab.tree.layer_row("group_1").setText(NAME, " ")
    qtbot.waitUntil(lambda: bool(said) and "choose a name that is free" in said[-1])
    assert tab.tree.layer_row("group_1").text(NAME) == "group_1"


def test_keys_group_and_ungroup(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    said: list[str] = []
    session.message_sent.append(said.append)
    session.select(None)
    qtbot.keyClick(shot.canvas, Qt.Key.Key_G, CTRL)
    assert said[-1].startswith("Select a shape first")
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert said[-1].startswith("Select a shape first")  # a nudge without a selection
    session.select("eye")
    qtbot.keyClick(shot.canvas, Qt.Key.Key_G, CTRL | SHIFT)
    assert said[-1] == "eye is in no group"
    qtbot.keyClick(shot.canvas, Qt.Key.Key_G, CTRL)
    assert session.selection.layer == "group_1"
    assert "T moves, turns and scales it" in said[-1]
    qtbot.keyClick(shot.canvas, Qt.Key.Key_K, CTRL)
    assert session.edits.last_step == "set group key"
    session.go_to(1005)
    qtbot.keyClick(shot.canvas, Qt.Key.Key_K, CTRL)
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Left, CTRL)
    assert session.frame == 1001
    qtbot.keyClick(shot.canvas, Qt.Key.Key_G, CTRL | SHIFT)
    assert session.edits.last_step == "ungroup"
    assert session.document is not None
    assert session.document.layers == ()
    assert replace(session.selection, layer=None).shapes == {"eye"}


def test_a_click_selects_a_shape_of_a_group_alone(qtbot: QtBot, canvas: Canvas, grouped: ShotSession) -> None:
    """The group as a whole is then deselected."""
    canvas.tool = "select"
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 8)))
    assert grouped.selection.layer is None
    assert grouped.selection.shape == "eye"
