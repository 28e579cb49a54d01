"""What is under the mouse, in words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF

from rotopaint_ui.render import View
from rotopaint_ui.session import Session

_HOVER_PX = 10.0


def words(frame: int, x: float, y: float, zoom: float, values: Sequence[float] | None) -> str:
    """Plate values (scene-linear, before exposure, gamma and view), place, frame and magnification."""
    text = "" if values is None else "  ".join(_number(value) for value in values) + "   "
    return f"{text}x {x:.1f}  y {y:.1f}   frame {frame}   {zoom * 100:.0f} %"


def landmark_note(session: Session, view: View, mouse: QPointF) -> str:
    """Name and expected error of the landmark under the mouse; empty where there is none."""
    document = session.document
    if document is None:
        return ""
    near = []
    row = document.landmarks.keys.get(session.frame, ())
    hand = document.landmarks.hand.get(session.frame, frozenset())
    for name, mark in zip(document.landmarks.names, row):
        if mark is not None:
            offset = view.to_screen(mark.x, mark.y) - mouse
            note = "placed by hand" if name in hand else f"\u00b1{mark.expected_error_px:.1f} px"
            near.append(((offset.x() ** 2 + offset.y() ** 2) ** 0.5, f"{name}  {note}"))
    gap, text = min(near, default=(_HOVER_PX, ""))
    return text if gap < _HOVER_PX else ""


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"
