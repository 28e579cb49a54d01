"""The window to train on a show: its projects, the new pack's name, progress, and the result of the gate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.files import user_cache
from rotopaint_ui.host import Engine
from rotopaint_ui.services.learner import Learner, Lesson
from rotopaint_ui.session.project_file import is_project
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Presser
from rotopaint_ui.widgets.tab_widgets import note_label, number_box

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_WELCOME = "Corrected frames of these projects are learned from. Two shots or more let the gate judge the new pack."


class LearnWindow(QWidget):
    """One training at a time, in the background; closing the window does not end it."""

    pack_made = Signal(str)  # its name

    def __init__(self, engine: Callable[[], Engine], parent: QWidget, place: Path | None = None) -> None:
        """`place`: the folder for packs and training files; None: the user's own."""
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("rotopaint_window")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(dialogs.style())
        self.setWindowTitle("Learn from this show - RotoPaint AI")
        self._engine, self._place = engine, place or user_cache()
        self._start_from = ""
        self.learner = Learner(self)
        self.learner.progressed.connect(self._show_progress)
        self.learner.ended.connect(self._end_lesson)
        self._arrange_lesson()
        Presser(self, closes=True)

    def offer(self, project: Path | None, pack: str) -> None:
        """Show the window with the open project in its list; the new pack starts from `pack`."""
        if project is not None:
            self.add_projects([str(project)])
        self._start_from = pack
        self.show()
        self.raise_()

    @property
    def projects(self) -> list[str]:
        """The projects to train on."""
        return [self.rows.item(k).text() for k in range(self.rows.count())]

    def add_projects(self, paths: Iterable[str]) -> None:
        """Put projects into the list, each once."""
        for path in paths:
            if not is_project(path):
                self.line.setText(f"{Path(path).name}: not a project; wanted .rotopaint")
            elif path not in self.projects:
                self.rows.addItem(path)

    def shut_down(self) -> None:
        """End the current training."""
        self.learner.shut_down()

    def _arrange_lesson(self) -> None:
        self.rows = QListWidget()
        self.rows.setAccessibleName("Projects")
        self.name = QLineEdit()
        self.name.setPlaceholderText("Name of the new pack, such as the character's")
        self.minutes = number_box(0.5, 600.0, " min", "How long the training takes, export included", 1)
        self.minutes.setDecimals(1)
        self.minutes.setValue(5.0)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.line = note_label(_WELCOME)
        self.add, self.remove = QPushButton("Add projects"), QPushButton("Remove")
        self.begin, self.stop = QPushButton("Learn"), QPushButton("Stop")
        self.stop.setEnabled(False)
        self.add.clicked.connect(
            lambda: dialogs.ask_for_file(self, "A project", lambda path: self.add_projects([path]))
        )
        self.remove.clicked.connect(lambda: self.rows.takeItem(self.rows.currentRow()))
        self.begin.clicked.connect(self._begin_lesson)
        self.stop.clicked.connect(self.learner.stop)
        form = QFormLayout()
        form.addRow("&Name", self.name)
        form.addRow("&Minutes", self.minutes)
        column = QVBoxLayout(self)
        column.addWidget(self.rows, 1)
        column.addLayout(_row_of(self.add, self.remove))
        column.addLayout(form)
        column.addWidget(self.line)
        column.addWidget(self.bar)
        column.addLayout(_row_of(self.begin, self.stop))
        self.resize(560, 420)

    def _begin_lesson(self) -> None:
        name = self.name.text().strip()
        lesson = Lesson(
            tuple(Path(path) for path in self.projects),
            name,
            self._place / "models",
            self._place / "lessons" / name,
            self._start_from,
            self.minutes.value(),
        )
        trouble = self._why_no_lesson(lesson)
        if trouble:
            self.line.setText(trouble)
            return
        try:
            self.learner.start(self._engine(), lesson)
        except RotopaintError as error:
            self.line.setText(str(error))
            return
        self._show_running(True)

    def _why_no_lesson(self, lesson: Lesson) -> str:
        if not lesson.projects:
            return "No project to learn from: add some whose frames were corrected"
        if not _NAME.fullmatch(lesson.name):
            return f"The name is '{lesson.name}'; wanted letters, digits, - and _: it becomes a folder's"
        if lesson.pack.exists():
            return f"There is a pack '{lesson.name}' already; choose another name"
        return ""

    def _show_running(self, on: bool) -> None:
        for widget in (self.rows, self.name, self.minutes, self.add, self.remove, self.begin):
            widget.setEnabled(not on)
        self.stop.setEnabled(on)

    def _show_progress(self, doing: str, share: float) -> None:
        self.line.setText(doing)
        self.bar.setValue(round(1000 * share))

    def _end_lesson(self, is_made: bool, text: str) -> None:
        self._show_running(False)
        self.bar.setValue(1000 if is_made else 0)
        self.line.setText(text)
        if is_made:
            self.pack_made.emit(self.name.text().strip())


def _row_of(*buttons: QPushButton) -> QHBoxLayout:
    row = QHBoxLayout()
    row.addStretch(1)
    for button in buttons:
        row.addWidget(button)
    return row
