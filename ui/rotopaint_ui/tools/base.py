"""The base of all tools: the mouse event, and the interface of a tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPainterPath, QPen

from rotopaint_ui.drawing.render import ViewTransform

REACH_PX = 9.0  # how near the mouse must come to a handle
CLICK_PX = 4.0  # a press that moves less is a click: nothing is moved by accident
FINE = 0.1  # share of the mouse's motion, while Ctrl is held


@dataclass(frozen=True, slots=True)
class MouseEvent:
    """The position of the mouse, and the modifier keys that are held."""

    point: QPointF
    view: ViewTransform
    modifiers: Qt.KeyboardModifier

    @property
    def plate(self) -> tuple[float, float]:
        """The position in plate space."""
        return self.view.to_plate(self.point)

    @property
    def shift(self) -> bool:
        """Whether Shift is held."""
        return bool(self.modifiers & Qt.KeyboardModifier.ShiftModifier)

    @property
    def ctrl(self) -> bool:
        """Whether Ctrl is held (Cmd on a Mac)."""
        return bool(self.modifiers & Qt.KeyboardModifier.ControlModifier)

    @property
    def alt(self) -> bool:
        """Whether Alt is held."""
        return bool(self.modifiers & Qt.KeyboardModifier.AltModifier)

    def gap(self, x: float, y: float) -> float:
        """The distance to a place of the plate, in screen pixels."""
        return distance(self.view.to_screen(x, y), self.point)


class Tool(Protocol):
    """A use of the left mouse button."""

    @property
    def is_busy(self) -> bool:
        """Whether a gesture is in progress."""

    def press(self, mouse: MouseEvent) -> None:
        """Handle a press of the button."""

    def drag(self, mouse: MouseEvent) -> None:
        """Handle a motion with the button down."""

    def release(self, mouse: MouseEvent) -> None:
        """Handle the release of the button."""

    def cancel(self) -> None:
        """Cancel the gesture, without any change."""

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """The cursor at a position with no button down."""

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw over everything else while the tool is chosen."""


@runtime_checkable
class KeyTool(Protocol):
    """A tool with its own keys during a gesture."""

    def key_action(self, event: QKeyEvent) -> Callable[[], None] | None:
        """The action of a key; None where the key belongs to the panel."""


def distance(a: QPointF, b: QPointF) -> float:
    """The distance between two points of the screen, pixels."""
    return float(((a.x() - b.x()) ** 2 + (a.y() - b.y()) ** 2) ** 0.5)


def band_between(start: QPointF, end: QPointF) -> QPainterPath:
    """A rubber band between two points of the screen."""
    area = QPainterPath()
    area.addRect(QRectF(start, end).normalized())
    return area


def paint_band(painter: QPainter, area: QPainterPath) -> None:
    """Draw the area on the screen that a drag selects."""
    painter.fillPath(area, QColor(120, 190, 255, 40))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for pen in (QPen(QColor(0, 0, 0, 170), 2.5), QPen(QColor("#d9f2ff"), 1.2, Qt.PenStyle.DashLine)):
        painter.setPen(pen)  # the dark edge shows it on skin
        painter.drawPath(area)
