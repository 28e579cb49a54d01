"""The strip of review marks: a tick for accepted, a cross for needs work, a bar for rejected, a dot for a note."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from rotopaint_ui.timeline.axis import Axis

MARKS = 14
ACCEPTED, NEEDS_WORK, REJECTED = "accepted", "needs work", "rejected"
_GROUND = {
    ACCEPTED: QColor(70, 140, 200, 110),
    NEEDS_WORK: QColor(240, 120, 40, 130),
    REJECTED: QColor(200, 40, 50, 150),
}
_INK = {ACCEPTED: QColor("#bfe0ff"), NEEDS_WORK: QColor("#ffd9bd"), REJECTED: QColor("#ffd3d3")}
_NOTE = QColor("#ffffff")
_NOTE_PX = 5.0
_ROOMY_PX = 9.0


def paint_marks(
    painter: QPainter, axis: Axis, y: float, marks: Mapping[int, str], notes: Mapping[int, str] = MappingProxyType({})
) -> None:
    """Draw review marks: a full cell for accepted or rejected, the lower half for needs work, each with a sign if there
    is room; a corner for a note."""
    for frame in axis.frames:
        mark = marks.get(frame)
        if mark not in _GROUND:
            continue
        share = 0.55 if mark == NEEDS_WORK else 1.0
        area = QRectF(axis.x_of(frame), y + MARKS * (1 - share), max(axis.cell - 1, 1.0), MARKS * share)
        painter.fillRect(area, _GROUND[mark])
        if axis.cell >= _ROOMY_PX:
            paint_mark(painter, QPointF(axis.middle_of(frame), y + MARKS / 2), mark)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(_NOTE)
    for frame in (each for each in axis.frames if each in notes):
        left = axis.x_of(frame)
        corner = [QPointF(left, y), QPointF(left + _NOTE_PX, y), QPointF(left, y + _NOTE_PX)]
        painter.drawPolygon(QPolygonF(corner))


def paint_mark(painter: QPainter, centre: QPointF, mark: str) -> None:
    """Draw a tick, a cross or a bar."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(_INK[mark], 1.6))
    if mark == ACCEPTED:
        painter.drawPolyline([centre + QPointF(-3.5, 0), centre + QPointF(-1, 2.8), centre + QPointF(3.5, -3)])
    elif mark == REJECTED:
        painter.drawLine(centre + QPointF(-3.5, 0), centre + QPointF(3.5, 0))
    else:
        painter.drawLine(centre + QPointF(-2.8, -2.8), centre + QPointF(2.8, 2.8))
        painter.drawLine(centre + QPointF(-2.8, 2.8), centre + QPointF(2.8, -2.8))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
