"""The strip of face kits: a row for each part of the face, a cell for each printed piece, its number in it."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from rotopaint_ui.session.xsheet import Exposures
from rotopaint_ui.timeline.axis import Axis

PIECE = 14
_GROUNDS = QColor("#33404f"), QColor("#2a3340")
_TEXT = QColor("#cfd8e4")


def paint_pieces(painter: QPainter, axis: Axis, y: float, sheet: Exposures) -> None:
    """Draw the pieces in two alternating greys, so that a change shows even without room for a number."""
    end = axis.frames.stop
    for row, pieces in enumerate(sheet.values()):
        starts = [*pieces, end]
        for number, (first, following) in enumerate(pairwise(starts)):
            if following <= axis.frames.start or first >= end:
                continue
            left, right = axis.x_of(max(first, axis.frames.start)), axis.x_of(min(following, end))
            area = QRectF(left, y + PIECE * row, max(right - left - 1, 1.0), PIECE - 1)
            painter.fillRect(area, _GROUNDS[number % 2])
            text = pieces[first]
            if painter.fontMetrics().horizontalAdvance(text) + 4 <= area.width():
                painter.setPen(_TEXT)
                painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
