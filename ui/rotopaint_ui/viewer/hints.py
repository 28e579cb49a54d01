"""Hints over the picture: expected errors of landmarks near the mouse, and the range that edits reach."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter

from rotopaint_ai.shapes.roto import Landmark
from rotopaint_ui.drawing.labels import paint_label
from rotopaint_ui.drawing.render import ViewTransform, paint_uncertainty
from rotopaint_ui.tools.edit_context import EditReach

NEAR_PX = 60.0  # distance from the mouse within which landmarks show their expected error


def paint_near(
    painter: QPainter,
    row: Sequence[Landmark | None],
    view: ViewTransform,
    mouse: QPointF | None,
    chosen: Collection[int],
) -> None:
    """Paint the expected errors of landmarks near the mouse and of the selected ones."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for index, mark in enumerate(row):
        if mark is None:
            continue
        offset = None if mouse is None else view.to_screen(mark.x, mark.y) - mouse
        if index in chosen or (offset is not None and math.hypot(offset.x(), offset.y()) < NEAR_PX):
            paint_uncertainty(painter, mark, view)


def paint_reach_note(painter: QPainter, reach: EditReach | None, height: int) -> None:
    """Paint a note while edits reach other keys, so that the artist does not forget it."""
    if reach is not None:
        text = f"Edits reach every key of {reach.first}-{reach.last}, {reach.mode}"
        paint_label(painter, QPointF(10, height - 34), text, ink="#ffd75e")
