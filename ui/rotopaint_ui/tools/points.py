"""Add points to a curve, delete points, and drag them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes import edit_points
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import curve_at, point_grip_at, shape_at
from rotopaint_ui.tools.select_tool import SelectTool, add_point_under


class PointsTool:
    """A click on the curve adds a point in every key; Ctrl+click on a point deletes it. Drags move points."""

    def __init__(self, context: EditContext) -> None:
        self._context, self._select = context, SelectTool(context)
        self._hover: QPointF | None = None

    @property
    def is_busy(self) -> bool:
        """Whether points are being dragged."""
        return self._select.is_busy

    def press(self, mouse: MouseEvent) -> None:
        """Delete a point, add one, or grab one."""
        grip = point_grip_at(self._context, mouse)
        if grip is not None and grip.handle == "point" and mouse.ctrl:
            delete_points_of(self._context, {grip.shape: frozenset({grip.index})})
        elif grip is None and not mouse.shift and curve_at(self._context, mouse) is not None:
            add_point_under(self._context, mouse)
        else:
            if not self._context.chosen_shapes and shape_at(self._context, mouse) is None:
                self._context.session.say("Select a shape, then click its curve where the point should come")
            self._select.press(mouse)
        self._hover = None

    def drag(self, mouse: MouseEvent) -> None:
        """Move the points, or stretch the rubber band."""
        self._select.drag(mouse)

    def release(self, mouse: MouseEvent) -> None:
        """End the gesture, as one undo step."""
        self._select.release(mouse)

    def cancel(self) -> None:
        """Cancel the drag."""
        self._select.cancel()

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """The cursor for the action of a press; also shows where a new point would be."""
        grip = point_grip_at(self._context, mouse)
        under = curve_at(self._context, mouse) if grip is None else None
        self._hover = mouse.view.to_screen(under[1].x, under[1].y) if under is not None else None
        if grip is not None:
            return Qt.CursorShape.ForbiddenCursor if mouse.ctrl else Qt.CursorShape.SizeAllCursor
        if under is not None:
            return Qt.CursorShape.CrossCursor
        return Qt.CursorShape.PointingHandCursor if shape_at(self._context, mouse) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the rubber band, and the point that a click would add."""
        self._select.paint(painter, view)
        if self._hover is not None:
            painter.setPen(QPen(QColor("#ffffff"), 1.4))
            painter.setBrush(QColor(255, 255, 255, 70))
            painter.drawEllipse(self._hover, 5, 5)


def delete_points_of(context: EditContext, points: Mapping[str, frozenset[int]]) -> bool:
    """Delete points of some shapes in every key, in one step; their neighbours' tangents are adapted to the curve."""
    session, n = context.session, sum(map(len, points.values()))

    def delete_each(document: RotoDocument) -> RotoDocument:
        for name, indices in points.items():
            document = edit_points.delete_points(document, name, indices)
        return document

    done = n > 0 and context.put("delete point" if n == 1 else "delete points", delete_each)
    if done:
        session.set_selection(session.selection.with_points({}))
    return done
