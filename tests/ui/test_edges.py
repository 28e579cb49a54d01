"""Feather points, widths along a seam and unequal sides, dragged with a real mouse; places worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.project import codecs
from rotopaint_ai.project.merge_run import merge_run
from rotopaint_ai.project.state import SeamSettings
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.edge_handles import left_normal
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import FRAMES, HEIGHT, WIDTH, make_document
from .mouse import CTRL, SHIFT, Near, drag, move, spot

K = Qt.Key


def rows(session: ShotSession, frame: int = 1001) -> list[tuple[float, float]]:
    assert session.document is not None
    return [(row.left_px, row.right_px) for row in session.document.shape("seam").widths_at(frame)]


def line(session: ShotSession, frame: int = 1001) -> list[tuple[float, float]]:
    assert session.document is not None
    return [(row.x, row.y) for row in session.document.shape("eye").feather_at(frame)]


# --- width profile ----------------------------------------------------------------------------------------------------


def test_a_handle_widens_its_side_at_its_point_on_all_frames(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "width"
    session.select("seam")  # 4 px wide, from left to right: left of its way is up
    drag(qtbot, canvas, (30, 18), (30, 17), (30, 15))
    assert rows(session) == rows(session, 1006) == Near([(2, 2), (5, 2), (2, 2)])
    assert session.document is not None
    made = session.document.shape("seam")
    assert {key.source for key in made.keys.values()} == {"model"}  # nobody keyed the curve
    # above the curve the width changes evenly between points, 2 to 5 and back to 2; below it is 2
    area = (50 - 10) * (2 + 5) / 2 + 40 * 2 + 3.14159 * 2**2  # trapezia, the side below, round ends
    assert matte(made, 1001, WIDTH, HEIGHT).coverage.sum() == pytest.approx(area, rel=0.02)
    drag(qtbot, canvas, (50, 22), (50, 23), (50, 25), held=SHIFT)  # both sides
    assert rows(session) == Near([(2, 2), (5, 2), (5, 5)])
    drag(qtbot, canvas, (20, 21), (20, 22), (20, 23))  # the whole seam, 4 to 8 px: the profile grows with it
    assert rows(session) == Near([(4, 4), (10, 4), (10, 10)])
    assert [session.edits.undo() for _ in range(3)] == ["seam width", "width profile", "width profile"]
    assert rows(session) == []


def test_selected_points_change_together_and_ctrl_goes_a_tenth(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "width"
    session.select("seam", frozenset({0, 1}))
    drag(qtbot, canvas, (10, 22), (10, 23), (10, 24))
    assert rows(session) == Near([(2, 4), (2, 4), (2, 2)])
    session.select("seam")
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, CTRL, spot(canvas, (50, 18)))
    move(qtbot, canvas, (50, 8), CTRL)
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, CTRL, spot(canvas, (50, 8)))
    assert rows(session)[2] == pytest.approx((3, 2))


def test_selected_points_of_several_shapes_of_one_kind_change_together(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    document = make_document()
    seam, eye = document.shape("seam"), document.shape("eye")
    lower = replace(seam, name="lower", width_px=6.0)
    flat = replace(seam, name="flat", width_px=0.0)
    lid = replace(eye, name="lid")
    shapes = [
        each.with_keys({f: replace(k, points=tuple(p._replace(y=p.y + 14) for p in k.points)) for f, k in keys})
        for each in (lower, flat, lid)
        for keys in [each.keys.items()]
    ]
    session.edits.push("shapes", replace(session.state, document=replace(document, shapes=(seam, eye, *shapes))))
    canvas.tool = "width"
    both = {name: frozenset({0, 1}) for name in ("seam", "lower", "flat", "eye", "lid")}
    session.set_selection(Selection("seam").with_points(both))

    def widths(name: str) -> list[tuple[float, float]]:
        assert session.document is not None
        return [(row.left_px, row.right_px) for row in session.document.shape(name).widths_at(1001)]

    drag(qtbot, canvas, (10, 22), (10, 23), (10, 24))
    assert widths("seam") == Near([(2, 4), (2, 4), (2, 2)])
    assert widths("lower") == Near([(3, 5), (3, 5), (3, 3)])
    assert session.state.seams.keys() == {"seam", "lower"}  # a seam 0 px wide has no shares
    drag(qtbot, canvas, (50, 18), (50, 17), (50, 16))  # a point that is not selected changes alone
    assert [widths("seam")[2], widths("lower")[2]] == Near([(4, 2), (3, 3)])
    assert [session.edits.undo(), session.edits.undo()] == ["width profile", "width profile"]
    assert session.state.seams == {}
    drag(qtbot, canvas, (20, 8), (18, 7), (16, 6))
    assert session.document is not None
    lines = {name: session.document.shape(name).feather_at(1001) for name in ("eye", "lid")}
    out = (4**2 + 2**2) ** 0.5
    assert [(row.x, row.y) for row in lines["eye"]] == [(row.x, row.y) for row in lines["lid"]]
    assert 0 < (lines["eye"][0].x ** 2 + lines["eye"][0].y ** 2) ** 0.5 <= out
    assert lines["eye"][1] != lines["eye"][2]
    assert session.edits.undo() == "feather points"
    assert session.document is not None
    assert not any(session.document.shape(name).has_feather_line for name in ("eye", "lid"))


def test_a_profile_outlives_a_run_a_point_more_and_the_project(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    session.select("seam")
    canvas.setFocus()
    qtbot.keyClick(canvas, K.Key_S)
    drag(qtbot, canvas, (30, 18), (30, 17), (30, 15))
    settings = session.seams.of("seam")
    assert settings.profile is not None
    assert [*settings.profile] == Near([(1.0, 1.0), (2.5, 1.0), (1.0, 1.0)], 0.02)
    assert codecs.unpack("seam", codecs.pack("seam", settings)) == settings
    assert b"profile" not in codecs.pack("seam", SeamSettings(grain=0.5))  # programs before it read the others
    again = merge_run(session.state, make_document(), None)
    assert again.document is not None
    assert again.document.shape("seam").widths_at(1003)[1] == pytest.approx((5, 2, 0), abs=0.05)
    qtbot.keyClick(canvas, K.Key_P)
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=spot(canvas, (20, 20)))
    assert rows(session)[0] == pytest.approx((2, 2))
    assert len(rows(session)) == 4
    assert rows(session)[1] == pytest.approx((3.5, 2), abs=0.05)  # half way from 2 to 5
    session.seams.set({"seam": SeamSettings(grain=0.5, profile=session.seams.of("seam").profile)})
    assert rows(session)[1] == pytest.approx((3.5, 2), abs=0.05)
    shot.inspector.seam.even.click()
    assert rows(session) == []


# --- feather points ---------------------------------------------------------------------------------------------------


def test_a_point_of_a_closed_shape_is_dragged_to_where_its_feather_ends(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.tool = "width"
    session.select("eye")  # (20, 8), (28, 8), (24, 14)
    before = session.document
    drag(qtbot, canvas, (20, 8), (18, 7), (16, 6))
    assert line(session) == line(session, 1006) == Near([(-4, -2), (0, 0), (0, 0)])  # the first goes into every key
    assert session.document is not None
    assert {key.source for key in session.document.shape("eye").keys.values()} == {"model"}
    drag(qtbot, canvas, (16, 6), (15, 6), (14, 6))  # the handle, not the point: this frame alone
    assert line(session) == Near([(-6, -2), (0, 0), (0, 0)])
    assert line(session, 1002) == Near([(-4, -2), (0, 0), (0, 0)])
    assert session.document.shape("eye").keys[1001].source == "human"
    covered = matte(session.document.shape("eye"), 1001, WIDTH, HEIGHT).coverage.sum()
    assert covered > matte(make_document().shape("eye"), 1001, WIDTH, HEIGHT).coverage.sum() + 2
    assert [session.edits.undo(), session.edits.undo()] == ["feather points", "feather points"]
    assert session.document is before


def test_selected_points_go_square_to_the_edge_and_e_does_it_by_a_pixel(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    session.select("eye", frozenset({0, 1}))
    canvas.setFocus()
    qtbot.keyClick(canvas, K.Key_E)
    # out of (20, 8): square to (24, 14)-(28, 8); out of (28, 8): square to (20, 8)-(24, 14); both 1 px
    root = (4**2 + 6**2) ** 0.5
    assert line(session) == Near([(-6 / root, -4 / root), (6 / root, -4 / root), (0, 0)])
    qtbot.keyClick(canvas, K.Key_S)
    dx, dy = -6 / root, -4 / root
    drag(qtbot, canvas, (20 + dx, 8 + dy), (20 + 2 * dx, 8 + 2 * dy), (20 + 3 * dx, 8 + 3 * dy))
    assert line(session)[1] == pytest.approx((18 / root, -12 / root), abs=0.15)  # as far as the other, to its own side
    qtbot.keyClick(canvas, K.Key_E, SHIFT)
    assert line(session) == Near([(0, 0), (0, 0), (0, 0)])
    session.select("eye")
    qtbot.keyClick(canvas, K.Key_E, SHIFT)
    assert line(session) == []


def test_a_closed_seam_without_feather_stays_so_after_a_run(qtbot: QtBot, shot: Panel) -> None:
    canvas, session = shot.canvas, shot.session
    said = make_document()
    shapes = tuple(replace(each, role="seam", feather_px=3.0) if each.closed else each for each in said.shapes)
    said = replace(said, shapes=shapes)
    session.edits.push("run", merge_run(session.state, said, None))
    before = session.state
    session.select("eye", frozenset({0}))
    canvas.setFocus()
    qtbot.keyClick(canvas, K.Key_E)
    session.select("eye")
    qtbot.keyClick(canvas, K.Key_E, SHIFT)
    assert line(session) == []
    again = merge_run(session.state, said, None)
    assert again.document is not None
    assert (again.document.shape("eye").feather_px, again.document.shape("eye").has_feather_line) == (0.0, False)
    assert [session.edits.undo(), session.edits.undo()] == ["no feather", "feather points"]
    assert session.state == before


def test_a_feather_line_outlives_a_run(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "width"
    session.select("eye")
    drag(qtbot, canvas, (20, 8), (18, 7), (16, 6))
    again = merge_run(session.state, make_document(), None)
    assert again.document is not None
    for frame in FRAMES:
        assert again.document.shape("eye").feather_at(frame)[0][:2] == pytest.approx((-4, -2))


def test_left_of_a_curve_is_square_to_its_tangents() -> None:
    corner = ControlPoint(10, 10, -3, -4, 3, 4)
    assert left_normal((ControlPoint(0, 0), corner, ControlPoint(20, 0)), 1) == pytest.approx((0.8, -0.6))
    bare = (ControlPoint(0, 0), ControlPoint(10, 10), ControlPoint(0, 20))  # no tangents: by the neighbours
    assert left_normal(bare, 1) == pytest.approx((1.0, 0.0))
