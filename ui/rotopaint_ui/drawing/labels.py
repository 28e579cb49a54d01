"""Words on the picture, readable on any plate."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from rotopaint_ui.drawing.render import resize_font

INK = "#e6e9ef"


def paint_label(painter: QPainter, at: QPointF, text: str, *, is_right: bool = False, ink: str = INK) -> None:
    """Draw small text in a dark box; `at` is its top-left corner, with `is_right` its top-right one."""
    painter.save()
    painter.setFont(resize_font(painter.font(), 0.9))
    size = painter.fontMetrics().size(0, text)
    box = QRectF(at.x(), at.y(), size.width() + 12, size.height() + 6)
    if is_right:
        box.moveRight(at.x())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(10, 11, 14, 190))
    painter.drawRoundedRect(box, 4, 4)
    painter.setPen(QColor(ink))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    painter.restore()
