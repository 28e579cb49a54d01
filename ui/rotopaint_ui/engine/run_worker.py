"""Runs of the engine in a process of their own: a job in, its events out as Qt signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ui.engine.engine_process import EngineProcess
from rotopaint_ui.host import Engine

STOPPED = "Stopped"  # how the line begins that tells of a run that a person ended
PATIENCE_MS = 8000  # between asking a run to stop and ending it
_EXIT_FRAMES_FAILED = 3
_EXIT_STOPPED = 130


class RunWorker(QObject):
    """One run of `rotopaint` at a time."""

    happened = Signal(dict)  # one object of the event stream
    finished = Signal(bool, str)  # whether results can be shown, and one line that says how it went

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.process = EngineProcess(self)
        self._last_error = self._last_warning = ""
        self._asked_to_stop = False
        self.process.received.connect(self._take_message)
        self.process.ended.connect(self._finish_run)
        self.process.unstartable.connect(lambda text: self.finished.emit(False, text))

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self.process.is_running

    @property
    def complaint(self) -> str:
        """The last run's error output, for diagnostics."""
        return self.process.complaint

    def start(self, engine: Engine, command: Sequence[str]) -> None:
        """Run `rotopaint COMMAND`; does nothing while a run is under way."""
        if not self.is_running:
            self._last_error = self._last_warning = ""
            self._asked_to_stop = False
            self.process.start(engine, ["-m", "rotopaint_ai", *command])

    def cancel(self) -> None:
        """Ask the run to stop after the frames that it is writing; kill it after a while if it does not."""
        if self.is_running:
            self._asked_to_stop = True
            self.process.stop(PATIENCE_MS)

    def shut_down(self) -> None:
        """End the run at once and wait for it; the panel is closing."""
        self.process.shut_down("terminate")

    def _take_message(self, value: dict[str, Any], payload: bytes) -> None:
        if not isinstance(value.get("event"), str):
            return
        if value["event"] == "error":
            self._last_error = str(value.get("message", ""))
        elif value["event"] == "warning":
            self._last_warning = str(value.get("message", ""))
        self.happened.emit(value)

    def _finish_run(self, code: int, has_crashed: bool) -> None:
        is_good = not has_crashed and code in (0, _EXIT_FRAMES_FAILED)
        self.finished.emit(is_good, self._outcome(code, has_crashed))

    def _outcome(self, code: int, has_crashed: bool) -> str:
        if self._asked_to_stop or code == _EXIT_STOPPED:
            return f"{STOPPED}; Run goes on from here"
        if has_crashed:
            return "The engine crashed; the frames it finished are kept, Run goes on from there"
        if code == 0:
            return "Done"
        complaint = self.process.last_complaint or self._last_error
        if code == _EXIT_FRAMES_FAILED and not complaint:
            return f"Done, but not all of it: {self._last_warning or 'see the report'}"
        if code == _EXIT_FRAMES_FAILED:
            return f"Done, but some frames failed: {self._last_error or complaint}"
        return complaint or f"The engine ended with code {code}"


def outcome_kind(text: str, *, is_done: bool) -> str:
    """The kind of status line at the end of a job; a job that a person stopped is not an error."""
    if text.startswith(STOPPED):
        return "plain"
    return "good" if is_done else "trouble"
