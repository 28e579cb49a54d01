"""Select shapes and points; drag points and tangents."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from rotopaint_ai.shapes import edit_points, edit_tangents
from rotopaint_ai.shapes.edit_transform import transform, translation
from rotopaint_ai.shapes.roto import Points, RotoShape
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.tools.base import CLICK_PX, MouseEvent, paint_band
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import Grip, curve_at, point_grip_at, shape_at


def select_under(context: EditContext, mouse: MouseEvent) -> None:
    """Select for a menu what is under the mouse: a point that is not selected yet, or another shape."""
    session, grip = context.session, point_grip_at(context, mouse)
    name = shape_at(context, mouse)
    if grip is not None and grip.index not in session.selection.points:
        session.select(session.selection.shape, frozenset({grip.index}))
    elif grip is None and name is not None and name != session.selection.shape:
        session.select(name)


def choose_shape(context: EditContext, name: str | None, mouse: MouseEvent) -> None:
    """Select a shape; with Shift add it to the selection, or remove it."""
    session = context.session
    before = session.selection.shapes
    if not mouse.shift or name is None:
        session.select(name, also=())
    elif name in before:
        left = sorted(before - {name})
        session.select(left[-1] if left else None, also=left)
    else:
        session.select(name, also=before)


class SelectTool(DragTool):
    """Selects and drags shapes, points and tangents.

    A click selects a shape or a point; Shift adds or removes one. A rubber band selects the points inside (Shift adds,
    Ctrl removes), of the selected shape, or else of the shape with most points there. A drag of one of
    them, or of the curve, moves the selected points (Shift: along one axis, Ctrl: by a tenth). The opposite tangent
    turns along (Ctrl: it stays; Shift: it takes the same length). Ctrl+Alt+click adds a point to the curve.
    """

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._grip: Grip | None = None
        self._tangent: tuple[float, float] = (0.0, 0.0)

    @property
    def is_busy(self) -> bool:
        """Whether points or tangents are being dragged."""
        return super().is_busy and self._grip is not None

    def press(self, mouse: MouseEvent) -> None:
        """Grab a handle, else select the shape under the mouse, else begin a rubber band."""
        if mouse.ctrl and mouse.alt:
            self._add_point(mouse)
            return
        self._grip = point_grip_at(self._context, mouse)
        if self._grip is not None:
            self._path = DragPath(mouse, has_fine=self._grip.handle == "point", has_axis=self._grip.handle == "point")
            self._take_grip(self._grip, mouse)
            return
        self._path = DragPath(mouse)
        name = shape_at(self._context, mouse)
        selection = self._session.selection
        chosen = selection.points & frozenset(range(len(self._context.points)))
        if name is not None and (mouse.shift or name != selection.shape):
            choose_shape(self._context, name, mouse)
            self._path = None
        elif name is not None and chosen:
            self._grip = Grip(min(chosen), "point")  # the curve moves them as a point of them does
        elif name is None and (locked := shape_at(self._context, mouse, is_locked=True)) is not None:
            self._session.say(f"{self._session.names.of(locked)} is locked: its lock in Shapes opens it")

    def drag(self, mouse: MouseEvent) -> None:
        """Move the points or the tangent, or stretch the rubber band."""
        if self._path is None:
            return
        had_begun = self._path.has_begun
        if not self._path.go(mouse) or self._grip is None:
            return
        if not had_begun and not self._begin_drag(self._grip):
            self._path = None
            return
        shape = self._context.shape
        if shape is not None:
            self._context.preview(
                shape.name, self._moved_points if self._grip.handle == "point" else self._turned_tangent
            )

    def release(self, mouse: MouseEvent) -> None:
        """End the gesture, as one undo step."""
        if self.is_busy:
            self._session.edits.commit()
        elif self._grip is None and self._path is not None:
            self._take_band(mouse)
        self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        self._grip = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A cross over handles, a hand over shapes."""
        if mouse.ctrl and mouse.alt:
            return Qt.CursorShape.CrossCursor
        if point_grip_at(self._context, mouse) is not None:
            return Qt.CursorShape.SizeAllCursor
        return Qt.CursorShape.PointingHandCursor if shape_at(self._context, mouse) else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the rubber band."""
        if self._grip is None and self._path is not None and self._path.has_begun:
            paint_band(painter, self._path.start.point, self._path.last.point)

    # --- dragging

    def _begin_drag(self, grip: Grip) -> bool:
        if not self._context.is_free:
            return False
        p = self._context.points[grip.index]
        self._tangent = (p.in_dx, p.in_dy) if grip.handle == "in" else (p.out_dx, p.out_dy)
        self._session.edits.begin("move points" if grip.handle == "point" else "move tangent")
        return True

    def _moved_points(self, points: Points) -> Points:
        assert self._path is not None
        return transform(points, translation(*self._path.offset), self._session.selection.points)

    def _turned_tangent(self, points: Points) -> Points:
        assert self._path is not None
        assert self._grip is not None
        assert self._grip.handle != "point"
        (dx, dy), mouse = self._path.offset, self._path.last
        is_corner = not edit_tangents.is_smooth(points[self._grip.index])
        mode: edit_tangents.Mode = "mirror" if mouse.shift else "alone" if mouse.ctrl or is_corner else "turn"
        to = self._tangent[0] + dx, self._tangent[1] + dy
        return edit_tangents.drag(points, self._grip.index, self._grip.handle, to, mode)

    # --- selecting

    def _take_grip(self, grip: Grip, mouse: MouseEvent) -> None:
        chosen = self._session.selection.points
        if grip.handle != "point":
            return
        if mouse.shift:
            self._session.select(self._session.selection.shape, chosen ^ {grip.index})
        elif grip.index not in chosen:
            self._session.select(self._session.selection.shape, frozenset({grip.index}))

    def _take_band(self, mouse: MouseEvent) -> None:
        session, own = self._session, self._context.shape
        assert self._path is not None
        band = QRectF(self._path.start.point, mouse.point).normalized()
        if max(band.width(), band.height()) < CLICK_PX:
            own_name = session.selection.shape
            is_kept = bool(session.selection.points) or shape_at(self._context, mouse) == own_name
            session.select(own_name if is_kept else None)
            return
        shape = own or self._fullest(band, mouse.view)
        if shape is None:
            session.select(None)
            return
        inside, chosen = self._points_in_band(shape, band, mouse.view), session.selection.points
        session.select(shape.name, chosen - inside if mouse.ctrl else inside | (chosen if mouse.shift else frozenset()))

    def _points_in_band(self, shape: RotoShape, band: QRectF, view: ViewTransform) -> frozenset[int]:
        places = [view.to_screen(p.x, p.y) for p in shape.at(self._session.frame)]
        return frozenset(index for index, place in enumerate(places) if band.contains(place))

    def _fullest(self, band: QRectF, view: ViewTransform) -> RotoShape | None:
        """The shape with most points inside the band; None where there is no point in it."""
        document = self._session.document
        free = [shape for shape in document.shapes if self._context.can_grab(shape)] if document is not None else []
        best = max(free, key=lambda shape: len(self._points_in_band(shape, band, view)), default=None)
        return best if best is not None and self._points_in_band(best, band, view) else None

    def _add_point(self, mouse: MouseEvent) -> None:
        self._path = self._grip = None
        add_point_under(self._context, mouse)


def add_point_under(context: EditContext, mouse: MouseEvent) -> bool:
    """Add a point to the selected shape's curve under the mouse, in every key, and select it."""
    shape, place = context.shape, curve_at(context, mouse)
    if shape is None or place is None or not 0 < place.t < 1:
        return False
    done = context.put(
        "add point", lambda document: edit_points.add_point(document, shape.name, place.segment, place.t)
    )
    if done:
        context.session.select(shape.name, frozenset({place.segment + 1}))
    return done
