"""Saves shapes.roto.json automatically: in a thread after a pause, or at once on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shapes_file import SavedShapes


class Autosave(QObject):
    """Writes the session's document. `may_write` returns False while a run writes the same file.

    While somebody else has the project, nothing is written; `failed` names the owner, once automatically and at every
    request.
    """

    kept = Signal()
    failed = Signal(str)

    def __init__(self, session: ShotSession, may_write: Callable[[], bool], parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._may_write = session, may_write
        self._refused: str | None = None
        self._writing = BackgroundTask(self)
        self._writing.done.connect(self._take_written)
        self._writing.failed.connect(lambda text: self.failed.emit(f"Not saved: {text}"))
        self._rest = QTimer(self, singleShot=True)
        self._rest.timeout.connect(self._write_beside)

    def set_rest(self, seconds: float) -> None:
        """Set the pause after which shapes are written."""
        self._rest.setInterval(round(seconds * 1000))

    def touch(self) -> None:
        """Note a change; it is written after a pause."""
        if not self._session.shapes_file.is_saved and self._may_write():
            self._rest.start()

    def save(self) -> None:
        """Write now, with what is being typed or drawn."""
        self._session.tell_leaving()
        self._writing.wait()
        self._session.edits.end_burst()
        if self._session.edits.is_dragging or not self._may_write():
            return
        if self._session.project.refusal is not None:
            self._report_failed_save(self._session.project.refusal)
            return
        try:
            if self._session.shapes_file.save():
                self.kept.emit()
        except (RotopaintError, OSError) as error:
            self.failed.emit(f"Not saved: {error}")

    def shut_down(self) -> None:
        """Write unsaved changes, and start no more writes."""
        self._rest.stop()
        self.save()

    def _write_beside(self) -> None:
        """Write in a thread: a long shot takes a second."""
        session, document, path = self._session, self._session.document, self._session.shapes_file.path
        if session.project.refusal is not None:
            if session.project.refusal != self._refused:
                self._report_failed_save(session.project.refusal)
            return
        if session.edits.is_dragging or session.runs.is_live or self._writing.is_running:
            self._rest.start()
        elif document is not None and path is not None and not session.shapes_file.is_saved and self._may_write():

            def write() -> object:
                return path, session.shapes_file.write(path, document)

            self._writing.start(write)

    def _report_failed_save(self, why: str) -> None:
        self._refused = why
        if not self._session.shapes_file.is_saved:
            self.failed.emit(f"Not saved: {why}")

    def _take_written(self, result: tuple[Path, SavedShapes]) -> None:
        path, written = result
        if path == self._session.shapes_file.path:
            self._session.shapes_file.mark_saved(written)
            self.kept.emit()
