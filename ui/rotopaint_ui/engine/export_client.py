"""Asks the clerk: one process for one question, so that an old question is dropped by ending its process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QProcess

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.engine.run_worker import process_of
from rotopaint_ui.host import Engine

Reply = Callable[[Mapping[str, Any]], None]


class ExportClient(QObject):
    """One question at a time; a newer one replaces the one that is being answered."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None
        self._ticket = 0
        self._is_over = False
        self._writing = BackgroundTask(self)
        self._waiting: tuple[int, Engine, Mapping[str, Any], Reply] | None = None
        self._writing.done.connect(self._start)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._process is not None or self._waiting is not None

    def ask(
        self, engine: Engine, request: Mapping[str, Any], reply: Reply, document: RotoDocument | None = None
    ) -> None:
        """Ask; the answer comes to `reply`, in this thread. The document is put into words beside the screen."""
        self.drop()
        if self._is_over:
            return
        self._ticket += 1
        ticket = self._ticket
        self._waiting = (ticket, engine, request, reply)
        self._writing.start(lambda: (ticket, "" if document is None else documents.dumps(document)))

    def drop(self) -> None:
        """Forget the question that is being answered."""
        self._ticket += 1
        process, self._process, self._waiting = self._process, None, None
        if process is not None:
            process.blockSignals(True)
            process.kill()
            process.waitForFinished(2000)
            process.deleteLater()

    def shut_down(self) -> None:
        """Leave no process behind; questions that come later are not asked."""
        self._is_over = True
        self._writing.wait()
        self.drop()

    def _start(self, written: tuple[int, str]) -> None:
        ticket, text = written
        if self._waiting is None or ticket != self._waiting[0]:
            return
        _, engine, request, reply = self._waiting
        self._waiting = None
        process = process_of(engine, ["-m", "rotopaint_ui.engine.export_worker"], self)
        process.finished.connect(lambda code, status: self._end(process, reply))
        process.errorOccurred.connect(lambda error: self._fail(process, error, reply))
        self._process = process
        process.start()
        process.write((json.dumps(request) + "\n" + text).encode("utf-8"))
        process.closeWriteChannel()

    def _end(self, process: QProcess, reply: Reply) -> None:
        if process is not self._process:
            return
        lines = _lines(process.readAllStandardOutput())
        said = _lines(process.readAllStandardError())
        self._release()
        try:
            facts = json.loads(lines[-1]) if lines else {}
        except ValueError:
            facts = {}
        reply(facts or {"error": said[-1] if said else "the engine ended without an answer; ask again"})

    def _fail(self, process: QProcess, error: QProcess.ProcessError, reply: Reply) -> None:
        if process is self._process and error == QProcess.ProcessError.FailedToStart:
            program = process.program()
            self._release()
            reply({"error": f"{program} could not be started; set ROTOPAINT_PYTHON to the engine's Python"})

    def _release(self) -> None:
        if self._process is not None:
            self._process.deleteLater()
            self._process = None


def _lines(said: QByteArray) -> list[str]:
    return bytes(said.data()).decode("utf-8", "replace").strip().splitlines()
