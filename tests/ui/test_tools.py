"""The tools, driven with a real mouse on the shown viewer; expected places are worked out by hand (see `mouse`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes.roto import ControlPoint
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.inspector.seam_tab import SeamTab
from rotopaint_ui.session.project_file import ProjectFile
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.select_tool import select_under
from rotopaint_ui.tools.toolbox import MouseEvent, ReshapeTool
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import FRAMES
from .mouse import ALT, CTRL, LEFT, NONE, SHIFT, Engine, Near, Place, drag, move, places, points, spot

# --- guard rails ------------------------------------------------------------------------------------------------------


def test_a_click_with_jitter_moves_nothing(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    drag(qtbot, canvas, (30, 20), (30.2, 20.2), (30.1, 20))
    assert places(session)[1] == (30, 20)
    assert not session.edits.can_undo
    assert session.selection.points == {"seam": {1}}


def test_shift_keeps_a_drag_on_one_axis(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", frozenset({0, 1}))
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (36, 22), SHIFT)
    qtbot.mouseRelease(canvas, LEFT, SHIFT, spot(canvas, (36, 22)))
    assert places(session) == Near([(16, 20), (36, 20), (50, 20)])


def test_ctrl_goes_a_tenth_of_the_way_without_a_jump(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (34, 20))
    move(qtbot, canvas, (44, 30), CTRL)
    assert places(session)[1] == pytest.approx((35, 21))
    move(qtbot, canvas, (45, 30))
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (45, 30)))
    assert places(session)[1] == pytest.approx((36, 21))


def test_locked_and_hidden_shapes_cannot_be_taken_hold_of(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.lock("seam", True)
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    assert session.selection.shape is None
    session.select("seam")  # from the tree
    drag(qtbot, canvas, (30, 20), (35, 25))
    assert not canvas.edit("nudge_left")
    assert places(session)[1] == (30, 20)
    session.lock("seam", False)
    session.select("seam")
    drag(qtbot, canvas, (30, 20), (35, 25))
    assert places(session)[1] == (35, 25)


def test_nothing_is_changed_in_a_project_that_is_read_only(
    qtbot: QtBot, canvas: Canvas, session: ShotSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    monkeypatch.setattr(ProjectFile, "is_read_only", property(lambda self: True))
    monkeypatch.setattr(ProjectFile, "lock_owner", property(lambda self: "mia on ws7"))
    before = session.state
    for tool, start in (
        ("select", (30, 20)),
        ("landmark", (30, 20)),
        ("reshape", (30, 20)),
        ("width", (20, 20)),
        ("transform", (30, 20)),
        ("crop", (5, 5)),
    ):
        canvas.tool = tool
        session.select("seam")
        drag(qtbot, canvas, start, (start[0] + 10, start[1] + 10), (start[0] + 12, start[1] + 12))
    assert not any(canvas.edit(name) for name in ("smooth", "nudge_up", "set_key", "delete_key", "feather_more"))
    assert session.state is before
    assert all("mia on ws7" in text for text in said if "Read only" in text)
    assert any("Read only" in text for text in said)


def test_the_frame_stays_while_something_is_dragged(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (33, 24))
    session.go_to(1003)
    move(qtbot, canvas, (34, 25))
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (34, 25)))
    assert session.frame == 1001
    assert (places(session)[1], places(session, "seam", 1003)[1]) == ((34, 25), (30, 22))
    session.go_to(1003)
    assert session.frame == 1003


def test_a_release_that_is_lost_ends_the_drag_all_the_same(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (33, 24))
    point = QPointF(spot(canvas, (40, 40)))
    button = Qt.MouseButton.NoButton
    event = QMouseEvent(QEvent.Type.MouseMove, point, canvas.mapToGlobal(point), button, button, NONE)
    QApplication.sendEvent(canvas, event)
    assert not canvas.is_held
    assert places(session)[1] == (33, 24)
    assert session.edits.undo() == "move points"
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (33, 24))
    canvas.hide()
    assert not session.edits.is_dragging
    assert places(session)[1] == (30, 20)


def test_another_frame_can_be_shown_while_the_engine_still_answers(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    engine = Engine()
    session.corrections.live = engine
    canvas.tool = "landmark"
    drag(qtbot, canvas, (30, 20), (30, 22), (30, 26))
    session.go_to(1003)
    assert session.frame == 1003
    engine.answer()
    assert [y for _, y in places(session)] == [26, 26, 26]
    assert [y for _, y in places(session, "seam", 1003)] == [22, 22, 22]
    assert session.edits.undo() == "move landmark"


def test_escape_leaves_a_rubber_band_and_what_was_selected(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", frozenset({2}))
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (5, 15)))
    move(qtbot, canvas, (33, 25))
    assert canvas.is_held
    canvas.cancel_gesture()
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (33, 25)))
    assert session.selection.points == {"seam": {2}}
    assert not canvas.is_held


# --- points and tangents ----------------------------------------------------------------------------------------------


def test_a_tangent_turns_its_partner_breaks_with_ctrl_and_mirrors_with_shift(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    def dragged(held: Qt.KeyboardModifier) -> ControlPoint:
        session.select("seam", frozenset({1}))
        drag(qtbot, canvas, (35, 20), (33, 22), (30, 30), held=held)
        point = points(session)[1]
        session.edits.undo()
        return point

    assert dragged(NONE) == pytest.approx((30, 20, 0, -5, 0, 10))
    assert dragged(CTRL) == pytest.approx((30, 20, -5, 0, 0, 10))
    assert dragged(SHIFT) == pytest.approx((30, 20, 0, -10, 0, 10))


def test_a_rubber_band_adds_with_shift_and_removes_with_ctrl(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("seam")
    drag(qtbot, canvas, (5, 15), (12, 24), (33, 25))
    assert session.selection.points == {"seam": {0, 1}}
    drag(qtbot, canvas, (45, 15), (47, 20), (55, 25), held=SHIFT)
    assert session.selection.points == {"seam": {0, 1, 2}}
    drag(qtbot, canvas, (25, 15), (30, 20), (35, 26), held=CTRL)
    assert session.selection.points == {"seam": {0, 2}}


def test_a_rubber_band_with_nothing_selected_takes_the_points_of_every_shape_in_it(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    drag(qtbot, canvas, (15, 4), (22, 10), (32, 21))  # all of the eye, one point of the seam
    assert (session.selection.shape, session.selection.others) == ("eye", {"seam"})  # most of the points are the eye's
    assert session.selection.points == {"eye": {0, 1, 2}, "seam": {1}}
    session.select(None)
    session.lock("eye", True)
    drag(qtbot, canvas, (15, 4), (22, 10), (32, 21))
    assert (session.selection.shapes, session.selection.points) == ({"seam"}, {"seam": {1}})
    session.select(None)
    drag(qtbot, canvas, (2, 30), (10, 40), (60, 46))
    assert session.selection.shape is None


def test_the_right_button_selects_what_it_is_pressed_on(canvas: Canvas, session: ShotSession) -> None:
    def pressed(place: Place) -> Selection:
        select_under(canvas.context, MouseEvent(QPointF(spot(canvas, place)), canvas.view, NONE))
        return session.selection

    assert pressed((20, 20)) == Selection("seam")
    assert pressed((30, 20)) == Selection("seam", {"seam": frozenset({1})})
    session.select("seam", frozenset({0, 1}))
    assert pressed((30, 20)) == Selection("seam", {"seam": frozenset({0, 1})})  # a menu for both
    assert pressed((24, 8)) == Selection("eye")
    session.select("seam", frozenset({0}), also=("eye",))
    assert pressed((24, 8)) == Selection("eye", {"seam": frozenset({0})}, frozenset({"seam"}))


def test_ctrl_alt_click_puts_a_point_on_the_curve_in_every_key(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("seam")
    qtbot.mouseClick(canvas, LEFT, CTRL | ALT, spot(canvas, (40, 40)))  # no curve lies there
    assert session.edits.labels == ()
    qtbot.mouseClick(canvas, LEFT, CTRL | ALT, spot(canvas, (40, 20)))
    assert session.document is not None
    assert [len(key.points) for key in session.document.shape("seam").keys.values()] == [4] * len(FRAMES)
    assert places(session)[2] == pytest.approx((40, 20), abs=0.05)
    assert session.selection.points == {"seam": {2}}
    assert canvas.edit("delete")
    assert len(points(session)) == 3
    assert places(session) == Near([(10, 20), (30, 20), (50, 20)])
    assert [session.edits.undo(), session.edits.undo()] == ["delete point", "add point"]


def test_the_points_tool_adds_by_a_click_takes_away_with_ctrl_and_drags(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "points"
    session.select("seam")
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    assert places(session)[1] == pytest.approx((20, 20), abs=0.05)
    drag(qtbot, canvas, (20, 20), (22, 24), (24, 28))
    assert places(session)[1] == pytest.approx((24, 28), abs=0.05)
    qtbot.mouseClick(canvas, LEFT, CTRL, spot(canvas, places(session)[1]))
    assert len(points(session)) == 3
    for _ in range(2):
        qtbot.mouseClick(canvas, LEFT, CTRL, spot(canvas, (10, 20)))
    assert len(points(session)) == 2  # an open shape keeps two


def test_keys_smooth_cusp_join_and_mirror(canvas: Canvas, session: ShotSession) -> None:
    session.select("eye", frozenset({0}))
    assert canvas.edit("smooth")
    first = points(session, "eye")[0]  # neighbours (24, 14) and (28, 8): chord (4, -6)
    chord, back = 52**0.5, (16 + 36) ** 0.5
    assert first == pytest.approx(
        (20, 8, -4 / chord * back / 3, 6 / chord * back / 3, 4 / chord * 8 / 3, -6 / chord * 8 / 3)
    )
    assert points(session, "eye")[1] == ControlPoint(28, 8)
    assert canvas.edit("cusp")
    assert points(session, "eye")[0] == ControlPoint(20, 8)
    session.select("seam", frozenset({0}))
    assert canvas.edit("mirror")
    assert points(session)[0] == pytest.approx((10, 20, -2.5, 0, 2.5, 0))
    assert [session.edits.undo() for _ in range(3)] == ["mirror tangents", "cusp points", "smooth points"]


@pytest.mark.parametrize(
    ("name", "dx", "dy"), [("left", -1, 0), ("right_fine", 0.1, 0), ("up", 0, -1), ("down_far", 0, 10)]
)
def test_nudges_move_the_selected_points(canvas: Canvas, session: ShotSession, name: str, dx: float, dy: float) -> None:
    session.select("seam", frozenset({1}))
    assert canvas.edit(f"nudge_{name}")
    assert places(session) == Near([(10, 20), (30 + dx, 20 + dy), (50, 20)])
    session.select("seam")
    assert canvas.edit(f"nudge_{name}")
    assert places(session)[0] == pytest.approx((10 + dx, 20 + dy))


def test_a_double_click_takes_all_points(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    qtbot.mouseDClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    assert session.selection.points == {"seam": {0, 1, 2}}
    canvas.edit("select_none")
    assert session.selection.shape == "seam"
    canvas.edit("select_none")
    assert session.selection.shape is None
    assert canvas.edit("next_shape")
    assert session.selection.shape == "seam"
    canvas.edit("previous_shape")
    assert session.selection.shape == "eye"


# --- brush, box, width ------------------------------------------------------------------------------------------------


def test_the_brush_pushes_what_is_near_and_shift_sizes_it(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "reshape"
    brush = canvas._tools["reshape"]
    assert isinstance(brush, ReshapeTool)
    session.select("seam")
    drag(qtbot, canvas, (30, 20), (35, 20), (44, 20), held=SHIFT)  # 140 screen pixels wider
    assert brush.radius == 200
    assert not session.edits.can_undo
    drag(qtbot, canvas, (30, 20), (30, 22), (30, 24))
    weight = (1 - 0.0) ** 2
    assert places(session)[1] == pytest.approx((30, 20 + 4 * weight))
    assert places(session)[0] == (10, 20)  # 20 plate pixels away: at the very edge
    assert points(session)[1].out_dy == pytest.approx(4 * (1 - (5 / 20) ** 2) ** 2 - 4)
    assert session.edits.undo() == "reshape"
    canvas.brush_smaller()
    canvas.brush_larger()
    assert brush.radius == pytest.approx(200)


def test_the_box_moves_scales_and_turns_about_its_pivot(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "transform"
    session.select("eye")  # box (20, 8) to (28, 14), drawn 1.2 plate pixels wider; pivot (24, 11)
    drag(qtbot, canvas, (22, 12), (23, 12), (25, 14))
    assert places(session, "eye") == Near([(23, 10), (31, 10), (27, 16)])
    session.edits.undo()
    drag(qtbot, canvas, (29.2, 15.2), (30, 16), (34.4, 19.4))  # 5.2 and 4.2 from the pivot: twice as far
    assert places(session, "eye") == Near([(16, 5), (32, 5), (24, 17)])
    session.edits.undo()
    drag(qtbot, canvas, (24 + 7, 11), (28, 18), (24, 11 + 6))  # a quarter turn, clockwise to the eye
    assert places(session, "eye") == Near([(27, 7), (27, 15), (21, 11)])
    assert session.edits.undo() == "rotate points"
    drag(qtbot, canvas, (24, 11), (22, 9), (20, 8))  # the pivot
    drag(qtbot, canvas, (29.2, 15.2), (30, 16), (29.2 + 9.2, 15.2), held=NONE)
    assert places(session, "eye")[0] == pytest.approx((20, 8))
    assert places(session, "eye")[1] == pytest.approx((36, 8))


def test_shift_scales_both_ways_alike_and_turns_by_fifteen_degrees(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "transform"
    session.select("eye")
    drag(qtbot, canvas, (29.2, 15.2), (30, 15), (34.4, 15.2), held=SHIFT)
    assert places(session, "eye") == Near([(16, 5), (32, 5), (24, 17)])
    session.edits.undo()
    drag(qtbot, canvas, (31, 11), (30, 14), (27, 16.4), held=SHIFT)  # 60.9 degrees: 60
    assert places(session, "eye")[2] == pytest.approx((24 - 3 * 0.75**0.5, 12.5))


def test_the_cursor_of_widths_shows_where_a_drag_does_something(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "width"
    far = {"seam": (58, 44), None: (57, 44)}  # from every shape
    for selected, wanted in (("seam", Qt.CursorShape.SplitVCursor), (None, Qt.CursorShape.ArrowCursor)):
        session.select(selected)
        qtbot.mouseMove(canvas, spot(canvas, far[selected]))
        assert canvas.cursor().shape() == wanted


def test_the_width_grows_by_twice_the_way_from_the_curve(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "width"
    session.select("seam")
    drag(qtbot, canvas, (20, 22), (20, 23), (20, 25))
    assert session.document is not None
    assert session.document.shape("seam").width_px == pytest.approx(4 + 2 * 3)
    assert session.seams.of("seam").width_px == pytest.approx(10)
    drag(qtbot, canvas, (20, 22), (20, 23), (20, 26), held=SHIFT)
    assert session.document.shape("seam").feather_px == pytest.approx(4)
    assert [session.edits.undo(), session.edits.undo()] == ["seam width", "seam width"]
    assert session.document.shape("seam").width_px == 4
    assert session.seams.of("seam").width_px is None


def test_feather_by_key(canvas: Canvas, session: ShotSession) -> None:
    for name in ("seam", "eye"):
        session.select(name)
        assert canvas.edit("feather_more")
        assert canvas.edit("feather_more")
        assert session.shape is not None
        assert session.shape.feather_px == 2
        assert canvas.edit("feather_none")
        assert session.shape.feather_px == 0


def test_the_clone_brush_copies_from_where_ctrl_was_clicked(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    session.edits.made.append(said.append)  # the status says each step's name
    session.run = replace(session.run, held=((1001, 1002),))
    canvas.tool = "clone"
    drag(qtbot, canvas, (20, 20), (30, 20))
    assert said[-1] == "Ctrl+click where to copy from, then drag"
    assert session.state.strokes == {}
    drag(qtbot, canvas, (20, 40), (17, 40), held=SHIFT)  # three plate pixels to the left
    assert session.brush.radius_px == pytest.approx(5.0)
    qtbot.mouseClick(canvas, LEFT, CTRL, spot(canvas, (20, 35)))
    drag(qtbot, canvas, (22, 20), (26, 20), (30, 20))
    (stroke,) = session.state.strokes[1001]
    assert (stroke.dx, stroke.dy, stroke.radius_px) == (-2, 15, 5.0)
    assert [place for x, y in stroke.points for place in (x, y)] == pytest.approx([22, 20, 26, 20, 30, 20])
    assert session.state.strokes[1002] == session.state.strokes[1001]  # the whole hold
    drag(qtbot, canvas, (40, 20), (44, 20))  # goes on beside it, as brushes do
    assert [(s.dx, s.dy) for s in session.state.strokes[1001]] == [(-2, 15), (-2, 15)]
    assert [session.edits.undo(), session.edits.undo(), session.edits.undo()] == ["clone stroke", "clone stroke", None]
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (40, 20)))
    move(qtbot, canvas, (44, 20))
    canvas.cancel_gesture()
    assert (session.state.strokes, session.edits.can_undo) == ({}, False)


def test_the_clone_brush_is_as_wide_as_pixels_are(canvas: Canvas, session: ShotSession) -> None:
    session.brush = replace(session.brush, radius_px=10.0)
    brush, view = canvas._tools["clone"], ViewTransform(zoom=2.0, aspect=2.0)
    brush.cursor(MouseEvent(QPointF(100, 100), view, NONE))
    image = QImage(200, 200, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.black)
    painter = QPainter(image)
    brush.paint(painter, view)
    painter.end()
    lit = [x for x in range(100, 200) if image.pixelColor(x, 100).red() > 150]
    assert lit[0] == pytest.approx(140, abs=1)  # 10 px of the plate, twice as wide, at twice the size


def test_the_clone_brush_copies_from_another_frame(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    """Ctrl+click on 1001, drag on 1003; Ctrl+Shift+click copies the same place to other frames."""
    said: list[str] = []
    session.message_sent.append(said.append)
    session.edits.made.append(said.append)  # the status says each step's name
    session.run = replace(session.run, held=((1001, 1002),))
    canvas.tool = "clone"
    qtbot.mouseClick(canvas, LEFT, CTRL, spot(canvas, (20, 35)))
    session.go_to(1003)
    drag(qtbot, canvas, (22, 20), (26, 20))
    assert said[-1] == "Copied from the plate of frame 1001"
    assert [(s.source, s.dx, s.dy) for s in session.state.strokes[1003]] == [(1001, -2, 15)]
    session.go_to(1002)  # the same exposure as 1001: what was painted there is copied
    drag(qtbot, canvas, (22, 20), (26, 20))
    assert {f: s[0].source for f, s in session.state.strokes.items()} == {1001: None, 1002: None, 1003: 1001}
    qtbot.mouseClick(canvas, LEFT, CTRL | SHIFT, spot(canvas, (20, 35)))
    drag(qtbot, canvas, (22, 30), (26, 30))
    assert said[-1].startswith("Frame 1002 is where the brush copies from: go to another frame")
    session.go_to(1005)
    drag(qtbot, canvas, (22, 30), (26, 30))
    assert [(s.source, s.dx, s.dy) for s in session.state.strokes[1005]] == [(1002, 0, 0)]
    assert len(session.state.strokes[1002]) == 1


def test_the_brush_brings_plate_and_clean_plate_back(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    """Chosen in the Seam tab, with size, hardness and opacity; Ctrl+click switches back to cloning."""
    tab = SeamTab(session)
    qtbot.addWidget(tab)
    tab.show()
    session.listeners.append(tab.refresh)
    canvas.tool = "clone"
    fields = tab.brush
    for paints in ("plate", "clean"):
        fields.paints.setFocus()
        qtbot.keyClick(fields.paints, Qt.Key.Key_Down)
        assert session.brush.paints == paints
        drag(qtbot, canvas, (22, 20), (26, 20))
        assert session.state.strokes[1001][-1].source == paints
        assert session.edits.last_step == "reveal stroke"
    fields.hardness.setValue(80)
    fields.opacity.setValue(30)
    canvas.brush_larger()
    assert fields.size.value() == 10.0
    drag(qtbot, canvas, (22, 20), (26, 20))
    stroke = session.state.strokes[1001][-1]
    assert (stroke.radius_px, stroke.hardness, stroke.opacity) == (10.0, 0.8, 0.3)
    qtbot.mouseClick(canvas, LEFT, CTRL, spot(canvas, (20, 35)))
    assert (session.brush.paints, fields.paints.currentText()) == ("clone", "Clone")
