"""One process of the engine at a time: lines go in, JSON objects come out. Qt and standard library only.

The decoder, the live engine, the export worker and every run are such processes. When one crashes or answers slowly,
the host does not freeze: only `shut_down` waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from rotopaint_ui.host import Engine

COMPLAINT_BYTES = 8000  # lines of the error stream that are kept
_PATIENCE_MS = {"close": 1500, "terminate": 2000, "kill": 2000}
Ending = Literal["close", "terminate", "kill"]  # its input, by a signal it may handle, at once


class EngineProcess(QObject):
    """Runs the engine's Python. Signals arrive in the GUI thread.

    `payload_field` names the field of an object that gives the number of bytes after its line; they are delivered with
    the object. Lines that are not JSON objects are ignored, because libraries also write to standard output.
    """

    received = Signal(dict, bytes)
    ended = Signal(int, bool)  # exit code, and whether it crashed; it can be started again by then
    unstartable = Signal(str)  # one line

    def __init__(self, parent: QObject | None = None, *, payload_field: str = "") -> None:
        super().__init__(parent)
        self._payload_field = payload_field
        self._process: QProcess | None = None
        self._buffer = bytearray()
        self._header: dict[str, Any] | None = None
        self._complaint = b""

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process's number; 0 where none runs."""
        return int(self._process.processId()) if self._process is not None else 0

    @property
    def complaint(self) -> str:
        """The end of its error output, also after it has ended."""
        return self._complaint.decode("utf-8", "replace")

    @property
    def last_complaint(self) -> str:
        """The last line of the error stream; empty where there is none."""
        lines = self.complaint.strip().splitlines()
        return lines[-1] if lines else ""

    def start(self, engine: Engine, arguments: Sequence[str]) -> None:
        """Run the engine's Python with these arguments; does nothing while the process runs."""
        if self._process is not None:
            return
        self._reset_framing()
        self._complaint = b""
        process = QProcess(self)
        environment = QProcessEnvironment()
        for name, value in engine.environment().items():
            environment.insert(name, value)
        process.setProcessEnvironment(environment)
        process.setProgram(engine.python)
        process.setArguments(list(arguments))
        process.readyReadStandardOutput.connect(self._read_output)
        process.readyReadStandardError.connect(self._read_complaint)
        process.finished.connect(self._note_end)
        process.errorOccurred.connect(self._fail_to_start)
        self._process = process
        process.start()

    def send(self, data: bytes) -> None:
        """Write to the process; lines end with a line feed."""
        if self._process is not None:
            self._process.write(data)

    def close_input(self) -> None:
        """Close the input: nothing more will be sent."""
        if self._process is not None:
            self._process.closeWriteChannel()

    def stop(self, patience_ms: int) -> None:
        """Ask the process to end; kill it after a while if it does not. `ended` follows."""
        if self._process is not None:
            self._process.terminate()
            QTimer.singleShot(patience_ms, self._process, self._process.kill)

    def kill(self) -> None:
        """End the process at once. `ended` follows."""
        if self._process is not None:
            self._process.kill()

    def shut_down(self, how: Ending = "close") -> None:
        """End the process and wait for it, killing it after a while; no signal follows."""
        process, self._process = self._process, None
        self._reset_framing()
        if process is None:
            return
        process.blockSignals(True)
        end = {"close": process.closeWriteChannel, "terminate": process.terminate, "kill": process.kill}
        end[how]()
        if not process.waitForFinished(_PATIENCE_MS[how]):
            process.kill()
            process.waitForFinished(1000)
        process.deleteLater()

    def _reset_framing(self) -> None:
        self._buffer.clear()
        self._header = None

    def _read_output(self) -> None:
        if self._process is not None:
            self._buffer += self._process.readAllStandardOutput().data()
            while self._take_one():
                pass

    def _take_one(self) -> bool:
        """Take one object, with its payload, out of the buffer; False while it is incomplete."""
        if self._header is None:
            end = self._buffer.find(b"\n")
            if end < 0:
                return False
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._header = _decoded_object(line)
            if self._header is None:
                return True
        size = int(self._header.get(self._payload_field, 0)) if self._payload_field else 0
        if len(self._buffer) < size:
            return False
        header, self._header = self._header, None
        payload = bytes(self._buffer[:size])
        del self._buffer[:size]
        self.received.emit(header, payload)
        return True

    def _read_complaint(self) -> None:
        if self._process is not None:
            text = self._process.readAllStandardError().data()
            self._complaint = (self._complaint + bytes(text))[-COMPLAINT_BYTES:]

    def _note_end(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read_output()
        self._read_complaint()
        if self._process is not None:  # else what was read has led to its end
            self._release()
            self.ended.emit(code, status == QProcess.ExitStatus.CrashExit)

    def _fail_to_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            program = self._process.program()
            self._release()
            self.unstartable.emit(f"{program} could not be started; set ROTOPAINT_PYTHON to the engine's Python")

    def _release(self) -> None:
        process, self._process = self._process, None
        self._reset_framing()
        if process is not None:
            process.blockSignals(True)
            process.deleteLater()


def _decoded_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
