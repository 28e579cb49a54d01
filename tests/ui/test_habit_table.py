"""The table of habits in docs/habits.md: its keys are those of the table of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rotopaint_ui.settings.commands import Preset, command

TABLE = Path(__file__).parents[2] / "docs" / "habits.md"
COMMANDS = {  # the commands behind a habit; one without a row here has no key of its own
    "points of several shapes at once": ("tool.select",),
    "lasso": ("tool.lasso",),
    "select and move points": ("tool.select",),
    "reshape with falloff": ("tool.reshape",),
    "transform a shape": ("tool.transform",),
    "draw a Bézier": ("tool.draw",),
    "add a point": ("tool.points",),
    "thickness and feather at each point, by handles": ("tool.width",),
    "smooth, cusp": ("edit.smooth", "edit.cusp"),
    "no feather": ("edit.feather_none",),
    "select all points": ("edit.select_all",),
    "nudge a pixel": ("edit.nudge_left", "edit.nudge_right", "edit.nudge_up", "edit.nudge_down"),
    "edit several keys at once": ("edit.ripple",),
    "group shapes under one transform with keys": ("edit.group", "tool.transform"),
    "several faces, each with its own model": ("next_face",),
    "planar tracker": ("track",),
    "red, green, blue, alpha": ("channel.R", "channel.G", "channel.B", "channel.A"),
    "luma": ("channel.luma",),
    "matte over the picture": ("overlay.mattes",),
    "wipe": ("wipe",),
    "hide what is drawn over the plate": ("overlays",),
    "fit the plate": ("canvas.fit", "canvas.fit_face"),
    "next and previous frame": ("next", "previous"),
    "next and previous key": ("next_key", "previous_key"),
    "play": ("play",),
    "one pane on the full screen": ("full_screen",),
    "clone brush": ("tool.clone",),
    "paint what was there back": ("tool.clone",),
    "what changed since the last render": ("difference_last",),
}
NO_KEY = {
    "draw a B-spline or an X-spline",
    "end an open spline",  # the drawing tool's own Return
    "close a shape",
    "take away the selected points",  # Del, as everywhere
    "move a key in time",
    "curves of values over time",
    "keys of that transform in the dope sheet",
    "proxy",
    "rate while playing",
}
SILHOUETTE = {"select and move points": "tool.select", "transform a shape": "tool.transform"}


def rows() -> Iterator[tuple[str, str, str]]:
    """Each habit, its key here, and Silhouette's column."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")][2:]
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        yield cells[0], cells[1], cells[3]


def keys_in(cell: str) -> list[str]:
    """The keys that a cell names, with a common modifier repeated: `Ctrl+Alt+R, G` gives both with it."""
    found: list[str] = []
    for word in re.findall(r"(?:(?:Ctrl|Shift|Alt)\+)*(?:F\d+|PgDown|[A-Z]\b|Left|Right|Space|arrows)", cell):
        modifiers = found[-1].rpartition("+")[0] if found and "+" not in word and "Ctrl+Alt" in found[-1] else ""
        found.append(f"{modifiers}+{word}" if modifiers else word)
    arrows = [f"{each.removesuffix('arrows')}{way}" for each in found if each.endswith("arrows") for way in _WAYS]
    return [each for each in found if not each.endswith("arrows")] + arrows


_WAYS = ("Left", "Right", "Up", "Down")


def test_every_habit_is_looked_up() -> None:
    habits = [habit for habit, _, _ in rows()]
    assert sorted(habits) == sorted({*COMMANDS, *NO_KEY})


@pytest.mark.parametrize("habit", COMMANDS)
def test_the_keys_of_a_habit_are_the_commands_own(habit: str) -> None:
    here = next(cell for name, cell, _ in rows() if name == habit)
    wanted = {command(name).keys[0] for name in COMMANDS[habit]}
    assert set(keys_in(here)) == wanted


@pytest.mark.parametrize("habit", SILHOUETTE)
def test_what_is_said_of_the_preset_silhouette_is_so(habit: str) -> None:
    cell = next(theirs for name, _, theirs in rows() if name == habit)
    key = re.search(r"([A-Z][A-Za-z+]*) in the preset", cell)
    assert key is not None
    assert command(SILHOUETTE[habit]).keys_in(Preset.SILHOUETTE)[0] == key[1]
