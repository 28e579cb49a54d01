"""Select points with a lasso."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainterPath, QPolygonF

from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.select_tool import SelectTool


class LassoTool(SelectTool):
    """The select tool with a freehand outline in place of the rubber band; a straight line closes it."""

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._outline: list[QPointF] = []  # the places of the mouse since the press, on the screen

    def press(self, mouse: MouseEvent) -> None:
        """Grab a handle, else select the shape under the mouse, else begin the outline."""
        self._outline = [mouse.point]
        super().press(mouse)

    def drag(self, mouse: MouseEvent) -> None:
        """Move the points or the tangent, or go on with the outline."""
        self._outline.append(mouse.point)
        super().drag(mouse)

    def _band(self, end: QPointF) -> QPainterPath:
        """The area inside the outline, and inside loops of it."""
        area = QPainterPath()
        area.addPolygon(QPolygonF([*self._outline, end]))
        area.closeSubpath()
        area.setFillRule(Qt.FillRule.WindingFill)
        return area
