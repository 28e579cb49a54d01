"""Drag the width of a seam, on the plate."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.shapes.edit_points import nearest
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.render import DEFAULT_WIDTH_PX, View, stroke_of
from rotopaint_ui.tools.base import Touch
from rotopaint_ui.tools.gesture import Way
from rotopaint_ui.tools.hand import Hand
from rotopaint_ui.tools.pick import shape_at


class WidthTool:
    """Drag away from a seam to widen it, towards it to narrow it; Shift drags its softness, Ctrl a tenth of the way.

    The matte changes by twice the mouse's way, as it grows on both sides.
    """

    def __init__(self, hand: Hand) -> None:
        self._hand, self._session = hand, hand.session
        self._way: Way | None = None
        self._shape: RotoShape | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a width is being dragged."""
        return self._way is not None and self._way.has_begun

    def press(self, touch: Touch) -> None:
        """Take hold of the selected seam, or of the one under the mouse."""
        name = shape_at(self._hand, touch)
        if name is not None:
            self._session.select(name)
        shape = self._hand.shape
        if shape is None or shape.closed:
            self._session.say("Select a seam (an open shape), then drag its width")
            return
        self._shape, self._way = shape, Way(touch, has_axis=False)

    def drag(self, touch: Touch) -> None:
        """Widen or narrow."""
        if self._way is None or self._shape is None:
            return
        had_begun = self._way.has_begun
        if not self._way.go(touch):
            return
        if not had_begun:
            if not self._hand.is_free:
                self._way = self._shape = None
                return
            self._session.begin("seam width")
        self._set(self._shape, self._grown(self._shape, self._way), is_soft=touch.shift)

    def release(self, touch: Touch) -> None:
        """One gesture is one undo step."""
        if self.is_busy:
            self._session.commit()
        self._way = self._shape = None

    def cancel(self) -> None:
        """Take it back."""
        if self.is_busy:
            self._session.abort()
        self._way = self._shape = None

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """Two arrows over a seam."""
        return Qt.CursorShape.SplitVCursor if shape_at(self._hand, touch) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: View) -> None:
        """The edges of the selected seam, and of its softness."""
        shape, frame = self._hand.shape, self._session.frame
        if shape is None or shape.closed or not shape.keys:
            return
        width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for whole, style in ((width, Qt.PenStyle.SolidLine), (width + 2 * shape.feather_px, Qt.PenStyle.DotLine)):
            painter.setPen(QPen(QColor("#ffffff"), 1.0, style))
            painter.drawPath(stroke_of(shape.at(frame), whole, shape.taper, view))

    def _grown(self, shape: RotoShape, way: Way) -> float:
        """How many plate pixels farther from the curve the drag is than its start."""
        points = shape.at(self._session.frame)
        start, now = nearest(points, False, *way.start.plate), nearest(points, False, *way.place)
        assert start is not None
        assert now is not None
        return now.distance - start.distance

    def _set(self, shape: RotoShape, grown: float, *, is_soft: bool) -> None:
        settings = self._session.before_gesture.seam(shape.name)
        if is_soft:
            new = replace(settings, feather_px=_kept(shape.feather_px + grown))
        else:
            width = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
            new = replace(settings, width_px=_kept(width + 2 * grown))
        self._session.set_seam(shape.name, new)


def _kept(value: float) -> float:
    return min(max(0.0, round(value, 2)), MOST_WIDTH_PX)  # never minus nought
