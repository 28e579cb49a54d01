"""The wipe between the plate and the clean plate: a line that can be moved and turned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from rotopaint_ui.drawing.labels import paint_label

WipeGrip = Literal["line", "turn"]
_TURN_PX = 70.0  # distance from the middle of the line to the ring that rotates it
_REACH_PX = 8.0
_SNAP_DEGREES = 15.0


@dataclass(frozen=True, slots=True)
class Wipe:
    """The line of the wipe: its middle as shares of the plate's width and height, and its angle from vertical.

    The plate is on the left of a vertical line; degrees run clockwise on the screen.
    """

    x: float = 0.5
    y: float = 0.5
    degrees: float = 0.0

    def middle(self, area: QRectF) -> QPointF:
        """The middle of the line, for a plate that fills `area` on the screen."""
        return QPointF(area.left() + self.x * area.width(), area.top() + self.y * area.height())

    def along(self) -> QPointF:
        """Unit vector along the line, pointing up for a vertical line."""
        angle = math.radians(self.degrees)
        return QPointF(math.sin(angle), -math.cos(angle))

    def across(self) -> QPointF:
        """Unit vector across the line, towards the clean plate."""
        angle = math.radians(self.degrees)
        return QPointF(math.cos(angle), math.sin(angle))

    def clean_side(self, area: QRectF) -> QPolygonF:
        """The half of the screen with the clean plate, as a polygon far beyond `area`."""
        reach = 2.0 * (area.width() + area.height()) + 4096.0
        middle, along, across = self.middle(area), self.along() * reach, self.across() * reach
        return QPolygonF([middle + along, middle + along + across, middle - along + across, middle - along])

    def grip_at(self, point: QPointF, area: QRectF) -> WipeGrip | None:
        """The part under the mouse: the line, or one of the rings that rotate it; None elsewhere."""
        offset = point - self.middle(area)
        for side in (1, -1):
            ring = offset - self.along() * (_TURN_PX * side)
            if math.hypot(ring.x(), ring.y()) < _REACH_PX:
                return "turn"
        across = self.across()
        return "line" if abs(offset.x() * across.x() + offset.y() * across.y()) < _REACH_PX else None

    def moved(self, point: QPointF, area: QRectF) -> Wipe:
        """The wipe with its middle at a place of the screen, kept inside the plate."""
        x, y = (point.x() - area.left()) / area.width(), (point.y() - area.top()) / area.height()
        return replace(self, x=min(max(x, 0.0), 1.0), y=min(max(y, 0.0), 1.0))

    def turned(self, point: QPointF, area: QRectF, *, snaps: bool) -> Wipe:
        """The wipe rotated so that its nearer ring points at a place of the screen."""
        offset, along = point - self.middle(area), self.along()
        side = 1 if offset.x() * along.x() + offset.y() * along.y() >= 0 else -1
        degrees = math.degrees(math.atan2(side * offset.x(), -side * offset.y()))
        if snaps:
            degrees = round(degrees / _SNAP_DEGREES) * _SNAP_DEGREES
        return replace(self, degrees=degrees)


def paint_wipe(painter: QPainter, wipe: Wipe, area: QRectF, *, clean: str) -> None:
    """Draw the line, its handles, and the names of the two sides; `clean` names the clean plate's side."""
    middle, along = wipe.middle(area), wipe.along()
    reach = area.width() + area.height()
    painter.save()
    painter.setClipRect(area)
    for pen in (QPen(QColor(0, 0, 0, 160), 3.0), QPen(QColor("#ffffff"), 1.2)):
        painter.setPen(pen)
        painter.drawLine(middle - along * reach, middle + along * reach)
    painter.restore()
    painter.setPen(QPen(QColor(0, 0, 0, 180), 1.0))
    painter.setBrush(QColor("#ffffff"))
    painter.drawEllipse(middle, 5, 5)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for side in (1, -1):
        for pen in (QPen(QColor(0, 0, 0, 160), 3.2), QPen(QColor("#ffffff"), 1.4)):
            painter.setPen(pen)
            painter.drawEllipse(middle + along * (_TURN_PX * side), 4.5, 4.5)
    across = wipe.across() * 12.0
    is_mirrored = across.x() < 0
    paint_label(painter, middle - across, "plate", is_right=not is_mirrored)
    paint_label(painter, middle + across, clean, is_right=is_mirrored)
