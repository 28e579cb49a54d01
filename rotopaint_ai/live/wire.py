"""How the panel and the live engine talk: one JSON object per line, arrays in files that both map into memory.

Standard library only: both sides import it. A request carries `id` and `ask`; its answer the same `id` and either the
facts or `error`, one line. An answer with pixels or keys names a `block`: a file in the engine's own folder, which the
reader maps, copies out and removes. The folder lies in memory where the system has such a disk. Before the answer to
`teach` come objects with the same `id` and `done` of `total`.

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

VERSION: Final = 3
_MEMORY = Path("/dev/shm")


def line(message: Mapping[str, Any]) -> bytes:
    """A message as it goes over the pipe."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def make_folder() -> Path:
    """A folder of the engine's own for blocks."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="rotopaint-live-", dir=where))


def write_block(folder: Path, name: str, data: bytes | memoryview) -> str:
    """Put an array where the other side finds it; returns the block's path."""
    path = folder / name
    with path.open("wb") as stream:
        stream.write(data)
    return str(path)


def take_block(path: str) -> bytes:
    """The content of a block, which is then gone. Raises OSError where the engine has taken it along."""
    place = Path(path)
    data = place.read_bytes()
    place.unlink(missing_ok=True)
    return data
