"""Watches the folders of clean frames: on request, and at intervals during a job."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from rotopaint_ui.engine.frame_cache import CLEAN, FrameCache
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import CLEAN_NAME, rig_frames_folder

REFRESH_MS = 3000


class CleanPlate(QObject):
    """Opens the shot's newest clean plate in the frame cache: the one without seams, or the one without the rig."""

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
        """Read the folder again; no message where it does not exist."""
        self._rest.stop()
        out = self._session.out
        if out is None or self._session.plate is None:
            return
        folders = [folder for folder in (out / CLEAN_NAME, rig_frames_folder(out)) if _has_files(folder)]
        if folders:
            newest = max(folders, key=lambda folder: folder.stat().st_mtime_ns)
            self._frame_cache.open(CLEAN, str(newest))


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
