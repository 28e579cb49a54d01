"""The strip of review marks: a tick where a frame is accepted, a cross where it needs work."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ui.timeline.axis import Axis

MARKS = 14
ACCEPTED, NEEDS_WORK = "accepted", "needs work"
_GROUND = {ACCEPTED: QColor(70, 140, 200, 110), NEEDS_WORK: QColor(240, 120, 40, 130)}
_INK = {ACCEPTED: QColor("#bfe0ff"), NEEDS_WORK: QColor("#ffd9bd")}
_ROOMY_PX = 9.0


def paint_marks(painter: QPainter, axis: Axis, y: float, marks: Mapping[int, str]) -> None:
    """A full cell for accepted, the lower half for needs work, with a sign in it where there is room."""
    for frame in axis.frames:
        mark = marks.get(frame)
        if mark not in _GROUND:
            continue
        share = 1.0 if mark == ACCEPTED else 0.55
        area = QRectF(axis.x_of(frame), y + MARKS * (1 - share), max(axis.cell - 1, 1.0), MARKS * share)
        painter.fillRect(area, _GROUND[mark])
        if axis.cell >= _ROOMY_PX:
            paint_mark(painter, QPointF(axis.middle_of(frame), y + MARKS / 2), mark)


def paint_mark(painter: QPainter, centre: QPointF, mark: str) -> None:
    """A tick or a cross."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(_INK[mark], 1.6))
    if mark == ACCEPTED:
        painter.drawPolyline([centre + QPointF(-3.5, 0), centre + QPointF(-1, 2.8), centre + QPointF(3.5, -3)])
    else:
        painter.drawLine(centre + QPointF(-2.8, -2.8), centre + QPointF(2.8, 2.8))
        painter.drawLine(centre + QPointF(-2.8, 2.8), centre + QPointF(2.8, -2.8))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
