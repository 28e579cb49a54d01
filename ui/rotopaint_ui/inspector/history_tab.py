"""The History tab: every step of the shot, the latest last; a click goes back or forward to it."""

from __future__ import annotations

from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.widgets.tab_widgets import note_label

_FIRST = "As it was opened"
_ABOUT = "Every step, of earlier sessions too. Click one to go there; nothing is lost until you do something else."
_AHEAD = QColor("#747b88")


class HistoryTab(QWidget):
    """The steps that can be undone, the current one, and those that can be redone."""

    def __init__(self, session: ShotSession) -> None:
        super().__init__()
        self._session = session
        self._shown: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self.list = QListWidget()
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName("Steps")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 0, 0)
        column.addWidget(note_label(_ABOUT))
        column.addWidget(self.list, 1)
        self.list.itemClicked.connect(self._go_to_item)
        self.list.itemActivated.connect(self._go_to_item)

    def refresh(self) -> None:
        """Show the session."""
        edits = self._session.edits
        known = edits.labels, edits.labels_ahead
        if known == self._shown:
            return
        self._shown = known
        behind, ahead = known
        self.list.clear()
        for number, label in enumerate((_FIRST, *behind, *ahead)):
            text = label[:1].upper() + label[1:]
            item = QListWidgetItem(text if number == 0 else f"{number}  {text}", self.list)
            if number > len(behind):
                item.setForeground(QBrush(_AHEAD))
        self.list.setCurrentRow(len(behind))

    def _go_to_item(self, item: QListWidgetItem) -> None:
        edits, n = self._session.edits, self.list.row(item)
        if n == len(edits.labels):
            return
        if self._session.must_wait():
            self._shown = None
            self.refresh()
            return
        edits.go_to_step(n)
        self._session.say(f"History: {'as it was opened' if n == 0 else edits.last_step}")
        self._shown = None  # where a drag goes on nothing was done: the row of what is shown is marked again
        self.refresh()
