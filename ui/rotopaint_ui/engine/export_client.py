"""Asks the export worker, with one process per request: an outdated request is dropped by ending its process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.engine.engine_process import EngineProcess
from rotopaint_ui.host import Engine

OnReply = Callable[[Mapping[str, Any]], None]


class ExportClient(QObject):
    """One request at a time; a newer one replaces the one in progress."""

    progressed = Signal(int, int)  # how much of the answer there is, and all of it

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process = EngineProcess(self)
        self._process.received.connect(self._take_answer)
        self._process.ended.connect(self._take_end)
        self._process.unstartable.connect(lambda text: self._answer({"error": text}))
        self._facts: dict[str, Any] = {}
        self._ticket = 0
        self._is_over = False
        self._writing = BackgroundTask(self)
        self._writing.done.connect(self._start_worker)
        self._question: tuple[Engine, Mapping[str, Any], OnReply] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return self._question is not None

    def ask(
        self, engine: Engine, request: Mapping[str, Any], reply: OnReply, document: RotoDocument | None = None
    ) -> None:
        """Send a request; `reply` gets the answer in this thread. The document is serialised in another thread."""
        self.drop()
        if self._is_over:
            return
        self._question = engine, request, reply
        ticket = self._ticket
        self._writing.start(lambda: (ticket, "" if document is None else documents.dumps(document)))

    def drop(self) -> None:
        """Forget the question that is being answered."""
        self._ticket += 1
        self._question = None
        self._process.shut_down("kill")

    def shut_down(self) -> None:
        """End the process; later requests are ignored."""
        self._is_over = True
        self._writing.wait()
        self.drop()

    def _start_worker(self, written: tuple[int, str]) -> None:
        ticket, text = written
        if self._question is None or ticket != self._ticket:
            return
        engine, request, _ = self._question
        self._facts = {}
        self._process.start(engine, ["-m", "rotopaint_ui.engine.export_worker"])
        self._process.send((json.dumps(request) + "\n" + text).encode("utf-8"))
        self._process.close_input()

    def _take_answer(self, facts: dict[str, Any], payload: bytes) -> None:
        if "progress" in facts:
            self.progressed.emit(*facts["progress"])
        else:
            self._facts.update(facts)

    def _take_end(self, code: int, has_crashed: bool) -> None:
        complaint = self._process.last_complaint or "the engine ended without an answer; ask again"
        self._answer(self._facts or {"error": complaint})

    def _answer(self, facts: Mapping[str, Any]) -> None:
        question, self._question = self._question, None
        if question is not None:
            question[2](facts)
