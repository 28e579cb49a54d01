"""The clone brush: touch-up of the painted seam with pixels beside it, of another frame, or of the plate."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.session.brush import nearest_size
from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.edit_context import EditContext

STEP = 1.25  # factor of the brush's size per key press
_LEAST_STEP_PX = 0.75  # between two places of a stroke, in plate pixels


class CloneTool:
    """The clone brush. Ctrl+click sets the source; Ctrl+Shift+click copies the same place of this frame to other
    frames.

    A drag paints, and Shift+drag sizes the brush. A stroke is an undo step. The session's brush has the settings.
    """

    def __init__(self, context: EditContext) -> None:
        self._context, self._session = context, context.session
        self._source: tuple[float, float] | None = None  # where to copy from, until the first stroke
        self._source_frame = 0
        self._offset: tuple[int, int] | None = None
        self._hover: MouseEvent | None = None
        self._sizing: tuple[float, float] | None = None  # x of the press, radius before
        self._places: list[tuple[float, float]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a stroke is being drawn."""
        return bool(self._places)

    def press(self, mouse: MouseEvent) -> None:
        """Set the source, size the brush, or start a stroke."""
        self._hover = mouse
        if mouse.ctrl:
            self._take_source(mouse)
        elif mouse.shift:
            self._sizing = (mouse.point.x(), self._session.brush.radius_px)
        elif (why_not := self._why_not()) is not None:
            self._session.say(why_not)
        elif self._context.is_open:
            self._begin_stroke(mouse)

    def drag(self, mouse: MouseEvent) -> None:
        """Continue the stroke or the sizing."""
        self._hover = mouse
        if self._sizing is not None:
            x, radius = self._sizing
            wanted = nearest_size(radius + (mouse.point.x() - x) / mouse.view.zoom)
            self._session.brush = replace(self._session.brush, radius_px=wanted)
            self._session.notify()
        elif self._places:
            (x0, y0), (x1, y1) = self._places[-1], mouse.plate
            if abs(x1 - x0) + abs(y1 - y0) >= _LEAST_STEP_PX:
                self._places.append(mouse.plate)
                self._preview_stroke()

    def resize(self, direction: int) -> None:
        """Make the brush larger (1) or smaller (-1) by one step."""
        brush = self._session.brush
        self._session.brush = replace(brush, radius_px=nearest_size(brush.radius_px * STEP**direction))
        self._session.notify()

    def release(self, mouse: MouseEvent) -> None:
        """End the stroke, as one step."""
        if self._places:
            self._places = []
            self._session.edits.commit()
            if self._session.brush.paints == "clone" and self._other_frame is not None:
                self._session.say(f"Copied from the plate of frame {self._other_frame}")
        self._sizing = None

    def cancel(self) -> None:
        """Cancel the stroke."""
        if self._places:
            self._places = []
            self._session.edits.abort()
        self._sizing = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A cross; the brush is drawn around it."""
        self._hover = mouse
        return Qt.CursorShape.CrossCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the brush, and a cross at the source."""
        if self._hover is None:
            return
        radius = self._session.brush.radius_px * view.zoom
        for width, ink in ((3.0, QColor(0, 0, 0, 110)), (1.2, QColor(255, 255, 255, 210))):
            painter.setPen(QPen(ink, width))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(self._hover.point, radius * view.aspect, radius)
            source = self._source_of(self._hover)
            if source is not None:
                centre = view.to_screen(*source)
                painter.drawLine(centre - QPointF(6, 0), centre + QPointF(6, 0))
                painter.drawLine(centre - QPointF(0, 6), centre + QPointF(0, 6))

    def _source_of(self, mouse: MouseEvent) -> tuple[float, float] | None:
        if self._session.brush.paints != "clone":
            return None
        if self._offset is None:
            return self._source
        x, y = mouse.plate
        return x + self._offset[0], y + self._offset[1]

    def _take_source(self, mouse: MouseEvent) -> None:
        session = self._session
        if session.brush.paints != "clone":
            session.brush = replace(session.brush, paints="clone")
            session.notify()
        self._source_frame = session.frame
        if mouse.shift:
            self._source, self._offset = None, (0, 0)
            session.say(f"Copying the same place of frame {session.frame}: go to another frame and drag there")
        else:
            self._source, self._offset = mouse.plate, None
            session.say("Copying from here: drag where it should go, on this frame or on another")

    @property
    def _other_frame(self) -> int | None:
        """The frame that a clone copies from; None where that is the current frame, or one of its hold."""
        return None if self._source_frame in self._session.held_frames() else self._source_frame

    def _why_not(self) -> str | None:
        """The reason why nothing can be painted here."""
        if self._session.state.document is None:
            return "Touch-up belongs to a painted seam: press Run first"
        if self._session.brush.paints != "clone":
            return None
        if self._source is None and self._offset is None:
            return "Ctrl+click where to copy from, then drag"
        if self._offset == (0, 0) and self._other_frame is None:
            return f"Frame {self._session.frame} is where the brush copies from: go to another frame and drag there"
        return None

    def _begin_stroke(self, mouse: MouseEvent) -> None:
        if self._source is not None:
            (x0, y0), (x1, y1) = self._source, mouse.plate
            self._offset, self._source = (round(x0 - x1), round(y0 - y1)), None
        clones = self._session.brush.paints == "clone"
        self._session.edits.begin("clone stroke" if clones else "reveal stroke")
        self._places = [mouse.plate]
        self._preview_stroke()

    def _preview_stroke(self) -> None:
        session, before = self._session, self._session.edits.before_gesture
        stroke = session.brush.stroke(tuple(self._places), self._offset or (0, 0), self._other_frame)
        held: dict[int, Strokes] = {frame: (*before.strokes.get(frame, ()), stroke) for frame in session.held_frames()}
        session.edits.preview(replace(before, strokes={**before.strokes, **held}))
