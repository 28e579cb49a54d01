"""The editor of shortcuts: a preset, the user's own keys in its place, and clashes between commands."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeySequence
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QKeySequenceEdit,
    QLabel,
    QLineEdit,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ui.settings.commands import COMMANDS, GROUPS, Preset, command, conflicts, keys_of_preset
from rotopaint_ui.settings.preferences import Preferences
from rotopaint_ui.widgets.tab_widgets import note_label

_NAME = Qt.ItemDataRole.UserRole
_CLASH = QColor("#ffb46b")


class ShortcutsEditor(QWidget):
    """Shows and changes the shortcuts of preferences; `changed` gives the new preferences."""

    changed = Signal(object)

    def __init__(self, preferences: Preferences) -> None:
        super().__init__()
        self._preferences = preferences
        self._rows: dict[str, QTreeWidgetItem] = {}
        self._make_editor()
        self._arrange_editor()
        self._fill_commands()
        self.refresh(preferences)

    def refresh(self, preferences: Preferences) -> None:
        """Show the shortcuts."""
        self._preferences = preferences
        keys = keys_of_preset(preferences.preset, preferences.shortcuts)
        clashes = conflicts(keys)
        self.preset.setCurrentText(preferences.preset.value)
        for name, row in self._rows.items():
            row.setText(1, ", ".join(_native(each) for each in keys[name]))
            others = sorted({o for key in keys[name] for o in clashes.get(key, ()) if o != name})
            row.setText(2, f"also: {', '.join(command(other).label for other in others)}" if others else "")
            row.setForeground(1, QBrush(_CLASH) if others else QBrush())
            font = row.font(1)
            font.setBold(name in preferences.shortcuts)
            row.setFont(1, font)
        n = len(clashes)
        which = "1 key means" if n == 1 else f"{n} keys mean"
        text = "No keys clash" if not n else f"{which} more than one command: neither works"
        self.clashes.setText(text)
        self._show_keys()

    @property
    def chosen_command(self) -> str | None:
        """The command that is selected."""
        row = self.tree.currentItem()
        return None if row is None else row.data(0, _NAME)

    def choose(self, name: str) -> None:
        """Select a command."""
        self.tree.setCurrentItem(self._rows[name])

    def set_keys(self) -> None:
        """Give the selected command only the keys in the box."""
        self._put_keys((self._typed(),) if self._typed() else ())

    def add_keys(self) -> None:
        """Give the selected command the keys in the box, too."""
        if self.chosen_command is not None and self._typed():
            keys = keys_of_preset(self._preferences.preset, self._preferences.shortcuts)[self.chosen_command]
            self._put_keys(tuple(dict.fromkeys((*keys, self._typed()))))

    def reset_keys(self) -> None:
        """Give the selected command the preset's keys again."""
        self._put_keys(None)

    def _put_keys(self, keys: tuple[str, ...] | None) -> None:
        if self.chosen_command is not None:
            self.changed.emit(self._preferences.with_shortcut(self.chosen_command, keys))

    def _typed(self) -> str:
        return self.box.keySequence().toString(QKeySequence.SequenceFormat.PortableText)

    def _make_editor(self) -> None:
        self.preset = QComboBox()
        self.preset.addItems([each.value for each in Preset])
        self.preset.setAccessibleName("Preset")
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Find a command or a key")
        self.filter.setAccessibleName("Find a command or a key")
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels(["Command", "Keys", "Clashes"])
        self.tree.setAccessibleName("Commands and their keys")
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setStretchLastSection(False)
        for column in (1, 2):
            self.tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.box = QKeySequenceEdit()
        self.box.setMaximumSequenceLength(1)
        self.box.setAccessibleName("New keys")
        self.set, self.add, self.reset = (QPushButton(text) for text in ("Set", "Add", "Preset's"))
        self.all = QPushButton("All as in the preset")
        self.clashes = note_label()
        self.tree.currentItemChanged.connect(lambda now, before: self._show_keys())
        self.filter.textChanged.connect(self._filter)
        self.preset.activated.connect(lambda index: self._use(Preset(self.preset.currentText())))
        self.all.clicked.connect(lambda: self.changed.emit(replace(self._preferences, shortcuts={})))
        for button, act in ((self.set, self.set_keys), (self.add, self.add_keys), (self.reset, self.reset_keys)):
            button.clicked.connect(act)

    def _arrange_editor(self) -> None:
        top, bottom = QHBoxLayout(), QHBoxLayout()
        upper: tuple[QWidget, ...] = (QLabel("Preset"), self.preset, self.filter)
        lower: tuple[QWidget, ...] = (QLabel("Keys"), self.box, self.set, self.add, self.reset, self.all)
        for widget in upper:
            top.addWidget(widget)
        top.setStretch(2, 1)
        for widget in lower:
            bottom.addWidget(widget)
        bottom.setStretch(1, 1)
        column = QVBoxLayout(self)
        column.addLayout(top)
        column.addWidget(self.tree, 1)
        column.addWidget(self.clashes)
        column.addLayout(bottom)

    def _fill_commands(self) -> None:
        for group in GROUPS:
            parent = QTreeWidgetItem(self.tree, [group])
            parent.setFlags(Qt.ItemFlag.ItemIsEnabled)
            for each in COMMANDS:
                if each.group == group:
                    row = QTreeWidgetItem(parent, [each.label])
                    row.setData(0, _NAME, each.name)
                    self._rows[each.name] = row
        self.tree.expandAll()

    def _filter(self, text: str) -> None:
        wanted = text.casefold()
        for row in self._rows.values():
            row.setHidden(wanted not in f"{row.text(0)} {row.text(1)}".casefold())
        for index in range(self.tree.topLevelItemCount()):
            group = self.tree.topLevelItem(index)
            rows = [row for row in self._rows.values() if row.parent() is group]
            if group is not None:
                group.setHidden(all(row.isHidden() for row in rows))

    def _use(self, preset: Preset) -> None:
        self.changed.emit(replace(self._preferences, preset=preset))

    def _show_keys(self) -> None:
        has = self.chosen_command is not None
        for widget in (self.box, self.set, self.add, self.reset):
            widget.setEnabled(has)


def _native(key: str) -> str:
    return QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
