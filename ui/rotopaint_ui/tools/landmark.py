"""Drag landmarks: every shape that depends on them follows, by the shape model."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes.roto import Landmark
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.tools.base import CLICK_PX, MouseEvent, band_between, paint_band
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import landmark_at


class LandmarkTool(DragTool):
    """A click selects a landmark (Shift adds), a rubber band those inside; a drag moves them, and the shapes follow."""

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._held: dict[int, Landmark] = {}

    @property
    def is_busy(self) -> bool:
        """Whether landmarks are being dragged."""
        return super().is_busy and bool(self._held)

    def press(self, mouse: MouseEvent) -> None:
        """Grab the landmark under the mouse and the other selected ones; otherwise start a rubber band."""
        self._path, self._held = DragPath(mouse), {}
        index = landmark_at(self._context, mouse)
        if index is None:
            return
        if mouse.shift:
            self._context.landmarks = self._context.landmarks ^ {index}
        elif index not in self._context.landmarks:
            self._context.landmarks = frozenset({index})
        chosen, row = self._context.landmarks, self._context.landmark_row
        self._held = {i: mark for i, mark in enumerate(row) if i in chosen and mark is not None}

    def drag(self, mouse: MouseEvent) -> None:
        """Move the landmarks, or stretch the rubber band."""
        if self._path is None:
            return
        had_begun = self._path.has_begun
        if not self._path.go(mouse) or not self._held:
            return
        if not had_begun:
            if not self._context.is_free:
                self._path = None
                return
            self._session.edits.begin("move landmark" if len(self._held) == 1 else "move landmarks")
        dx, dy = self._path.offset
        places = {index: (mark.x + dx, mark.y + dy) for index, mark in self._held.items()}
        self._session.corrections.move_landmarks(self._session.frame, places)

    def release(self, mouse: MouseEvent) -> None:
        """End the gesture, as one undo step."""
        if self.is_busy:
            self._session.corrections.finish()
        elif self._path is not None and not self._held:
            self._take_inside(mouse)
        self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        self._held = {}

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A cross over landmarks."""
        found = landmark_at(self._context, mouse)
        return Qt.CursorShape.ArrowCursor if found is None else Qt.CursorShape.SizeAllCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw rings around the selected landmarks, and the rubber band."""
        row = self._context.landmark_row
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for index in self._context.landmarks:
            mark = row[index] if index < len(row) else None
            if mark is not None:
                _draw_ring(painter, view.to_screen(mark.x, mark.y))
        if self._path is not None and self._path.has_begun and not self._held:
            paint_band(painter, band_between(self._path.start.point, self._path.last.point))

    def _take_inside(self, mouse: MouseEvent) -> None:
        assert self._path is not None
        band = QRectF(self._path.start.point, mouse.point).normalized()
        inside: frozenset[int] = frozenset()
        if max(band.width(), band.height()) >= CLICK_PX:
            marks = [(i, mark) for i, mark in enumerate(self._context.landmark_row) if mark is not None]
            inside = frozenset(i for i, mark in marks if band.contains(mouse.view.to_screen(mark.x, mark.y)))
        self._context.landmarks = (
            self._context.landmarks - inside
            if mouse.ctrl
            else inside | (self._context.landmarks if mouse.shift else frozenset())
        )


def _draw_ring(painter: QPainter, centre: QPointF) -> None:
    for pen in (QPen(QColor(0, 0, 0, 150), 3.0), QPen(QColor("#ffffff"), 1.4)):
        painter.setPen(pen)
        painter.drawEllipse(centre, 6.5, 6.5)
