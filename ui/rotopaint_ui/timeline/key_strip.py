"""The strip of keys: diamonds are a person's, hollow squares propagated, dots the model's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.timeline.axis import Axis

KEYS = 16
COLOURS = {"human": "#ffe14d", "propagated": "#b9a5ff", "model": "#5f86b8"}
_RANK = {"human": 2, "propagated": 1, "model": 0}
_CROWDED_PX = 4.0


def key_sources(shapes: Iterable[RotoShape]) -> dict[int, str]:
    """The maker of the key at each frame; where shapes differ, person before propagation before model."""
    found: dict[int, str] = {}
    for shape in shapes:
        for frame, key in shape.keys.items():
            if frame not in found or _RANK[key.source] > _RANK[found[frame]]:
                found[frame] = key.source
    return found


def paint_keys(painter: QPainter, axis: Axis, y: float, found: Mapping[int, str], crops: Iterable[int]) -> None:
    """Paint keys, and a square around frames with a crop box."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if axis.cell < _CROWDED_PX:
        _paint_crowded(painter, axis, y, found)
    else:
        size = min(max(axis.cell * 0.3, 1.4), 4.0)
        for frame in axis.frames:
            if frame in found:
                paint_key(painter, QPointF(axis.middle_of(frame), y + KEYS / 2), found[frame], size)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for frame in crops:
        painter.setPen(QPen(QColor("#ffd75e"), 1.3))
        painter.drawRect(QRectF(axis.middle_of(frame) - 6, y + KEYS / 2 - 6, 12, 12))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def paint_moved(painter: QPainter, axis: Axis, y: float, moved: Mapping[int, float]) -> None:
    """Draw a white foot under the keys that the last spread or refit moved."""
    for frame in axis.frames:
        if frame in moved:
            painter.fillRect(QRectF(axis.x_of(frame), y + KEYS - 2, max(axis.cell - 1, 1.0), 2), QColor("#ffffff"))


def paint_key(painter: QPainter, centre: QPointF, source: str, size: float) -> None:
    """Draw one key; `size` is half its width."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(COLOURS[source]))
    if source == "human":
        reach = size + 1.6
        corners = (QPointF(0, -reach), QPointF(reach, 0), QPointF(0, reach), QPointF(-reach, 0))
        painter.drawPolygon(QPolygonF([centre + corner for corner in corners]))
    elif source == "propagated":
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(COLOURS[source]), 1.6))
        painter.drawRect(QRectF(centre.x() - size, centre.y() - size, 2 * size, 2 * size))
    else:
        painter.drawEllipse(centre, 0.8 * size, 0.8 * size)


def _paint_crowded(painter: QPainter, axis: Axis, y: float, found: Mapping[int, str]) -> None:
    """Draw keys closer than their signs: a line per pixel column, a person's tallest, a model's shortest."""
    tallest: dict[int, str] = {}
    for frame in axis.frames:
        if frame in found:
            column, source = int(axis.x_of(frame)), found[frame]
            if column not in tallest or _RANK[source] > _RANK[tallest[column]]:
                tallest[column] = source
    for column, source in tallest.items():
        inset = (5, 3, 1)[_RANK[source]]
        painter.fillRect(QRectF(column, y + inset, 1.5, KEYS - 2 * inset), QColor(COLOURS[source]))
