"""The text in the viewer before a plate is open."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from rotopaint_ui.drawing.render import resize_font


def paint_empty(painter: QPainter, area: QRectF) -> None:
    """Paint a line on what to do, and a line on the files that can be opened."""
    font = painter.font()
    painter.setFont(resize_font(font, 1.6))
    painter.setPen(QColor("#c3c9d4"))
    painter.drawText(area.adjusted(0, -18, 0, -18), Qt.AlignmentFlag.AlignCenter, "Drop a plate here")
    painter.setFont(font)
    painter.setPen(QColor("#7d8492"))
    hint = "a folder, one frame of a sequence, or a movie"
    painter.drawText(area.adjusted(0, 18, 0, 18), Qt.AlignmentFlag.AlignCenter, hint)
