"""Drag landmarks: every shape that hangs on them follows, through the shape model."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes.roto import Landmark
from rotopaint_ui.render import View
from rotopaint_ui.tools.base import CLICK_PX, Touch, paint_band
from rotopaint_ui.tools.gesture import Way
from rotopaint_ui.tools.hand import Hand
from rotopaint_ui.tools.pick import landmark_at


class LandmarkTool:
    """Click selects a landmark (Shift: more), a rubber band those inside; a drag moves them, the shapes follow."""

    def __init__(self, hand: Hand) -> None:
        self._hand, self._session = hand, hand.session
        self._held: dict[int, Landmark] = {}
        self._way: Way | None = None

    @property
    def is_busy(self) -> bool:
        """Whether landmarks are being dragged."""
        return self._way is not None and bool(self._held) and self._way.has_begun

    def press(self, touch: Touch) -> None:
        """Take hold of the landmark under the mouse, and of the others selected; else begin a rubber band."""
        self._way, self._held = Way(touch), {}
        index = landmark_at(self._hand, touch)
        if index is None:
            return
        if touch.shift:
            self._hand.landmarks = self._hand.landmarks ^ {index}
        elif index not in self._hand.landmarks:
            self._hand.landmarks = frozenset({index})
        self._held = {
            i: mark for i, mark in enumerate(self._hand.landmark_row) if i in self._hand.landmarks and mark is not None
        }

    def drag(self, touch: Touch) -> None:
        """Move what is held."""
        if self._way is None:
            return
        had_begun = self._way.has_begun
        if not self._way.go(touch) or not self._held:
            return
        if not had_begun:
            if not self._hand.is_free:
                self._way = None
                return
            self._session.begin("move landmark" if len(self._held) == 1 else "move landmarks")
        dx, dy = self._way.offset
        places = {index: (mark.x + dx, mark.y + dy) for index, mark in self._held.items()}
        self._session.move_landmarks(self._session.frame, places)

    def release(self, touch: Touch) -> None:
        """One gesture is one undo step."""
        if self.is_busy:
            self._session.end_landmarks()
        elif self._way is not None and not self._held:
            self._take_inside(touch)
        self._way, self._held = None, {}

    def cancel(self) -> None:
        """Take the drag back."""
        if self.is_busy:
            self._session.abort()
        self._way, self._held = None, {}

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """A cross over landmarks."""
        found = landmark_at(self._hand, touch)
        return Qt.CursorShape.ArrowCursor if found is None else Qt.CursorShape.SizeAllCursor

    def paint(self, painter: QPainter, view: View) -> None:
        """Rings around the selected landmarks, and the rubber band."""
        row = self._hand.landmark_row
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for index in self._hand.landmarks:
            mark = row[index] if index < len(row) else None
            if mark is not None:
                _ring(painter, view.to_screen(mark.x, mark.y))
        if self._way is not None and self._way.has_begun and not self._held:
            paint_band(painter, self._way.start.point, self._way.last.point)

    def _take_inside(self, touch: Touch) -> None:
        assert self._way is not None
        band = QRectF(self._way.start.point, touch.point).normalized()
        inside: frozenset[int] = frozenset()
        if max(band.width(), band.height()) >= CLICK_PX:
            marks = [(i, mark) for i, mark in enumerate(self._hand.landmark_row) if mark is not None]
            inside = frozenset(i for i, mark in marks if band.contains(touch.view.to_screen(mark.x, mark.y)))
        self._hand.landmarks = (
            self._hand.landmarks - inside
            if touch.ctrl
            else inside | (self._hand.landmarks if touch.shift else frozenset())
        )


def _ring(painter: QPainter, centre: QPointF) -> None:
    for pen in (QPen(QColor(0, 0, 0, 150), 3.0), QPen(QColor("#ffffff"), 1.4)):
        painter.setPen(pen)
        painter.drawEllipse(centre, 6.5, 6.5)
