"""Runs of the engine in a process of their own: a job in, its events out as Qt signals.

A crash or a long run of the engine never freezes the host. Qt and standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from rotopaint_ui.host import Engine

PATIENCE_MS = 8000  # between asking a run to stop and ending it
_EXIT_FRAMES_FAILED = 3
_EXIT_STOPPED = 130


def process_of(engine: Engine, words: Sequence[str], parent: QObject) -> QProcess:
    """A process, not yet started, that runs the engine's Python with these words."""
    process = QProcess(parent)
    environment = QProcessEnvironment()
    for name, value in engine.environment().items():
        environment.insert(name, value)
    process.setProcessEnvironment(environment)
    process.setProgram(engine.python)
    process.setArguments(list(words))
    return process


class RunWorker(QObject):
    """One run of `rotopaint` at a time."""

    happened = Signal(dict)  # one object of the event stream
    finished = Signal(bool, str)  # whether results can be shown, and one line that says how it went

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None
        self._rest = b""
        self._complaint = b""
        self._last_error = ""
        self._asked_to_stop = False

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._process is not None

    @property
    def complaint(self) -> str:
        """What the last run wrote to its error stream: for diagnostics."""
        return bytes(self._complaint).decode("utf-8", "replace")

    def start(self, engine: Engine, words: Sequence[str]) -> None:
        """Run `rotopaint WORDS`; does nothing while a run is under way."""
        if self._process is not None:
            return
        self._rest, self._complaint, self._last_error, self._asked_to_stop = b"", b"", "", False
        process = process_of(engine, ["-m", "rotopaint_ai", *words], self)
        process.readyReadStandardOutput.connect(self._read_events)
        process.readyReadStandardError.connect(self._read_complaint)
        process.finished.connect(self._end)
        process.errorOccurred.connect(self._fail_to_start)
        self._process = process
        process.start()

    def cancel(self) -> None:
        """Ask the run to stop after the frames that it is writing; end it when it does not listen."""
        process = self._process
        if process is None:
            return
        self._asked_to_stop = True
        process.terminate()
        QTimer.singleShot(PATIENCE_MS, process, process.kill)

    def shut_down(self) -> None:
        """End the run now and wait for it: the panel is going away."""
        process, self._process = self._process, None
        if process is not None:
            process.blockSignals(True)
            process.terminate()
            if not process.waitForFinished(2000):
                process.kill()
                process.waitForFinished(1000)

    def _read_events(self) -> None:
        if self._process is None:
            return
        *lines, self._rest = (self._rest + self._process.readAllStandardOutput().data()).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            value: Any = json.loads(line)
        except ValueError:
            return  # not an event: a library wrote to standard output
        if isinstance(value, dict) and isinstance(value.get("event"), str):
            if value["event"] == "error":
                self._last_error = str(value.get("message", ""))
            self.happened.emit(value)

    def _read_complaint(self) -> None:
        if self._process is not None:
            self._complaint = (self._complaint + self._process.readAllStandardError().data())[-8000:]

    def _fail_to_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            where = self._process.program()
            self._release()
            self.finished.emit(False, f"{where} could not be started; set ROTOPAINT_PYTHON to the engine's Python")

    def _end(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read_events()
        self._read_complaint()
        crashed = status == QProcess.ExitStatus.CrashExit
        self._release()
        self.finished.emit(not crashed and code in (0, _EXIT_FRAMES_FAILED), self._outcome(code, crashed))

    def _outcome(self, code: int, crashed: bool) -> str:
        if self._asked_to_stop or code == _EXIT_STOPPED:
            return "Stopped; Run goes on from here"
        if crashed:
            return "The engine crashed; the frames it finished are kept, Run goes on from there"
        if code == 0:
            return "Done"
        lines = bytes(self._complaint).decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else self._last_error
        if code == _EXIT_FRAMES_FAILED:
            return f"Done, but some frames failed: {self._last_error or said}"
        return said or f"The engine ended with code {code}"

    def _release(self) -> None:
        if self._process is not None:
            self._process.deleteLater()
            self._process = None


def end_process(process: QProcess) -> None:
    """Close what a process reads, at which it leaves by itself; kill it when it does not. Its signals are not heard."""
    process.blockSignals(True)
    process.closeWriteChannel()
    if not process.waitForFinished(1500):
        process.kill()
        process.waitForFinished(1000)
    process.deleteLater()
