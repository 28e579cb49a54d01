"""The tree of shapes: groups that shapes are dragged into and out of; below them Seams, Mattes and Hold-outs."""

from __future__ import annotations

from collections.abc import Container, Mapping

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QTreeWidget, QTreeWidgetItem

from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.widgets.icons import icon

OWN_NAME = int(Qt.ItemDataRole.UserRole)  # role of an item with the shape's own name
OWN_LAYER = OWN_NAME + 1  # role of a group's row
KINDS: Mapping[str, str] = {"seam": "Seams", "matte": "Mattes", "hold-out": "Hold-outs"}
_ABOUT = "A group: its shapes move by one transform (T). Shapes are dragged into it and out of it; F2 renames it"


class ShapeTree(QTreeWidget):
    """A tree whose rows can be dragged; a drop is only reported, the tree itself does not change."""

    fell = Signal(tuple, object)  # names of shapes, and the group they fell into or None
    switched = Signal(QTreeWidgetItem, int)  # a click on one of the columns `switches`, which selects nothing

    def __init__(self, switches: Container[int] = ()) -> None:
        super().__init__()
        self._switches = switches
        self._is_switching = False  # the button that was pressed on a switch is still down
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)  # shapes of other faces begin with the face's name
        self.setDragEnabled(True)
        self.setAcceptDrops(True)
        self.setDropIndicatorShown(True)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self._groups: dict[str, QTreeWidgetItem] = {}

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """On an eye or a lock, switch it and keep the selection; elsewhere, select."""
        row = self.itemAt(event.position().toPoint())
        column = self.columnAt(round(event.position().x()))
        is_switch = event.button() == Qt.MouseButton.LeftButton and row is not None and column in self._switches
        self._is_switching = is_switch
        if is_switch and row is not None:
            self.switched.emit(row, column)
        else:
            super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """On an eye or a lock, count as another click."""
        if self.columnAt(round(event.position().x())) in self._switches:
            self.mousePressEvent(event)
        else:
            super().mouseDoubleClickEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Do not select while an eye or a lock is pressed."""
        if not self._is_switching:
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the press."""
        if self._is_switching:
            self._is_switching = False
        else:
            super().mouseReleaseEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        """Report shapes that were dropped on a row, with its group, or the group of its shape."""
        names = tuple(name for row in self.selectedItems() if (name := row.data(0, OWN_NAME)) is not None)
        row: QTreeWidgetItem | None = self.itemAt(event.position().toPoint())
        layer: str | None = None
        while row is not None and layer is None:
            layer = row.data(0, OWN_LAYER)
            row = row.parent()
        event.setDropAction(Qt.DropAction.IgnoreAction)
        event.accept()
        if names:
            QTimer.singleShot(0, self, lambda: self.fell.emit(names, layer))  # the signal rebuilds the rows

    def begin_rows(self) -> None:
        """Start a new list of shapes."""
        self.clear()
        self._groups.clear()

    def home_of(self, shape: RotoShape) -> QTreeWidgetItem:
        """The row under which a shape stands: its layer, or the list of its kind."""
        if shape.layer is not None:
            return self._row_of_layer(shape.layer)
        kind = list_of(shape)
        if kind not in self._groups:
            row = QTreeWidgetItem(self, [KINDS[kind]])
            row.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsDropEnabled)
            row.setFirstColumnSpanned(False)
            self._groups[kind] = row
        return self._groups[kind]

    def layer_row(self, name: str) -> QTreeWidgetItem:
        """The row of a group. Raises KeyError."""
        return self._groups[f"layer {name}"]

    def _row_of_layer(self, layer: Layer) -> QTreeWidgetItem:
        key = f"layer {layer.name}"
        if key not in self._groups:
            home = self if layer.parent is None else self._row_of_layer(layer.parent)
            row = QTreeWidgetItem(home, [layer.name])
            row.setData(0, OWN_LAYER, layer.name)
            flags = row.flags() & ~Qt.ItemFlag.ItemIsDragEnabled
            row.setFlags(flags | Qt.ItemFlag.ItemIsEditable | Qt.ItemFlag.ItemIsDropEnabled)
            row.setIcon(0, icon("group"))
            row.setToolTip(0, _ABOUT)
            self._groups[key] = row
        return self._groups[key]


def list_of(shape: RotoShape) -> str:
    """The one of `KINDS` under which a shape without a group is listed."""
    return "hold-out" if shape.subtract else shape.role
