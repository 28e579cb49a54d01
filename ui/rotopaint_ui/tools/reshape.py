"""The reshape brush: push shapes, with the push fading to nothing at the brush's edge."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes.edit_transform import push_points
from rotopaint_ai.shapes.roto import Points
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import shape_at

LEAST_PX, MOST_PX = 4.0, 600.0  # limits of the brush's radius, screen pixels
STEP = 1.25  # by which a key makes the brush larger or smaller


class ReshapeTool(DragTool):
    """A drag pushes the selected shapes (or the one under the mouse), with Ctrl by a tenth; Shift+drag sizes the
    brush."""

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self.radius = 60.0  # initial radius in screen pixels, at any zoom
        self._hover: QPointF | None = None
        self._sizing: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether shapes are being pushed."""
        return super().is_busy and self._sizing is None

    def press(self, mouse: MouseEvent) -> None:
        """Grab the shape under the brush; with Shift, the brush's edge."""
        self._hover = mouse.point
        self._sizing = self.radius if mouse.shift else None
        if self._sizing is None and not self._context.chosen_shapes:
            name = shape_at(self._context, mouse)
            if name is None:
                self._session.say("Select a shape, then push it")
                return
            self._session.select(name)
        self._path = DragPath(mouse, has_axis=False)

    def drag(self, mouse: MouseEvent) -> None:
        """Push the shapes, or size the brush."""
        if self._path is None:
            return
        if self._sizing is not None:
            self.radius = _bounded_radius(self._sizing + mouse.point.x() - self._path.start.point.x())
            return
        self._hover = mouse.point
        had_begun = self._path.has_begun
        if not self._path.go(mouse):
            return
        if not had_begun:
            if not self._context.is_free:
                self._path = None
                return
            self._session.edits.begin("reshape")
        document, frame = self._session.edits.before_gesture.document, self._session.frame
        assert document is not None
        before = {shape.name: document.shape(shape.name).at(frame) for shape in self._context.chosen_shapes}
        reached = [name for name, points in before.items() if self._pushed(points) != points]
        self._context.preview_shapes(dict.fromkeys(reached, self._pushed))

    def _let_go(self) -> None:
        super()._let_go()
        self._sizing = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A cross; the brush is drawn around it."""
        self._hover = mouse.point
        return Qt.CursorShape.CrossCursor

    def resize(self, direction: int) -> None:
        """Make the brush larger (1) or smaller (-1) by one step."""
        self.radius = _bounded_radius(self.radius * STEP**direction)

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the brush, and inside it the circle where half of the push is left."""
        if self._hover is None:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        half = self.radius * (1 - 0.5**0.5) ** 0.5  # (1 - u^2)^2 = 1/2
        for radius, ink in ((self.radius, QColor(255, 255, 255, 190)), (half, QColor(255, 255, 255, 70))):
            painter.setPen(QPen(QColor(0, 0, 0, ink.alpha() // 2), 3.0))
            painter.drawEllipse(self._hover, radius, radius)
            painter.setPen(QPen(ink, 1.2))
            painter.drawEllipse(self._hover, radius, radius)

    def _pushed(self, points: Points) -> Points:
        assert self._path is not None
        view = self._path.start.view
        return push_points(points, self._path.start.plate, self._path.offset, self.radius / view.zoom, view.aspect)


def _bounded_radius(radius: float) -> float:
    return min(max(radius, LEAST_PX), MOST_PX)
