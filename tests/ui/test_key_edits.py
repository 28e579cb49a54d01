"""Landmarks dragged, edits of keys and ranges, commands and shortcuts; expected places are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.state import CropBox
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.settings.commands import COMMANDS, Preset
from rotopaint_ui.tools.edit_actions import EDIT_ACTIONS
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import FRAMES
from .mouse import ALT, CTRL, LEFT, NONE, SHIFT, Engine, Near, drag, move, places, points, spot

# --- landmarks --------------------------------------------------------------------------------------------------------


def test_a_landmark_is_dragged_and_its_shapes_follow_in_one_step(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    engine = Engine()
    session.corrections.live = engine
    canvas.tool = "landmark"
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (30, 22))
    move(qtbot, canvas, (31, 26))
    engine.answer()
    assert session.document is not None
    nose = session.document.landmarks.keys[1001][0]
    assert nose is not None
    assert nose == pytest.approx((31, 26, 0))
    assert places(session) == Near([(10, 26), (30, 26), (50, 26)])
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (31, 26)))
    assert session.document.landmarks.hand[1001] == {"nose"}
    assert session.edits.undo() == "move landmark"
    assert places(session)[0] == (10, 20)
    assert not session.edits.can_undo


def nose(session: ShotSession, frame: int = 1001) -> tuple[float, float]:
    assert session.document is not None
    mark = session.document.landmarks.keys[frame][0]
    assert mark is not None
    return mark.x, mark.y


def test_landmarks_are_nudged_and_their_shapes_follow_in_one_step(canvas: Canvas, session: ShotSession) -> None:
    engine = Engine()
    session.corrections.live, session.run = engine, replace(session.run, held=((1001, 1002),))
    session.select("seam", frozenset({1}))
    canvas.tool = "landmark"
    assert not canvas.edit("nudge_down")  # none is selected, and the points of the shape are not meant
    assert canvas.edit("next_shape")
    assert canvas.context.landmarks == {0}
    assert canvas.edit("next_shape")
    assert canvas.context.landmarks == {0}  # the chin is hidden
    for name in ("nudge_down", "nudge_down_far", "nudge_right_fine"):
        assert canvas.edit(name)
        engine.answer()
    assert nose(session) == pytest.approx((30.1, 31))
    assert nose(session, 1002) == pytest.approx((30.1, 31))  # the whole hold
    assert places(session) == Near([(10, 31), (30, 31), (50, 31)])
    session.edits.end_burst()
    assert session.edits.last_step == "nudge landmark"
    assert canvas.edit("nudge_up")  # after a rest: a step of its own, which waits for its shapes
    session.edits.end_burst()
    assert session.edits.last_step == "nudge landmark"
    assert session.edits.is_dragging
    engine.answer()
    assert not session.edits.is_dragging
    assert places(session)[0] == (10, 30)
    assert [session.edits.undo() for _ in range(3)] == [
        "nudge landmark",
        "nudge landmark",
        None,
    ]
    assert (nose(session), places(session)[0]) == ((30, 20), (10, 20))
    assert canvas.edit("select_none")
    assert canvas.edit("select_all")
    assert canvas.context.landmarks == {0}


def test_the_crop_box_is_nudged_and_taken_away_by_key(canvas: Canvas, session: ShotSession) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    canvas.tool = "crop"
    assert not canvas.edit("nudge_left")
    assert "Shift+C finds the face" in said[-1]
    boxes = {1001: CropBox(0, 0, 30, 30), 1003: CropBox(20, 0, 30, 30)}
    session.edits.push("crop box", replace(session.state, crops=boxes))
    session.go_to(1002)
    assert not canvas.edit("delete")
    assert said[-1] == "No crop box was drawn at this frame: it comes from another"
    for name in ("nudge_down", "nudge_down", "nudge_right_far"):
        assert canvas.edit(name)
    session.edits.end_burst()
    assert session.state.crops == {
        **boxes,
        1002: CropBox(20, 2, 30, 30),
    }  # halfway between the two, and 10 and 2 pixels
    assert session.edits.last_step == "nudge crop box"
    assert canvas.edit("delete")
    assert session.state.crops == boxes
    assert [session.edits.undo() for _ in range(3)] == ["delete crop box", "nudge crop box", "crop box"]


@pytest.mark.parametrize("end", ["rest", "frame", "selection", "act", "flush", "undo"])
def test_nudges_are_one_step_until_something_else_is_done(canvas: Canvas, session: ShotSession, end: str) -> None:
    session.select("seam", frozenset({0}))
    for _ in range(3):
        assert canvas.edit("nudge_left")
    {
        "rest": session.edits.end_burst,
        "frame": lambda: session.go_to(1002),
        "selection": lambda: (session.select("seam", frozenset({1})), canvas.edit("nudge_up"), session.edits.undo()),
        "act": lambda: (session.review.mark([1001], "accepted"), session.edits.undo()),
        "flush": session.flush,
        "undo": lambda: (session.edits.undo(), session.edits.redo()),
    }[end]()
    assert places(session) == Near([(7, 20), (30, 20), (50, 20)])
    assert session.edits.undo() == "nudge"
    assert places(session)[0] == (10, 20)
    assert not session.edits.can_undo


def test_escape_puts_landmark_and_shapes_back(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    engine = Engine()
    session.corrections.live = engine
    canvas.tool = "landmark"
    before = session.state
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (30, 26))
    engine.answer()
    canvas.cancel_gesture()
    engine.answer()  # too late: must not bring anything back
    assert session.state is before
    assert not session.edits.can_undo


# --- keys and ranges --------------------------------------------------------------------------------------------------


def test_a_key_is_pasted_in_place_or_relative_to_the_shape(canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", frozenset({1}))
    canvas.edit("nudge_down_far")  # the seam at 1001: 20, 30, 20
    assert canvas.edit("copy_key")
    session.go_to(1005)  # there it stands at 24
    assert canvas.edit("paste_key")
    assert [y for _, y in places(session, "seam", 1005)] == pytest.approx([20, 30, 20])
    session.edits.undo()
    assert canvas.edit("paste_key_relative")
    mean = 70 / 3
    assert [y for _, y in places(session, "seam", 1005)] == pytest.approx([44 - mean, 54 - mean, 44 - mean])
    assert session.document is not None
    assert session.document.shape("seam").keys[1005].source == "human"


def test_all_shapes_are_copied_where_none_is_selected(canvas: Canvas, session: ShotSession) -> None:
    assert canvas.edit("copy_key")
    session.go_to(1006)
    assert canvas.edit("paste_key")
    assert places(session, "seam", 1006)[0] == (10, 20)
    assert session.edits.undo() == "paste keys"
    session.lock("seam", True)
    assert canvas.edit("paste_key")
    assert places(session, "seam", 1006)[0] == (10, 25)


def heard(session: ShotSession) -> list[str]:
    """What is said from now on."""
    said: list[str] = []
    session.message_sent.append(said.append)
    return said


def spread(session: ShotSession, **given: str) -> None:
    """Two more closed shapes of three points, `brow` keyed at 1001 alone; some names are given."""
    assert session.document is not None
    eye = session.document.shape("eye")
    ear = replace(eye, name="ear", keys={frame: key for frame, key in eye.keys.items() if frame != 1005})
    brow = RotoShape("brow", True, "matte", {1001: Key(tuple(p._replace(x=p.x + 20) for p in eye.at(1001)))})
    document = replace(session.document, shapes=(*session.document.shapes, ear, brow))
    session.edits.push("test", replace(session.state, document=document, names=given))


def keyed_by_hand(session: ShotSession, frame: int) -> set[str]:
    assert session.document is not None
    found = {shape.name: shape.keys.get(frame) for shape in session.document.shapes}
    return {name for name, key in found.items() if key is not None and key.source == "human"}


def test_all_selected_shapes_are_copied_and_those_that_are_selected_pasted(
    canvas: Canvas, session: ShotSession
) -> None:
    spread(session, ear="left ear")
    said = heard(session)
    session.select("ear", also=("seam",))
    assert canvas.edit("copy_key")
    assert (said[-1], set(canvas.context.copied)) == ("Copied 2 keys of frame 1001", {"seam", "ear"})
    session.go_to(1005)
    session.select("eye")
    assert not canvas.edit("paste_key")
    assert said[-1] == "Nothing pasted: select seam, left ear, or copy one shape to paste it onto one other"
    session.select("eye", also=("ear",))
    assert canvas.edit("paste_key")
    assert said[-1] == "Pasted left ear at frame 1005"
    assert keyed_by_hand(session, 1005) == {"ear"}
    session.select(None)
    session.lock("ear", True)
    assert canvas.edit("paste_key")
    assert said[-1] == "Pasted seam at frame 1005; left ear is locked: its lock in Shapes opens it"
    assert keyed_by_hand(session, 1005) == {"seam", "ear"}


def test_one_copied_shape_is_pasted_onto_the_selected_one(canvas: Canvas, session: ShotSession) -> None:
    spread(session, brow="left brow")
    said = heard(session)
    session.select("brow")
    canvas.edit("copy_key")
    session.go_to(1005)
    session.select("eye")
    session.show("eye", False)
    assert not canvas.edit("paste_key")
    assert said[-1] == "Nothing pasted: eye is hidden: its eye in Shapes shows it"
    session.show("eye", True)
    assert canvas.edit("paste_key")
    assert said[-1] == "Pasted left brow onto eye at frame 1005"
    assert keyed_by_hand(session, 1005) == {"eye"}
    assert places(session, "eye", 1005) == places(session, "brow", 1005) == Near([(40, 8), (48, 8), (44, 14)])


def test_a_copied_shape_of_other_points_or_that_is_gone_is_not_pasted(canvas: Canvas, session: ShotSession) -> None:
    spread(session)
    said = heard(session)
    session.select("seam")
    canvas.edit("delete_key")
    canvas.edit("copy_key")
    canvas.context.copied["seam"] = canvas.context.copied["seam"][:2]
    session.select("eye")
    assert not canvas.edit("paste_key")
    assert said[-1] == "shape 'eye': 2 points for frame 1001; its keys have 3"
    session.select(None)
    canvas.context.copied = {"nose": canvas.context.copied["seam"]}
    assert not canvas.edit("paste_key")
    assert said[-1] == "Nothing pasted: nose is not in this shot"


def test_the_shapes_of_a_group_are_copied_together(canvas: Canvas, session: ShotSession) -> None:
    spread(session)
    session.select("ear", also=("eye",))
    assert canvas.edit("group")
    assert canvas.edit("copy_key")
    assert set(canvas.context.copied) == {"eye", "ear"}


def test_an_edit_reaches_every_key_relative_or_absolute(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    assert canvas.edit("ripple")
    assert canvas.is_on("ripple")
    drag(qtbot, canvas, (30, 20), (31, 21), (33, 24))
    assert [places(session, "seam", frame)[1] for frame in FRAMES] == [(33, 24 + frame - 1001) for frame in FRAMES]
    assert [places(session, "seam", frame)[0] for frame in FRAMES] == [(10, 20 + frame - 1001) for frame in FRAMES]
    assert session.edits.undo() == "move points"
    canvas.edit("overwrite")
    assert canvas.is_on("overwrite")
    assert not canvas.is_on("ripple")
    drag(qtbot, canvas, (30, 20), (31, 21), (33, 24))
    assert [places(session, "seam", frame)[1] for frame in FRAMES] == [(33, 24)] * len(FRAMES)
    canvas.edit("overwrite")
    canvas.edit("ripple")
    canvas.set_span((1002, 1003))
    session.edits.undo()
    session.go_to(1002)
    canvas.edit("nudge_right_far")
    assert [places(session, "seam", frame)[1][0] for frame in FRAMES] == [30, 40, 40, 30, 30]


def test_keys_hold_go_on_come_and_go(canvas: Canvas, session: ShotSession) -> None:
    session.select("eye")
    assert session.document is not None
    assert canvas.edit("set_key")
    assert session.document.shape("eye").keys[1001].source == "human"
    assert canvas.edit("hold")
    assert session.document.shape("eye").keys[1001].interpolation == "hold"
    assert canvas.edit("linear")
    assert session.document.shape("eye").keys[1001].interpolation == "linear"
    assert canvas.edit("delete_key")
    assert 1001 not in session.document.shape("eye").keys
    assert 1001 in session.document.shape("seam").keys
    assert not canvas.edit("hold")  # no key here now


def test_deleting_keys_of_several_shapes_says_of_how_many(canvas: Canvas, session: ShotSession) -> None:
    """With no shape selected the keys of all shapes are deleted, so the message has to say it."""
    said: list[str] = []
    session.message_sent.append(said.append)
    session.select(None)
    assert canvas.edit("delete_key")
    assert said == ["Deleted the keys of 2 shapes at 1001"]


def test_the_last_key_of_a_shape_stays(canvas: Canvas, session: ShotSession) -> None:
    said: list[str] = []
    session.message_sent.append(said.append)
    one = RotoShape("brow", False, "matte", {1001: Key((ControlPoint(1, 1), ControlPoint(5, 1)))})
    assert session.document is not None
    session.edits.push("test", replace(session.state, document=replace(session.document, shapes=(one,))))
    session.select("brow")
    assert not canvas.edit("delete_key")
    assert said == ["shape 'brow': would have no key left; delete the shape instead"]


@pytest.mark.parametrize("also", [None, ("eye",)])
def test_a_shape_with_one_key_keeps_it_and_the_others_lose_theirs(
    canvas: Canvas, session: ShotSession, also: tuple[str, ...] | None
) -> None:
    spread(session, brow="left brow")
    said = heard(session)
    session.select(None if also is None else "brow", also=also)
    assert canvas.edit("delete_key")
    assert said == ["Keys deleted, but not the last one of shape 'left brow': a shape needs a key"]
    assert session.document is not None
    left = {shape.name for shape in session.document.shapes if 1001 in shape.keys}
    assert left == ({"brow"} if also is None else {"brow", "seam", "ear"})
    assert session.edits.undo() == "delete key"
    assert 1001 in session.document.shape("eye").keys


def test_messages_name_a_shape_as_it_was_renamed(canvas: Canvas, session: ShotSession) -> None:
    spread(session, brow="ball")
    said = heard(session)
    session.select("brow", frozenset({0}))
    assert not canvas.edit("delete_key")
    assert said == ["shape 'ball': would have no key left; delete the shape instead"]
    assert not canvas.edit("delete")
    assert said[1].startswith("shape 'ball': needs ")


# --- commands ---------------------------------------------------------------------------------------------------------


def test_every_edit_is_in_the_table_of_commands_and_every_tool(canvas: Canvas) -> None:
    names = [row.name for row in COMMANDS]
    assert {name.removeprefix("edit.") for name in names if name.startswith("edit.")} == set(EDIT_ACTIONS)
    assert {name.removeprefix("tool.") for name in names if name.startswith("tool.")} == set(canvas.tool_names)


def test_no_edit_breaks_in_upon_a_drag(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (30, 20)))
    move(qtbot, canvas, (35, 25))
    assert not canvas.edit("cusp")
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (35, 25)))
    assert places(session)[1] == (35, 25)


def test_the_menu_offers_what_the_selection_allows(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    from rotopaint_ui.viewer.context_menu import make_menu

    def names(menu: QMenu) -> set[str]:
        return {action.objectName() for action in menu.actions() if action.objectName()}

    assert "edit.smooth" not in names(make_menu(canvas, canvas.context, canvas.edit, {}))
    session.select("seam", frozenset({1}))
    menu = make_menu(canvas, canvas.context, canvas.edit, {})
    assert {"edit.smooth", "edit.paste_key", "edit.ripple"} <= names(menu)
    next(action for action in menu.actions() if action.objectName() == "edit.cusp").trigger()
    assert points(session)[1] == ControlPoint(30, 20)


def test_menus_show_the_keys_of_their_commands(qtbot: QtBot, panel: Panel, session: ShotSession) -> None:
    from rotopaint_ui.viewer.context_menu import make_menu

    def keys() -> dict[str, str]:
        canvas = panel.canvas
        menu = make_menu(canvas, canvas.context, canvas.edit, canvas.commands)
        return {action.objectName(): action.text().partition("\t")[2] for action in menu.actions()}

    panel.session.open(session.plate, session.out)  # type: ignore[arg-type]
    panel.session.edits.push("test", session.state)
    panel.session.select("seam")
    assert (keys()["edit.cusp"], keys()["edit.copy_key"], keys()["edit.ease"]) == ("Shift+Z", "Ctrl+C", "")
    panel.set_preferences(replace(panel.preferences, preset=Preset.SILHOUETTE))
    assert keys()["edit.cusp"] == "Alt+C"
    rows = panel.inspector.shapes.menu_of(("seam",)).actions()
    assert all(each.isShortcutVisibleInContextMenu() for each in rows if each.shortcut().count())


def test_keys_reach_the_edits_through_the_panel(qtbot: QtBot, panel: Panel, session: ShotSession) -> None:
    panel.session.open(session.plate, session.out)  # type: ignore[arg-type]
    panel.session.edits.push("test", session.state)
    panel.session.select("seam", frozenset({1}))
    panel.take_tool("select")
    panel.activateWindow()
    panel.canvas.setFocus()
    qtbot.waitUntil(panel.canvas.hasFocus, timeout=120_000)

    def press(key: Qt.Key, held: Qt.KeyboardModifier = NONE) -> ControlPoint:
        qtbot.keyClick(panel.canvas, key, held)
        return points(panel.session)[1]

    assert press(Qt.Key.Key_Right, ALT) == (31, 20, -5, 0, 5, 0)
    assert press(Qt.Key.Key_Down, ALT | SHIFT) == (31, 30, -5, 0, 5, 0)
    assert press(Qt.Key.Key_4, CTRL | Qt.KeyboardModifier.KeypadModifier) == pytest.approx((30.9, 30, -5, 0, 5, 0))
    assert press(Qt.Key.Key_Z, SHIFT)[2:] == (0, 0, 0, 0)
    assert press(Qt.Key.Key_Z)[2] < 0
    press(Qt.Key.Key_Delete)
    assert len(points(panel.session)) == 2
    while panel.session.edits.last_step in ("nudge", "cusp points", "smooth points", "delete point"):
        qtbot.keyClick(panel.canvas, Qt.Key.Key_Z, CTRL)
    assert points(panel.session)[1] == (30, 20, -5, 0, 5, 0)
    qtbot.keyClick(panel.canvas, Qt.Key.Key_R)
    assert panel.canvas.tool == "reshape"
    qtbot.keyClick(panel.canvas, Qt.Key.Key_R, SHIFT)
    assert panel.canvas.is_on("ripple")
    assert panel.commands["edit.ripple"].isChecked()
