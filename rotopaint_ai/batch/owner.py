"""Whose a show's folder is: two jobs files that write into one would take each other's shots and page."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rotopaint_ai.batch.jobs_file import Show
from rotopaint_ai.errors import UsageError

NOTE = ".rotopaint/show.json"


def own(show: Show) -> None:
    """Take the show's folder for its jobs file. Raises UsageError where it is another one's; OSError."""
    if show.out.is_file():
        raise UsageError(f"{show.path.name}: out {show.out}: is a file; wanted a folder for the shots")
    path, mine = show.out / NOTE, _jobs_file_place(show)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as stream:
            json.dump({"jobs": mine}, stream)
        return
    except FileExistsError:
        owner = _owner(path)
    if owner not in (None, mine):
        raise UsageError(
            f"{show.path.name}: {show.out} holds the show of {owner}; choose another 'out', or delete {path} to hand "
            "the folder over"
        )


def _jobs_file_place(show: Show) -> str:
    """Where the jobs file is, seen from the folder, so that it is the same on every machine."""
    try:
        return Path(os.path.relpath(show.path.resolve(), show.out.resolve())).as_posix()
    except ValueError:  # on another drive
        return show.path.name


def _owner(path: Path) -> str | None:
    """What the note says; None where it is just being written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None
    return content.get("jobs") if isinstance(content, dict) else None
