"""Select shapes and points; drag points and tangents."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter, QPainterPath

from rotopaint_ai.shapes import edit_points, edit_tangents
from rotopaint_ai.shapes.edit_transform import transform, translation
from rotopaint_ai.shapes.roto import Points
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.tools.base import CLICK_PX, MouseEvent, band_between, paint_band
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import Grip, curve_at, point_grip_at, shape_at


def select_under(context: EditContext, mouse: MouseEvent) -> None:
    """Select for a menu what is under the mouse: a point that is not selected yet, or another shape."""
    session, grip = context.session, point_grip_at(context, mouse)
    selection, name = session.selection, shape_at(context, mouse)
    if grip is not None and grip.index not in selection.points_of(grip.shape):
        session.select(grip.shape, frozenset({grip.index}))
    elif grip is None and name is not None and name in selection.others:
        session.set_selection(selection.with_shape(name))
    elif grip is None and name is not None and name != selection.shape:
        session.select(name)


def choose_shape(context: EditContext, name: str | None, mouse: MouseEvent) -> None:
    """Select a shape; with Shift add it to the selection, or remove it."""
    session, selection = context.session, context.session.selection
    if not mouse.shift or name is None:
        session.select(name, also=())
    elif name in selection.shapes:
        session.set_selection(selection.without_shape(name))
    else:
        session.set_selection(selection.with_shape(name))


class SelectTool(DragTool):
    """Selects and drags shapes, points and tangents.

    A click selects a shape or a point; Shift adds or removes one. A rubber band selects the points inside (Shift adds,
    Ctrl removes), of the selected shapes, or without any of all shapes. A drag of one of them, or of a selected curve,
    moves the selected points of every shape (Shift: along one axis, Ctrl: by a tenth). The opposite tangent
    turns along (Ctrl: it stays; Shift: it takes the same length). Ctrl+Alt+click adds a point to the curve.
    """

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._grip: Grip | None = None
        self._tangent: tuple[float, float] = (0.0, 0.0)
        self._curve: str | None = None  # the selected shape whose curve was pressed

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
        name, selection, chosen = shape_at(self._context, mouse), self._session.selection, self._context.selected_points
        self._curve = name
        if name is not None and (mouse.shift or name not in selection.shapes):
            choose_shape(self._context, name, mouse)
            self._path = None
        elif name is not None and chosen:
            shape, indices = next(iter(chosen.items()))
            self._grip = Grip(shape, min(indices), "point")  # the curve moves them as a point of them does
        elif name is None and (locked := shape_at(self._context, mouse, is_locked=True)) is not None:
            self._session.say(self._context.why_held(locked))

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
        if self._grip.handle == "point":
            move = translation(*self._path.offset)
            chosen = self._context.selected_points
            self._context.preview_shapes(
                {name: partial(transform, affine=move, indices=own) for name, own in chosen.items()}
            )
        else:
            self._context.preview(self._grip.shape, self._turned_tangent)

    def release(self, mouse: MouseEvent) -> None:
        """End the gesture, as one undo step."""
        if self.is_busy:
            self._session.edits.commit()
        elif self._path is not None and self._curve is not None and not self._path.has_begun:
            self._click_curve(self._curve)
        elif self._path is not None and self._grip is None:
            self._take_band(self._band(mouse.point), mouse)
        self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        self._grip = self._curve = None

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
            paint_band(painter, self._band(self._path.last.point))

    # --- dragging

    def _begin_drag(self, grip: Grip) -> bool:
        if not self._context.is_free:
            return False
        document = self._session.document
        assert document is not None
        p = document.shape(grip.shape).at(self._session.frame)[grip.index]
        self._tangent = (p.in_dx, p.in_dy) if grip.handle == "in" else (p.out_dx, p.out_dy)
        self._session.edits.begin("move points" if grip.handle == "point" else "move tangent")
        return True

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
        session, selection = self._session, self._session.selection
        chosen = selection.points_of(grip.shape)
        if grip.handle != "point":
            return
        if mouse.shift:
            points = {**selection.points, grip.shape: chosen ^ {grip.index}}
            session.set_selection(selection.with_shape(grip.shape).with_points(points))
        elif grip.index not in chosen:
            session.select(grip.shape, frozenset({grip.index}))

    def _click_curve(self, name: str) -> None:
        """Select one of several selected shapes, or of a group, alone; of a single one the points stay selected."""
        selection = self._session.selection
        if selection.others or selection.layer is not None:
            self._session.select(name, also=())

    def _band(self, end: QPointF) -> QPainterPath:
        """The area on the screen from the press to a point, inside which points are selected."""
        assert self._path is not None
        return band_between(self._path.start.point, end)

    def _take_band(self, band: QPainterPath, mouse: MouseEvent) -> None:
        session, selection = self._session, self._session.selection
        box = band.boundingRect()
        if max(box.width(), box.height()) < CLICK_PX:
            session.set_selection(selection.with_points({}) if selection.points else Selection())
            return
        chosen, inside = self._context.selected_points, self._points_inside(band, mouse.view)
        if mouse.ctrl:
            inside = {name: own - inside.get(name, frozenset()) for name, own in chosen.items()}
        elif mouse.shift:
            inside = {name: chosen.get(name, frozenset()) | own for name, own in inside.items()}
        before = selection if self._context.chosen_shapes else Selection()
        session.set_selection(before.with_points(inside))

    def _points_inside(self, band: QPainterPath, view: ViewTransform) -> dict[str, frozenset[int]]:
        """The points inside an area, of the selected shapes; without any, of all shapes."""
        frame, inside = self._session.frame, {}
        for shape in self._context.chosen_shapes or self._context.free_shapes:
            places = [view.to_screen(p.x, p.y) for p in shape.at(frame)]
            inside[shape.name] = frozenset(index for index, place in enumerate(places) if band.contains(place))
        return inside

    def _add_point(self, mouse: MouseEvent) -> None:
        self._path = self._grip = None
        add_point_under(self._context, mouse)


def add_point_under(context: EditContext, mouse: MouseEvent) -> bool:
    """Add a point to the curve of a selected shape under the mouse, in every key, and select it."""
    under = curve_at(context, mouse)
    if under is None:
        return False
    shape, place = under
    if not 0 < place.t < 1:
        return False
    done = context.put(
        "add point", lambda document: edit_points.add_point(document, shape.name, place.segment, place.t)
    )
    if done:
        context.session.select(shape.name, frozenset({place.segment + 1}))
    return done
