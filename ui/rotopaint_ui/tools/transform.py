"""The transform box: move, scale and rotate a shape or some of its points, about a pivot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from rotopaint_ai.shapes import edit_layers, edit_transform
from rotopaint_ai.shapes.edit_transform import Affine
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.tools.base import REACH_PX, MouseEvent, distance
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.layer_actions import pivot_of, pivot_within, preview_pose, shifted_pose, turned_pose
from rotopaint_ui.tools.pick import shape_at
from rotopaint_ui.tools.select_tool import choose_shape

HandlePart = Literal["move", "scale", "rotate", "pivot"]
_AIR_PX = 12.0  # between the points and the box
_RING_PX = 28.0  # outside the box, where a drag rotates
_SNAP_DEGREES = 15.0


@dataclass(frozen=True, slots=True)
class GrabbedHandle:
    """The part of the box that is grabbed; for `scale` the edge or corner, as -1, 0 or 1 across and down."""

    part: HandlePart
    across: int = 0
    down: int = 0


class TransformTool(DragTool):
    """A drag inside moves, a handle scales (Shift: both axes alike), outside rotates (Shift: in steps of 15 degrees).

    The cross is the pivot. Ctrl moves by a tenth. Acts on the selected points; without any, on all selected shapes.
    """

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._pivot: tuple[float, float] | None = None  # set by hand; otherwise the middle of the box
        self._pivot_of: object = None
        self._grabbed: GrabbedHandle | None = None
        self._box = QRectF()
        self._layer: Layer | None = None  # the group that is dragged, at the start of the drag
        self._fixed = 0.0, 0.0  # the fixed point of the drag

    @property
    def is_busy(self) -> bool:
        """Whether points are being transformed."""
        return super().is_busy and self._grabbed is not None and self._grabbed.part != "pivot"

    def press(self, mouse: MouseEvent) -> None:
        """Grab the box, or select the shape under the mouse."""
        self._grabbed = self._grabbed_handle_at(mouse)
        if self._grabbed is None:
            choose_shape(self._context, shape_at(self._context, mouse), mouse)
            return
        self._path = DragPath(mouse, has_axis=self._grabbed.part == "move")
        self._box = self._plate_box() or QRectF()

    def drag(self, mouse: MouseEvent) -> None:
        """Transform the points, or move the pivot."""
        if self._path is None or self._grabbed is None:
            return
        had_begun = self._path.has_begun
        if not self._path.go(mouse):
            return
        if self._grabbed.part == "pivot":
            self._pivot, self._pivot_of = self._path.place, self._session.selection
            return
        layer = self._context.layer
        if not had_begun:
            if not self._context.is_free:
                self._path = None
                return
            what = "points" if layer is None else "group"
            self._layer, self._fixed = layer, self._pivot_place()
            self._session.edits.begin(f"{self._grabbed.part} {what}")
        if self._layer is not None:
            preview_pose(self._context, self._layer, self._pose(self._layer, self._grabbed, self._path))
            return
        affine, chosen = self._affine(self._grabbed, self._path), self._context.chosen_by_shape
        moves = {name: partial(edit_transform.transform, affine=affine, indices=own) for name, own in chosen.items()}
        self._context.preview_shapes(moves)

    def release(self, mouse: MouseEvent) -> None:
        """End the gesture, as one undo step."""
        layer = self._context.layer
        if self.is_busy:
            self._session.edits.commit()
        elif self._path and self._path.has_begun and self._pivot:
            if layer and pivot_of(layer, self._session.frame):
                x, y = pivot_within(layer, self._session.frame, self._pivot)
                self._context.put("group pivot", lambda document: edit_layers.set_pivot(document, layer.name, x, y))
                self._pivot = None  # the pivot moves with the group
            self._session.say("Moved the pivot: turning and scaling go about it; drag beside the cross to move")
        self._let_go()

    def _let_go(self) -> None:
        super()._let_go()
        self._grabbed = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """The cursor for the action of a press."""
        grabbed = self._grabbed_handle_at(mouse)
        if grabbed is None:
            return Qt.CursorShape.PointingHandCursor if shape_at(self._context, mouse) else Qt.CursorShape.ArrowCursor
        if grabbed.part == "scale":
            return _SCALE_CURSORS[abs(grabbed.across), abs(grabbed.down), grabbed.across * grabbed.down]
        shapes = {"move": Qt.CursorShape.SizeAllCursor, "rotate": Qt.CursorShape.OpenHandCursor}
        return shapes.get(grabbed.part, Qt.CursorShape.CrossCursor)

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the box, its handles and the pivot."""
        box = self._screen_box(view)
        if box is None:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for pen in (QPen(QColor(0, 0, 0, 130), 3.0), QPen(QColor("#d9f2ff"), 1.0)):
            painter.setPen(pen)
            painter.drawRect(box)
        painter.setBrush(QColor("#d9f2ff"))
        painter.setPen(QPen(QColor(0, 0, 0, 200), 1.0))
        for place in _handles(box).values():
            painter.drawRect(QRectF(place.x() - 4, place.y() - 4, 8, 8))
        _paint_pivot(painter, view.to_screen(*self._pivot_place()))

    # --- the box

    def _plate_box(self) -> QRectF | None:
        frame, chosen = self._session.frame, self._context.chosen_by_shape
        shapes = {shape.name: shape.at(frame) for shape in self._context.chosen_shapes}
        points = tuple(shapes[name][index] for name, own in chosen.items() for index in own)
        extent = edit_transform.points_bounds(points)
        return None if extent is None else QRectF(QPointF(*extent[:2]), QPointF(*extent[2:]))

    def _screen_box(self, view: ViewTransform) -> QRectF | None:
        box = self._plate_box()
        if box is None:
            return None
        corners = view.to_screen(box.left(), box.top()), view.to_screen(box.right(), box.bottom())
        return QRectF(*corners).adjusted(-_AIR_PX, -_AIR_PX, _AIR_PX, _AIR_PX)

    def _pivot_place(self) -> tuple[float, float]:
        if self._pivot is not None and self._pivot_of == self._session.selection:
            return self._pivot
        if self.is_busy and self._layer is not None:
            return self._fixed
        if (layer := self._context.layer) is not None and (place := pivot_of(layer, self._session.frame)) is not None:
            return place
        box = self._box if self.is_busy else self._plate_box() or QRectF()
        return box.center().x(), box.center().y()

    def _grabbed_handle_at(self, mouse: MouseEvent) -> GrabbedHandle | None:
        box = self._screen_box(mouse.view)
        if box is None:
            return None
        if mouse.gap(*self._pivot_place()) < REACH_PX:
            return GrabbedHandle("pivot")
        for (across, down), place in _handles(box).items():
            if distance(place, mouse.point) < REACH_PX:
                return GrabbedHandle("scale", across, down)
        if box.contains(mouse.point):
            return GrabbedHandle("move")
        around = box.adjusted(-_RING_PX, -_RING_PX, _RING_PX, _RING_PX)
        return GrabbedHandle("rotate") if around.contains(mouse.point) else None

    # --- the maps

    def _affine(self, grabbed: GrabbedHandle, path: DragPath) -> Affine:
        if grabbed.part == "move":
            return edit_transform.translation(*path.offset)
        if grabbed.part == "rotate":
            return self._rotation(path)
        return self._scaling(grabbed, path)

    def _pose(self, layer: Layer, grabbed: GrabbedHandle, path: DragPath) -> LayerPose:
        """The group's new transform."""
        frame = self._session.frame
        if grabbed.part == "move":
            return shifted_pose(layer, frame, self._fixed, *path.offset)
        if grabbed.part == "rotate":
            return turned_pose(layer, frame, self._fixed, degrees=self._degrees(path))
        return turned_pose(layer, frame, self._fixed, factors=self._factors(grabbed, path))

    def _scaling(self, grabbed: GrabbedHandle, path: DragPath) -> Affine:
        return edit_transform.scale_about(*self._factors(grabbed, path), self._pivot_place())

    def _factors(self, grabbed: GrabbedHandle, path: DragPath) -> tuple[float, float]:
        """Scale factors with which the grabbed handle follows the mouse while the pivot stays."""
        (px, py), (x0, y0), (dx, dy) = self._pivot_place(), path.start.plate, path.offset
        sx = 1 + dx / (x0 - px) if grabbed.across and abs(x0 - px) > 1e-6 else 1.0
        sy = 1 + dy / (y0 - py) if grabbed.down and abs(y0 - py) > 1e-6 else 1.0
        if path.last.shift:
            sx = sy = sx if grabbed.across and (not grabbed.down or abs(sx - 1) > abs(sy - 1)) else sy
        return sx, sy

    def _rotation(self, path: DragPath) -> Affine:
        return edit_transform.rotation(self._degrees(path), self._pivot_place(), path.start.view.aspect)

    def _degrees(self, path: DragPath) -> float:
        aspect = path.start.view.aspect
        px, py = self._pivot_place()

        def angle(x: float, y: float) -> float:
            return math.degrees(math.atan2(y - py, (x - px) * aspect))

        degrees = (angle(*path.place) - angle(*path.start.plate) + 180) % 360 - 180
        if path.last.shift:
            degrees = round(degrees / _SNAP_DEGREES) * _SNAP_DEGREES
        return degrees


_SCALE_CURSORS = {
    (1, 0, 0): Qt.CursorShape.SizeHorCursor,
    (0, 1, 0): Qt.CursorShape.SizeVerCursor,
    (1, 1, 1): Qt.CursorShape.SizeFDiagCursor,
    (1, 1, -1): Qt.CursorShape.SizeBDiagCursor,
}


def _handles(box: QRectF) -> dict[tuple[int, int], QPointF]:
    """Corners and midpoints of the edges, by -1, 0 or 1 across and down."""
    centre, width, height = box.center(), box.width() / 2, box.height() / 2
    ways = [(a, d) for a in (-1, 0, 1) for d in (-1, 0, 1) if a or d]
    return {(a, d): QPointF(centre.x() + a * width, centre.y() + d * height) for a, d in ways}


def _paint_pivot(painter: QPainter, place: QPointF) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for pen in (QPen(QColor(0, 0, 0, 150), 3.0), QPen(QColor("#ffd75e"), 1.3)):
        painter.setPen(pen)
        painter.drawEllipse(place, 5, 5)
        painter.drawLine(place - QPointF(9, 0), place + QPointF(9, 0))
        painter.drawLine(place - QPointF(0, 9), place + QPointF(0, 9))
