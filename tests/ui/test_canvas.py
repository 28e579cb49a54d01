"""The viewer: geometry of the view, the mouse on shapes and boxes, and what is painted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.state import CropBox
from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys
from rotopaint_ui.drawing.render import Overlay, ViewTransform, paint_matte
from rotopaint_ui.engine.frame_cache import CLEAN, FrameCache
from rotopaint_ui.session.correction_edits import ShapesReply
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.toolbox import crop_at
from rotopaint_ui.viewer.canvas import Canvas

from .conftest import grabbed, picture

LEFT = Qt.MouseButton.LeftButton


def spot(canvas: Canvas, x: float, y: float) -> QPoint:
    return canvas.view.to_screen(x, y).toPoint()


def drag(qtbot: QtBot, canvas: Canvas, start: tuple[float, float], end: tuple[float, float]) -> None:
    qtbot.mousePress(canvas, LEFT, pos=spot(canvas, *start))
    for share in (0.3, 0.7, 1.0):
        x, y = (a + (b - a) * share for a, b in zip(start, end))
        qtbot.mouseMove(canvas, spot(canvas, x, y))
    qtbot.mouseRelease(canvas, LEFT, pos=spot(canvas, *end))


def test_the_view_maps_there_and_back_with_pixel_aspect() -> None:
    view = ViewTransform(zoom=2.0, x=10.0, y=20.0, aspect=1.5)
    assert view.to_screen(4, 6) == QPointF(22, 32)
    assert view.to_plate(QPointF(22, 32)) == pytest.approx((4, 6))


def test_zooming_keeps_the_place_under_the_mouse() -> None:
    view, mouse = ViewTransform(zoom=2.0, x=10.0, y=20.0, aspect=1.5), QPointF(123, 77)
    assert view.zoomed(3.7, mouse).to_plate(mouse) == pytest.approx(view.to_plate(mouse))


def test_fitting_the_face_follows_its_landmarks_away_from_the_box(canvas: Canvas, session: ShotSession) -> None:
    document = session.document
    assert document is not None
    marks = (Landmark(40, 30, 1.0), Landmark(50, 30, 1.0), Landmark(45, 42, 1.0))
    keys = LandmarkKeys(("left", "right", "chin"), {1001: marks})
    state = replace(session.state, document=replace(document, landmarks=keys), crops={1001: CropBox(4, 4, 12, 12)})
    session.edits.push("test", state)
    canvas.fit_face()
    assert canvas.view.to_plate(QPointF(320, 240)) == pytest.approx((45, 36), abs=0.1)
    assert canvas.view.zoom == pytest.approx(480 / (12 * 1.4), rel=0.05)  # 12 px of 480 with air around them
    canvas.tool = "crop"
    canvas.fit_face()
    assert canvas.view.to_plate(QPointF(320, 240)) == pytest.approx((10, 10), abs=0.1)


def test_the_fitted_plate_fills_the_viewer(canvas: Canvas) -> None:
    assert canvas.view.zoom == pytest.approx(10.0)
    assert canvas.grab().toImage().pixelColor(20, 20) == QColor("#404040")


def test_a_click_selects_the_shape_and_a_drag_moves_its_point_in_one_step(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    qtbot.mouseClick(canvas, LEFT, pos=spot(canvas, 20, 20))
    assert session.selection.shape == "seam"
    drag(qtbot, canvas, (30, 20), (33, 24))
    assert session.document is not None
    key = session.document.shape("seam").keys[1001]
    assert key.source == "human"
    assert (key.points[1].x, key.points[1].y) == pytest.approx((33, 24))
    assert session.edits.undo() == "move points"
    assert session.document.shape("seam").keys[1001].source == "model"


def test_a_rubber_band_selects_the_points_inside(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    drag(qtbot, canvas, (25, 25), (55, 16))
    assert session.selection.points == {"seam": {1, 2}}
    drag(qtbot, canvas, (50, 20), (50, 26))
    assert session.document is not None
    assert [point.y for point in session.document.shape("seam").at(1001)] == pytest.approx([20, 26, 26])


def test_a_tangent_is_dragged_by_its_end(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam", frozenset({1}))
    drag(qtbot, canvas, (35, 20), (35, 25))
    assert session.document is not None
    point = session.document.shape("seam").at(1001)[1]
    assert (point.x, point.y) == (30, 20)
    assert (point.out_dx, point.out_dy) == pytest.approx((5, 5))
    assert point.in_dx == pytest.approx(point.in_dy)


def test_hidden_shapes_cannot_be_grabbed(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.show("seam", False)
    qtbot.mouseClick(canvas, LEFT, pos=spot(canvas, 20, 20))
    assert session.selection.shape is None


@pytest.mark.parametrize(("tool", "hidden"), [("select", "splines"), ("points", "splines"), ("landmark", "landmarks")])
def test_what_is_not_drawn_cannot_be_grabbed(
    qtbot: QtBot, canvas: Canvas, session: ShotSession, tool: str, hidden: str
) -> None:
    session.select("seam")
    said: list[str] = []
    session.message_sent.append(said.append)
    canvas.tool = tool
    canvas.overlay = replace(canvas.overlay, **{hidden: False})
    drag(qtbot, canvas, (30, 20), (33, 24))
    qtbot.mouseDClick(canvas, LEFT, pos=spot(canvas, 20, 20))
    assert not session.edits.can_undo
    assert said[-1] == f"{hidden.capitalize()} are switched off in the viewer: show them to change them"
    assert session.selection.points == {}
    canvas.overlay = replace(canvas.overlay, **{hidden: True})
    canvas.tool = "select"
    drag(qtbot, canvas, (30, 20), (33, 24))
    assert session.edits.undo() == "move points"


def test_escape_takes_the_drag_back(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    session.select("seam")
    qtbot.mousePress(canvas, LEFT, pos=spot(canvas, 30, 20))
    qtbot.mouseMove(canvas, spot(canvas, 40, 30))
    assert session.edits.is_dragging
    canvas.cancel_gesture()
    qtbot.mouseRelease(canvas, LEFT, pos=spot(canvas, 40, 30))
    assert not session.edits.can_undo
    assert session.shapes_file.is_saved


def test_a_crop_box_is_drawn_moved_and_sized(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    canvas.tool = "crop"
    drag(qtbot, canvas, (10, 8), (40, 38))
    assert session.state.crops[1001].word(1001) == "1001:10,8,30,30"
    drag(qtbot, canvas, (20, 20), (25, 22))
    assert session.state.crops[1001].word(1001) == "1001:15,10,30,30"
    drag(qtbot, canvas, (45, 40), (55, 42))
    assert session.state.crops[1001].word(1001) == "1001:15,10,40,32"
    session.go_to(1005)
    drag(qtbot, canvas, (30, 20), (34, 20))
    session.go_to(1003)
    box = crop_at(session)
    assert box is not None
    assert box.x == 17
    session.edits.undo()
    session.edits.undo()
    session.edits.undo()
    session.edits.undo()
    assert session.state.crops == {}


def test_the_wipe_tells_the_truth_while_the_clean_plate_or_a_preview_is_shown(
    canvas: Canvas, frame_cache: FrameCache, session: ShotSession
) -> None:
    """The plate is left of the line, whatever else is switched on, and the label names the other side."""
    canvas.overlay = Overlay(splines=False, landmarks=False)
    canvas.shows_clean = True
    assert grabbed(canvas)[400, 100].tolist() == [0xA0] * 3
    canvas.show_wipe(True)
    seen = grabbed(canvas)
    assert seen[400, 100].tolist() == [0x40] * 3
    assert seen[400, 600].tolist() == [0xA0] * 3
    assert canvas._stack._clean_name() == "clean plate"
    frame_cache.replace_picture(CLEAN, (1001, picture("#d0d0d0")))
    canvas.refresh()
    seen = grabbed(canvas)
    assert (seen[400, 100].tolist(), seen[400, 600].tolist()) == ([0x40] * 3, [0xD0] * 3)
    assert canvas._stack._clean_name() == "preview"
    frame_cache.replace_picture(CLEAN, None)
    session.go_to(1002)
    assert canvas._stack._clean_name() == "no clean frame yet"


def test_the_wipe_shows_the_clean_plate_at_its_right(canvas: Canvas) -> None:
    canvas.show_wipe(True)
    canvas.overlay = Overlay(splines=False, landmarks=False)
    image = canvas.grab().toImage()
    assert image.pixelColor(100, 400) == QColor("#404040")
    assert image.pixelColor(540, 400) == QColor("#a0a0a0")
    canvas.show_wipe(False)
    canvas.shows_clean = True
    assert canvas.grab().toImage().pixelColor(100, 400) == QColor("#a0a0a0")


def test_mattes_cover_what_their_width_says(canvas: Canvas, session: ShotSession) -> None:
    canvas.overlay = Overlay(splines=False, landmarks=False, mattes=True)
    image = canvas.grab().toImage()
    plain = QColor("#404040")
    covered = [y for y in range(10, 470) if image.pixelColor(300, y) != plain]
    assert min(covered) == pytest.approx(180, abs=2)  # the seam lies at y 20, 4 px wide: 18 to 22
    assert max(covered) == pytest.approx(220, abs=2)
    assert image.pixelColor(240, 100) != plain  # inside the eye


def test_tapered_ends_narrow_to_nothing(session: ShotSession) -> None:
    from dataclasses import replace

    from PySide6.QtGui import QPainter

    assert session.document is not None
    shape = replace(session.document.shape("seam"), taper=(0.5, 0.0))
    image = QImage(640, 480, QImage.Format.Format_RGB32)
    image.fill(QColor("#000000"))
    painter = QPainter(image)
    paint_matte(painter, shape, 1001, ViewTransform(zoom=10.0), QColor("#ffffff"))
    painter.end()
    heights = [sum(image.pixelColor(x, y).red() > 0 for y in range(480)) for x in (110, 200, 450)]
    assert heights[0] < 6
    assert heights[1] == pytest.approx(20, abs=3)
    assert heights[2] == pytest.approx(40, abs=3)


class Watch(QObject):
    """Notes at each repaint of a widget whether an answer about shapes was still pending."""

    def __init__(self, canvas: Canvas, session: ShotSession) -> None:
        super().__init__(canvas)
        self.seen: list[bool] = []
        self._session = session
        canvas.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self.seen.append(self._session.corrections.is_asking)
        return False


def test_a_landmark_and_its_shapes_are_painted_together(qtbot: QtBot, canvas: Canvas, session: ShotSession) -> None:
    """Each move repaints once; an engine that does not answer delays the landmark only for a moment."""
    replies: list[ShapesReply] = []
    session.corrections.live = SimpleNamespace(drag=lambda question, reply: replies.append(reply))  # type: ignore[assignment]
    session.listeners[:] = [canvas.refresh]
    canvas.tool = "landmark"
    qtbot.wait(10)
    watch = Watch(canvas, session)
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1001, {0: (33.0, 22.0)})
    assert session.corrections.is_asking
    replies.pop()({"seam": session.state.document.shape("seam").at(1001)})  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: bool(watch.seen), timeout=120_000)
    assert not any(watch.seen)
    session.corrections.move_landmarks(1001, {0: (34.0, 22.0)})
    qtbot.waitUntil(lambda: watch.seen[-1], timeout=120_000)


@pytest.mark.parametrize(("tool", "has_note"), [("select", True), ("clone", False), ("crop", False)])
def test_notes_on_landmarks_are_not_laid_over_the_brush(
    qtbot: QtBot, canvas: Canvas, monkeypatch: pytest.MonkeyPatch, tool: str, has_note: bool
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("rotopaint_ui.viewer.canvas.paint_label", lambda *args, **kinds: shown.append(args[2]))
    canvas.tool = tool
    qtbot.mouseMove(canvas, spot(canvas, 30, 20))  # the nose
    canvas.grab()
    assert any("nose" in text for text in shown) == has_note


def test_the_cursor_at_a_corner_of_the_crop_box_shows_where_it_goes(
    qtbot: QtBot, canvas: Canvas, session: ShotSession
) -> None:
    session.edits.push("test", replace(session.state, crops={1001: CropBox(10, 8, 30, 30)}))
    canvas.tool = "crop"
    falling, rising = Qt.CursorShape.SizeFDiagCursor, Qt.CursorShape.SizeBDiagCursor
    corners = {(10, 8): falling, (40, 38): falling, (40, 8): rising, (10, 38): rising}
    for (x, y), wanted in corners.items():
        qtbot.mouseMove(canvas, spot(canvas, x, y))
        assert canvas.cursor().shape() == wanted


def test_alt_and_the_middle_button_zoom_about_the_place_of_the_press(qtbot: QtBot, canvas: Canvas) -> None:
    middle, place, zoom = Qt.MouseButton.MiddleButton, QPoint(200, 160), canvas.view.zoom
    before = canvas.view.to_plate(QPointF(place))
    qtbot.mousePress(canvas, middle, Qt.KeyboardModifier.AltModifier, place)
    qtbot.mouseMove(canvas, place + QPoint(100, 0))
    assert canvas.view.zoom == pytest.approx(2 * zoom)
    qtbot.mouseMove(canvas, place - QPoint(100, 0))
    assert canvas.view.zoom == pytest.approx(zoom / 2)
    assert canvas.view.to_plate(QPointF(place)) == pytest.approx(before, abs=0.3)  # the view lies on whole pixels
    qtbot.mouseRelease(canvas, middle, Qt.KeyboardModifier.AltModifier, place)
    qtbot.mouseMove(canvas, place)
    assert canvas.view.zoom == pytest.approx(zoom / 2)
