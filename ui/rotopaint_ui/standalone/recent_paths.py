"""Paths of recent shots for menus: whole if short, else with the middle left out. No Qt."""

from __future__ import annotations

from pathlib import Path, PurePath

MOST_LETTERS = 64
_LEFT_OUT = "\u2026"


def shown_path(path: str, home: Path | None = None, most: int = MOST_LETTERS) -> str:
    """A path with `~` for the home folder; beyond `most` letters, folders after the first are left out.

    The file and its folder are always kept, so that the text can be longer than `most`.
    """
    if "://" in path:  # on a server
        return path
    place = PurePath(path)
    home = Path.home() if home is None else home
    if place.is_relative_to(home) and place != home:
        place = PurePath("~", place.relative_to(home))
    parts = place.parts
    head = parts[: 2 if place.anchor else 1]
    for begin in range(len(head), max(len(parts) - 2, len(head)) + 1):
        middle = (_LEFT_OUT,) if begin > len(head) else ()
        text = str(PurePath(*head, *middle, *parts[begin:]))
        if len(text) <= most:
            break
    return text
