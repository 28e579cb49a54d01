"""The context menu: commands for the selection, from the table of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from rotopaint_ui.settings.commands import COMMANDS
from rotopaint_ui.tools.toolbox import EditContext

_POINTS = ("smooth", "cusp", "join", "mirror", "delete", "select_all")
_SHAPES = ("hold_out", "begin_here", "end_here", "hide_here", "always_seen", "duplicate_shape", "delete_shape")
_KEYS = (
    "set_key",
    "delete_key",
    "hold",
    "linear",
    "ease",
    "run_smoothly",
    "copy_key",
    "paste_key",
    "paste_key_relative",
)
_REACH = ("ripple", "overwrite")


def make_menu(
    parent: QWidget, context: EditContext, carry_out: Callable[[str], object], actions: Mapping[str, QAction]
) -> QMenu:
    """A menu for the selection, with the keys of `actions`; `carry_out` gets the name of the chosen edit."""
    menu = QMenu(parent)
    labels = {row.name: row.label for row in COMMANDS}
    groups = [_KEYS, _REACH] if context.shape is None else [_POINTS, _SHAPES, _KEYS, _REACH]
    for group in groups:
        menu.addSeparator()
        for name in group:
            command = f"edit.{name}"
            action = menu.addAction(labels[command])
            if command in actions:
                action.setText(f"{labels[command]}\t{_key_of(actions[command])}".strip())
            action.setObjectName(command)
            action.triggered.connect(lambda checked=False, name=name: carry_out(name))
            if name in _REACH:
                mode = "relative" if name == "ripple" else "absolute"
                action.setCheckable(True)
                action.setChecked(context.mode == mode)
    return menu


def _key_of(action: QAction) -> str:
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
