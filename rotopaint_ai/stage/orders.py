"""The options that a folder's pictures were made with, so that nobody goes on there with others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json

ORDER = "order.json"  # written first


def keep_order(
    folder: Path, wanted: Mapping[str, float], pictures: str, earlier: Mapping[str, float], others: str = ""
) -> None:
    """Write down the options that all pictures of a folder share, before the first one is made.

    pictures: a pattern of files that are there once pictures are. earlier: options that a folder of an earlier version
    does not name. others: another file that may name options; a folder with neither file may have been made with any.
    Raises UsageError where pictures in the folder were made with other options.
    """
    kept = _read_order(folder / ORDER) or (_read_order(folder / others) if others else {})
    made = {**wanted, **earlier, **kept} if kept or not others else wanted
    other = [name for name, value in wanted.items() if made[name] != value]
    if other and any(folder.glob(pictures)):
        known, asked = (" ".join(_option(name, of[name]) for name in other) for of in (made, wanted))
        raise UsageError(
            f"{folder}: holds pictures made with {known}, but {asked} was given; name another folder "
            f"(train takes several), or go on with {known}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / ORDER, dict(wanted))


def _option(name: str, value: float) -> str:
    """An option of the command line, or that it is not there."""
    return f"{'' if value else 'no '}--{name}" if name in ("fronts", "sculpted") else f"--{name} {value:g}"


def _read_order(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
