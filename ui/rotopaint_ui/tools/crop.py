"""The crop box: draw it around the face, move it, size it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter

from rotopaint_ai.project.state import CropBox
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.tools.base import REACH_PX, MouseEvent, distance
from rotopaint_ui.tools.drag_path import DragPath
from rotopaint_ui.tools.edit_context import EditContext

MIN_BOX_PX = 8.0


class CropTool:
    """Drag the box around the face; drag inside it to move it, at a corner to size it."""

    def __init__(self, context: EditContext) -> None:
        self._context, self._session = context, context.session
        self._start: tuple[float, float] | None = None
        self._held: CropBox | None = None
        self._fixed: tuple[float, float] | None = None
        self._path: DragPath | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a box is being drawn, moved or sized."""
        return self._start is not None

    def press(self, mouse: MouseEvent) -> None:
        """Start a new box, or grab the existing one."""
        if self._session.plate is None or not self._context.is_open:
            return
        self._start, self._path = mouse.plate, DragPath(mouse, has_axis=False, has_fine=False)
        box = crop_at(self._session)
        self._held = box if box is not None and self._is_over_box(box, mouse) else None
        corner = self._corner_at(box, mouse) if box is not None else None
        self._fixed = corner or self._start
        if corner is not None:
            self._held = None
        self._session.edits.begin("crop box")

    def drag(self, mouse: MouseEvent) -> None:
        """Show the new box."""
        if self._start is None or self._fixed is None or self._path is None or not self._path.go(mouse):
            return
        (x0, y0), (x1, y1) = self._start, mouse.plate
        if self._held is not None:
            box = replace(self._held, x=self._held.x + x1 - x0, y=self._held.y + y1 - y0)
        else:
            fx, fy = self._fixed
            box = CropBox(min(fx, x1), min(fy, y1), abs(x1 - fx), abs(y1 - fy))
            if min(box.width, box.height) < MIN_BOX_PX:
                return
        before = self._session.edits.before_gesture
        self._session.edits.preview(replace(before, crops={**before.crops, self._session.frame: _whole_pixels(box)}))

    def release(self, mouse: MouseEvent) -> None:
        """Set the box, as one step."""
        if self._start is not None:
            self._session.edits.commit()
        self._start = self._held = self._fixed = None

    def cancel(self) -> None:
        """Cancel the drag."""
        if self._start is not None:
            self._session.edits.abort()
        self._start = self._held = self._fixed = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """The cursor for the action of a press."""
        box = crop_at(self._session)
        fixed = None if box is None else self._corner_at(box, mouse)
        if box is not None and fixed is not None:
            is_falling = (fixed[0] > box.x) == (fixed[1] > box.y)  # from the top left to the bottom right
            return Qt.CursorShape.SizeFDiagCursor if is_falling else Qt.CursorShape.SizeBDiagCursor
        inside = box is not None and self._is_over_box(box, mouse)
        return Qt.CursorShape.SizeAllCursor if inside else Qt.CursorShape.CrossCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw nothing: the viewer draws the box."""

    def _is_over_box(self, box: CropBox, mouse: MouseEvent) -> bool:
        return mouse.view.rect(box.x, box.y, box.width, box.height).contains(mouse.point)

    def _corner_at(self, box: CropBox, mouse: MouseEvent) -> tuple[float, float] | None:
        """The corner opposite to the one under the mouse, which stays in place."""
        for right in (False, True):
            for bottom in (False, True):
                x, y = box.x + box.width * right, box.y + box.height * bottom
                if distance(mouse.view.to_screen(x, y), mouse.point) < REACH_PX:
                    return box.x + box.width * (not right), box.y + box.height * (not bottom)
        return None


def crop_at(session: ShotSession, crops: Mapping[int, CropBox] | None = None) -> CropBox | None:
    """The box at the session's frame: the drawn one, else interpolated between its neighbours, else the nearest.

    `crops`: use these boxes instead of the session's.
    """
    crops, frame = session.state.crops if crops is None else crops, session.frame
    before = max((each for each in crops if each <= frame), default=None)
    after = min((each for each in crops if each >= frame), default=None)
    if before is None or after is None:
        nearest = before if after is None else after
        return None if nearest is None else crops[nearest]
    if before == after:
        return crops[before]
    a, b, share = crops[before], crops[after], (frame - before) / (after - before)
    return CropBox(
        a.x + (b.x - a.x) * share,
        a.y + (b.y - a.y) * share,
        a.width + (b.width - a.width) * share,
        a.height + (b.height - a.height) * share,
    )


def _whole_pixels(box: CropBox) -> CropBox:
    """The box rounded to whole pixels."""
    return CropBox(round(box.x), round(box.y), max(round(box.width), 2), max(round(box.height), 2))
