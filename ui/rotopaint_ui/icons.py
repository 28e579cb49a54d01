"""Icons drawn in code, so that they are sharp at any size and need no files."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap, QPolygonF

_SIZE = 24
_SCALE = 3
_INK, _INK_ON = "#b9c0cc", "#ffffff"


def icon(name: str) -> QIcon:
    """The icon of that name; brighter where its button is checked."""
    made = QIcon()
    for ink, state in ((_INK, QIcon.State.Off), (_INK_ON, QIcon.State.On)):
        pixmap = QPixmap(_SIZE * _SCALE, _SIZE * _SCALE)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(_SCALE, _SCALE)
        pen = QPen(QColor(ink), 1.7)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        _DRAWINGS[name](painter, QColor(ink))
        painter.end()
        made.addPixmap(pixmap, QIcon.Mode.Normal, state)
    return made


def _select(painter: QPainter, ink: QColor) -> None:
    arrow = [(6, 4), (6, 18), (10, 14.5), (13, 20), (15.2, 19), (12.4, 13.6), (17.5, 13.2)]
    painter.setBrush(ink)
    painter.drawPolygon(QPolygonF([QPointF(x, y) for x, y in arrow]))


def _crop(painter: QPainter, ink: QColor) -> None:
    for line in ((7, 3, 7, 17), (7, 17, 21, 17), (3, 7, 17, 7), (17, 7, 17, 21)):
        painter.drawLine(QPointF(*line[:2]), QPointF(*line[2:]))


def _wipe(painter: QPainter, ink: QColor) -> None:
    painter.drawRect(QRectF(4, 5, 16, 14))
    painter.fillRect(QRectF(12, 5, 8, 14), ink)
    painter.drawLine(QPointF(12, 3), QPointF(12, 21))


def _flip(painter: QPainter, ink: QColor) -> None:
    painter.drawRect(QRectF(4, 8, 11, 11))
    painter.fillRect(QRectF(9, 4, 11, 11), ink)


def _splines(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(4, 18))
    path.cubicTo(QPointF(8, 2), QPointF(15, 22), QPointF(20, 6))
    painter.drawPath(path)
    for x, y in ((4, 18), (20, 6)):
        painter.fillRect(QRectF(x - 2.2, y - 2.2, 4.4, 4.4), ink)


def _landmarks(painter: QPainter, ink: QColor) -> None:
    for x, y in ((7, 8), (17, 8), (12, 13), (9, 18), (15, 18)):
        painter.drawLine(QPointF(x - 2, y), QPointF(x + 2, y))
        painter.drawLine(QPointF(x, y - 2), QPointF(x, y + 2))


def _mattes(painter: QPainter, ink: QColor) -> None:
    painter.setBrush(QColor(ink.red(), ink.green(), ink.blue(), 120))
    painter.drawEllipse(QRectF(4, 7, 16, 10))


def _fit(painter: QPainter, ink: QColor) -> None:
    for x, sx in ((4, 1), (20, -1)):
        for y, sy in ((5, 1), (19, -1)):
            painter.drawLine(QPointF(x, y), QPointF(x + 5 * sx, y))
            painter.drawLine(QPointF(x, y), QPointF(x, y + 4 * sy))


def _face(painter: QPainter, ink: QColor) -> None:
    painter.drawEllipse(QRectF(5, 3.5, 14, 17))
    for x in (9.3, 14.7):
        painter.setBrush(ink)
        painter.drawEllipse(QPointF(x, 10), 0.9, 0.9)
    painter.drawLine(QPointF(9.5, 15.5), QPointF(14.5, 15.5))


def _worst(painter: QPainter, ink: QColor) -> None:
    painter.drawPolygon(QPolygonF([QPointF(12, 3.5), QPointF(21, 19.5), QPointF(3, 19.5)]))
    painter.drawLine(QPointF(12, 9), QPointF(12, 14))
    painter.drawPoint(QPointF(12, 17))


def _play(painter: QPainter, ink: QColor) -> None:
    painter.setBrush(ink)
    painter.drawPolygon(QPolygonF([QPointF(7, 4.5), QPointF(19.5, 12), QPointF(7, 19.5)]))


def _undo(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(5, 10))
    path.lineTo(QPointF(14, 10))
    path.cubicTo(QPointF(21, 10), QPointF(21, 19), QPointF(14, 19))
    path.lineTo(QPointF(9, 19))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    painter.drawPolyline(QPolygonF([QPointF(9, 5.5), QPointF(4.5, 10), QPointF(9, 14.5)]))


def _redo(painter: QPainter, ink: QColor) -> None:
    painter.translate(_SIZE, 0)
    painter.scale(-1, 1)
    _undo(painter, ink)


_DRAWINGS: dict[str, Callable[[QPainter, QColor], None]] = {
    "select": _select,
    "crop": _crop,
    "wipe": _wipe,
    "flip": _flip,
    "splines": _splines,
    "landmarks": _landmarks,
    "mattes": _mattes,
    "fit": _fit,
    "face": _face,
    "worst": _worst,
    "play": _play,
    "undo": _undo,
    "redo": _redo,
}
