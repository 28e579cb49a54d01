"""The table of the batch window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QProgressBar,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from rotopaint_ui.batch.queue import Queue, QueuedShot, QueueStatus

_HEADS = ("Shot", "Status", "Progress", "Frames", "To go", "Worst error", "Message")
_SIGNS = {
    QueueStatus.WAITING: "\u2026",
    QueueStatus.RUNNING: "\u25b6",
    QueueStatus.DONE: "\u2713",
    QueueStatus.FRAMES_FAILED: "\u26a0",
    QueueStatus.FAILED: "\u2717",
    QueueStatus.STOPPED: "\u25a0",
}
_INK = {QueueStatus.FRAMES_FAILED: "#ffb46b", QueueStatus.FAILED: "#ff9d7a", QueueStatus.DONE: "#8fb8ee"}


class QueueTable(QTreeWidget):
    """A row per shot; several can be selected."""

    def __init__(self) -> None:
        super().__init__()
        self.setHeaderLabels(list(_HEADS))
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setAccessibleName("Shots")
        header = self.header()
        header.setStretchLastSection(True)
        for column in (0, 1, 3, 4, 5):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self._bars: dict[str, QProgressBar] = {}

    @property
    def chosen_shots(self) -> tuple[str, ...]:
        """Names of the selected shots."""
        return tuple(item.text(0) for item in self.selectedItems())

    def choose(self, name: str) -> None:
        """Select one shot."""
        for row in range(self.topLevelItemCount()):
            item = self.topLevelItem(row)
            if item is not None:
                item.setSelected(item.text(0) == name)

    def show_queue(self, queue: Queue) -> None:
        """Show a queue; rows are rebuilt only where shots were added, removed or moved."""
        names = [shot.name for shot in queue.shots]
        rows = [self.topLevelItem(row) for row in range(self.topLevelItemCount())]
        if names != [row.text(0) for row in rows if row is not None]:
            self._fill_table_rows(names)
        for row, shot in enumerate(queue.shots):
            item = self.topLevelItem(row)
            if item is not None:
                self._show_shot(item, shot)

    def _fill_table_rows(self, names: list[str]) -> None:
        self.clear()
        self._bars = {}
        for name in names:
            item = QTreeWidgetItem(self, [name])
            bar = QProgressBar()
            bar.setTextVisible(False)
            self._bars[name] = bar
            holder = QWidget()
            row = QHBoxLayout(holder)
            row.setContentsMargins(4, 0, 4, 0)
            row.addWidget(bar)
            self.setItemWidget(item, 2, holder)

    def _show_shot(self, item: QTreeWidgetItem, shot: QueuedShot) -> None:
        bar = self._bars[shot.name]
        bar.setRange(0, max(shot.total, 1))
        bar.setValue(shot.total if shot.status is QueueStatus.DONE else shot.done)
        bar.setAccessibleName(f"{shot.done} of {shot.total} frames")
        texts = (
            f"{_SIGNS[shot.status]} {shot.status.value}",
            "",
            f"{shot.done} of {shot.total}" if shot.total else "",
            "" if shot.eta_s is None else f"{shot.eta_s:.0f} s",
            "" if shot.worst_px is None else f"{shot.worst_px:.1f} px",
            shot.message,
        )
        for column, text in enumerate(texts, start=1):
            item.setText(column, text)
        about = f"{shot.plates}\n{shot.out}\ncrop {', '.join(shot.crops)}"
        item.setToolTip(0, f"{about}\nA double click, or Return, opens it")
        item.setToolTip(6, shot.message)
        item.setForeground(1, QBrush(QColor(_INK.get(shot.status, "#ccd2dc"))))
        item.setTextAlignment(5, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
