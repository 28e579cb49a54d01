"""Draw a shape by hand: closed, a matte; open, a seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter, QPen

from rotopaint_ai.shapes.roto import ControlPoint, Points
from rotopaint_ui.drawing.render import SELECTED, ViewTransform, paint_handles, painter_path_of
from rotopaint_ui.tools.base import REACH_PX, MouseEvent
from rotopaint_ui.tools.drag_path import DragPath
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import point_grip_at
from rotopaint_ui.tools.select_tool import SelectTool
from rotopaint_ui.tools.shape_actions import LEAST_POINTS, add_drawn

_BACK = (Qt.Key.Key_Backspace, Qt.Key.Key_Delete)
_END = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class DrawTool:
    """A click sets a point, a drag pulls its tangents (Ctrl: only the outgoing one); a click on the first point closes.

    Return ends an open shape, and so do another tool and saving; Backspace removes the last point, Esc discards
    the shape. It enters the document only when it is finished. With no unfinished shape, the points of the selected
    one can be dragged.
    """

    def __init__(self, context: EditContext) -> None:
        self._context, self._session, self._select = context, context.session, SelectTool(context)
        self._points: Points = ()
        self._at: object = None  # the plate that it is drawn on
        self._frame = 0
        self._pulled: int | None = None  # the point whose tangents the mouse pulls
        self._path: DragPath | None = None
        self._hover: MouseEvent | None = None

    @property
    def points(self) -> Points:
        """The points set so far."""
        return self._points if self._at is self._session.plate else ()

    @property
    def is_busy(self) -> bool:
        """Whether a shape is unfinished, or points are being dragged."""
        return bool(self.points) or self._select.is_busy

    def press(self, mouse: MouseEvent) -> None:
        """Set a point, close the shape, or grab a point of the selected shape."""
        self._hover = mouse
        if not self.points and point_grip_at(self._context, mouse) is not None:
            self._select.press(mouse)
            return
        if self._session.plate is None or not self._context.is_open:
            return
        if not self.points:
            self._points, self._at, self._frame = (), self._session.plate, self._session.frame
            self._session.select(None)
        if self._is_over_first(mouse):
            self._pulled = 0
        else:
            self._pulled = len(self.points)
            self._points = (*self._points, ControlPoint(*mouse.plate))
        self._path = DragPath(mouse, has_fine=False)

    def drag(self, mouse: MouseEvent) -> None:
        """Pull the tangents of the new point."""
        self._hover = mouse
        if self._path is None or self._pulled is None:
            self._select.drag(mouse)
        elif self._path.go(mouse):
            dx, dy = self._path.offset
            point = self._points[self._pulled]
            back = (point.in_dx, point.in_dy) if mouse.ctrl else (-dx, -dy)
            pulled = ControlPoint(point.x, point.y, *back, dx, dy)
            self._points = (*self._points[: self._pulled], pulled, *self._points[self._pulled + 1 :])

    def release(self, mouse: MouseEvent) -> None:
        """Finish the new point; if it is the first one again, finish the shape."""
        if self._path is None:
            self._select.release(mouse)
            return
        is_end, self._path, self._pulled = self._pulled == 0 and len(self.points) > 1, None, None
        if is_end:
            self._end_shape(closed=True)

    def leave(self) -> None:
        """Finish the shape as an open one, before another tool, shot or save; too short a one stays begun."""
        if len(self.points) >= LEAST_POINTS[False]:
            self._end_shape(closed=False)

    def cancel(self) -> None:
        """Discard the unfinished shape."""
        self._select.cancel()
        n, self._points, self._path, self._pulled = len(self.points), (), None, None
        if n:
            self._session.say(f"Left the shape that was begun, {n} point{'' if n == 1 else 's'}")

    def key_action(self, event: QKeyEvent) -> Callable[[], None] | None:
        """The action of a key while a shape is drawn; None where the key belongs to the panel."""
        if not self.points:
            return None
        doing: Mapping[int, Callable[[], None]] = {
            **dict.fromkeys(_END, partial(self._end_shape, closed=False)),
            **dict.fromkeys(_BACK, self._take_back),
            Qt.Key.Key_Escape: self.cancel,
        }
        if event.matches(QKeySequence.StandardKey.Undo):
            return self._take_back
        return doing.get(event.key())

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A hand over the point that closes the shape, a cross elsewhere."""
        self._hover = mouse
        if self._is_over_first(mouse):
            return Qt.CursorShape.PointingHandCursor
        is_grip = not self.points and point_grip_at(self._context, mouse) is not None
        return Qt.CursorShape.SizeAllCursor if is_grip else Qt.CursorShape.CrossCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the unfinished shape, and its next segment up to the mouse."""
        self._select.paint(painter, view)
        points = self.points
        if not points:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        path = painter_path_of(points, False, view)
        for pen in (QPen(QColor(0, 0, 0, 170), 3.0), QPen(QColor(SELECTED), 1.5)):
            painter.setPen(pen)
            painter.drawPath(path)
        if self._hover is not None and self._path is None:
            ahead = points[0] if self._is_over_first(self._hover) else ControlPoint(*self._hover.plate)
            painter.setPen(QPen(QColor(SELECTED), 1.0, Qt.PenStyle.DashLine))
            painter.drawPath(painter_path_of((points[-1], ahead), False, view))
        paint_handles(painter, points, view, QColor(SELECTED), frozenset({self._last_set}))
        if self._hover is not None and self._is_over_first(self._hover):
            _paint_closing(painter, view.to_screen(points[0].x, points[0].y))

    @property
    def _last_set(self) -> int:
        return len(self.points) - 1 if self._pulled is None else self._pulled

    def _is_over_first(self, mouse: MouseEvent) -> bool:
        points = self.points
        return len(points) >= LEAST_POINTS[True] and mouse.gap(points[0].x, points[0].y) < REACH_PX

    def _take_back(self) -> None:
        self._points, self._path, self._pulled = self._points[:-1], None, None

    def _end_shape(self, *, closed: bool) -> None:
        if add_drawn(self._context, self.points, closed=closed, frame=self._frame):
            self._points, self._path, self._pulled = (), None, None


def _paint_closing(painter: QPainter, place: QPointF) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for pen in (QPen(QColor(0, 0, 0, 170), 3.0), QPen(QColor("#ffffff"), 1.5)):
        painter.setPen(pen)
        painter.drawEllipse(place, REACH_PX, REACH_PX)
