"""Handles at each control point of the selected shapes: both sides of a seam's width, the feather of a closed shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from rotopaint_ai.shapes.roto import Points, RotoShape, feather_line
from rotopaint_ui.drawing.render import ViewTransform, feather_widths, painter_path_of, stroke_of, widths_of
from rotopaint_ui.tools.base import REACH_PX, MouseEvent, distance

Edge = Literal["left", "right", "feather"]
LEAST_PX = 7.0  # least screen distance from the curve, so that the handle of a narrow seam is not on the curve
_INK = QColor("#ffffff")


@dataclass(frozen=True, slots=True)
class EdgeHandle:
    """A handle: its shape and control point, the value that it drags, and its position on the screen."""

    shape: RotoShape
    index: int
    edge: Edge
    place: QPointF


def edge_handles(shape: RotoShape, frame: float, view: ViewTransform) -> Iterator[EdgeHandle]:
    """The handles of a shape at a frame."""
    points = shape.at(frame)
    if shape.closed:
        line = feather_line(points, shape.feather_at(frame)) if shape.has_feather_line else points
        yield from (EdgeHandle(shape, k, "feather", view.to_screen(p.x, p.y)) for k, p in enumerate(line))
        return
    for k, (point, row) in enumerate(zip(points, widths_of(shape, frame))):
        dx, dy = left_normal(points, k)
        for edge, reach, sign in (("left", row.left_px, 1), ("right", row.right_px, -1)):
            away = sign * max(reach, LEAST_PX / view.zoom)
            place = view.to_screen(point.x + dx * away, point.y + dy * away)
            yield EdgeHandle(shape, k, "left" if edge == "left" else "right", place)


def edge_handle_at(shapes: Iterable[RotoShape], frame: float, mouse: MouseEvent) -> EdgeHandle | None:
    """The nearest handle within reach of the mouse, of two at one place that of the first shape; None elsewhere."""
    handles = [each for shape in shapes for each in edge_handles(shape, frame, mouse.view)]
    near = [(distance(each.place, mouse.point), each) for each in handles]
    gap, handle = min(near, key=lambda each: each[0], default=(REACH_PX, None))
    return handle if gap < REACH_PX else None


def left_normal(points: Points, index: int) -> tuple[float, float]:
    """The unit vector to the left of an open curve's direction (y down) at a control point."""
    p, before, after = points[index], points[max(index - 1, 0)], points[min(index + 1, len(points) - 1)]
    ways = ((p.out_dx - p.in_dx, p.out_dy - p.in_dy), (after.x - before.x, after.y - before.y))
    for dx, dy in ways:
        length = math.hypot(dx, dy)
        if length > 0:
            return dy / length, -dx / length
    return 0.0, -1.0


def paint_edges(painter: QPainter, shape: RotoShape, frame: float, view: ViewTransform) -> None:
    """Draw the edges of a shape's matte and of its feather, with their handles."""
    points = shape.at(frame)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if shape.closed:
        line = shape.feather_at(frame)
        painter.setPen(QPen(_INK, 1.0, Qt.PenStyle.DotLine))
        if line:
            painter.drawPath(painter_path_of(feather_line(points, line), True, view))
    else:
        widths = widths_of(shape, frame)
        for rows, style in ((widths, Qt.PenStyle.SolidLine), (feather_widths(widths), Qt.PenStyle.DotLine)):
            painter.setPen(QPen(_INK, 1.0, style))
            painter.drawPath(stroke_of(points, rows, shape.taper, view))
    for handle in edge_handles(shape, frame, view):
        foot = view.to_screen(points[handle.index].x, points[handle.index].y)
        if distance(foot, handle.place) >= 1.0:  # otherwise it coincides with its point, which is drawn already
            _paint_handle(painter, handle, foot)


def _paint_handle(painter: QPainter, handle: EdgeHandle, foot: QPointF) -> None:
    """Draw a diamond on a stem, unlike points (squares) and ends of tangents (discs)."""
    painter.setPen(QPen(QColor(255, 255, 255, 150), 1.0))
    painter.drawLine(foot, handle.place)
    painter.setPen(QPen(QColor(0, 0, 0, 220), 1.0))
    painter.setBrush(_INK)
    x, y = handle.place.x(), handle.place.y()
    painter.drawPolygon(QPolygonF([QPointF(x - 4, y), QPointF(x, y - 4), QPointF(x + 4, y), QPointF(x, y + 4)]))
    painter.setBrush(Qt.BrushStyle.NoBrush)
