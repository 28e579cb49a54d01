"""The plain editor with which the panel is compared: items of a QGraphicsView, as in Qt's examples."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen, QPixmap
from PySide6.QtWidgets import QGraphicsItem, QGraphicsPathItem, QGraphicsRectItem, QGraphicsScene, QGraphicsView

from rotopaint_ai.shapes.roto import Points, RotoDocument
from rotopaint_ui.drawing.render import ViewTransform, painter_path_of


class Handle(QGraphicsRectItem):
    """A control point as in Qt's examples: a movable item that notifies its shape."""

    def __init__(self, shape: Outline, index: int, x: float, y: float) -> None:
        super().__init__(-4, -4, 8, 8)
        self._shape, self._index = shape, index
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemIsMovable)
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemSendsGeometryChanges)
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemIgnoresTransformations)
        self.setBrush(QBrush(QColor("#ffffff")))
        self.setPos(x, y)

    def itemChange(self, change: QGraphicsItem.GraphicsItemChange, value: Any) -> Any:
        if change == QGraphicsItem.GraphicsItemChange.ItemPositionHasChanged:
            self._shape.move(self._index, value)
        return super().itemChange(change, value)


class Outline(QGraphicsPathItem):
    """A spline as an item."""

    def __init__(self, points: Points, closed: bool, colour: str) -> None:
        super().__init__()
        self._points, self._closed = list(points), closed
        pen = QPen(QColor(colour), 1.6)
        pen.setCosmetic(True)
        self.setPen(pen)
        self.setPath(painter_path_of(points, closed, ViewTransform()))

    def move(self, index: int, place: QPointF) -> None:
        self._points[index] = self._points[index]._replace(x=place.x(), y=place.y())
        self.setPath(painter_path_of(tuple(self._points), self._closed, ViewTransform()))


class PlainEditor(QGraphicsView):
    """A simple editor: plate, outlines and control points as items of a scene."""

    def __init__(self, document: RotoDocument, frame: int, plate: QPixmap) -> None:
        scene = QGraphicsScene(0, 0, document.width, document.height)
        super().__init__(scene)
        self._kept = scene  # Qt does not own it
        self.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        scene.addPixmap(plate)
        for index, shape in enumerate(document.shapes):
            points = shape.at(frame)
            outline = Outline(points, shape.closed, "#ff8a5c" if index < 4 else "#6aa7ff")
            scene.addItem(outline)
            for number, p in enumerate(points):
                scene.addItem(Handle(outline, number, p.x, p.y))
        for mark in document.landmarks.keys[frame]:
            if mark is not None:
                scene.addPath(_cross(mark.x, mark.y), QPen(QColor("#d9f2ff")))

    def showEvent(self, event: Any) -> None:
        super().showEvent(event)
        self.fitInView(self._kept.sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)


def _cross(x: float, y: float) -> QPainterPath:
    path = QPainterPath(QPointF(x - 4, y))
    path.lineTo(x + 4, y)
    path.moveTo(x, y - 4)
    path.lineTo(x, y + 4)
    return path
