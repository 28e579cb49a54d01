"""The viewer: the plate under a display transform, what is drawn over it, and the mouse."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QEnterEvent,
    QFont,
    QImage,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from rotopaint_ui.reel import CLEAN, PLATE, Reel
from rotopaint_ui.render import (
    Overlay,
    View,
    colours_of,
    paint_crop,
    paint_handles,
    paint_landmarks,
    paint_matte,
    paint_spline,
    resized,
)
from rotopaint_ui.session import Session
from rotopaint_ui.tools import CropTool, SelectTool, Tool, Touch, crop_at

_BACKGROUND = QColor("#101114")
_HOVER_PX = 10.0
_FADE_WHILE_DRAGGING = 0.35
REFINE_MS = 120  # stillness after which a picture is averaged down instead of sampled


class Canvas(QWidget):
    """The viewer. Wheel zooms at the cursor, middle button or Alt drags the plate, the left button is the tool's."""

    cursor_moved = Signal(float, float)  # plate space

    def __init__(self, session: Session, reel: Reel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = View()
        self.overlay = Overlay()
        self.wipe: float | None = None  # share of the width left of which the plate is shown, right of it the clean one
        self.shows_clean = False
        self._session, self._reel = session, reel
        self._tools: dict[str, Tool] = {"select": SelectTool(session), "crop": CropTool(session)}
        self._tool = "select"
        self._pan: QPointF | None = None
        self._wiping = False
        self._hover: QPointF | None = None
        self._is_fitted = True
        self._scaled: dict[tuple[int, QSize], QImage] = {}
        self._to_refine: dict[tuple[int, QSize], QImage] = {}
        self._refine = QTimer(self, singleShot=True, interval=REFINE_MS)
        self._refine.timeout.connect(self._refine_images)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 160)

    # --- what is shown

    @property
    def tool(self) -> str:
        """Name of the tool in hand."""
        return self._tool

    @tool.setter
    def tool(self, name: str) -> None:
        self._tools[self._tool].cancel()
        self._tool = name
        self.update()

    def fit(self) -> None:
        """Show the whole plate."""
        plate = self._session.plate
        if plate is not None:
            self._show_box(0, 0, plate.width, plate.height, 1.0)
            self._is_fitted = True

    def fit_face(self) -> None:
        """Show the crop box, or all shapes of this frame; the whole plate where there are neither."""
        box = crop_at(self._session)
        if box is not None:
            self._show_box(box.x, box.y, box.width, box.height, 1.25)
            return
        document = self._session.document
        shapes = document.shapes if document is not None else ()
        points = [point for shape in shapes for point in shape.at(self._session.frame)]
        if not points:
            self.fit()
            return
        xs, ys = [point.x for point in points], [point.y for point in points]
        self._show_box(min(xs), min(ys), max(max(xs) - min(xs), 8), max(max(ys) - min(ys), 8), 1.25)

    def zoom_to(self, zoom: float) -> None:
        """Magnify to `zoom` screen pixels for one plate pixel, about the middle."""
        centre = QPointF(self.width() / 2, self.height() / 2)
        self._set_view(self.view.zoomed(zoom / self.view.zoom, centre))

    def cancel_gesture(self) -> None:
        """Leave the drag that is going on."""
        self._tools[self._tool].cancel()
        self.update()

    def _show_box(self, x: float, y: float, width: float, height: float, air: float) -> None:
        plate = self._session.plate
        aspect = plate.pixel_aspect if plate is not None else 1.0
        zoom = min(self.width() / (width * aspect * air), self.height() / (height * air))
        zoom = min(max(zoom, 0.02), 64.0)
        left = self.width() / 2 - (x + width / 2) * zoom * aspect
        self._set_view(View(zoom, left, self.height() / 2 - (y + height / 2) * zoom, aspect))

    def _set_view(self, view: View) -> None:
        self.view, self._is_fitted = view, False
        self.update()

    # --- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Plate, overlay, tool."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), _BACKGROUND)
        plate = self._session.plate
        if plate is None:
            self._paint_empty(painter)
            return
        area = self.view.rect(0, 0, plate.width, plate.height)
        self._paint_plates(painter, area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(255, 255, 255, 40), 1.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(area)
        self._paint_overlay(painter)
        self._tools[self._tool].paint(painter, self.view)
        self._paint_wipe(painter, area)
        self._paint_hover(painter)

    def _paint_plates(self, painter: QPainter, area: QRectF) -> None:
        frame = self._session.frame
        plate, clean = self._reel.image(PLATE, frame), self._reel.image(CLEAN, frame)
        if self.shows_clean and clean is not None:
            self._paint_image(painter, clean, area)
            return
        if plate is None:
            self._paint_missing(painter, area)
        else:
            self._paint_image(painter, plate, area)
        if self.wipe is not None and clean is not None:
            painter.save()
            x = area.left() + self.wipe * area.width()
            painter.setClipRect(QRectF(x, area.top(), area.right() - x, area.height()))
            self._paint_image(painter, clean, area)
            painter.restore()

    def _paint_image(self, painter: QPainter, image: QImage, area: QRectF) -> None:
        """Pixel-exact when magnified; averaged over areas when made much smaller, so that grain does not sparkle."""
        if self.view.zoom >= 0.66:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.view.zoom < 1.0)
            painter.drawImage(area, image)
            return
        size = area.size().toSize().expandedTo(QSize(1, 1))
        key = image.cacheKey()
        if (key, size) in self._scaled:
            painter.drawImage(area.topLeft(), self._scaled[key, size])
            return
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(area, image)
        self._to_refine[key, size] = image
        self._refine.start()

    def _refine_images(self) -> None:
        """The eye rests: replace what was drawn in haste."""
        mode = Qt.TransformationMode.SmoothTransformation
        self._scaled = {
            key: image.scaled(key[1], Qt.AspectRatioMode.IgnoreAspectRatio, mode)
            for key, image in self._to_refine.items()
        }
        self._to_refine.clear()
        self.update()

    def _paint_missing(self, painter: QPainter, area: QRectF) -> None:
        plate, frame = self._session.plate, self._session.frame
        assert plate is not None
        painter.fillRect(area, QColor("#1b1d22"))
        broken = self._reel.broken.get((PLATE, frame))
        if broken is not None:
            text = broken
        elif frame in plate.frames:
            text = f"Reading frame {frame}"
        else:
            text = f"Frame {frame} is not on disk"
        painter.setPen(QColor("#ff9d7a" if broken else "#8a919e"))
        inner = area.intersected(QRectF(self.rect())).adjusted(16, 16, -16, -16)
        painter.drawText(inner, int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap), text)

    def _paint_overlay(self, painter: QPainter) -> None:
        session, document, frame = self._session, self._session.document, self._session.frame
        if document is not None:
            painter.setOpacity(_FADE_WHILE_DRAGGING if session.is_dragging else 1.0)
            colours = colours_of(document)
            shown = [shape for shape in document.shapes if shape.name not in session.hidden]
            for shape in shown if self.overlay.mattes else ():
                paint_matte(painter, shape, frame, self.view, colours[shape.name])
            if self.overlay.landmarks:
                paint_landmarks(painter, document.landmarks.keys.get(frame, ()), self.view)
            selected = session.shape
            for shape in shown if self.overlay.splines else ():
                if shape is not selected:
                    paint_spline(painter, shape, frame, self.view, colours[shape.name], is_selected=False)
            painter.setOpacity(1.0)
            if selected is not None and selected in shown and self.overlay.splines:
                colour = colours[selected.name]
                paint_spline(painter, selected, frame, self.view, colour, is_selected=True)
                paint_handles(painter, selected.at(frame), self.view, colour, session.selection.points)
        self._paint_crop(painter)

    def _paint_crop(self, painter: QPainter) -> None:
        box = crop_at(self._session)
        if box is not None and (self._tool == "crop" or self._session.document is None):
            area = self.view.rect(box.x, box.y, box.width, box.height)
            paint_crop(painter, area, is_key=self._session.frame in self._session.state.crops)

    def _paint_wipe(self, painter: QPainter, area: QRectF) -> None:
        if self.wipe is None:
            return
        x = area.left() + self.wipe * area.width()
        top, bottom = max(area.top(), 0.0), min(area.bottom(), float(self.height()))
        painter.setPen(QPen(QColor(0, 0, 0, 160), 3.0))
        painter.drawLine(QPointF(x, top), QPointF(x, bottom))
        painter.setPen(QPen(QColor("#ffffff"), 1.2))
        painter.drawLine(QPointF(x, top), QPointF(x, bottom))
        painter.setBrush(QColor("#ffffff"))
        painter.drawEllipse(QPointF(x, (top + bottom) / 2), 5, 5)
        painter.setFont(_small(self.font()))
        has_clean = self._reel.image(CLEAN, self._session.frame) is not None
        _label(painter, QPointF(x - 8, top + 8), "plate", is_right=True)
        _label(painter, QPointF(x + 8, top + 8), "clean" if has_clean else "no clean frame yet", is_right=False)

    def _paint_hover(self, painter: QPainter) -> None:
        """The name of the landmark under the mouse."""
        document = self._session.document
        if document is None or self._hover is None or not self.overlay.landmarks or self._session.is_dragging:
            return
        rows = document.landmarks.keys.get(self._session.frame, ())
        near = []
        for name, row in zip(document.landmarks.names, rows):
            if row is not None:
                offset = self.view.to_screen(row.x, row.y) - self._hover
                distance = (offset.x() ** 2 + offset.y() ** 2) ** 0.5
                if distance < _HOVER_PX:
                    near.append((distance, f"{name}  \u00b1{row.expected_error_px:.1f} px"))
        if near:
            painter.setFont(_small(self.font()))
            _label(painter, self._hover + QPointF(14, 10), min(near)[1], is_right=False)

    def _paint_empty(self, painter: QPainter) -> None:
        middle = QRectF(self.rect())
        painter.setFont(resized(self.font(), 1.6))
        painter.setPen(QColor("#c3c9d4"))
        painter.drawText(middle.adjusted(0, -18, 0, -18), Qt.AlignmentFlag.AlignCenter, "Drop a plate here")
        painter.setFont(self.font())
        painter.setPen(QColor("#7d8492"))
        hint = "a folder, one frame of a sequence, or a movie"
        painter.drawText(middle.adjusted(0, 18, 0, 18), Qt.AlignmentFlag.AlignCenter, hint)

    # --- the mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Pan, wipe, or the tool."""
        self.setFocus()
        alt = event.modifiers() & Qt.KeyboardModifier.AltModifier
        if event.button() == Qt.MouseButton.MiddleButton or (event.button() == Qt.MouseButton.LeftButton and alt):
            self._pan = event.position()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        elif event.button() == Qt.MouseButton.LeftButton:
            self._wiping = self._is_on_wipe(event.position())
            if not self._wiping:
                self._tools[self._tool].press(self._touch(event))
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with what the press began."""
        self._hover = event.position()
        self.cursor_moved.emit(*self.view.to_plate(event.position()))
        if self._pan is not None:
            delta = event.position() - self._pan
            self._pan = event.position()
            self._set_view(View(self.view.zoom, self.view.x + delta.x(), self.view.y + delta.y(), self.view.aspect))
        elif event.buttons() & Qt.MouseButton.LeftButton:
            if self._wiping:
                self._drag_wipe(event.position())
            else:
                self._tools[self._tool].drag(self._touch(event))
        else:
            on_wipe = self._is_on_wipe(event.position())
            shape = Qt.CursorShape.SplitHCursor if on_wipe else self._tools[self._tool].cursor(self._touch(event))
            self.setCursor(shape)
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End it."""
        if self._pan is not None:
            self._pan = None
            self.unsetCursor()
        elif event.button() == Qt.MouseButton.LeftButton:
            if not self._wiping:
                self._tools[self._tool].release(self._touch(event))
            self._wiping = False
        self.update()

    def leaveEvent(self, event: object) -> None:
        """No mouse, no hover."""
        self._hover = None
        self.update()

    def enterEvent(self, event: QEnterEvent) -> None:
        """Shortcuts work where the mouse is, without a click."""
        self._hover = event.position()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the cursor."""
        self._set_view(self.view.zoomed(1.0015 ** event.angleDelta().y(), event.position()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A fitted plate stays fitted; otherwise what is in the middle stays there."""
        if self._is_fitted:
            self.fit()
        elif event.oldSize().isValid():
            dx = (event.size().width() - event.oldSize().width()) / 2
            dy = (event.size().height() - event.oldSize().height()) / 2
            self.view = View(self.view.zoom, self.view.x + dx, self.view.y + dy, self.view.aspect)

    def _touch(self, event: QMouseEvent) -> Touch:
        return Touch(event.position(), self.view, event.modifiers())

    def _wipe_x(self) -> float | None:
        plate = self._session.plate
        if self.wipe is None or plate is None:
            return None
        return self.view.to_screen(self.wipe * plate.width, 0).x()

    def _is_on_wipe(self, point: QPointF) -> bool:
        x = self._wipe_x()
        return x is not None and abs(point.x() - x) < 7

    def _drag_wipe(self, point: QPointF) -> None:
        plate = self._session.plate
        if plate is not None:
            self.wipe = min(max(self.view.to_plate(point)[0] / plate.width, 0.0), 1.0)


def _small(font: QFont) -> QFont:
    return resized(font, 0.9)


def _label(painter: QPainter, at: QPointF, text: str, *, is_right: bool) -> None:
    """Text on a dark plate, so that it reads on any picture; `at` is its top-left or top-right corner."""
    size = painter.fontMetrics().size(0, text)
    box = QRectF(at.x(), at.y(), size.width() + 12, size.height() + 6)
    if is_right:
        box.moveRight(at.x())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(10, 11, 14, 190))
    painter.drawRoundedRect(box, 4, 4)
    painter.setPen(QColor("#e6e9ef"))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
