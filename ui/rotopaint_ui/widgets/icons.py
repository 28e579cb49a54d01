"""Icons drawn in code, so that they are sharp at any size and need no files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap, QPolygonF

_SIZE = 24
_SCALE = 3
_INK, _INK_ON, _INK_OFF = "#b9c0cc", "#ffffff", "#565d69"
_STATES = (
    (_INK, QIcon.Mode.Normal, QIcon.State.Off),
    (_INK_ON, QIcon.Mode.Normal, QIcon.State.On),
    (_INK_OFF, QIcon.Mode.Disabled, QIcon.State.Off),
    (_INK_OFF, QIcon.Mode.Disabled, QIcon.State.On),
)


@cache
def icon(name: str) -> QIcon:
    """The icon of that name; brighter for checked buttons, darker for disabled ones."""
    made = QIcon()
    for ink, mode, state in _STATES:
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
        made.addPixmap(pixmap, mode, state)
    return made


def _select(painter: QPainter, ink: QColor) -> None:
    arrow = [(6, 4), (6, 18), (10, 14.5), (13, 20), (15.2, 19), (12.4, 13.6), (17.5, 13.2)]
    painter.setBrush(ink)
    painter.drawPolygon(QPolygonF([QPointF(x, y) for x, y in arrow]))


def _lasso(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(8, 15.5))
    path.cubicTo(QPointF(-1, 12), QPointF(5, 3.5), QPointF(12.5, 3.5))
    path.cubicTo(QPointF(23, 3.5), QPointF(24, 16), QPointF(10.5, 16))
    path.cubicTo(QPointF(5, 16), QPointF(6, 20.5), QPointF(11, 21))
    painter.drawPath(path)
    painter.drawEllipse(QPointF(8.6, 15.6), 1.8, 1.8)


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


def _draw_splines(painter: QPainter, ink: QColor) -> None:
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


def _worst_back(painter: QPainter, ink: QColor) -> None:
    painter.setOpacity(0.7)
    painter.drawPolygon(QPolygonF([QPointF(12, 6.5), QPointF(19, 19.5), QPointF(5, 19.5)]))
    painter.drawPolyline(QPolygonF([QPointF(15.5, 11.5), QPointF(9, 11.5), QPointF(11.5, 9)]))


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


def _landmark(painter: QPainter, ink: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 7.5, 7.5)
    for line in ((12, 2, 12, 9), (12, 15, 12, 22), (2, 12, 9, 12), (15, 12, 22, 12)):
        painter.drawLine(QPointF(*line[:2]), QPointF(*line[2:]))


def _accept(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(4.5, 12.5), QPointF(10, 18), QPointF(19.5, 6.5)]))


def _needs_work(painter: QPainter, ink: QColor) -> None:
    painter.drawLine(QPointF(6, 6), QPointF(18, 18))
    painter.drawLine(QPointF(6, 18), QPointF(18, 6))


def _reject(painter: QPainter, ink: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 7.5, 7.5)
    painter.drawLine(QPointF(7, 17), QPointF(17, 7))


def _draw_spread(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(7, 5), QPointF(3, 5), QPointF(3, 19), QPointF(7, 19)]))
    painter.drawPolyline(QPolygonF([QPointF(17, 5), QPointF(21, 5), QPointF(21, 19), QPointF(17, 19)]))
    painter.setBrush(ink)
    painter.drawPolygon(QPolygonF([QPointF(12, 8), QPointF(15.5, 12), QPointF(12, 16), QPointF(8.5, 12)]))


def _refit(painter: QPainter, ink: QColor) -> None:
    painter.drawArc(QRectF(4.5, 4.5, 15, 15), 60 * 16, 290 * 16)
    painter.setBrush(ink)
    painter.drawPolygon(QPolygonF([QPointF(13, 1.5), QPointF(19.5, 5.5), QPointF(13.5, 9.5)]))


def _teach(painter: QPainter, ink: QColor) -> None:
    painter.drawPolygon(QPolygonF([QPointF(12, 4.5), QPointF(22, 9.5), QPointF(12, 14.5), QPointF(2, 9.5)]))
    painter.drawPolyline(
        QPolygonF([QPointF(6, 12), QPointF(6, 17), QPointF(12, 19.5), QPointF(18, 17), QPointF(18, 12)])
    )
    painter.drawLine(QPointF(21.5, 10), QPointF(21.5, 16))


def _learn_shot(painter: QPainter, ink: QColor) -> None:
    """An open book."""
    for side in (-1, 1):
        painter.drawPolyline(
            QPolygonF([QPointF(12 + side * x, y) for x, y in ((0, 19), (9, 16.5), (9, 5), (0, 7.5), (0, 19))])
        )
    painter.drawLine(QPointF(15, 10.5), QPointF(18, 9.7))
    painter.drawLine(QPointF(15, 14), QPointF(18, 13.2))


def _preview(painter: QPainter, ink: QColor) -> None:
    painter.drawRect(QRectF(3.5, 5, 17, 14))
    pen = QPen(painter.pen())
    pen.setStyle(Qt.PenStyle.DotLine)
    painter.setPen(pen)
    painter.drawLine(QPointF(6, 16), QPointF(18, 8))


def _eye(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(3, 12))
    path.cubicTo(QPointF(8, 4.5), QPointF(16, 4.5), QPointF(21, 12))
    path.cubicTo(QPointF(16, 19.5), QPointF(8, 19.5), QPointF(3, 12))
    painter.drawPath(path)
    painter.setBrush(ink)
    painter.drawEllipse(QPointF(12, 12), 2.6, 2.6)


def _eye_off(painter: QPainter, ink: QColor) -> None:
    painter.setOpacity(0.45)
    path = QPainterPath(QPointF(3, 11))
    path.cubicTo(QPointF(8, 17), QPointF(16, 17), QPointF(21, 11))
    painter.drawPath(path)
    for x in (7.0, 12.0, 17.0):
        painter.drawLine(QPointF(x, 15), QPointF(x + (x - 12) * 0.25, 18.5))


def _lock(painter: QPainter, ink: QColor) -> None:
    painter.setBrush(ink)
    painter.drawRoundedRect(QRectF(6, 11, 12, 9), 1.5, 1.5)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawArc(QRectF(8, 4.5, 8, 12), 0, 180 * 16)


def _lock_off(painter: QPainter, ink: QColor) -> None:
    painter.setOpacity(0.4)
    painter.drawRoundedRect(QRectF(6, 11, 12, 9), 1.5, 1.5)
    painter.drawArc(QRectF(11, 4.5, 8, 12), 30 * 16, 150 * 16)


def _next(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(9, 5), QPointF(16, 12), QPointF(9, 19)]))


def _previous(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(15, 5), QPointF(8, 12), QPointF(15, 19)]))


def _last(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(7, 5), QPointF(14, 12), QPointF(7, 19)]))
    painter.drawLine(QPointF(18, 5), QPointF(18, 19))


def _first(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(QPolygonF([QPointF(17, 5), QPointF(10, 12), QPointF(17, 19)]))
    painter.drawLine(QPointF(6, 5), QPointF(6, 19))


def _group(painter: QPainter, ink: QColor) -> None:
    """Two shapes in a frame."""
    painter.drawRect(QRectF(3, 5, 18, 14))
    painter.drawEllipse(QPointF(9, 12), 3, 3)
    painter.drawRect(QRectF(14, 9.5, 4, 5))


def _clone(painter: QPainter, ink: QColor) -> None:
    painter.drawEllipse(QPointF(8, 16), 4.5, 4.5)
    painter.setBrush(ink)
    painter.drawEllipse(QPointF(16.5, 7.5), 4.5, 4.5)
    painter.drawLine(QPointF(11, 13), QPointF(13.4, 10.6))


def _reshape(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(3, 16))
    path.cubicTo(QPointF(8, 16), QPointF(8, 7), QPointF(12, 7))
    path.cubicTo(QPointF(16, 7), QPointF(16, 16), QPointF(21, 16))
    painter.drawPath(path)
    painter.drawEllipse(QPointF(12, 12), 8, 8)


def _points(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(3, 19))
    path.cubicTo(QPointF(6, 11), QPointF(10, 8), QPointF(18, 8))
    painter.drawPath(path)
    painter.fillRect(QRectF(6, 10, 5, 5), ink)
    painter.drawLine(QPointF(15, 17), QPointF(21, 17))
    painter.drawLine(QPointF(18, 14), QPointF(18, 20))


def _draw(painter: QPainter, ink: QColor) -> None:
    path = QPainterPath(QPointF(4, 20))
    path.cubicTo(QPointF(4, 9), QPointF(12, 5), QPointF(20, 9))
    painter.drawPath(path)
    painter.drawLine(QPointF(4, 8), QPointF(13, 3))
    for x, y in ((4, 20), (20, 9)):
        painter.fillRect(QRectF(x - 2.4, y - 2.4, 4.8, 4.8), ink)
    for x, y in ((4, 8), (13, 3)):
        painter.drawEllipse(QPointF(x, y), 1.4, 1.4)


def _transform(painter: QPainter, ink: QColor) -> None:
    painter.drawRect(QRectF(6, 6, 12, 12))
    for x, y in ((6, 6), (18, 6), (6, 18), (18, 18)):
        painter.fillRect(QRectF(x - 2.5, y - 2.5, 5, 5), ink)


def _width(painter: QPainter, ink: QColor) -> None:
    for x in (8, 16):
        painter.drawLine(QPointF(x, 4), QPointF(x, 20))
    for x, tip in ((2, 5.5), (22, 18.5)):
        painter.drawLine(QPointF(x, 12), QPointF(tip, 12))
        for dy in (-2.5, 2.5):
            painter.drawLine(QPointF(tip, 12), QPointF(tip - (2.5 if tip < 12 else -2.5), 12 + dy))


def _onion(painter: QPainter, ink: QColor) -> None:
    for x in (8.5, 12, 15.5):
        painter.drawEllipse(QPointF(x, 12), 5.5, 7.5)


_DRAWINGS: dict[str, Callable[[QPainter, QColor], None]] = {
    "select": _select,
    "lasso": _lasso,
    "crop": _crop,
    "reshape": _reshape,
    "points": _points,
    "draw": _draw,
    "transform": _transform,
    "width": _width,
    "onion": _onion,
    "wipe": _wipe,
    "flip": _flip,
    "splines": _draw_splines,
    "landmarks": _landmarks,
    "mattes": _mattes,
    "fit": _fit,
    "face": _face,
    "worst": _worst,
    "worst_back": _worst_back,
    "play": _play,
    "undo": _undo,
    "redo": _redo,
    "landmark": _landmark,
    "accept": _accept,
    "needs_work": _needs_work,
    "reject": _reject,
    "spread": _draw_spread,
    "refit": _refit,
    "teach": _teach,
    "learn_shot": _learn_shot,
    "preview": _preview,
    "eye": _eye,
    "eye_off": _eye_off,
    "lock": _lock,
    "lock_off": _lock_off,
    "next": _next,
    "previous": _previous,
    "first": _first,
    "last": _last,
    "clone": _clone,
    "group": _group,
}
