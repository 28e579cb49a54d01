"""Drag the width of a seam, on the plate."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.shapes.edit_points import nearest
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.drawing.render import DEFAULT_WIDTH_PX, ViewTransform, stroke_of
from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.drag_path import DragPath
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import shape_at


class WidthTool:
    """Drag away from a seam to widen it, towards it to narrow it; Shift drags its softness, Ctrl a tenth of the way.

    The matte changes by twice the mouse's way, as it grows on both sides.
    """

    def __init__(self, context: EditContext) -> None:
        self._context, self._session = context, context.session
        self._path: DragPath | None = None
        self._shape: RotoShape | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a width is being dragged."""
        return self._path is not None and self._path.has_begun

    def press(self, mouse: MouseEvent) -> None:
        """Take hold of the selected seam, or of the one under the mouse."""
        name = shape_at(self._context, mouse)
        if name is not None:
            self._session.select(name)
        shape = self._context.shape
        if shape is None or shape.closed:
            self._session.say("Select a seam (an open shape), then drag its width")
            return
        self._shape, self._path = shape, DragPath(mouse, has_axis=False)

    def drag(self, mouse: MouseEvent) -> None:
        """Widen or narrow."""
        if self._path is None or self._shape is None:
            return
        had_begun = self._path.has_begun
        if not self._path.go(mouse):
            return
        if not had_begun:
            if not self._context.is_free:
                self._path = self._shape = None
                return
            self._session.edits.begin("seam width")
        self._set_widths(self._shape, self._grown(self._shape, self._path), is_soft=mouse.shift)

    def release(self, mouse: MouseEvent) -> None:
        """One gesture is one undo step."""
        if self.is_busy:
            self._session.edits.commit()
        self._path = self._shape = None

    def cancel(self) -> None:
        """Take it back."""
        if self.is_busy:
            self._session.edits.abort()
        self._path = self._shape = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """Two arrows over a seam."""
        return Qt.CursorShape.SplitVCursor if shape_at(self._context, mouse) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """The edges of the selected seam, and of its softness."""
        shape, frame = self._context.shape, self._session.frame
        if shape is None or shape.closed or not shape.keys:
            return
        width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for whole, style in ((width, Qt.PenStyle.SolidLine), (width + 2 * shape.feather_px, Qt.PenStyle.DotLine)):
            painter.setPen(QPen(QColor("#ffffff"), 1.0, style))
            painter.drawPath(stroke_of(shape.at(frame), whole, shape.taper, view))

    def _grown(self, shape: RotoShape, path: DragPath) -> float:
        """How many plate pixels farther from the curve the drag is than its start."""
        points = shape.at(self._session.frame)
        start, now = nearest(points, False, *path.start.plate), nearest(points, False, *path.place)
        assert start is not None
        assert now is not None
        return now.distance - start.distance

    def _set_widths(self, shape: RotoShape, grown: float, *, is_soft: bool) -> None:
        settings = self._session.edits.before_gesture.seam(shape.name)
        if is_soft:
            new = replace(settings, feather_px=_bounded_width(shape.feather_px + grown))
        else:
            width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
            new = replace(settings, width_px=_bounded_width(width + 2 * grown))
        self._session.seams.set({shape.name: new})


def _bounded_width(value: float) -> float:
    return min(max(0.0, round(value, 2)), MOST_WIDTH_PX)  # never minus nought
