"""The preferences in force, and their file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from rotopaint_ui.settings import preferences
from rotopaint_ui.settings.preferences import Preferences


class PreferenceStore(QObject):
    """Holds the preferences; `changed` is sent after a change, `failed` with the reason why they were not saved."""

    changed = Signal()
    failed = Signal(str)

    def __init__(self, path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._path = path
        self.value, self.trouble = preferences.read_preferences(path)

    def set(self, value: Preferences) -> None:
        """Change the preferences, and save them."""
        self.value = value
        try:
            preferences.write_preferences(self._path, value)
        except OSError as error:
            self.failed.emit(f"Preferences not kept: {error}")
        self.changed.emit()
