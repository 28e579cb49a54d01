"""Watches the folder of the clean plate: on request, and at intervals during a job."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from rotopaint_ui.engine.frame_cache import CLEAN, FrameCache
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot import CLEAN_NAME

REFRESH_MS = 3000


class CleanPlate(QObject):
    """Opens the clean plate of the session's shot in the frame cache."""

    def __init__(self, session: ShotSession, frame_cache: FrameCache, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._frame_cache = session, frame_cache
        self._rest = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._rest.timeout.connect(self.open)

    def note_painted(self) -> None:
        """Note a new frame on disk; the folder is read again after a moment."""
        if not self._rest.isActive():
            self._rest.start()

    def open(self) -> None:
        """Read the folder again; there is no message while it does not exist."""
        self._rest.stop()
        out = self._session.out
        if out is None or self._session.plate is None:
            return
        folder = out / CLEAN_NAME
        if folder.is_dir() and any(folder.iterdir()):
            self._frame_cache.open(CLEAN, str(folder))
