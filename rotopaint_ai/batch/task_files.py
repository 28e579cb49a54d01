"""The files of a finished task: it counts as done only while they exist on disk.

If a shot's folder or some of its mattes are deleted, the next worker makes them again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.pipeline.out_folder import FOLDER, facts_at
from rotopaint_ai.pipeline.record_store import CHUNKS, SETTLED, read_journal
from rotopaint_ai.pipeline.run import NOTE

COUNTED = ("matte", "clean")


def written_by(task: BatchTask) -> dict[str, Any]:
    """The facts to note of a task that was just done, by paths in the shot's folder.

    `kept`: our own state and its bytes; `wrote`: the other files; `files`: how many a folder has.
    """
    out = Path(task.shot.job.out)
    if task.kind == "track":
        return {"kept": _sizes(out, f"{FOLDER}/{NOTE}", f"{FOLDER}/{SETTLED}.journal")}
    if task.kind == "gather":
        return {
            "wrote": ["run.json", "shapes.roto.json"],
            "files": {name: _count_files(out / name) for name in COUNTED},
        }
    assert task.frames is not None
    journal = f"{FOLDER}/{CHUNKS}/{task.frames.first}-{task.frames.last}.journal"
    names = [name for record in read_journal(out / journal) for name in record.outputs]
    return {"kept": _sizes(out, journal), "wrote": names}


def is_there(task: BatchTask, noted: Mapping[str, Any]) -> bool:
    """Whether the noted files of a task are still on disk, and no state file is cut off; extra files are ignored."""
    out, kept = Path(task.shot.job.out), noted.get("kept", {})
    return (
        _sizes(out, *kept) == kept
        and all((out / name).exists() for name in noted.get("wrote", ()))
        and all(_count_files(out / name) >= count for name, count in noted.get("files", {}).items())
    )


def _sizes(out: Path, *names: str) -> dict[str, int | None]:
    return {name: None if (facts := facts_at(out / name)) is None else facts.st_size for name in names}


def _count_files(folder: Path) -> int:
    try:
        return sum(not name.startswith(".") for name in os.listdir(folder))
    except FileNotFoundError:
        return 0
