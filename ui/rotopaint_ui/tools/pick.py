"""What lies under the mouse: control points, ends of tangents, curves, landmarks."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF

from rotopaint_ai.shapes.edit_points import OnCurve, nearest
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.edits import Handle
from rotopaint_ui.render import path_of
from rotopaint_ui.tools.base import REACH_PX, Touch, distance
from rotopaint_ui.tools.hand import Hand


@dataclass(frozen=True, slots=True)
class Grip:
    """A handle under the mouse: a control point, or the end of one of its tangents."""

    index: int
    handle: Handle


def grip_at(hand: Hand, touch: Touch) -> Grip | None:
    """The nearest handle of the selected shape within reach; a tangent's end only where its point is selected."""
    best, reach = None, REACH_PX
    for index, p in enumerate(hand.points):
        ends: list[tuple[Handle, float, float]] = [("point", p.x, p.y)]
        if index in hand.session.selection.points:
            ends += [("in", p.x + p.in_dx, p.y + p.in_dy), ("out", p.x + p.out_dx, p.y + p.out_dy)]
        for handle, x, y in ends:
            if handle != "point" and (x, y) == (p.x, p.y):
                continue  # a tangent of no length lies on its point, which wins
            gap = distance(touch.view.to_screen(x, y), touch.point)
            if gap < reach:
                best, reach = Grip(index, handle), gap
    return best


def shape_at(hand: Hand, touch: Touch) -> str | None:
    """The topmost shape whose curve is under the mouse; the selected one where it is among them."""
    document, frame = hand.session.document, hand.session.frame
    if document is None:
        return None
    spot = QRectF(touch.point.x() - REACH_PX / 2, touch.point.y() - REACH_PX / 2, REACH_PX, REACH_PX)
    found = [
        shape.name for shape in reversed(document.shapes) if hand.can_grab(shape) and _meets(shape, frame, touch, spot)
    ]
    own = hand.session.selection.shape
    return own if own in found else next(iter(found), None)


def curve_at(hand: Hand, touch: Touch, reach: float = REACH_PX) -> OnCurve | None:
    """The place of the selected shape's curve under the mouse."""
    shape = hand.shape
    found = nearest(hand.points, shape.closed, *touch.plate) if shape is not None else None
    return found if found is not None and touch.gap(found.x, found.y) < reach else None


def landmark_at(hand: Hand, touch: Touch) -> int | None:
    """The index of the nearest landmark within reach."""
    document = hand.session.document
    row = document.landmarks.keys.get(hand.session.frame, ()) if document is not None else ()
    near = [(touch.gap(mark.x, mark.y), index) for index, mark in enumerate(row) if mark is not None]
    gap, index = min(near, default=(REACH_PX, -1))
    return index if gap < REACH_PX else None


def _meets(shape: RotoShape, frame: int, touch: Touch, spot: QRectF) -> bool:
    path = path_of(shape.at(frame), shape.closed, touch.view)
    return path.intersects(spot) and not path.contains(spot)
