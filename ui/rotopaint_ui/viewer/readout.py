"""The values under the mouse, as text."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QPointF, Signal

from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.engine.frame_cache import PLATE, FrameCache
from rotopaint_ui.session.session import ShotSession

_HOVER_PX = 10.0


class Readout(QObject):
    """Reports the position of the mouse, and requests the plate's values there from the frame cache."""

    text_changed = Signal(str)

    def __init__(self, session: ShotSession, frame_cache: FrameCache, parent: QObject) -> None:
        super().__init__(parent)
        self.frame: int | None = None  # the last reported values
        self._session, self._frames = session, frame_cache
        self._place: tuple[float, float] | None = None
        self._zoom = 1.0
        self._values: tuple[int, int, int, tuple[float, ...]] | None = None  # frame, column, row, plate values
        frame_cache.pixel_ready.connect(self._take_values)

    def look(self, place: tuple[float, float] | None, zoom: float) -> None:
        """Note that the mouse is over a place of the plate (None: outside), at so many device pixels per plate
        pixel."""
        had, self._place, self._zoom = self._place, place, zoom
        plate, self.frame = self._session.plate, self._session.frame
        if place is None:
            if had is not None:
                self.text_changed.emit("")
            return
        x, y = place
        if plate is not None and 0 <= x < plate.width and 0 <= y < plate.height and self.frame in plate.frames:
            self._frames.ask_pixel(PLATE, self.frame, int(x), int(y))
        self._tell_values(x, y)

    def _take_values(self, plate: str, frame: int, x: int, y: int, values: tuple[float, ...]) -> None:
        self._values = frame, x, y, values
        if self._place is not None:
            self._tell_values(*self._place)

    def _tell_values(self, x: float, y: float) -> None:
        found, frame = self._values, self._session.frame
        is_here = found is not None and found[:3] == (frame, int(x), int(y))
        self.text_changed.emit(
            readout_words(frame, x, y, self._zoom, found[3] if is_here and found is not None else None)
        )


def readout_words(frame: int, x: float, y: float, zoom: float, values: Sequence[float] | None) -> str:
    """Plate values (scene-linear, before exposure, gamma and view), place, frame and magnification."""
    text = "" if values is None else "  ".join(_channel_text(value) for value in values) + "   "
    return f"{text}x {x:.1f}  y {y:.1f}   frame {frame}   {zoom * 100:.0f} %"


def landmark_note(session: ShotSession, view: ViewTransform, mouse: QPointF) -> str:
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


def _channel_text(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"
