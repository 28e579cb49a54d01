"""The bracket of a spread: how far a correction reaches, and its ends to be dragged."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from rotopaint_ui.session.spread_reach import End, SpreadReach
from rotopaint_ui.timeline.axis import Axis

REACH = 13
GRIP_PX = 7.0
_INK = QColor("#b9a5ff")


def end_at(reach: SpreadReach, axis: Axis, x: float) -> End | None:
    """The end of the bracket under the mouse; None elsewhere."""
    first, last = abs(axis.x_of(reach.first) - x), abs(axis.x_of(reach.last + 1) - x)
    if min(first, last) > GRIP_PX:
        return None
    return "first" if first <= last else "last"


def paint_reach(painter: QPainter, axis: Axis, y: float, reach: SpreadReach, *, is_held: bool) -> None:
    """Draw the bracket: dashed while it is a proposal, solid once spread; a triangle at the corrected frame."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    left, right = axis.x_of(reach.first) + 1.5, axis.x_of(reach.last + 1) - 1.5
    middle = y + REACH / 2
    ink = QColor("#ffffff") if is_held else _INK
    style = Qt.PenStyle.SolidLine if reach.is_spread else Qt.PenStyle.DashLine
    painter.setPen(QPen(ink, 2.0, style))
    painter.drawLine(QPointF(left, middle), QPointF(right, middle))
    painter.setPen(QPen(ink, 2.4))
    for x, turn in ((left, 1), (right, -1)):
        corners = [QPointF(x + 4 * turn, y + 1.5), QPointF(x, y + 1.5)]
        painter.drawPolyline([*corners, QPointF(x, y + REACH - 1.5), QPointF(x + 4 * turn, y + REACH - 1.5)])
    at = axis.middle_of(reach.frame)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#ffe14d"))
    painter.drawPolygon(QPolygonF([QPointF(at - 4, y + 2), QPointF(at + 4, y + 2), QPointF(at, y + REACH - 3)]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
