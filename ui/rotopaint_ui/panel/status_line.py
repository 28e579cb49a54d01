"""The status line at the bottom: messages, errors, progress, and whether the work is saved. It opens no dialogs."""

from __future__ import annotations

import re
from collections import deque
from time import strftime

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ui.widgets.focus import Presser
from rotopaint_ui.widgets.tab_widgets import ElidedLabel

N_KEPT = 200
_PANEL_WORDS = (  # phrases of the engine about its command line, with the panel's phrases
    ("the same command with --resume goes on from here", "Run goes on from here"),
    ("--resume: ", "The earlier run is not gone on with: "),
    ("use --device cpu", "choose cpu as Device in Preferences"),
    ("name one with --model", "choose one at the top of the panel"),
    ("add a box: --crop FRAME:X,Y,W,H", "draw a box around the face there"),
    ("or add --force if one is a face", "or choose 'Run, and paint what the model doubts' in Shot"),
    ("or --force where there is a face", "or choose 'Run, and paint what the model doubts' in Shot"),
)
_OPTIONS = {  # remaining options, with the panel's names for them
    "crop": "the crop box",
    "frames": "In and Out",
    "model": "the pack",
    "device": "Device in Preferences",
    "threads": "Threads in Preferences",
    "out": "the output folder",
    "resume": "going on",
    "project": "the project",
    "colourspace": "the plate's colour space",
    "method": "Method in Seam",
    "settings": "the Seam settings",
    "touchup": "the touch-up",
    "patch": "Patch layer",
}
_OPTION = re.compile(r"--(" + "|".join(_OPTIONS) + r")\b")
_SIGNS = {"plain": "\u00b7", "good": "\u2713", "trouble": "\u26a0"}


class StatusLine(QFrame):
    """One line; all earlier messages are in the list that opens above it."""

    diagnostics_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("status_line")
        self._log_lines: deque[tuple[str, str, str]] = deque(maxlen=N_KEPT)
        self._n_unread = 0  # troubles since the list was last opened
        self.text = ElidedLabel()
        self.text.setObjectName("status_text")
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.copy = QToolButton()
        self.copy.setText("Copy diagnostics")
        self.copy.setToolTip("Versions, machine, shot and messages, for those who mend it")
        self.copy.hide()
        self.log = QToolButton()
        self.log.setObjectName("messages_button")
        self.log.setAccessibleName("Messages")
        self._show_unread()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setFixedWidth(180)
        self.progress.hide()
        self.eta, self.saved = QLabel(), QLabel()
        self.messages = Messages(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 3, 10, 3)
        row.setSpacing(10)
        row.addWidget(self.text, 1)
        for widget in (self.copy, self.progress, self.eta, self.log, self.saved):
            row.addWidget(widget)
        for label in (self.eta, self.saved):
            label.setObjectName("note")
        self.copy.clicked.connect(self.diagnostics_wanted)
        self.messages.copy.clicked.connect(self.diagnostics_wanted)
        self.log.clicked.connect(self._show_log)

    @property
    def history(self) -> list[str]:
        """The messages with their times, the latest last."""
        return [f"{time} {_SIGNS[kind]} {text}" for time, kind, text in self._log_lines]

    def say(self, text: str, kind: str = "plain") -> None:
        """Show one line; `kind` is plain, good or trouble."""
        text = in_panel_terms(text)
        line = " ".join(text.split())
        self._log_lines.append((strftime("%H:%M:%S"), kind, line))
        self.text.setText(line)
        self.text.setToolTip(text)
        _set_kind(self.text, kind)
        self.copy.setVisible(kind == "trouble")
        if kind == "trouble":
            self._n_unread += 1
            self._show_unread()

    def show_progress(self, done: int, total: int, note: str) -> None:
        """Show the progress of a job; without numbers, a busy bar."""
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        self.progress.show()
        self.eta.setText(note)

    def hide_progress(self) -> None:
        """Hide the progress when no job is running."""
        self.progress.hide()
        self.eta.setText("")

    def show_saved(self, word: str, where: str) -> None:
        """Show whether the work is saved, and where."""
        self.saved.setText(word)
        self.saved.setToolTip(where)

    def _show_log(self) -> None:
        self.messages.show_above(self.log, self._log_lines)
        self._n_unread = 0
        self._show_unread()

    def _show_unread(self) -> None:
        """The list's button counts the troubles that a later line may have covered."""
        latest = [text for _, kind, text in self._log_lines if kind == "trouble"][-self._n_unread :]
        self.log.setText(f"\u26a0 {self._n_unread}" if self._n_unread else "\u2261")
        self.log.setToolTip("\n".join(latest) if self._n_unread else "All messages")
        _set_kind(self.log, "trouble" if self._n_unread else "plain")


def _set_kind(widget: QWidget, kind: str) -> None:
    """Give a widget the colours of a kind of message."""
    widget.setProperty("kind", kind)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def in_panel_terms(text: str) -> str:
    """A message of the engine with the panel's commands in place of the command line's options."""
    for engine_words, meant in _PANEL_WORDS:
        text = text.replace(engine_words, meant)
    return _OPTION.sub(lambda found: _OPTIONS[found[1]], text)


class Messages(QFrame):
    """The list of messages; it closes at a click elsewhere."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("messages")
        self.list = QListWidget()
        self.list.setWordWrap(True)
        self.list.setAccessibleName("Messages")
        self.copy = QPushButton("Copy diagnostics")
        column = QVBoxLayout(self)
        column.addWidget(self.list, 1)
        column.addWidget(self.copy, 0, Qt.AlignmentFlag.AlignRight)
        Presser(self)
        for widget in (self, self.list, self.copy):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Esc closes the list, whatever in it has the focus."""
        if not isinstance(event, QKeyEvent) or event.key() != Qt.Key.Key_Escape:
            return False
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()  # else it would be the panel's shortcut
            return True
        if event.type() == QEvent.Type.KeyPress:
            self.close()
            return True
        return False

    def show_above(self, anchor: QWidget, lines: deque[tuple[str, str, str]]) -> None:
        """Fill and show it over a button."""
        self.list.clear()
        for time, kind, text in lines:
            item = QListWidgetItem(f"{time}  {_SIGNS[kind]}  {text}", self.list)
            item.setToolTip(text)
        self.list.scrollToBottom()
        self.resize(560, 300)
        corner = anchor.mapToGlobal(QPoint(anchor.width(), -4))
        self.move(corner - QPoint(self.width(), self.height()))
        self.show()
