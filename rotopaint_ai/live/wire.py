"""The protocol of the panel and the live engine: one JSON object per line, arrays in files mapped into memory.

Standard library only, because both sides import it. A request has `id` and `ask`. Its answer has the same `id`, and
either the facts or `error`, a text of one line. An answer with pixels or keys names a `block`, a file in the engine's
folder; the panel maps it, copies its content and deletes it. The folder is on a memory disk where the system has one.
Before the answer to `teach` come progress objects with the same `id`, `done` and `total`.

    {"id": 1, "ask": "hello", "version": 1}
    {"id": 2, "ask": "pack", "model": null}
    {"id": 3, "ask": "plate", "source": "...", "colourspace": null}
    {"id": 4, "ask": "drag", "names": [...], "before": [[x, y], ...], "after": [[x, y], ...]}
    {"id": 5, "ask": "spread", "way": "...", "project": "...", "spread": [frame, first, last] | null}
    {"id": 5, "ask": "teach", "project": "..."}
    {"id": 6, "ask": "seam", "frame": 1001, "shapes": "<roto.json>", "settings": {...}, "look": [...]}
    {"id": 7, "ask": "crop", "frame": 1001}
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

VERSION: Final = 4
_MEMORY = Path("/dev/shm")


def line(message: Mapping[str, Any]) -> bytes:
    """A message as one line for the pipe."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def make_folder() -> Path:
    """A new folder for the engine's blocks."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="rotopaint-live-", dir=where))


def write_block(folder: Path, name: str, data: bytes | memoryview) -> str:
    """Write an array to a block for the other process; returns the block's path."""
    path = folder / name
    with path.open("wb") as stream:
        stream.write(data)
    return str(path)


def take_block(path: str) -> bytes:
    """Read a block and delete it. Raises OSError where the engine has ended and deleted it."""
    place = Path(path)
    data = place.read_bytes()
    place.unlink(missing_ok=True)
    return data
