"""Shapes drawn by hand, copied and taken away, with a real mouse and real keys; several transformed together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange import nuke
from rotopaint_ai.project.merge_run import merge_run
from rotopaint_ai.shapes import refit
from rotopaint_ai.shapes.edit_frames import delete_keys
from rotopaint_ai.shapes.rasterise import matte, mattes_of
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import FRAMES, HEIGHT, WIDTH, make_document
from .mouse import ALT, CTRL, LEFT, NONE, SHIFT, Near, Place, drag, move, places, points, spot

K = Qt.Key
TRIANGLE: tuple[Place, ...] = ((6, 30), (16, 30), (11, 42))


@pytest.fixture
def shot(qtbot: QtBot, shot: Panel) -> Panel:
    """A panel with the results of a run and the drawing tool chosen; its window is active."""
    shot.canvas.setFocus()
    qtbot.keyClick(shot.canvas, K.Key_B)
    return shot


def click(qtbot: QtBot, canvas: Canvas, *clicked: Place) -> None:
    for place in clicked:
        qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, place))


def shape_of(session: ShotSession, name: str) -> RotoShape:
    assert session.document is not None
    return session.document.shape(name)


def names(session: ShotSession) -> list[str]:
    assert session.document is not None
    return [shape.name for shape in session.document.shapes]


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_clicks_set_points_and_a_click_on_the_first_one_makes_a_matte(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    session.go_to(1003)
    click(qtbot, shot.canvas, *TRIANGLE)
    assert names(session) == ["seam", "eye"]
    click(qtbot, shot.canvas, TRIANGLE[0])
    made = shape_of(session, "hand_matte_1")
    assert (made.closed, made.role, made.frames) == (True, "matte", (1003,))
    assert made.keys[1003].source == "human"
    assert [(p.x, p.y) for p in made.at(1003)] == [pytest.approx(place, abs=0.2) for place in TRIANGLE]
    assert session.selection.shape == "hand_matte_1"
    assert matte(made, 1003, WIDTH, HEIGHT).coverage.sum() == pytest.approx(60, abs=2)  # half of 10 x 12
    assert session.edits.labels[-1] == "draw matte"
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert names(session) == ["seam", "eye"]
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL | SHIFT)
    assert names(session) == ["seam", "eye", "hand_matte_1"]


def test_a_drag_pulls_both_tangents_and_ctrl_the_one_ahead(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    click(qtbot, canvas, (10, 40))
    drag(qtbot, canvas, (30, 34), (33, 34), (36, 33))
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (50, 40)))
    move(qtbot, canvas, (52, 40), CTRL)
    move(qtbot, canvas, (50, 45), CTRL)
    qtbot.mouseRelease(canvas, LEFT, CTRL, spot(canvas, (50, 45)))
    qtbot.keyClick(canvas, K.Key_Return)
    first, middle, last = points(session, "hand_seam_1")
    assert first[2:] == (0, 0, 0, 0)
    assert middle[2:] == pytest.approx((-6, 1, 6, -1), abs=0.2)
    assert last[2:] == pytest.approx((0, 0, 0, 5), abs=0.2)


def test_return_ends_a_seam_with_a_width_and_spreads_nothing(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    click(qtbot, shot.canvas, (10, 40), (30, 38))
    qtbot.keyClick(shot.canvas, K.Key_Return)
    made = shape_of(session, "hand_seam_1")
    assert (made.closed, made.role, made.width_px) == (False, "seam", 4.0)
    assert session.state.spreads == ()
    assert session.review.corrected_frames() == set()  # nothing of the models was corrected: no bracket is proposed
    state, loop = session.state, shot._services.review
    session.edits.show(replace(state, predicted=None))  # as while a shot is being opened: nothing is known of models
    loop.refresh()
    assert loop.reach is not None
    session.edits.show(state)
    loop.refresh()
    assert loop.reach is None
    stroke = 4 * np.hypot(20, 2) + np.pi * 2**2  # with its round ends
    assert matte(made, 1001, WIDTH, HEIGHT).coverage.sum() == pytest.approx(stroke, rel=0.01)


def test_backspace_and_undo_take_points_back_and_escape_leaves_all(qtbot: QtBot, shot: Panel) -> None:
    session, canvas = shot.session, shot.canvas
    before = session.state
    click(qtbot, canvas, *TRIANGLE, (30, 40))
    qtbot.keyClick(canvas, K.Key_Backspace)
    qtbot.keyClick(canvas, K.Key_Z, CTRL)
    click(qtbot, canvas, (20, 44), TRIANGLE[0])
    assert places(session, "hand_matte_1") == [pytest.approx(place, abs=0.2) for place in (*TRIANGLE[:2], (20, 44))]
    qtbot.keyClick(canvas, K.Key_Z, CTRL)
    assert session.state == before
    click(qtbot, canvas, *TRIANGLE)
    qtbot.keyClick(canvas, K.Key_Escape)
    assert session.state == before
    assert "3 points" in shot.status.text.text()
    qtbot.keyClick(canvas, K.Key_Return)
    assert names(session) == ["seam", "eye"]


def test_the_tools_own_key_goes_on_with_the_shape(qtbot: QtBot, shot: Panel) -> None:
    click(qtbot, shot.canvas, *TRIANGLE[:2])
    qtbot.keyClick(shot.canvas, K.Key_B)
    click(qtbot, shot.canvas, TRIANGLE[2], TRIANGLE[0])
    assert len(places(shot.session, "hand_matte_1")) == 3


def test_too_few_points_are_reported_and_kept(qtbot: QtBot, shot: Panel) -> None:
    click(qtbot, shot.canvas, (10, 40))
    qtbot.keyClick(shot.canvas, K.Key_Return)
    assert shot.status.text.text() == "An open shape needs 2 points; this one has 1"
    click(qtbot, shot.canvas, (30, 40))
    qtbot.keyClick(shot.canvas, K.Key_Return)
    assert "hand_seam_1" in names(shot.session)


def test_points_of_the_shape_that_was_drawn_can_be_dragged_at_once(qtbot: QtBot, shot: Panel) -> None:
    click(qtbot, shot.canvas, *TRIANGLE, TRIANGLE[0])
    drag(qtbot, shot.canvas, TRIANGLE[1], (20, 30), (22, 32))
    assert places(shot.session, "hand_matte_1")[1] == pytest.approx((22, 32), abs=0.2)
    assert shot.session.edits.labels[-2:] == ("draw matte", "move points")


def test_a_shape_is_drawn_before_any_run(
    qtbot: QtBot, panel: Panel, facts: PlateFacts, tmp_path: Path, out: Path
) -> None:
    session = panel.session
    session.open(facts, tmp_path / "nothing")
    panel.canvas.fit()
    panel.take_tool("draw")
    click(qtbot, panel.canvas, *TRIANGLE, TRIANGLE[0])
    drawn = session.document
    assert drawn is not None
    assert (drawn.width, drawn.height, drawn.first_frame, drawn.last_frame) == (WIDTH, HEIGHT, 1001, 1006)
    after = merge_run(session.state, make_document(), None)
    assert after.document is not None
    assert after.document.shape("hand_matte_1") == drawn.shape("hand_matte_1")


# --- what carries it --------------------------------------------------------------------------------------------------


def test_a_drawn_shape_survives_a_run_a_range_and_a_refit(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    click(qtbot, shot.canvas, *TRIANGLE, TRIANGLE[0])
    drawn = shape_of(session, "hand_matte_1")
    for asked in (None, (1002, 1003)):
        after = merge_run(session.state, make_document(), asked)
        assert after.document is not None
        assert after.document.shape("hand_matte_1") == drawn
        assert after.predicted is not None
        assert "hand_matte_1" not in refit.refit(after.predicted, after.document)
        assert "hand_matte_1" not in refit.spread(after.predicted, after.document, 1001, 1001, 1006)


def test_project_document_and_exports_carry_it(qtbot: QtBot, shot: Panel, tmp_path: Path) -> None:
    session = shot.session
    session.start_project(tmp_path / "shot.rotopaint")
    click(qtbot, shot.canvas, *TRIANGLE, TRIANGLE[0])
    click(qtbot, shot.canvas, (30, 40), (40, 44))
    qtbot.keyClick(shot.canvas, K.Key_Return)
    document = session.state.document
    assert document is not None
    session.close()
    opened = ShotSession()
    opened.open_project(tmp_path / "shot.rotopaint")
    assert opened.state.document == document
    assert opened.edits.undo() == "draw seam"
    assert names(opened) == ["seam", "eye", "hand_matte_1"]
    opened.close()
    assert documents.loads(documents.dumps(document)) == document
    script = tmp_path / "shapes.nk"
    script.write_text(nuke.dumps(document))
    assert {"hand_matte_1", "hand_seam_1"} <= {shape.name for shape in nuke.read(script).shapes}


# --- whole shapes -----------------------------------------------------------------------------------------------------


def test_a_copy_has_all_keys_and_is_a_persons(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    session.select("seam")
    qtbot.keyClick(shot.canvas, K.Key_D, CTRL | SHIFT)
    copy, seam = shape_of(session, "seam_1"), shape_of(session, "seam")
    assert {frame: key.points for frame, key in copy.keys.items()} == {f: k.points for f, k in seam.keys.items()}
    assert {key.source for key in copy.keys.values()} == {"human"}
    assert session.selection.shape == "seam_1"
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert names(session) == ["seam", "eye"]


def test_delete_asks_for_its_own_keys_and_says_what_a_run_does(qtbot: QtBot, shot: Panel) -> None:
    session = shot.session
    shot.take_tool("select")
    session.select("seam")
    qtbot.keyClick(shot.canvas, K.Key_Delete)
    assert names(session) == ["seam", "eye"]
    assert "Ctrl+Del" in shot.status.text.text()
    qtbot.keyClick(shot.canvas, K.Key_Delete, CTRL)
    assert (names(session), session.edits.labels[-1]) == (["eye"], "delete shape")
    assert "Run makes" in shot.status.text.text()
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert names(session) == ["seam", "eye"]


def test_several_shapes_are_selected_with_shift_moved_copied_and_deleted_together(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (20, 20)))
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (26, 11)))
    assert session.selection.shapes == {"seam", "eye"}
    canvas.tool = "transform"
    drag(qtbot, canvas, (40, 15), (45, 17), (50, 18))  # inside the box round both: 10..50 by 8..20
    assert places(session) == Near([(20, 23), (40, 23), (60, 23)])
    assert places(session, "eye") == Near([(30, 11), (38, 11), (34, 17)])
    assert session.edits.labels == ("move points",)
    assert canvas.edit("nudge_left")
    session.edits.end_burst()
    assert places(session)[0] == pytest.approx((19, 23))
    assert places(session, "eye")[0] == pytest.approx((29, 11))
    assert canvas.edit("duplicate_shape")
    assert names(session) == ["seam", "eye", "seam_1", "eye_1"]
    assert session.selection.shapes == {"seam_1", "eye_1"}
    assert canvas.edit("delete_shape")
    assert names(session) == ["seam", "eye"]
    assert session.edits.labels == ("move points", "nudge", "duplicate 2 shapes", "delete 2 shapes")


def test_a_click_without_shift_takes_one_shape_alone(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", also=("eye",))
    qtbot.mouseClick(canvas, LEFT, SHIFT, spot(canvas, (26, 11)))
    assert session.selection.shapes == {"seam"}
    session.select("seam", also=("eye",))
    canvas.tool = "select"
    qtbot.mouseClick(canvas, LEFT, NONE, spot(canvas, (26, 11)))
    assert session.selection.shapes == {"eye"}


def test_hand_shapes_are_seen_where_no_run_has_been(canvas: Canvas, session: ShotSession) -> None:
    triangle = ControlPoint(2, 2), ControlPoint(9, 2), ControlPoint(5, 9)
    shape = RotoShape("patch", True, "matte", {1001: Key(triangle, "human")})
    document = session.state.document
    assert document is not None
    model = tuple(each.with_keys({1001: each.keys[1001]}) for each in document.shapes)
    session.run = replace(session.run, errors={1001: session.run.errors[1001]}, lost=frozenset())
    session.edits.push("draw", replace(session.state, document=replace(document, shapes=(*model, shape))))
    session.go_to(1005)
    drawn = canvas._stack.scene(canvas._view_settings()).still
    assert [outline.shape.name for outline in drawn] == ["patch"]


# --- lifetime ---------------------------------------------------------------------------------------------------------


def test_a_shape_lives_from_a_frame_to_a_frame(qtbot: QtBot, shot: Panel) -> None:
    session, canvas = shot.session, shot.canvas
    click(qtbot, canvas, *TRIANGLE, TRIANGLE[0])
    session.go_to(1002)
    qtbot.keyClick(canvas, K.Key_BracketLeft, ALT)
    session.go_to(1005)
    qtbot.keyClick(canvas, K.Key_BracketRight, ALT)
    seen = [frame for frame in range(1001, 1007) if shape_of(session, "hand_matte_1").is_visible(frame)]
    assert seen == [1002, 1003, 1004, 1005]
    assert session.edits.labels[-2:] == ("seen from here", "seen up to here")
    assert matte(shape_of(session, "hand_matte_1"), 1001, WIDTH, HEIGHT).is_empty
    session.go_to(1003)
    assert canvas.edit("hide_here")
    session.go_to(1001)
    qtbot.keyClick(canvas, K.Key_BracketLeft, ALT)  # longer again; what was hidden inside stays
    made = shape_of(session, "hand_matte_1")
    assert [frame for frame in range(1001, 1007) if not made.is_visible(frame)] == [1003, 1006]
    assert canvas.edit("always_seen")
    assert all(shape_of(session, "hand_matte_1").is_visible(frame) for frame in range(1001, 1007))


def test_a_shape_that_ended_before_begins_here_and_goes_on_to_the_end(canvas: Canvas, session: ShotSession) -> None:
    session.select("eye")
    session.go_to(1002)
    assert canvas.edit("end_here")
    session.go_to(1005)
    assert canvas.edit("begin_here")
    eye = shape_of(session, "eye")
    assert [frame for frame in range(1001, 1007) if eye.is_visible(frame)] == [1005, 1006]


# --- holding out ------------------------------------------------------------------------------------------------------


def test_a_shape_holds_out_and_no_more(qtbot: QtBot, shot: Panel) -> None:
    """A square over the right half of the seam: clean frames are then out of date, and a run keeps the hold-out."""
    session, tree = shot.session, shot._widgets.inspector.shapes.tree
    corners: tuple[Place, ...] = ((30, 10), (56, 10), (56, 30), (30, 30))
    click(qtbot, shot.canvas, *corners, corners[0])
    session.painting.note(FRAMES, session.state)
    assert session.stale_frames() == []
    qtbot.keyClick(shot.canvas, K.Key_H, SHIFT)
    assert shape_of(session, "hand_matte_1").subtract
    assert session.edits.labels[-1] == "hold out"
    assert session.stale_frames() == list(FRAMES)
    assert [tree.topLevelItem(k).text(0) for k in range(tree.topLevelItemCount())] == ["Seams", "Mattes", "Hold-outs"]
    after = merge_run(session.state, make_document(), None).document
    assert after is not None
    cut = mattes_of(after.shapes, 1001, WIDTH, HEIGHT)["seam"].paste(WIDTH, HEIGHT)
    assert cut[:, 31:].max() == 0
    assert cut[20, 20] == pytest.approx(1)
    qtbot.keyClick(shot.canvas, K.Key_H, SHIFT)
    assert not shape_of(session, "hand_matte_1").subtract
    session.select("seam")
    qtbot.keyClick(shot.canvas, K.Key_H, SHIFT)
    assert shot.status.text.text() == "Only closed shapes hold out; this one is open"


def test_a_models_shape_goes_on_holding_out_after_a_run(canvas: Canvas, session: ShotSession) -> None:
    session.select("eye")
    assert canvas.edit("hold_out")
    for asked in (None, (1002, 1003)):
        after = merge_run(session.state, make_document(), asked).document
        assert after is not None
        assert {each.name: each.subtract for each in after.shapes} == {"seam": False, "eye": True}


def test_the_menu_of_shapes_copies_and_deletes_and_keys_ease_by_command(qtbot: QtBot, shot: Panel) -> None:
    """Eased from 20 to 24 over 4 frames: a quarter of the time is 3/16 - 2/64 = 0.15625 of the move."""
    session, tab = shot.session, shot._widgets.inspector.shapes
    session.select("seam")
    rows = {action.text(): action for action in tab.menu_of(("seam",)).actions()}
    rows["Duplicate the shape"].trigger()
    assert session.selection.shape == "seam_1"
    document = session.state.document
    assert document is not None
    session.edits.push("less", replace(session.state, document=delete_keys(document, ["seam_1"], {1002, 1003})))
    session.go_to(1001)
    assert shot.canvas.edit("ease")
    assert points(session, "seam_1", 1002)[0].y == pytest.approx(20 + 4 * 0.15625)
    assert session.edits.labels[-1] == "ease keys"
    rows["Delete the shape"].trigger()
    assert names(session) == ["seam", "eye"]


def test_another_tool_and_saving_end_a_shape_and_a_single_point_is_left(qtbot: QtBot, shot: Panel) -> None:
    """As in Nuke: what was drawn is kept, as one step."""
    session, canvas = shot.session, shot.canvas
    click(qtbot, canvas, *TRIANGLE)
    qtbot.keyClick(canvas, K.Key_V)
    assert len(places(session, "hand_seam_1")) == 3
    qtbot.keyClick(canvas, K.Key_Z, CTRL)
    assert names(session) == ["seam", "eye"]
    qtbot.keyClick(canvas, K.Key_B)
    click(qtbot, canvas, *TRIANGLE[:2])
    qtbot.keyClick(canvas, K.Key_S, CTRL)
    assert len(places(session, "hand_seam_1")) == 2
    click(qtbot, canvas, (30, 40))
    qtbot.keyClick(canvas, K.Key_V)
    assert names(session) == ["seam", "eye", "hand_seam_1"]
    assert "Left the shape" in shot.status.text.text()


def test_a_click_on_the_selected_curve_keeps_it_and_a_drag_there_moves_the_chosen_points(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "select"
    before = places(session, "seam")
    on_curve = ((before[0][0] + before[1][0]) / 2, (before[0][1] + before[1][1]) / 2)
    click(qtbot, canvas, on_curve)
    click(qtbot, canvas, on_curve)
    assert session.selection.shape == "seam"
    session.select("seam", frozenset(range(len(before))))
    drag(qtbot, canvas, on_curve, (on_curve[0], on_curve[1] + 6))
    moved = places(session, "seam")
    assert [y - was for (_, y), (_, was) in zip(moved, before)] == [pytest.approx(6, abs=0.3)] * len(before)
    assert len(session.selection.points_of("seam")) == len(before)


def test_a_drag_on_the_curve_forgets_chosen_points_that_an_undo_took_away(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "select"
    before = places(session, "seam")
    session.select("seam", frozenset({len(before)}))
    on_curve = ((before[0][0] + before[1][0]) / 2, (before[0][1] + before[1][1]) / 2)
    drag(qtbot, canvas, on_curve, (on_curve[0], on_curve[1] + 6))
    assert places(session, "seam") == before


def test_closing_keeps_a_shape_that_is_begun(qtbot: QtBot, shot: Panel) -> None:
    click(qtbot, shot.canvas, *TRIANGLE)
    path = shot.session.shapes_file.path
    shot.shut_down()
    assert path is not None
    assert "hand_seam_1" in {shape.name for shape in documents.read(path).shapes}


def test_saving_leaves_a_single_point_begun_and_keeps_a_shape_whose_last_point_is_held(
    qtbot: QtBot, shot: Panel
) -> None:
    session, canvas = shot.session, shot.canvas
    click(qtbot, canvas, (10, 40))
    qtbot.keyClick(canvas, K.Key_S, CTRL)
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 40)))
    shot.autosave.save()
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (30, 40)))
    assert len(places(session, "hand_seam_1")) == 2
