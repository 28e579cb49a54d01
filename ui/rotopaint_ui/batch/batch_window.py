"""The batch window: a queue of shots, one run at a time in the engine's process; the queue survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.files import write_text
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ui.batch import queue as queues
from rotopaint_ui.batch.queue import Queue, QueuedShot, QueueStatus
from rotopaint_ui.batch.queue_table import QueueTable
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.engine.export_client import ExportClient
from rotopaint_ui.engine.run_worker import RunWorker
from rotopaint_ui.host import Engine
from rotopaint_ui.session.project_file import is_project
from rotopaint_ui.session.shot_files import read_run_results
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Presser
from rotopaint_ui.widgets.tab_widgets import note_label

_AGAIN = (QueueStatus.FAILED, QueueStatus.FRAMES_FAILED, QueueStatus.STOPPED)
_BUTTONS = ("Add plates", "Open jobs file", "Start", "Stop", "Retry failed", "Up", "Down", "Remove", "Save jobs file")


class BatchWindow(QWidget):
    """A queue of runs, stored at `path`; `engine` returns the engine's interpreter."""

    shot_wanted = Signal(object)  # the QueuedShot to open in the panel

    def __init__(self, path: Path, engine: Callable[[], Engine], parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("rotopaint_window")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(dialogs.style())
        self.setAcceptDrops(True)
        self.setWindowTitle("Batch - RotoPaint AI")
        self.queue = Queue()
        self._path, self._engine = path, engine
        self._running: str | None = None
        self._goes_on = False
        self.worker = RunWorker(self)
        self._export_client = ExportClient(self)
        self._reading = BackgroundTask(self)
        self.worker.happened.connect(self._take_shot_event)
        self.worker.finished.connect(self._end_shot)
        self._reading.done.connect(self._take_worst)
        self._arrange_rows()
        self._restore()
        Presser(self, closes=True)

    @property
    def is_running(self) -> bool:
        """Whether a run of the queue is under way."""
        return self._running is not None

    def add(self, shots: Iterable[QueuedShot]) -> None:
        """Add shots at the end of the queue."""
        try:
            self._show_queue(self.queue.added(shots))
        except RotopaintError as error:
            self.say(str(error))

    def add_path(self, path: str) -> None:
        """Add a plate, or the shot of a project, at the end of the queue."""
        try:
            shot = queues.shot_of_project(path) if is_project(path) else queues.shot_of(path)
        except RotopaintError as error:
            self.say(str(error))
            return
        self.add([shot])

    def start(self) -> None:
        """Run the waiting shots one after another."""
        self._goes_on = True
        if not self.is_running:
            self._start_next()

    def stop(self) -> None:
        """Stop the run after the frames that are being written; the rest of the queue waits."""
        self._goes_on = False
        if self.is_running:
            self.worker.cancel()
            self.say("Stopping after the frames that are being written")

    def retry(self) -> None:
        """Put failed and stopped shots back into the queue, and continue it."""
        self._show_queue(self.queue.retried(self.table.chosen_shots or None))
        self.start()

    def open_jobs(self, path: str) -> None:
        """Take the shots of a jobs file, the same as `rotopaint batch` runs."""
        try:
            self._export_client.ask(self._engine(), {"ask": "shots", "path": path}, self._take_jobs)
        except RotopaintError as error:
            self.say(str(error))

    def save_jobs(self, path: str) -> None:
        """Write the queue as a jobs file for `rotopaint batch`, on this machine or on a farm."""
        try:
            write_text(Path(path), queues.jobs_file(self.queue, "renders"))
            self.say(f"Wrote {path}: rotopaint batch {path}")
        except OSError as error:
            self.say(f"Not written: {error}")

    def say(self, text: str) -> None:
        """Show one line below the table."""
        self.line.setText(text)

    def shut_down(self) -> None:
        """Stop the run; it can be resumed later."""
        self._goes_on = False
        if self._running is not None:
            name, self._running = self._running, None
            self.worker.shut_down()
            self._show_queue(self.queue.changed(name, lambda shot: replace(shot, status=QueueStatus.STOPPED)))
        self._export_client.shut_down()
        self._reading.wait()

    # --- building

    def _arrange_rows(self) -> None:
        self.table = QueueTable()
        self.line = note_label()
        row = QHBoxLayout()
        handlers = (
            self._ask_for_plates,
            self._ask_for_jobs,
            self.start,
            self.stop,
            self.retry,
            partial(self._move_chosen, -1),
            partial(self._move_chosen, 1),
            self._remove,
            self._ask_where,
        )
        self.buttons = {}
        for text, handler in zip(_BUTTONS, handlers, strict=True):
            button = QPushButton(text)
            button.clicked.connect(lambda checked=False, handler=handler: handler())
            row.addWidget(button)
            self.buttons[text] = button
        self.buttons["Start"].setObjectName("strong")
        self.table.itemActivated.connect(
            lambda item, column: self.shot_wanted.emit(self.queue.shots[self.queue.index(item.text(0))])
        )
        self.table.itemSelectionChanged.connect(self._enable_for_chosen)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.addLayout(row)
        column.addWidget(self.table, 1)
        column.addWidget(self.line)
        self.resize(980, 460)

    def _restore(self) -> None:
        if self._path.is_file():
            try:
                self._show_queue(queues.read_queue(self._path))
                return
            except RotopaintError as error:
                self.say(str(error))
                return
        self._show_queue(Queue())

    # --- the queue

    def _show_queue(self, changed: Queue) -> None:
        """Show a queue, and store it."""
        is_kept = [_settings_of(shot) for shot in changed.shots] == [_settings_of(shot) for shot in self.queue.shots]
        self.queue = changed
        self.table.show_queue(changed)
        self.say(changed.summary())
        self.buttons["Start"].setEnabled(not self.is_running and changed.next() is not None)
        self.buttons["Stop"].setEnabled(self.is_running)
        self.buttons["Retry failed"].setEnabled(any(shot.status in _AGAIN for shot in changed.shots))
        self.buttons["Save jobs file"].setEnabled(bool(changed.shots))
        self._enable_for_chosen()
        if not is_kept:
            try:
                queues.write_queue(self._path, changed)
            except OSError as error:
                self.say(f"The queue is not kept: {error}")

    def _enable_for_chosen(self) -> None:
        """Enable the buttons that apply to the selected rows."""
        n = len(self.table.chosen_shots)
        for name, on in (("Up", n == 1), ("Down", n == 1), ("Remove", n > 0)):
            self.buttons[name].setEnabled(on)

    def _start_next(self) -> None:
        shot = self.queue.next() if self._goes_on else None
        if shot is None:
            self._goes_on = False
            self._show_queue(self.queue)
            return
        try:
            engine = self._engine()
        except RotopaintError as error:
            self.say(str(error))
            return
        self._running = shot.name
        self._show_queue(self.queue.changed(shot.name, _as_started))
        self.worker.start(engine, shot.words())

    def _take_shot_event(self, facts: Mapping[str, Any]) -> None:
        if self._running is not None:
            self._show_queue(self.queue.changed(self._running, lambda shot: shot.took(facts)))

    def _end_shot(self, is_good: bool, text: str) -> None:
        name, self._running = self._running, None
        if name is None:
            return
        self._show_queue(self.queue.ended(name, is_good, text))
        out = Path(self.queue.shots[self.queue.index(name)].out)
        self._reading.start(lambda: (name, read_run_results(out).run))
        self._start_next()

    def _take_worst(self, found: tuple[str, RunRecord]) -> None:
        name, run = found
        errors = [max(row.values()) for row in run.errors.values() if row]
        worst = max(errors) if errors else None
        self._show_queue(self.queue.changed(name, lambda shot: replace(shot, worst_px=worst)))

    def _take_jobs(self, facts: Mapping[str, Any]) -> None:
        if "error" in facts:
            self.say(str(facts["error"]))
        else:
            self.add(queues.shot_of_job(row) for row in facts["shots"])

    def _move_chosen(self, by: int) -> None:
        names = self.table.chosen_shots
        if len(names) == 1:
            self._show_queue(self.queue.moved(names[0], by))
            self.table.choose(names[0])

    def _remove(self) -> None:
        self._show_queue(self.queue.removed(self.table.chosen_shots))

    def _ask_for_plates(self) -> None:
        title = "A frame of the plate, a movie, or a project"
        dialogs.ask_for_file(self, title, self.add_path)

    def _ask_for_jobs(self) -> None:
        dialogs.ask_for_file(self, "A jobs file", self.open_jobs, "Jobs files (*.yaml *.yml *.json)")

    def _ask_where(self) -> None:
        dialogs.ask_where(self, "Save the jobs file", self.save_jobs, "Jobs files (*.yaml)")

    # --- the window system

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept plates and jobs files."""
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Add a shot for every dropped file or folder; for a jobs file, its shots."""
        for path in [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]:
            if path.lower().endswith((".yaml", ".yml")):
                self.open_jobs(path)
            else:
                self.add_path(path)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Close only the window; the queue continues in the background until the application closes."""
        self.hide()
        event.ignore()


def _as_started(shot: QueuedShot) -> QueuedShot:
    return replace(shot, status=QueueStatus.RUNNING, attempts=shot.attempts + 1, message="")


def _settings_of(shot: QueuedShot) -> QueuedShot:
    """A shot's settings, without the values that change with every frame."""
    return replace(shot, done=0, eta_s=None)
