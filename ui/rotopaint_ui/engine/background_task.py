"""Slow reading and writing in a thread. Only values go in and come out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.errors import RotopaintError


class BackgroundTask(QObject):
    """One piece of work at a time in a thread; its result, or the error that it raised, comes as a signal."""

    done = Signal(object)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the work is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], Any]) -> None:
        """Start the work, after waiting for earlier work to end."""
        self.wait()
        self._thread = threading.Thread(target=self._run_work, args=(work,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the work that is under way."""
        if self._thread is not None:
            self._thread.join()

    def _run_work(self, work: Callable[[], Any]) -> None:
        try:
            result = work()
        except (RotopaintError, OSError) as error:
            self.failed.emit(str(error))
        else:
            self.done.emit(result)
