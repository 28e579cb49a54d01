"""What is under the mouse: control points, ends of tangents, curves, landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QRectF

from rotopaint_ai.shapes.edit_points import CurveLocation, find_nearest
from rotopaint_ai.shapes.roto import ControlPoint, RotoShape
from rotopaint_ui.drawing.render import painter_path_of
from rotopaint_ui.tools.base import REACH_PX, MouseEvent, distance
from rotopaint_ui.tools.edit_context import EditContext

Handle = Literal["point", "in", "out"]


@dataclass(frozen=True, slots=True)
class Grip:
    """A handle under the mouse: a control point of a shape, or the end of one of its tangents."""

    shape: str
    index: int
    handle: Handle


def point_grip_at(context: EditContext, mouse: MouseEvent) -> Grip | None:
    """The nearest handle of the selected shapes within reach; ends of tangents count only at selected points.

    Of two at one place it is that of the shape that was selected last.
    """
    best, reach = None, REACH_PX
    selection, frame = context.session.selection, context.session.frame
    for shape in context.last_selected_first:
        chosen = selection.points_of(shape.name)
        for index, p in enumerate(shape.at(frame)):
            for handle, x, y in _handles_of(p, has_tangents=index in chosen):
                gap = distance(mouse.view.to_screen(x, y), mouse.point)
                if gap < reach:
                    best, reach = Grip(shape.name, index, handle), gap
    return best


def shape_at(context: EditContext, mouse: MouseEvent, *, is_locked: bool = False) -> str | None:
    """The topmost shape whose curve is under the mouse; a selected one if it is among them.

    It searches unlocked shapes, or with `is_locked` locked shapes.
    """
    document, frame = context.session.document, context.session.frame
    if document is None:
        return None
    spot = QRectF(mouse.point.x() - REACH_PX / 2, mouse.point.y() - REACH_PX / 2, REACH_PX, REACH_PX)
    locked = context.session.locked
    free = [
        each for each in reversed(document.shapes) if (each.name in locked if is_locked else context.can_grab(each))
    ]
    found = [shape.name for shape in free if _meets(shape, frame, mouse, spot)]
    selection = context.session.selection
    found.sort(key=lambda name: (name != selection.shape, name not in selection.others))
    return next(iter(found), None)


def curve_at(context: EditContext, mouse: MouseEvent) -> tuple[RotoShape, CurveLocation] | None:
    """The nearest selected shape whose curve is under the mouse, and the position on it; None elsewhere."""
    best, reach = None, REACH_PX
    for shape in context.last_selected_first:
        found = find_nearest(shape.at(context.session.frame), shape.closed, *mouse.plate)
        if found is not None and (gap := mouse.gap(found.x, found.y)) < reach:
            best, reach = (shape, found), gap
    return best


def landmark_at(context: EditContext, mouse: MouseEvent) -> int | None:
    """The index of the nearest landmark within reach."""
    document = context.session.document
    row = document.landmarks.keys.get(context.session.frame, ()) if document is not None else ()
    near = [(mouse.gap(mark.x, mark.y), index) for index, mark in enumerate(row) if mark is not None]
    gap, index = min(near, default=(REACH_PX, -1))
    return index if gap < REACH_PX else None


def _handles_of(p: ControlPoint, *, has_tangents: bool) -> list[tuple[Handle, float, float]]:
    """A point, and the ends of its tangents; one of zero length coincides with the point, and the point is picked."""
    handles: list[tuple[Handle, float, float]] = [("point", p.x, p.y)]
    if has_tangents and (p.in_dx or p.in_dy):
        handles.append(("in", p.x + p.in_dx, p.y + p.in_dy))
    if has_tangents and (p.out_dx or p.out_dy):
        handles.append(("out", p.x + p.out_dx, p.y + p.out_dy))
    return handles


def _meets(shape: RotoShape, frame: int, mouse: MouseEvent, spot: QRectF) -> bool:
    path = painter_path_of(shape.at(frame), shape.closed, mouse.view)
    return path.intersects(spot) and not path.contains(spot)
