"""The user's preferences: one frozen value, one table from which the window is drawn, one file. No Qt.

The file lies in the user's configuration folder; `$ROTOPAINT_PREFERENCES` names another one. A file that cannot be read
is renamed, never overwritten, and the defaults are used.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.jobs import MOST_THREADS, Device
from rotopaint_ui.settings.commands import COMMANDS, KeySequences, Preset

VARIABLE = "ROTOPAINT_PREFERENCES"
MOST_RECENT = 12
FORMAT = "rotopaint-preferences"

_LISTS = ("recent", "learnt")
STUDIO = "studio: "  # how names of views begin that are of $OCIO


@dataclass(frozen=True, slots=True)
class Preferences:
    """Settings, shortcuts, recent shots and the folders of packs learnt from shots, the latest first."""

    cache_mb: int = 512
    threads: int = 0
    device: str = "auto"
    view: str = "Un-tone-mapped"
    autosave_s: float = 1.2
    line_px: float = 1.5
    point_px: float = 7.0
    preset: Preset = Preset.NUKE
    shortcuts: Mapping[str, KeySequences] = field(default_factory=dict)
    recent: tuple[str, ...] = ()
    learnt: tuple[str, ...] = ()

    def with_recent(self, path: str) -> Preferences:
        """The preferences with a shot at the head of the recent ones."""
        return replace(self, recent=_at_head(self.recent, path))

    def with_learnt(self, folder: str) -> Preferences:
        """The preferences with a pack at the head of the learnt ones."""
        return replace(self, learnt=_at_head(self.learnt, folder))

    def with_shortcut(self, name: str, keys: KeySequences | None) -> Preferences:
        """The preferences with the user's own keys for a command; None: the preset's."""
        own = {each: value for each, value in self.shortcuts.items() if each != name}
        return replace(self, shortcuts=own if keys is None else {**own, name: keys})


def _at_head(paths: tuple[str, ...], path: str) -> tuple[str, ...]:
    return (path, *(each for each in paths if each != path))[:MOST_RECENT]


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the window: a field of `Preferences`, and what may be entered. A number has `low` and `high`."""

    name: str
    label: str
    about: str
    low: float = 0.0
    high: float = 0.0
    step: float = 1.0
    unit: str = ""
    choices: tuple[str, ...] = ()


SETTINGS = (
    Setting("cache_mb", "Picture cache", "Memory for decoded frames; playback never takes more", 64, 65536, 64, " MB"),
    Setting("threads", "Threads", "Of a run; 0 uses every core", 0, MOST_THREADS),
    Setting("device", "Device", "Where the models run; the device line says what was used", choices=get_args(Device)),
    Setting("view", "Display view", "View that a new window starts with; the plate is never touched"),
    Setting("line_px", "Line width", "Of shapes in the viewer, in pixels of the screen", 1.0, 5.0, 0.5, " px"),
    Setting("point_px", "Point size", "Of the selected shape's points, in pixels of the screen", 4.0, 16.0, 1.0, " px"),
    Setting("autosave_s", "Autosave", "Seconds of rest before shapes.roto.json is written", 0.2, 60.0, 0.2, " s"),
)


_NUMBERS = tuple(each.name for each in SETTINGS if each.high)


def default_path() -> Path:
    """The path of the preferences file on this system.

    Does not use platformdirs, because hosts' Pythons have only Qt and the standard library.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return base / "rotopaint" / "preferences.json"


def read_preferences(path: Path) -> tuple[Preferences, str | None]:
    """The preferences, and a message where the file cannot be read; it is then renamed and the defaults are used."""
    try:
        return _checked_preferences(json.loads(path.read_text(encoding="utf-8"))), None
    except FileNotFoundError:
        return Preferences(), None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, UsageError) as error:
        return Preferences(), _set_aside_damaged(path, error)


def write_preferences(path: Path, preferences: Preferences) -> None:
    """Write the preferences atomically. Raises: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = {name: list(keys) for name, keys in preferences.shortcuts.items()}
    plain = {each.name: getattr(preferences, each.name) for each in fields(preferences)}
    lists = {name: list(getattr(preferences, name)) for name in _LISTS}
    write_json(path, {"format": FORMAT, "version": 1, **plain, "shortcuts": own, **lists})


def _set_aside_damaged(path: Path, error: Exception) -> str:
    beside = path.with_suffix(".damaged.json")
    try:
        path.replace(beside)
    except OSError:
        return f"{path}: preferences cannot be read ({error}); the defaults are used, mend or delete the file"
    return f"{path.name}: preferences cannot be read ({error}); the defaults are used, the old file is {beside}"


def _checked_preferences(value: Any) -> Preferences:
    """Check a decoded file: a newer version's unknown fields are ignored, wrong values are refused."""
    if value["format"] != FORMAT:
        raise UsageError(f"format is {value['format']!r}")
    known = {each.name for each in COMMANDS}
    found = {name: _number_setting(name, value[name]) for name in _NUMBERS if name in value}
    if value.get("device", "auto") not in get_args(Device):
        raise UsageError(f"device {value['device']!r} is not one of {', '.join(get_args(Device))}")
    own = {name: tuple(map(str, keys)) for name, keys in value.get("shortcuts", {}).items() if name in known}
    return Preferences(
        **found,
        device=value.get("device", "auto"),
        view=str(value.get("view", Preferences().view)),
        preset=Preset(value.get("preset", Preset.NUKE)),
        shortcuts=own,
        recent=_paths(value, "recent"),
        learnt=_paths(value, "learnt"),
    )


def _paths(value: Any, name: str) -> tuple[str, ...]:
    return tuple(str(path) for path in value.get(name, ()))


def _number_setting(name: str, value: Any) -> Any:
    setting = next(each for each in SETTINGS if each.name == name)
    kind = type(getattr(Preferences(), name))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not setting.low <= value <= setting.high:
        raise UsageError(f"{name} is {value!r}, wanted {setting.low:g} to {setting.high:g}")
    return kind(value)
