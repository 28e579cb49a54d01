"""Put points on a curve, take points away, and drag them where they belong."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes import edit_points
from rotopaint_ui.render import View
from rotopaint_ui.tools.base import Touch
from rotopaint_ui.tools.hand import Hand
from rotopaint_ui.tools.pick import curve_at, grip_at, shape_at
from rotopaint_ui.tools.select import SelectTool, add_point


class PointsTool:
    """A click on the curve puts a point there, in every key; Ctrl+click on a point takes it away. Drags move points."""

    def __init__(self, hand: Hand) -> None:
        self._hand, self._select = hand, SelectTool(hand)
        self._hover: QPointF | None = None

    @property
    def is_busy(self) -> bool:
        """Whether points are being dragged."""
        return self._select.is_busy

    def press(self, touch: Touch) -> None:
        """Take a point away, put one there, or take hold of one."""
        grip = grip_at(self._hand, touch)
        if grip is not None and grip.handle == "point" and touch.ctrl:
            delete_points(self._hand, frozenset({grip.index}))
        elif grip is None and not touch.shift and curve_at(self._hand, touch) is not None:
            add_point(self._hand, touch)
        else:
            self._select.press(touch)
        self._hover = None

    def drag(self, touch: Touch) -> None:
        """Move what is held."""
        self._select.drag(touch)

    def release(self, touch: Touch) -> None:
        """One gesture is one undo step."""
        self._select.release(touch)

    def cancel(self) -> None:
        """Take the drag back."""
        self._select.cancel()

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """What a press would do; where a point would come is shown."""
        grip = grip_at(self._hand, touch)
        place = curve_at(self._hand, touch) if grip is None else None
        self._hover = touch.view.to_screen(place.x, place.y) if place is not None else None
        if grip is not None:
            return Qt.CursorShape.ForbiddenCursor if touch.ctrl else Qt.CursorShape.SizeAllCursor
        if place is not None:
            return Qt.CursorShape.CrossCursor
        return Qt.CursorShape.PointingHandCursor if shape_at(self._hand, touch) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: View) -> None:
        """The rubber band, and the place of the point to come."""
        self._select.paint(painter, view)
        if self._hover is not None:
            painter.setPen(QPen(QColor("#ffffff"), 1.4))
            painter.setBrush(QColor(255, 255, 255, 70))
            painter.drawEllipse(self._hover, 5, 5)


def delete_points(hand: Hand, indices: frozenset[int]) -> bool:
    """Take points away in every key; their neighbours' tangents follow the curve."""
    shape = hand.shape
    if shape is None or not indices:
        return False
    label = "delete point" if len(indices) == 1 else "delete points"
    done = hand.put(label, lambda document: edit_points.delete_points(document, shape.name, indices))
    if done:
        hand.session.select(shape.name)
    return done
