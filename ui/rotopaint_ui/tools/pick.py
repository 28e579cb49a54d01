"""What is under the mouse: control points, ends of tangents, curves, landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QRectF

from rotopaint_ai.shapes.edit_points import CurveLocation, find_nearest
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.drawing.render import painter_path_of
from rotopaint_ui.tools.base import REACH_PX, MouseEvent, distance
from rotopaint_ui.tools.edit_context import EditContext

Handle = Literal["point", "in", "out"]


@dataclass(frozen=True, slots=True)
class Grip:
    """A handle under the mouse: a control point, or the end of one of its tangents."""

    index: int
    handle: Handle


def point_grip_at(context: EditContext, mouse: MouseEvent) -> Grip | None:
    """The nearest handle of the selected shape within reach; ends of tangents count only at selected points."""
    best, reach = None, REACH_PX
    for index, p in enumerate(context.points):
        ends: list[tuple[Handle, float, float]] = [("point", p.x, p.y)]
        if index in context.session.selection.points:
            ends += [("in", p.x + p.in_dx, p.y + p.in_dy), ("out", p.x + p.out_dx, p.y + p.out_dy)]
        for handle, x, y in ends:
            if handle != "point" and (x, y) == (p.x, p.y):
                continue  # a tangent of zero length coincides with its point, and the point is picked
            gap = distance(mouse.view.to_screen(x, y), mouse.point)
            if gap < reach:
                best, reach = Grip(index, handle), gap
    return best


def shape_at(context: EditContext, mouse: MouseEvent, *, is_locked: bool = False) -> str | None:
    """The topmost shape whose curve is under the mouse; the selected one if it is among them.

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
    own = context.session.selection.shape
    return own if own in found else next(iter(found), None)


def curve_at(context: EditContext, mouse: MouseEvent, reach: float = REACH_PX) -> CurveLocation | None:
    """The position on the selected shape's curve under the mouse; None elsewhere."""
    shape = context.shape
    found = find_nearest(context.points, shape.closed, *mouse.plate) if shape is not None else None
    return found if found is not None and mouse.gap(found.x, found.y) < reach else None


def landmark_at(context: EditContext, mouse: MouseEvent) -> int | None:
    """The index of the nearest landmark within reach."""
    document = context.session.document
    row = document.landmarks.keys.get(context.session.frame, ()) if document is not None else ()
    near = [(mouse.gap(mark.x, mark.y), index) for index, mark in enumerate(row) if mark is not None]
    gap, index = min(near, default=(REACH_PX, -1))
    return index if gap < REACH_PX else None


def _meets(shape: RotoShape, frame: int, mouse: MouseEvent, spot: QRectF) -> bool:
    path = painter_path_of(shape.at(frame), shape.closed, mouse.view)
    return path.intersects(spot) and not path.contains(spot)
