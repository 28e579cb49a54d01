"""The path of a drag from press to release, with threshold, fine mode and axis lock."""

from __future__ import annotations

from rotopaint_ui.tools.base import CLICK_PX, FINE, MouseEvent, distance
from rotopaint_ui.tools.edit_context import EditContext


class DragPath:
    """The distance of a drag, in plate pixels.

    Nothing happens until the mouse has left a small circle. While Ctrl is held, a tenth of the mouse's motion from
    there on counts, so that nothing jumps; with Shift, only the longer of the two axes counts.
    """

    def __init__(self, start: MouseEvent, *, has_fine: bool = True, has_axis: bool = True) -> None:
        self.start = start
        self.has_begun = False
        self._last = start
        self._dx = self._dy = 0.0
        self._has_fine, self._has_axis = has_fine, has_axis

    def go(self, mouse: MouseEvent) -> bool:
        """Add a motion of the mouse; returns whether it is past the threshold."""
        if not self.has_begun:
            self.has_begun = distance(mouse.point, self.start.point) >= CLICK_PX
        if self.has_begun:
            (x0, y0), (x1, y1) = self._last.plate, mouse.plate
            share = FINE if mouse.ctrl and self._has_fine else 1.0
            self._dx, self._dy = self._dx + (x1 - x0) * share, self._dy + (y1 - y0) * share
            self._last = mouse
        return self.has_begun

    @property
    def offset(self) -> tuple[float, float]:
        """(dx, dy) since the press."""
        if self._has_axis and self._last.shift:
            aspect = self._last.view.aspect
            return (self._dx, 0.0) if abs(self._dx) * aspect >= abs(self._dy) else (0.0, self._dy)
        return self._dx, self._dy

    @property
    def last(self) -> MouseEvent:
        """The last position of the mouse."""
        return self._last

    @property
    def place(self) -> tuple[float, float]:
        """The current position of the drag in plate space: the start plus the offset."""
        (x, y), (dx, dy) = self.start.plate, self.offset
        return x + dx, y + dy


class DragTool:
    """Base of a tool whose gesture is one drag and one edit; subclasses begin the edit in `drag`."""

    def __init__(self, context: EditContext) -> None:
        self._context, self._session = context, context.session
        self._path: DragPath | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an edit has begun."""
        return self._path is not None and self._path.has_begun

    def release(self, mouse: MouseEvent) -> None:
        """Commit the edit."""
        if self.is_busy:
            self._session.edits.commit()
        self._let_go()

    def cancel(self) -> None:
        """Abort the edit."""
        if self.is_busy:
            self._session.edits.abort()
        self._let_go()

    def _let_go(self) -> None:
        """Clear the state of the drag."""
        self._path = None
