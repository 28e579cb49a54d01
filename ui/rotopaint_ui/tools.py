"""What the mouse does in the viewer: each tool turns presses, drags and releases into edits of the session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ui import edits
from rotopaint_ui.edits import Handle
from rotopaint_ui.render import View, path_of
from rotopaint_ui.session import Box, Session

REACH_PX = 9.0  # how near the mouse must come to a handle
MIN_BOX_PX = 8.0
CLICK_PX = 3.0


@dataclass(frozen=True, slots=True)
class Touch:
    """Where the mouse is, and which keys are held."""

    point: QPointF
    view: View
    modifiers: Qt.KeyboardModifier

    @property
    def plate(self) -> tuple[float, float]:
        """The place in plate space."""
        return self.view.to_plate(self.point)

    def has(self, modifier: Qt.KeyboardModifier) -> bool:
        """Whether a modifier key is held."""
        return bool(self.modifiers & modifier)


class Tool(Protocol):
    """One way of using the left mouse button."""

    def press(self, touch: Touch) -> None:
        """The button went down."""

    def drag(self, touch: Touch) -> None:
        """The mouse moved with the button down."""

    def release(self, touch: Touch) -> None:
        """The button went up."""

    def cancel(self) -> None:
        """The gesture must leave nothing behind."""

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """The cursor over a place, with no button down."""

    def paint(self, painter: QPainter, view: View) -> None:
        """What the tool draws over everything while it is used."""


@dataclass(frozen=True, slots=True)
class Grip:
    """A handle under the mouse: a control point, or the end of one of its tangents."""

    index: int
    handle: Handle


class SelectTool:
    """Select shapes and points, drag points and tangents. Ctrl drags one tangent alone; Shift adds to the selection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._grip: Grip | None = None
        self._start: Touch | None = None
        self._now: Touch | None = None
        self._moving = False

    def press(self, touch: Touch) -> None:
        """Take hold of a handle, else select the shape under the mouse, else begin a rubber band."""
        self._start, self._now, self._moving = touch, touch, False
        self._grip = self._grip_at(touch)
        if self._grip is not None:
            self._select_grip(self._grip, touch)
            return
        name = self._shape_at(touch)
        if name is not None and name != self._session.selection.shape:
            self._session.select(name)
            self._start = None

    def drag(self, touch: Touch) -> None:
        """Move what is held."""
        if self._start is None:
            return
        self._now = touch
        if self._grip is None or self._session.is_live:
            return
        offset = touch.point - self._start.point
        if not self._moving:
            if max(abs(offset.x()), abs(offset.y())) < CLICK_PX:
                return
            self._moving = True
            self._session.begin("move points" if self._grip.handle == "point" else "move tangent")
        self._move(touch)

    def release(self, touch: Touch) -> None:
        """One gesture is one undo step."""
        if self._moving:
            self._session.commit()
        elif self._grip is None and self._start is not None:
            self._select_inside(touch)
        self._start = self._now = self._grip = None
        self._moving = False

    def cancel(self) -> None:
        """Take the drag back."""
        if self._moving:
            self._session.abort()
        self._start = self._now = self._grip = None
        self._moving = False

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """A cross over handles, a hand over other shapes."""
        if self._grip_at(touch) is not None:
            return Qt.CursorShape.SizeAllCursor
        return Qt.CursorShape.PointingHandCursor if self._shape_at(touch) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: View) -> None:
        """The rubber band."""
        if self._grip is None and self._start is not None and self._now is not None:
            painter.setPen(QPen(QColor("#d9f2ff"), 1.0, Qt.PenStyle.DashLine))
            painter.setBrush(QColor(120, 190, 255, 30))
            painter.drawRect(QRectF(self._start.point, self._now.point).normalized())

    def _move(self, touch: Touch) -> None:
        session, before = self._session, self._session.before_gesture
        if before.document is None or self._start is None or self._grip is None or session.selection.shape is None:
            return
        (x0, y0), (x1, y1) = self._start.plate, touch.plate
        dx, dy = x1 - x0, y1 - y0
        name, frames = session.selection.shape, session.held_frames()
        if self._grip.handle == "point":
            document = edits.move_points(before.document, name, frames, session.selection.points, dx, dy)
        else:
            alone = touch.has(Qt.KeyboardModifier.ControlModifier)
            document = edits.move_tangent(
                before.document, name, frames, self._grip.index, handle=self._grip.handle, dx=dx, dy=dy, alone=alone
            )
        session.preview(replace(before, document=document))

    def _select_grip(self, grip: Grip, touch: Touch) -> None:
        session, chosen = self._session, self._session.selection.points
        if grip.handle != "point":
            return
        if touch.has(Qt.KeyboardModifier.ShiftModifier):
            session.select(session.selection.shape, chosen ^ {grip.index})
        elif grip.index not in chosen:
            session.select(session.selection.shape, frozenset({grip.index}))

    def _select_inside(self, touch: Touch) -> None:
        session, shape = self._session, self._session.shape
        assert self._start is not None
        band = QRectF(self._start.point, touch.point).normalized()
        if shape is None or max(band.width(), band.height()) < CLICK_PX:
            session.select(session.selection.shape if session.selection.points else None)
            return
        inside = {
            index for index, p in enumerate(shape.at(session.frame)) if band.contains(touch.view.to_screen(p.x, p.y))
        }
        added = session.selection.points if touch.has(Qt.KeyboardModifier.ShiftModifier) else frozenset()
        session.select(shape.name, frozenset(inside) | added)

    def _grip_at(self, touch: Touch) -> Grip | None:
        """The nearest handle within reach; a tangent's end only where its point is selected."""
        session, shape = self._session, self._session.shape
        if shape is None or shape.name in session.hidden:
            return None
        best, reach = None, REACH_PX
        for index, p in enumerate(shape.at(session.frame)):
            ends: list[tuple[Handle, float, float]] = [("point", p.x, p.y)]
            if index in session.selection.points:
                ends += [("in", p.x + p.in_dx, p.y + p.in_dy), ("out", p.x + p.out_dx, p.y + p.out_dy)]
            for handle, x, y in ends:
                distance = _distance(touch.view.to_screen(x, y), touch.point)
                if handle != "point" and distance < reach and (x, y) == (p.x, p.y):
                    continue  # a tangent of no length lies on its point, which wins
                if distance < reach:
                    best, reach = Grip(index, handle), distance
        return best

    def _shape_at(self, touch: Touch) -> str | None:
        session = self._session
        if session.document is None:
            return None
        spot = QRectF(touch.point.x() - REACH_PX / 2, touch.point.y() - REACH_PX / 2, REACH_PX, REACH_PX)
        for shape in reversed(session.document.shapes):
            if shape.name in session.hidden:
                continue
            path = path_of(shape.at(session.frame), shape.closed, touch.view)
            if path.intersects(spot) and not path.contains(spot):
                return shape.name
        return None


class CropTool:
    """Drag the box around the face; drag inside it to move it, at a corner to size it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._start: tuple[float, float] | None = None
        self._held: Box | None = None
        self._fixed: tuple[float, float] | None = None

    def press(self, touch: Touch) -> None:
        """Begin a new box, or take hold of the one that is there."""
        if self._session.plate is None or self._session.is_live:
            return
        self._start = touch.plate
        box = crop_at(self._session)
        self._held = box if box is not None and self._is_inside(box, touch) else None
        corner = self._corner_at(box, touch) if box is not None else None
        self._fixed = corner or self._start
        if corner is not None:
            self._held = None
        self._session.begin("crop box")

    def drag(self, touch: Touch) -> None:
        """Show the box."""
        if self._start is None or self._fixed is None:
            return
        (x0, y0), (x1, y1) = self._start, touch.plate
        if self._held is not None:
            box = replace(self._held, x=self._held.x + x1 - x0, y=self._held.y + y1 - y0)
        else:
            fx, fy = self._fixed
            box = Box(min(fx, x1), min(fy, y1), abs(x1 - fx), abs(y1 - fy))
            if min(box.width, box.height) < MIN_BOX_PX:
                return
        before = self._session.before_gesture
        self._session.preview(replace(before, crops={**before.crops, self._session.frame: _whole(box)}))

    def release(self, touch: Touch) -> None:
        """Keep it."""
        if self._start is not None:
            self._session.commit()
        self._start = self._held = self._fixed = None

    def cancel(self) -> None:
        """Forget it."""
        if self._start is not None:
            self._session.abort()
        self._start = self._held = self._fixed = None

    def cursor(self, touch: Touch) -> Qt.CursorShape:
        """What a press would do."""
        box = crop_at(self._session)
        if box is not None and self._corner_at(box, touch) is not None:
            return Qt.CursorShape.SizeFDiagCursor
        inside = box is not None and self._is_inside(box, touch)
        return Qt.CursorShape.SizeAllCursor if inside else Qt.CursorShape.CrossCursor

    def paint(self, painter: QPainter, view: View) -> None:
        """Nothing: the viewer draws the box."""

    def _is_inside(self, box: Box, touch: Touch) -> bool:
        return touch.view.rect(box.x, box.y, box.width, box.height).contains(touch.point)

    def _corner_at(self, box: Box, touch: Touch) -> tuple[float, float] | None:
        """The corner opposite to the one under the mouse: the point that stays."""
        for right in (False, True):
            for bottom in (False, True):
                x, y = box.x + box.width * right, box.y + box.height * bottom
                if _distance(touch.view.to_screen(x, y), touch.point) < REACH_PX:
                    return box.x + box.width * (not right), box.y + box.height * (not bottom)
        return None


def crop_at(session: Session) -> Box | None:
    """The box at the session's frame: drawn there, else in a straight line between its neighbours, else the nearest."""
    crops, frame = session.state.crops, session.frame
    before = max((each for each in crops if each <= frame), default=None)
    after = min((each for each in crops if each >= frame), default=None)
    if before is None or after is None:
        nearest = before if after is None else after
        return None if nearest is None else crops[nearest]
    if before == after:
        return crops[before]
    a, b, share = crops[before], crops[after], (frame - before) / (after - before)
    return Box(
        a.x + (b.x - a.x) * share,
        a.y + (b.y - a.y) * share,
        a.width + (b.width - a.width) * share,
        a.height + (b.height - a.height) * share,
    )


def _whole(box: Box) -> Box:
    """The box on whole pixels."""
    return Box(round(box.x), round(box.y), max(round(box.width), 2), max(round(box.height), 2))


def _distance(a: QPointF, b: QPointF) -> float:
    return float(((a.x() - b.x()) ** 2 + (a.y() - b.y()) ** 2) ** 0.5)
