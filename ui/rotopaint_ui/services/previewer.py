"""The seam of the frame that is shown, painted by the live engine: shown in the clean plate's place."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QImage, QPainter

from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, DisplayLook, FrameCache
from rotopaint_ui.engine.live_client import LiveClient, SeamPreview, SeamQuestion
from rotopaint_ui.session.session import ShotSession

REST_MS = 60


class Previewer(QObject):
    """While switched on, requests the painted frame after each change of frame, shapes, settings or look."""

    shown = Signal(object)  # a SeamPreview, or None where there is none

    def __init__(self, session: ShotSession, frame_cache: FrameCache, live: LiveClient, parent: QObject) -> None:
        super().__init__(parent)
        self.is_on = False
        self._session, self._frames, self._live = session, frame_cache, live
        self._asked: tuple[object, ...] = ()
        self._preview: tuple[DisplayLook, SeamPreview] | None = (
            None  # that the plate's picture in its look is waited for
        )
        frame_cache.image_ready.connect(lambda plate, frame: self._lay_preview())
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._ask_for_preview)

    def switch(self, on: bool) -> None:
        """Switch the preview on or off."""
        self.is_on = on
        self._asked, self._preview = (), None
        self._frames.replace_picture(CLEAN, None)
        self.shown.emit(None)
        self.refresh()

    def refresh(self) -> None:
        """After a possible change: request a new preview once the mouse rests."""
        if self.is_on and self._preview_key() != self._asked:
            self._rest.start()

    def _preview_key(self) -> tuple[object, ...]:
        state = self._session.state
        strokes = state.strokes.get(self._session.frame, ())
        return self._session.frame, state.document, tuple(state.seams.items()), strokes, self._frames.look

    def _ask_for_preview(self) -> None:
        document, frame = self._session.state.document, self._session.frame
        if not self.is_on or document is None or self._session.runs.is_live:
            return
        self._asked = asked = self._preview_key()
        look = self._frames.look
        state = self._session.state
        strokes = state.strokes.get(frame, ())
        question = SeamQuestion(frame, document, state.seams, (look.exposure, look.gamma, look.view), strokes)
        self._live.seam(question, lambda preview: self._show_preview(asked, preview))

    def _show_preview(self, asked: tuple[object, ...], preview: SeamPreview | None) -> None:
        if not self.is_on or asked != self._asked:
            return
        self._preview = None if preview is None else (self._frames.look, preview)
        self._lay_preview()
        self.shown.emit(preview)

    def _lay_preview(self) -> None:
        """Lay the preview over the plate's picture once that has arrived in the same look."""
        if self._preview is None:
            return
        look, preview = self._preview
        plate = self._frames.image(PLATE, preview.frame)
        if look.channel == "A":
            return  # the paint changes nothing on this frame
        if plate is not None and self._frames.look_of(PLATE, preview.frame) == look:
            self._preview = None
            self._frames.replace_picture(CLEAN, (preview.frame, compose(plate, preview, look)))


def compose(plate: QImage, preview: SeamPreview, look: DisplayLook) -> QImage:
    """The plate's picture with the painted region laid over it, as `look` shows it."""
    picture = plate.convertToFormat(QImage.Format.Format_RGB32)
    size = preview.width, preview.height
    region = QImage(preview.picture, *size, 3 * preview.width, QImage.Format.Format_RGB888)
    if look.channel in ("R", "G", "B"):
        row = preview.picture["RGB".index(look.channel) :: 3]
        region = QImage(row, *size, preview.width, QImage.Format.Format_Grayscale8)
    elif look.channel == "luma":
        region = region.convertToFormat(QImage.Format.Format_Grayscale8)
    painter = QPainter(picture)
    painter.scale(1 / look.proxy, 1 / look.proxy)
    painter.drawImage(QPoint(preview.x, preview.y), region)
    painter.end()
    return picture
