"""What a done task has left on the disk, so that it counts as done only while that is there.

Who deletes a shot's folder, or some of its mattes, gets them again from the next worker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.pipeline.out_folder import FOLDER
from rotopaint_ai.pipeline.record_store import CHUNKS, SETTLED, read_journal
from rotopaint_ai.pipeline.split import NOTE

COUNTED = ("matte", "clean")


def written_by(task: BatchTask) -> dict[str, Any]:
    """What to note of a task that was just done: `wrote`, paths in the shot's folder, and how many `files` it has."""
    out = Path(task.shot.job.out)
    if task.kind == "track":
        return {"wrote": [f"{FOLDER}/{NOTE}", f"{FOLDER}/{SETTLED}.journal"]}
    if task.kind == "gather":
        return {
            "wrote": ["run.json", "shapes.roto.json"],
            "files": {name: _count_files(out / name) for name in COUNTED},
        }
    assert task.frames is not None
    journal = f"{FOLDER}/{CHUNKS}/{task.frames.first}-{task.frames.last}.journal"
    return {"wrote": [journal, *(name for record in read_journal(out / journal) for name in record.outputs)]}


def is_there(task: BatchTask, noted: Mapping[str, Any]) -> bool:
    """Whether what was noted of a task is still on the disk. More files than there were do no harm."""
    out = Path(task.shot.job.out)
    return all((out / name).exists() for name in noted.get("wrote", ())) and all(
        _count_files(out / name) >= count for name, count in noted.get("files", {}).items()
    )


def _count_files(folder: Path) -> int:
    try:
        return sum(not name.startswith(".") for name in os.listdir(folder))
    except FileNotFoundError:
        return 0
