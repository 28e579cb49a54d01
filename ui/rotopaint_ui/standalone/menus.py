"""The menu bar of the standalone app: every command in its group, recent shots, preferences, batch and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMainWindow, QMenu

from rotopaint_ui.settings.commands import COMMANDS, GROUPS
from rotopaint_ui.standalone.recent_paths import shown_path

_FIRST = ("open", "open_project")
_WITHIN = {"edit.nudge_": "Nudge", "channel.": "Channel"}  # else their menus are higher than a small screen


class Menus:
    """Menus of a panel's own actions, so that a key means the same everywhere.

    `commands`: these actions by name. `recent`: the recent paths. The other arguments are called by their menu entries.
    """

    def __init__(
        self,
        window: QMainWindow,
        commands: Mapping[str, QAction],
        *,
        recent: Callable[[], Sequence[str]],
        open_path: Callable[[str], None],
        preferences: Callable[[], None],
        batch: Callable[[], None],
        add_to_batch: Callable[[], None],
        sample: Callable[[], None],
        guide: Callable[[], None],
        about: Callable[[], None],
    ) -> None:
        self._recent, self._open_path = recent, open_path
        bar = window.menuBar()
        menus = {group: bar.addMenu(f"&{group}") for group in GROUPS}
        self.recent = QMenu("Open recent", window)  # a menu without a parent is in no style
        self.recent.setToolTipsVisible(True)
        self.within: dict[str, QMenu] = {}  # menus within menus, by how the names of their commands begin
        for each in COMMANDS:
            self._home_of(each.name, menus[each.group]).addAction(commands[each.name])
        file = menus["File"]
        after = commands[_FIRST[-1]]
        following = file.actions()[file.actions().index(after) + 1]
        file.insertMenu(following, self.recent)
        file.insertAction(following, self._menu_entry(window, "Open the sample shot", sample))
        file.addSeparator()
        file.addAction(self._menu_entry(window, "Preferences", preferences, "Ctrl+,"))
        file.addAction(self._menu_entry(window, "Quit", window.close, "Ctrl+Q"))
        jobs = bar.addMenu("&Batch")
        jobs.addAction(self._menu_entry(window, "Batch window", batch, "Ctrl+B"))
        jobs.addAction(self._menu_entry(window, "Add this shot to the batch", add_to_batch))
        help_menu = bar.addMenu("&Help")
        help_menu.addAction(self._menu_entry(window, "Guide", guide, "F1"))
        help_menu.addAction(self._menu_entry(window, "About RotoPaint AI", about))
        self.menus = menus
        self.recent.aboutToShow.connect(self.fill_recent)

    def _home_of(self, name: str, menu: QMenu) -> QMenu:
        """The menu of a command: its group's, or a submenu, placed where its first command would stand."""
        begin = next((each for each in _WITHIN if name.startswith(each)), None)
        if begin is None:
            return menu
        if begin not in self.within:
            self.within[begin] = menu.addMenu(_WITHIN[begin])
        return self.within[begin]

    def fill_recent(self) -> None:
        """Fill the submenu of recent shots."""
        self.recent.clear()
        paths = self._recent()
        for path in paths:
            action = self.recent.addAction(shown_path(path).replace("&", "&&"))
            action.setToolTip(path)
            action.triggered.connect(partial(self._open_path, path))
        if not paths:
            self.recent.addAction("Nothing was open yet").setEnabled(False)

    def _menu_entry(self, window: QMainWindow, text: str, do: Callable[[], object], keys: str = "") -> QAction:
        action = QAction(text, window)
        action.triggered.connect(lambda checked=False: do())
        if keys:
            action.setShortcut(keys)
        return action
