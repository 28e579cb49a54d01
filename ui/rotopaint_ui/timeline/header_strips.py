"""The upper strips: frame numbers, brackets of holds, thumbnails; and the playhead over everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPolygonF

from rotopaint_ui.engine.frame_cache import THUMB_HEIGHT
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.timeline.axis import LEFT, Axis

RULER, THUMBS, GAP = 20, THUMB_HEIGHT, 3
GROUND = QColor("#0f1013")
_THUMB_CUT = 0.3  # size of a cell
_TEXT = QColor("#8f96a3")
_PLAYHEAD = QColor("#ff7a45")


def strip_area(axis: Axis, y: float, height: float) -> QRectF:
    """The rectangle of a strip."""
    return QRectF(LEFT, y, axis.right - LEFT, height)


def paint_strip_label(painter: QPainter, text: str, y: float, height: float) -> None:
    """Draw the name of a strip at its left."""
    painter.setPen(_TEXT)
    area = QRectF(2, y, LEFT - 8, height)
    painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)


def paint_ruler(painter: QPainter, axis: Axis, y: float) -> None:
    """Draw frame numbers."""
    step = axis.tick_step(44)
    start = axis.frames.start + (-axis.frames.start) % step
    painter.setPen(_TEXT)
    for frame in range(start, axis.frames.stop, step):
        x = axis.middle_of(frame)
        painter.drawLine(QPointF(x, y + RULER - 4), QPointF(x, y + RULER))
        painter.drawText(QRectF(x - 40, y, 80, RULER - 4), Qt.AlignmentFlag.AlignCenter, str(frame))


def paint_span(painter: QPainter, axis: Axis, y: float, span: tuple[int, int]) -> None:
    """Draw the range from In to Out: a line under the frame numbers, with a mark at each end."""
    left, right, base = axis.x_of(span[0]) + 1, axis.x_of(span[1] + 1) - 1, y + RULER - 1
    painter.setPen(QPen(QColor("#ffd75e"), 2.0))
    ends = [QPointF(left, y + 3), QPointF(left, base), QPointF(right, base), QPointF(right, y + 3)]
    painter.drawPolyline(QPolygonF(ends))


def paint_holds(painter: QPainter, axis: Axis, y: float, held: Iterable[tuple[int, int]]) -> None:
    """Draw a bracket over the frames that repeat one exposure."""
    painter.setPen(QPen(QColor("#9fb4c9"), 1.6))
    for first, last in held:
        if last > first:
            left, right = axis.x_of(first) + 1.5, axis.x_of(last + 1) - 1.5
            bracket = [QPointF(left, y + 4), QPointF(left, y), QPointF(right, y), QPointF(right, y + 4)]
            painter.drawPolyline(QPolygonF(bracket))


def thumb_width(plate: PlateFacts) -> float:
    """The width of a thumbnail with its gap."""
    return THUMBS * plate.width * plate.pixel_aspect / plate.height + 2


def _thumb_step(plate: PlateFacts, axis: Axis) -> int:
    """Frames from one thumbnail to the next; a thumbnail is cropped at its sides rather than leaving a gap."""
    return max(1, ceil(thumb_width(plate) / axis.cell - _THUMB_CUT))


def thumb_places(plate: PlateFacts, axis: Axis, near: int) -> list[int]:
    """The frames whose thumbnails fill the strip, those near a given frame first."""
    step = _thumb_step(plate, axis)
    there = set(plate.frames)
    start = plate.first + (axis.frames.start - plate.first) // step * step
    slots = [frame for frame in range(start, axis.frames.stop, step) if frame in there]
    return sorted(slots, key=lambda frame: abs(frame - near))


def paint_thumbs(
    painter: QPainter, axis: Axis, y: float, plate: PlateFacts, thumbs: Mapping[int, QImage | None], broken: set[int]
) -> None:
    """Draw thumbnails; hatched where a frame is not on disk, red where it cannot be read."""
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    width, room = thumb_width(plate) - 2, _thumb_step(plate, axis) * axis.cell - 2
    for frame, thumb in sorted(thumbs.items()):
        if thumb is not None:
            left = axis.x_of(frame) + max(axis.cell - width - 2, 0.0) / 2
            area = QRectF(left, y, min(width, room, axis.right - left), THUMBS)
            painter.drawImage(area, thumb, QRectF((width - area.width()) / 2, 0, area.width(), THUMBS))
    for frame in plate.missing:
        _paint_hole(painter, QRectF(axis.x_of(frame), y, max(axis.cell, 2.0), THUMBS))
    for frame in broken:
        painter.fillRect(QRectF(axis.x_of(frame), y, max(axis.cell, 2.0), THUMBS), QColor(216, 58, 94, 110))


def paint_playhead(painter: QPainter, axis: Axis, frame: int, height: float) -> None:
    """Draw the playhead: a light column over the frame, a line through it, its number on a flag."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    column = QRectF(axis.x_of(frame), RULER + GAP, max(axis.cell, 1.0), height - RULER - 2 * GAP)
    painter.fillRect(column, QColor(255, 255, 255, 22))
    x = axis.middle_of(frame)
    painter.setPen(QPen(_PLAYHEAD, 1.4))
    painter.drawLine(QPointF(x, RULER), QPointF(x, height - GAP))
    text = str(frame)
    width = painter.fontMetrics().horizontalAdvance(text) + 12
    flag = QRectF(x - width / 2, GAP - 1, width, RULER - 3)
    flag.moveLeft(min(max(flag.left(), 1.0), axis.width - width - 1))
    painter.setBrush(_PLAYHEAD)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.drawRoundedRect(flag, 4, 4)
    painter.setPen(QColor("#1a0f08"))
    painter.drawText(flag, Qt.AlignmentFlag.AlignCenter, text)


def _paint_hole(painter: QPainter, area: QRectF) -> None:
    painter.fillRect(area, QColor("#16181c"))
    painter.fillRect(area, Qt.BrushStyle.BDiagPattern)
    painter.fillRect(area, QColor(91, 98, 110, 60))
