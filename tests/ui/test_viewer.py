"""What the viewer draws and keeps: layers, lines, wipe, loupe, onion skin, missing frames, readout."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape
from rotopaint_ui.drawing.render import (
    MATTE_COLOURS,
    SEAM_COLOURS,
    SELECTED,
    Overlay,
    ViewTransform,
    paint_matte,
    painter_path_of,
)
from rotopaint_ui.engine.frame_cache import PLATE, DisplayLook, FrameCache
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.viewer.canvas import Canvas
from rotopaint_ui.viewer.loupe import loupe_at, paint_loupe
from rotopaint_ui.viewer.outlines import Outlines, _shadows, third_box, transform_of
from rotopaint_ui.viewer.readout import landmark_note, readout_words
from rotopaint_ui.viewer.wipe import Wipe

from .conftest import HEIGHT, WIDTH, grabbed, picture

LEFT = Qt.MouseButton.LeftButton
PLAIN = QColor("#404040")


# --- pixels -----------------------------------------------------------------------------------------------------------


def test_magnified_pixels_are_shown_as_they_are(canvas: Canvas, session: ShotSession, frame_cache: FrameCache) -> None:
    image = picture()
    image.setPixelColor(10, 5, QColor("#ffffff"))
    frame_cache._images[PLATE, 1001] = (DisplayLook(), image)
    canvas.overlay = Overlay(splines=False, landmarks=False)
    canvas.zoom_to(16.0)
    canvas._set_view(ViewTransform(16.0, 3.4, 7.6))
    assert (canvas.view.x, canvas.view.y) == (3, 8)  # on whole pixels of the device
    shown = grabbed(canvas)
    white = np.argwhere((shown == 255).all(axis=2))
    assert white.min(axis=0).tolist() == [8 + 5 * 16, 3 + 10 * 16]
    assert white.max(axis=0).tolist() == [8 + 6 * 16 - 1, 3 + 11 * 16 - 1]
    assert len(white) == 16 * 16


def test_a_smaller_picture_is_averaged_when_the_eye_rests(
    qtbot: QtBot, canvas: Canvas, frame_cache: FrameCache
) -> None:
    image = picture("#000000")
    for y in range(HEIGHT):
        for x in range(y % 2, WIDTH, 2):
            image.setPixelColor(x, y, QColor("#ffffff"))
    frame_cache._images[PLATE, 1001] = (DisplayLook(), image)
    canvas.overlay = Overlay(splines=False, landmarks=False)
    canvas.resize(240, 160)
    canvas._set_view(ViewTransform(0.25, 20, 20))
    canvas.grab()
    qtbot.waitUntil(lambda: canvas._stack._pictures.version > 0, timeout=120_000)
    shown = grabbed(canvas)[22:30, 22:34]
    assert np.abs(shown - 127).max() <= 2  # a chequerboard is grey from afar


def test_zoom_steps_and_one_to_one_stay_about_the_middle(canvas: Canvas) -> None:
    canvas.zoom_to(4.0)
    middle = canvas.view.to_plate(QPointF(320, 240))
    canvas.zoom_in()
    canvas.zoom_in()
    assert canvas.view.zoom == pytest.approx(8.0)
    assert canvas.view.to_plate(QPointF(320, 240)) == pytest.approx(middle, abs=0.2)
    canvas.one_to_one()
    assert canvas.view.zoom == pytest.approx(1.0 / canvas.devicePixelRatioF())


# --- layers -----------------------------------------------------------------------------------------------------------


def test_a_drag_paints_again_only_what_moves(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", frozenset({1}))
    canvas.overlay = Overlay(loupe=False)
    canvas.grab()
    qtbot.mousePress(canvas, LEFT, pos=QPoint(300, 200))
    qtbot.mouseMove(canvas, QPoint(320, 220))
    canvas.grab()
    kept = canvas._stack._scene
    assert kept is not None
    assert [outline.shape.name for outline in kept.moving] == ["seam"]
    assert [outline.shape.name for outline in kept.still] == ["eye"]
    qtbot.mouseMove(canvas, QPoint(330, 260))
    scene = canvas._stack.scene(canvas._view_settings())
    assert scene.stands_as(kept)
    damage = canvas._stack.damage(scene)
    assert damage is not None
    assert damage.contains(QPoint(330, 260))
    assert damage.contains(QPoint(500, 200))  # the other end of the seam
    assert not damage.contains(QPoint(330, 420))
    qtbot.mouseRelease(canvas, LEFT, pos=QPoint(330, 260))
    assert canvas._stack.damage(canvas._stack.scene(canvas._view_settings())) is None


def test_what_is_kept_shows_what_painting_everything_anew_would(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.select("seam", frozenset({1}))
    canvas.overlay = Overlay(loupe=False)
    canvas.grab()
    qtbot.mousePress(canvas, LEFT, pos=QPoint(300, 200))
    for y in (210, 250, 300, 240):
        qtbot.mouseMove(canvas, QPoint(330, y))
        qtbot.wait(1)
    step_by_step = grabbed(canvas)
    canvas._stack._kept = None
    canvas.update()
    assert (grabbed(canvas) == step_by_step).all()
    canvas.cancel_gesture()


def test_outlines_of_shapes_that_stand_still_are_the_same_objects(session: ShotSession) -> None:
    outlines, document = Outlines(), session.document
    assert document is not None
    first = outlines.of(document, 1001, frozenset())
    moved = replace(document.shape("seam"), keys={1001: Key((ControlPoint(1, 1), ControlPoint(9, 9)))})
    second = outlines.of(replace(document, shapes=(moved, document.shapes[1])), 1001, frozenset())
    assert second[1] is first[1]
    assert second[0] is not first[0]
    assert [outline.shape.name for outline in outlines.of(document, 1001, frozenset({"seam"}))] == ["eye"]
    extent = first[0].box(ViewTransform(zoom=2.0), 1.0)
    assert (extent.left(), extent.right()) == (19, 101)  # 10 to 50, twice as large, and the margin


def test_a_hardly_visible_third_is_boxed_until_it_is_settled(canvas: Canvas, session: ShotSession) -> None:
    """The seam runs from (10, 20) to (50, 20); the box surrounds its right third."""
    canvas.overlay = Overlay(landmarks=False)
    plain = grabbed(canvas)
    session.run = RunRecord(errors={session.frame: {"seam": 1.0}}, unseen={session.frame: {"seam": "right third"}})
    rows, columns = np.nonzero(np.abs(grabbed(canvas) - plain).max(axis=2) > 8)
    assert session.document is not None
    drawn = canvas._stack._outlines.of(session.document, session.frame, frozenset())
    (outline,) = (each for each in drawn if each.shape.name == "seam")
    box = transform_of(canvas.view).mapRect(third_box(outline.path, "right third"))
    assert (columns.min(), columns.max()) == pytest.approx((box.left() - 10, box.right() + 10), abs=2)
    assert (rows.min(), rows.max()) == pytest.approx((box.top() - 10, box.bottom() + 10), abs=2)
    assert box.left() > transform_of(canvas.view).mapRect(outline.path.boundingRect()).center().x()
    session.review.mark([session.frame], "accepted")
    assert (grabbed(canvas) == plain).all()


def test_thirds_are_found_whichever_way_a_curve_runs() -> None:
    there, back = QPainterPath(QPointF(0, 0)), QPainterPath(QPointF(90, 30))
    there.lineTo(90, 30)
    back.lineTo(0, 0)
    for path in (there, back):
        found = [third_box(path, f"{word} third").left() for word in ("left", "middle", "right", "upper", "lower")]
        assert found == pytest.approx([0, 30, 60, 0, 60])


def test_a_line_lies_on_its_curve_not_beside_it(canvas: Canvas, session: ShotSession) -> None:
    canvas.overlay = Overlay(landmarks=False)
    for name in (None, "seam"):
        session.select(name)
        shown = grabbed(canvas)[185:216, 240]  # across the seam, between two points
        weight = np.abs(shown - 64).sum(axis=1)
        rows = np.arange(185, 216) + 0.5
        assert (weight * rows).sum() / weight.sum() == pytest.approx(200, abs=0.6)


# --- overlays ---------------------------------------------------------------------------------------------------------


def test_feather_is_outside_and_fainter_than_the_matte(session: ShotSession) -> None:
    assert session.document is not None
    eye = replace(session.document.shape("eye"), feather_px=2.0)
    image = QImage(640, 480, QImage.Format.Format_RGB32)
    image.fill(QColor("#000000"))
    painter = QPainter(image)
    paint_matte(painter, eye, 1001, ViewTransform(zoom=10.0), QColor("#ffffff"))
    painter.end()
    inside, edge, outside = (image.pixelColor(240, y).red() for y in (100, 70, 50))
    assert inside == pytest.approx(0.42 * 255, abs=2)
    assert edge == pytest.approx(0.18 * 255, abs=2)
    assert outside == 0
    assert image.pixelColor(240, 90).red() == pytest.approx(inside, abs=1)  # no band of both inside the edge


def test_without_a_feather_nothing_is_drawn_outside(session: ShotSession) -> None:
    assert session.document is not None
    image = QImage(640, 480, QImage.Format.Format_RGB32)
    image.fill(QColor("#000000"))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)  # as the viewer paints
    paint_matte(painter, session.document.shape("eye"), 1001, ViewTransform(zoom=10.0), QColor("#ffffff"))
    painter.end()
    inside, outside = (image.pixelColor(240, y).red() for y in (80, 79))  # its upper edge lies between them
    assert inside == pytest.approx(0.42 * 255, abs=2)
    assert outside == 0


@pytest.mark.parametrize(("style", "reach"), [("plain", 5.5), ("bold", 6.0)])
def test_the_dark_edge_of_a_broad_line_is_a_ring(style: Literal["plain", "bold"], reach: float) -> None:
    ring = np.array(_shadows(style, 10.0))
    assert np.hypot(*ring.T) == pytest.approx(np.full(len(ring), reach))
    assert ring.mean(axis=0) == pytest.approx((0, 0), abs=1e-9)


def test_a_feather_line_is_drawn_where_it_lies_outside_and_inside() -> None:
    corners = tuple(ControlPoint(x, y) for x, y in ((10, 10), (30, 10), (30, 30), (10, 30)))
    rows = tuple(ControlPoint(dx, 0) for dx in (-5, -5, -5, -5))  # the whole line 5 px to the left
    image = QImage(400, 400, QImage.Format.Format_RGB32)
    image.fill(QColor("#000000"))
    painter = QPainter(image)
    shape = RotoShape("a", True, keys={1: Key(corners, feather=rows)})
    paint_matte(painter, shape, 1, ViewTransform(zoom=10.0), QColor("#ffffff"))
    painter.end()
    outside, inside, whole = (image.pixelColor(x, 200).red() for x in (70, 270, 200))
    assert outside == inside == pytest.approx(0.18 * 255, abs=2)
    assert whole == pytest.approx(0.42 * 255, abs=2)


def test_the_onion_skin_shows_the_keys_before_and_after(canvas: Canvas, session: ShotSession) -> None:
    session.go_to(1003)
    session.select("seam")
    assert session.shape is not None
    skins = canvas._stack._outlines.onion(session.shape, 1003)
    lines = [(path.boundingRect().center().y(), round(colour.alphaF(), 2)) for path, colour in skins]
    assert lines == [(20, 0.38), (25, 0.38), (21, 0.75), (24, 0.75)]  # keys at 1001, 1006, 1002, 1005


def test_seams_and_mattes_differ_for_people_who_see_two_primaries() -> None:
    """Dichromacy is simulated after Machado, Oliveira and Fernandes (2009), severity 1, in linear light."""
    kinds = {
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    }

    def seen(text: str, kind: str) -> np.ndarray:
        colour = QColor(text)
        code = np.array([colour.redF(), colour.greenF(), colour.blueF()])
        linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
        return np.clip(np.array(kinds[kind]) @ linear, 0, 1)

    for kind in kinds:
        for seam in SEAM_COLOURS:
            for matte in MATTE_COLOURS:
                a, b = seen(seam, kind), seen(matte, kind)
                assert luminance(a) > luminance(b) + 0.15, (kind, seam, matte)  # lighter


def luminance(linear: np.ndarray) -> float:
    """Luminance of linear sRGB."""
    return float(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("skin", ["#f2c9a5", "#e8b98f", "#c68a5e", "#8a5a3c", "#f7dfc8"])
def test_lines_read_on_any_skin_by_their_dark_edge(skin: str) -> None:
    """WCAG's contrast of a line to its edge (black with alpha 170/255 over the skin) is at least 3."""

    def linear(colour: QColor, share: float = 1.0) -> np.ndarray:
        code = share * np.array([colour.redF(), colour.greenF(), colour.blueF()])
        return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)

    edge = luminance(linear(QColor(skin), 1 - 170 / 255))
    for line in (*SEAM_COLOURS, SELECTED):
        assert (luminance(linear(QColor(line))) + 0.05) / (edge + 0.05) >= 3


def test_missing_and_damaged_frames_are_labelled_and_loading_keeps_the_picture(
    canvas: Canvas, session: ShotSession, frame_cache: FrameCache
) -> None:
    canvas.overlay = Overlay(splines=False, landmarks=False)
    before = grabbed(canvas)[300, 300]
    session.go_to(1002)
    reading = grabbed(canvas)[300, 300]
    assert (reading < before).all()
    assert (reading > 24).all()  # the plate is still there, dimmed
    session.go_to(1004)
    hole = grabbed(canvas)
    assert hole[300, 300].max() < 50
    assert hole[10:50].max() > 120  # words
    frame_cache.broken[PLATE, 1002] = "plate.1002.exr: cannot be read"
    session.go_to(1002)
    said = grabbed(canvas)[10:50]
    assert (said[..., 0] - said[..., 2]).max() > 60  # in orange


def test_an_edit_that_reaches_other_frames_is_announced_on_the_picture(canvas: Canvas) -> None:
    canvas.overlay = Overlay(splines=False, landmarks=False)
    assert (grabbed(canvas)[440:480, :300] == 0x40).all()
    canvas.edit("ripple")
    shown = grabbed(canvas)[440:480, :300]
    assert (shown[..., 0] - shown[..., 2]).max() > 80  # yellow words
    canvas.edit("ripple")
    assert (grabbed(canvas)[440:480, :300] == 0x40).all()


# --- wipe and loupe ---------------------------------------------------------------------------------------------------


def test_the_wipe_is_moved_turned_and_shows_the_clean_plate_on_its_far_side(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    canvas.overlay = Overlay(splines=False, landmarks=False)
    canvas.show_wipe(True)
    qtbot.mousePress(canvas, LEFT, pos=QPoint(320, 100))  # the line, away from its rings
    qtbot.mouseMove(canvas, QPoint(400, 240))
    qtbot.mouseRelease(canvas, LEFT, pos=QPoint(400, 240))
    assert canvas.wipe == Wipe(400 / 640, 0.5, 0.0)
    qtbot.mousePress(canvas, LEFT, pos=QPoint(400, 170))  # the upper ring, 70 above the middle
    qtbot.mouseMove(canvas, QPoint(500, 240))  # to the right of it
    qtbot.mouseRelease(canvas, LEFT, pos=QPoint(500, 240))
    assert canvas.wipe is not None
    assert canvas.wipe.degrees == pytest.approx(90)
    shown = grabbed(canvas)
    assert shown[40, 60].tolist() == [0x40] * 3  # above the level line the plate
    assert shown[440, 60].tolist() == [0xA0] * 3
    assert not session.edits.can_undo
    canvas.show_wipe(False)
    assert grabbed(canvas)[440, 60].tolist() == [0x40] * 3


def test_a_turned_wipe_divides_the_plate_along_its_line() -> None:
    area, wipe = QRectF(0, 0, 200, 100), Wipe(0.5, 0.5, 45.0)
    side = wipe.clean_side(area)
    for x, y, is_clean in ((150, 60, True), (60, 30, False), (130, 10, False), (60, 80, False), (140, 90, True)):
        across = (x - 100) + (y - 50)  # the line leans from upright to the right: up-right to down-left
        assert side.containsPoint(QPointF(x, y), Qt.FillRule.WindingFill) == (across > 0) == is_clean
    assert wipe.turned(QPointF(100, -40), area, snaps=False).degrees == pytest.approx(0)
    assert wipe.turned(QPointF(100 + 31, 50 - 30), area, snaps=True).degrees == 45
    assert wipe.moved(QPointF(-50, 120), area) == Wipe(0.0, 1.0, 45.0)


@pytest.mark.parametrize("mouse", [(320, 240), (5, 5), (635, 475), (5, 475)])
def test_the_loupe_magnifies_what_is_under_the_mouse_and_never_covers_it(mouse: tuple[int, int]) -> None:
    view, place = ViewTransform(zoom=2.0, x=10, y=20, aspect=1.5), QPointF(*mouse)
    loupe = loupe_at(place, view, QSize(640, 480))
    assert loupe.view.zoom == 8.0
    assert loupe.view.to_plate(loupe.centre) == pytest.approx(view.to_plate(place))
    gap = loupe.centre - place
    assert (gap.x() ** 2 + gap.y() ** 2) ** 0.5 > 72
    assert QRectF(0, 0, 640, 480).contains(loupe.centre)


def test_the_loupe_shows_the_plates_own_pixels(canvas: Canvas) -> None:
    image = QImage(40, 40, QImage.Format.Format_RGB32)
    for y in range(40):
        for x in range(40):
            image.setPixelColor(x, y, QColor(6 * x, 6 * y, 0))
    shown = QImage(200, 200, QImage.Format.Format_RGB32)
    shown.fill(Qt.GlobalColor.black)
    painter = QPainter(shown)
    loupe = loupe_at(QPointF(20, 20), ViewTransform(zoom=1.0), QSize(400, 400))
    paint_loupe(painter, loupe, image, ())
    painter.end()
    corner = loupe.view.to_screen(20, 20)  # of four pixels
    for dx, dy, column, row in ((4, 4, 20, 20), (-4, 4, 19, 20), (12, -12, 21, 18)):
        at = (corner + QPointF(dx, dy)).toPoint()
        assert shown.pixelColor(at) == QColor(6 * column, 6 * row, 0)


def test_the_loupe_is_there_while_a_point_is_dragged_only(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    canvas.zoom_to(4.0)
    start = canvas.view.to_screen(30, 20).toPoint()
    qtbot.mousePress(canvas, LEFT, pos=start)
    assert canvas._loupe() is None
    qtbot.mouseMove(canvas, start + QPoint(20, 20))
    assert canvas._loupe() is not None
    canvas.overlay = replace(canvas.overlay, loupe=False)
    assert canvas._loupe() is None
    canvas.overlay = Overlay()
    canvas.view = replace(canvas.view, zoom=12.0)
    assert canvas._loupe() is None  # pixels are large enough
    canvas.cancel_gesture()


def test_the_loupe_is_round_and_shows_the_plate(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    canvas.zoom_to(5.9)
    start = canvas.view.to_screen(30, 20).toPoint()
    qtbot.mousePress(canvas, LEFT, pos=start)
    qtbot.mouseMove(canvas, start + QPoint(60, 100))
    loupe = canvas._loupe()
    assert loupe is not None
    shown, middle = grabbed(canvas), loupe.centre.toPoint()
    assert shown[middle.y() + 40, middle.x() + 20].tolist() == [0x40] * 3
    rim = shown[middle.y(), middle.x() + 70 : middle.x() + 75]
    assert rim.max() > 150
    corner = shown[middle.y() - 68, middle.x() - 68]  # inside its box, outside its round
    assert corner.tolist() == [0x40] * 3
    canvas.cancel_gesture()


def test_a_path_runs_by_its_points_and_their_tangents() -> None:
    points = (ControlPoint(0, 0, 0, 0, 3, 4), ControlPoint(10, 1, -3, 5, 0, 0))
    path = painter_path_of(points, False, ViewTransform(zoom=2.0, x=1.0))
    found = [(path.elementAt(k).x, path.elementAt(k).y) for k in range(path.elementCount())]
    assert found == [(1, 0), (7, 8), (15, 12), (21, 2)]


# --- readout ----------------------------------------------------------------------------------------------------------


def test_the_readout_asks_for_values_of_frames_on_disk(
    qtbot: QtBot, canvas: Canvas, session: ShotSession, frame_cache: FrameCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(frame_cache, "ask_pixel", lambda *given: asked.append(given))
    qtbot.mouseMove(canvas, QPoint(105, 55))
    assert asked == [(PLATE, 1001, 10, 5)]
    session.go_to(1004)  # is missing
    qtbot.mouseMove(canvas, QPoint(205, 55))
    assert asked == [(PLATE, 1001, 10, 5)]


def test_the_readout_tells_values_place_frame_and_magnification(
    qtbot: QtBot, canvas: Canvas, session: ShotSession, frame_cache: FrameCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readout_words(1001, 10.04, 5.5, 2.0, None) == "x 10.0  y 5.5   frame 1001   200 %"
    assert readout_words(7, 1, 2, 1.0, (0.18, 12.5, -0.01)) == "0.1800  12.50  -0.0100   x 1.0  y 2.0   frame 7   100 %"
    reported: list[str] = []
    canvas.readout_changed.connect(reported.append)
    qtbot.mouseMove(canvas, QPoint(105, 55))
    assert reported[-1].startswith("x 10.5  y 5.5   frame 1001")
    assert reported[-1].endswith("1000 %")
    monkeypatch.setattr(canvas, "devicePixelRatioF", lambda: 2.0)  # a dense screen
    qtbot.mouseMove(canvas, QPoint(106, 55))
    assert reported[-1].endswith("2000 %")
    qtbot.mouseMove(canvas, QPoint(105, 55))
    frame_cache.pixel_ready.emit(PLATE, 1001, 10, 5, (0.5, 0.25, 2.0))
    assert reported[-1].startswith("0.5000  0.2500  2.0000   x 10.5")
    frame_cache.pixel_ready.emit(PLATE, 1001, 11, 5, (9.0, 9.0, 9.0))  # of a pixel that the mouse has left
    assert reported[-1].startswith("x 10.5")


def test_the_readout_follows_frame_and_magnification_under_a_mouse_at_rest(
    canvas: Canvas, session: ShotSession
) -> None:
    reported: list[str] = []
    canvas.readout_changed.connect(reported.append)
    canvas._hover = QPointF(105, 55)
    session.go_to(1002)
    assert "frame 1002" in reported[-1]
    canvas.zoom_to(canvas.view.zoom * 2)
    assert "2000 %" in reported[-1]
    canvas._hover = None
    session.go_to(1003)
    assert reported[-1] == ""  # no mouse, no readout
    session.go_to(1002)
    assert len(reported) == 3


def test_a_landmark_under_the_mouse_tells_its_name_and_error(session: ShotSession) -> None:
    view = ViewTransform(zoom=10.0)
    assert landmark_note(session, view, QPointF(303, 202)) == "nose  \u00b11.0 px"
    assert landmark_note(session, view, QPointF(350, 202)) == ""
