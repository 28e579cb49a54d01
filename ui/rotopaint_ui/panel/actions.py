"""Commands as Qt actions: made once from the table, their keys changed when preferences change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

from rotopaint_ui.settings.commands import COMMANDS, Command, KeySequences
from rotopaint_ui.widgets.icons import icon


def make_actions(parent: QWidget, keys: Mapping[str, KeySequences]) -> dict[str, QAction]:
    """An action for every command; its keys work only while the focus is inside `parent`."""
    made = {command.name: _action(parent, command) for command in COMMANDS}
    set_action_keys(made, keys)
    return made


def connect_actions(actions: Mapping[str, QAction], handlers: Mapping[str, Callable[[], object]]) -> None:
    """Connect every action to the function of its name."""
    for name, action in actions.items():
        action.triggered.connect(lambda checked=False, handler=handlers[name]: handler())


def set_action_keys(actions: Mapping[str, QAction], keys: Mapping[str, KeySequences]) -> None:
    """Give the actions these keys, and name them in their tooltips."""
    for name, made in actions.items():
        made.setShortcuts([QKeySequence(each) for each in keys[name]])
        made.setToolTip(tip_of(made.text(), keys[name]))


def tip_of(label: str, keys: KeySequences) -> str:
    """What a command does, with the keys that do it."""
    native = [QKeySequence(each).toString(QKeySequence.SequenceFormat.NativeText) for each in keys]
    return f"{label} ({', '.join(native)})" if native else label


def _action(parent: QWidget, command: Command) -> QAction:
    made = QAction(icon(command.picture), command.label, parent) if command.picture else QAction(command.label, parent)
    made.setObjectName(command.name)
    made.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.setShortcutVisibleInContextMenu(True)  # Qt hides them there on Linux
    made.setCheckable(command.checkable)
    made.setAutoRepeat(not command.checkable)  # held, it is one press
    parent.addAction(made)
    return made
