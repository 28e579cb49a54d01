"""Points of several shapes at once, and the lasso, with a real mouse and keys (for the places see `mouse`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.settings.commands import Preset, conflicts, keys_of_preset
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import grabbed
from .mouse import ALT, CTRL, LEFT, NONE, SHIFT, Near, Place, drag, move, places, points, spot

K = Qt.Key
SEAM, EYE = [(10, 20), (30, 20), (50, 20)], [(20, 8), (28, 8), (24, 14)]
BAND: tuple[Place, ...] = ((26, 4), (28, 10), (34, 24))  # around the eye's second point and the seam's middle one
BOTH = {"seam": {1}, "eye": {1}}
LASSO: tuple[Place, ...] = ((16, 4), (16, 22), (34, 22), (34, 18), (18, 17), (18, 4))  # an L: the seam's middle alone


def shifted(places: list[Place], index: int, dx: float, dy: float) -> Near:
    """The places with one of them moved."""
    return Near([(x + dx, y + dy) if i == index else (x, y) for i, (x, y) in enumerate(places)])


def human_frames(session: ShotSession) -> dict[str, list[int]]:
    """The frames of each shape that a person has keyed."""
    shapes: tuple[RotoShape, ...] = () if session.document is None else session.document.shapes
    return {each.name: [frame for frame, key in each.keys.items() if key.source == "human"] for each in shapes}


# --- several shapes ---------------------------------------------------------------------------------------------------


def test_a_drag_moves_the_points_of_every_shape_in_one_step(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    drag(qtbot, canvas, *BAND)
    assert session.selection.points == BOTH
    drag(qtbot, canvas, (30, 20), (32, 21), (35, 23))
    assert places(session) == shifted(SEAM, 1, 5, 3)
    assert places(session, "eye") == shifted(EYE, 1, 5, 3)
    assert human_frames(session) == {"seam": [1001], "eye": [1001]}
    assert session.edits.labels == ("move points",)
    assert session.edits.undo() == "move points"
    assert (places(session), places(session, "eye")) == (SEAM, EYE)


def test_a_selected_curve_drags_the_points_of_every_shape(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    drag(qtbot, canvas, *BAND)
    drag(qtbot, canvas, (40, 20), (42, 20), (42, 24))  # the seam's curve
    drag(qtbot, canvas, (22, 11), (22, 12), (22, 13))  # the eye's
    assert places(session) == shifted(SEAM, 1, 2, 6)
    assert places(session, "eye") == shifted(EYE, 1, 2, 6)


def test_a_point_of_any_selected_shape_can_be_taken_hold_of(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", also=("eye",))
    drag(qtbot, canvas, (24, 14), (24, 15), (24, 16))
    assert session.selection == Selection("eye", {"eye": frozenset({2})}, frozenset({"seam"}))
    assert (places(session), places(session, "eye")) == (SEAM, shifted(EYE, 2, 0, 2))
    drag(qtbot, canvas, (10, 20), (10, 21), (10, 22))
    assert session.selection.points == {"seam": {0}}
    assert (places(session), places(session, "eye")) == (shifted(SEAM, 0, 0, 2), shifted(EYE, 2, 0, 2))


def test_shift_adds_shapes_and_points_of_them_and_removes_them(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("seam", frozenset({1}))
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (24, 8)))  # the eye's curve
    assert session.selection == Selection("eye", {"seam": frozenset({1})}, frozenset({"seam"}))
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (28, 8)))
    assert session.selection.points == BOTH
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (30, 20)))
    assert session.selection == Selection("seam", {"eye": frozenset({1})}, frozenset({"eye"}))
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (24, 8)))
    assert session.selection == Selection("seam")


def test_a_band_takes_points_of_selected_shapes_alone_adds_and_removes(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("seam")
    drag(qtbot, canvas, *BAND)
    assert session.selection.points == {"seam": {1}}
    session.select("seam", also=("eye",))
    drag(qtbot, canvas, *BAND)
    assert session.selection.points == BOTH
    drag(qtbot, canvas, (5, 4), (10, 10), (22, 24), held=SHIFT)
    assert session.selection.points == {"seam": {0, 1}, "eye": {0, 1}}
    drag(qtbot, canvas, *BAND, held=CTRL)
    assert session.selection.points == {"seam": {0}, "eye": {0}}


def test_a_click_selects_one_of_several_shapes_alone(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    for curve in ((20, 20), (24, 8)):
        session.select("seam", also=("eye",))
        qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, curve))
        assert session.selection == Selection("seam" if curve[1] == 20 else "eye")
    session.set_selection(Selection().with_points({"seam": frozenset({1}), "eye": frozenset({0, 1})}))
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    assert session.selection == Selection("seam")
    session.set_selection(Selection().with_points({"seam": frozenset({1}), "eye": frozenset({0, 1})}))
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (55, 40)))  # beside them: the points, then the shapes
    assert session.selection == Selection("eye", {}, frozenset({"seam"}))
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (55, 40)))
    assert session.selection == Selection()


def test_a_double_click_takes_all_points_of_the_clicked_shape(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("eye", also=("seam",))
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    qtbot.mouseDClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    assert session.selection == Selection("seam", {"seam": frozenset({0, 1, 2})})


@pytest.mark.parametrize("guard", ["lock", "hide"])
def test_locked_and_hidden_shapes_stay_out(qtbot: QtBot, canvas: Canvas, session: ShotSession, guard: str) -> None:
    def close() -> None:
        session.lock("eye", True) if guard == "lock" else session.show("eye", False)

    drag(qtbot, canvas, *BAND)
    close()  # after it was selected
    drag(qtbot, canvas, (30, 20), (32, 21), (35, 23))
    assert (places(session), places(session, "eye")) == (shifted(SEAM, 1, 5, 3), EYE)
    assert canvas.edit("nudge_up")
    assert canvas.edit("delete")
    assert (len(points(session)), places(session, "eye")) == (2, EYE)
    session.select(None)
    drag(qtbot, canvas, (5, 4), (10, 10), (60, 30))
    assert session.selection == Selection("seam", {"seam": frozenset({0, 1})})


def test_the_selection_stays_from_frame_to_frame(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    drag(qtbot, canvas, *BAND)
    qtbot.keyClick(canvas, K.Key_Right)
    assert (session.frame, session.selection.points) == (1002, BOTH)
    drag(qtbot, canvas, (28, 8), (29, 9), (30, 10))
    assert places(session, "seam", 1002) == Near([(10, 21), (32, 23), (50, 21)], 0.1)
    assert places(session, "eye", 1002) == Near([(20, 8), (30, 10), (24, 14)], 0.1)
    assert (places(session), places(session, "eye")) == (SEAM, EYE)
    assert human_frames(session) == {"seam": [1002], "eye": [1002]}


def test_keys_nudge_smooth_and_delete_the_points_of_every_shape(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    drag(qtbot, canvas, *BAND)
    for _ in range(2):
        qtbot.keyClick(canvas, K.Key_Right, ALT)
    assert places(session) == shifted(SEAM, 1, 2, 0)
    assert places(session, "eye") == shifted(EYE, 1, 2, 0)
    assert session.edits.undo() == "nudge"  # one step for both presses
    qtbot.keyClick(canvas, K.Key_Z, SHIFT)
    assert points(session)[1] == ControlPoint(30, 20)
    qtbot.keyClick(canvas, K.Key_Z)
    assert points(session)[1] == pytest.approx((30, 20, -20 / 3, 0, 20 / 3, 0))
    assert points(session, "eye")[1] != ControlPoint(28, 8)
    assert [session.edits.undo(), session.edits.undo()] == ["smooth points", "cusp points"]
    qtbot.keyClick(canvas, K.Key_A, CTRL)
    assert session.selection.points == {"seam": {0, 1, 2}, "eye": {0, 1, 2}}
    session.set_selection(Selection("seam").with_points({"seam": frozenset({0, 1}), "eye": frozenset({1})}))
    before = session.state
    qtbot.keyClick(canvas, K.Key_Delete)
    assert session.state is before  # each shape keeps as many points as it needs, or none is taken from any
    assert "needs 2 of its 3 points" in shot.status.text.text()


def test_delete_takes_points_from_every_shape_in_one_step(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "points"
    session.select("eye")
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (24, 8)))  # a fourth point
    session.set_selection(Selection("seam").with_points({"seam": frozenset({1}), "eye": frozenset({1})}))
    assert canvas.edit("delete")
    assert (len(points(session)), places(session, "eye")) == (2, Near(EYE))
    assert session.selection == Selection("seam", {}, frozenset({"eye"}))
    assert session.edits.undo() == "delete points"
    assert (len(points(session)), len(points(session, "eye"))) == (3, 4)


def test_the_transform_box_takes_the_points_of_every_shape(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    drag(qtbot, canvas, *BAND)
    canvas.tool = "transform"  # a box from (28, 8) to (30, 20), drawn 1.2 plate pixels wider
    drag(qtbot, canvas, (29, 10), (29, 11), (29, 12))
    assert places(session) == shifted(SEAM, 1, 0, 2)
    assert places(session, "eye") == shifted(EYE, 1, 0, 2)


def test_feather_grows_at_the_points_of_every_shape(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    drag(qtbot, shot.canvas, *BAND)
    qtbot.keyClick(shot.canvas, K.Key_E)
    assert session.document is not None
    seam, eye = session.document.shape("seam"), session.document.shape("eye")
    assert seam.feather_px == 1.0  # a seam's feather is one setting
    assert [(row.x, row.y) != (0, 0) for row in eye.feather_at(1001)] == [False, True, False]
    assert session.edits.undo() == "feather points"
    assert session.document.shape("eye").feather_at(1001) == ()


def test_selected_points_of_every_shape_are_seen(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    def are_white(*seen: Place) -> list[bool]:
        screen, at = grabbed(canvas), [spot(canvas, place) for place in seen]
        return [bool(screen[each.y(), each.x()].min() > 240) for each in at]

    drag(qtbot, canvas, *BAND)
    assert are_white((30, 20), (28, 8), (50, 20), (20, 8)) == [True, True, False, False]
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (40, 20)))  # by the curve, which leaves handles uncovered
    canvas.overlay = replace(canvas.overlay, loupe=False)
    move(qtbot, canvas, (42, 25))
    assert are_white((32, 25), (30, 13), (50, 20), (20, 8)) == [True, True, False, False]
    canvas.cancel_gesture()


def test_the_brush_pushes_every_selected_shape_that_it_reaches(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    """The brush's radius is 60 screen pixels, 6 of the plate: from (28, 12) it reaches two of the eye's points."""
    canvas.tool = "reshape"
    add_seam(session, "far", 40.3, width_px=4.0)
    session.select("seam", also=("eye", "far"))
    drag(qtbot, canvas, (28, 12), (28, 13), (28, 14))
    moved = [(20, 8), (28, 8 + 2 * (1 - (4 / 6) ** 2) ** 2), (24, 14 + 2 * (1 - 20 / 36) ** 2)]
    assert (places(session), places(session, "eye")) == (SEAM, Near(moved))
    assert human_frames(session) == {"seam": [], "eye": [1001], "far": []}  # what it does not reach gets no key
    drag(qtbot, canvas, (28, 17), (28, 18), (28, 19))
    assert human_frames(session) == {"seam": [1001], "eye": [1001], "far": []}
    assert session.edits.labels == ("add", "reshape", "reshape")
    session.select("seam", also=("eye",))
    session.lock("seam", True)
    drag(qtbot, canvas, (28, 7), (28, 6), (28, 5))  # the others are pushed although the last one is locked
    assert places(session, "eye")[1][1] < 8


def test_all_selected_seams_take_the_width_of_a_drag(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    add_seam(session, "other", 40.0, width_px=8.0)
    canvas.tool = "width"
    session.select("seam", also=("other", "eye"))
    drag(qtbot, canvas, (20, 40), (20, 42), (20, 43))
    assert session.document is not None
    assert [session.document.shape(name).width_px for name in ("seam", "other", "eye")] == [10, 14, None]
    drag(qtbot, canvas, (20, 20), (20, 21), (20, 22), held=SHIFT)
    assert [session.document.shape(name).feather_px for name in ("seam", "other", "eye")] == [2, 2, 0]
    session.select("eye", also=("seam", "other"))
    drag(qtbot, canvas, (50, 30), (50, 31), (50, 29))  # away from all curves: 1 px closer to the seam drawn first
    assert [session.document.shape(name).width_px for name in ("seam", "other")] == [8, 12]
    assert [session.edits.undo() for _ in range(4)] == ["seam width", "seam width", "seam width", "add"]


def test_a_press_on_a_closed_curve_drags_no_width(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    canvas.tool = "width"
    session.select("seam", also=("eye",))
    drag(qtbot, canvas, (24.5, 8), (24.5, 6), (24.5, 4))
    assert said[-1] == "Drag a point to where its feather ends"
    assert not session.edits.can_undo


def test_handles_and_new_points_belong_to_the_selected_shape_under_the_mouse(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    """The other seam is 8 px wide: the handle above its middle point is at (30, 36)."""
    add_seam(session, "other", 40.0, width_px=8.0)
    canvas.tool = "width"
    session.select("seam", also=("other",))
    qtbot.mouseMove(canvas, spot(canvas, (30, 36)))
    assert canvas.cursor().shape() == Qt.CursorShape.SizeAllCursor
    drag(qtbot, canvas, (30, 36), (30, 35), (30, 34))
    assert session.seams.of("seam").profile is None
    assert session.seams.of("other").profile == ((1, 1), (1.5, 1), (1, 1))
    assert session.selection.shape == "other"  # so that Seam shows what is dragged
    session.select("seam", also=("other",))
    canvas.tool = "points"
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 40)))
    assert (len(places(session)), len(places(session, "other"))) == (3, 4)
    assert session.selection == Selection("other", {"other": frozenset({1})}, frozenset({"seam"}))


def test_of_two_curves_or_handles_in_reach_the_nearer_one_is_taken(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    """The other seam is 0.6 plate pixels, 6 of the screen, below."""
    add_seam(session, "other", 20.6, width_px=4.0)
    session.select("seam", also=("other",))
    canvas.tool = "points"
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20.6)))
    assert (len(places(session)), len(places(session, "other"))) == (3, 4)
    session.edits.undo()
    session.select("seam", also=("other",))
    canvas.tool = "width"
    drag(qtbot, canvas, (30, 18.6), (30, 18), (30, 17.6))
    assert session.seams.of("seam").profile is None
    assert session.seams.of("other").profile == ((1, 1), (1.5, 1), (1, 1))


def add_seam(session: ShotSession, name: str, y: float, width_px: float) -> None:
    """Another seam, as long as `seam`; its tangents are no whole numbers."""
    document = session.document
    assert document is not None
    row = tuple(ControlPoint(x, y, -5.3 * (x > 10), 0, 5.3 * (x < 50), 0) for x in (10, 30, 50))
    shape = replace(document.shape("seam"), name=name, keys={1001: Key(row)}, width_px=width_px)
    session.edits.push("add", replace(session.state, document=replace(document, shapes=(*document.shapes, shape))))


# --- the lasso --------------------------------------------------------------------------------------------------------


def test_a_lasso_selects_what_is_inside_its_outline(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "lasso"
    drag(qtbot, canvas, *LASSO)
    assert session.selection == Selection("seam", {"seam": frozenset({1})})  # a box around it has the eye's, too
    drag(qtbot, canvas, (45, 12), (55, 12), (55, 28), (45, 28), held=SHIFT)
    assert session.selection.points == {"seam": {1, 2}}
    drag(qtbot, canvas, *LASSO, held=CTRL)
    assert session.selection.points == {"seam": {2}}


def test_a_lasso_takes_points_of_several_shapes_and_its_tool_moves_them(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "lasso"
    drag(qtbot, canvas, *BAND[:1], (34, 4), (34, 24), (26, 24))
    assert session.selection.points == BOTH
    drag(qtbot, canvas, (28, 8), (29, 9), (31, 8))
    assert (places(session), places(session, "eye")) == (shifted(SEAM, 1, 3, 0), shifted(EYE, 1, 3, 0))
    assert session.edits.labels == ("move points",)


def test_a_lasso_that_crosses_itself_takes_both_rounds(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "lasso"
    around: tuple[Place, ...] = ((5, 17), (55, 17), (55, 24), (5, 24))
    drag(qtbot, canvas, *around, *around)
    assert session.selection.points == {"seam": {0, 1, 2}}


def test_the_outline_of_a_lasso_is_seen_and_escape_leaves_it(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "lasso"
    before = grabbed(canvas)
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (36, 30)))
    for way in ((50, 30), (50, 44), (36, 44)):
        move(qtbot, canvas, way)
    change = abs(grabbed(canvas) - before).sum(axis=2)
    middle, edge = spot(canvas, (43, 37)), spot(canvas, (50, 37))
    assert change[middle.y(), middle.x()] > 0  # tinted inside
    assert change[edge.y() - 40 : edge.y() + 40, edge.x()].max() > 200  # the outline
    canvas.cancel_gesture()
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (36, 44)))
    assert session.selection == Selection()


def test_shift_v_is_the_lasso_in_every_preset(qtbot: QtBot, shot: Panel) -> None:
    qtbot.keyClick(shot.canvas, K.Key_V, SHIFT)
    assert shot.canvas.tool == "lasso"
    assert [conflicts(keys_of_preset(preset)).get("Shift+V") for preset in Preset] == [None] * 3
    qtbot.keyClick(shot.canvas, K.Key_V)
    assert shot.canvas.tool == "select"
