"""Restoring a damaged or lost project from its newest intact backup. Standard library only."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rotopaint_ai.errors import LockedError, ProjectError, UsageError
from rotopaint_ai.project import owner, schema
from rotopaint_ai.project.database import Project


@dataclass(frozen=True, slots=True)
class RestoredProject:
    """The restored copy, its number of undo steps, and the new place of the damaged file, if there was one."""

    copy: Path
    n_steps: int
    kept: Path | None


def restore(path: Path) -> RestoredProject:
    """Replace a project by its newest intact backup; the damaged file is kept beside it.

    Raises: UsageError where the project is intact; LockedError where somebody works on it; ProjectError where no backup
    is intact.
    """
    if not path.exists() and not any(schema.backup_path(path, n).exists() for n in range(1, schema.N_BACKUPS + 1)):
        raise ProjectError(f"{path}: does not exist, nor does a copy of it; check the path")
    try:
        lock = owner.lock_project(path)
    except OSError as error:
        raise ProjectError(f"{path}: cannot be locked ({error.strerror}); check the disk") from error
    if lock is None:
        raise LockedError(f"{path.name}: somebody has it open; close it there first")
    try:
        if path.exists() and _count_steps(path) is not None:
            raise UsageError(f"{path.name}: is not damaged; nothing was restored")
        for number in range(1, schema.N_BACKUPS + 1):
            copy = schema.backup_path(path, number)
            n_steps = _count_steps(copy) if copy.is_file() else None
            if n_steps is not None:
                return RestoredProject(copy, n_steps, _replace_damaged(copy, path))
    finally:
        lock.release()
    raise ProjectError(
        f"{path.name}: no whole copy of it lies beside it; rename it and open the plate for a new project, "
        "shapes.roto.json in the folder of its runs comes in with it"
    )


def _count_steps(path: Path) -> int | None:
    """How many steps an intact project has; None for a damaged one."""
    try:
        with closing(Project.open(path, write=False)) as project:
            project.check()
            return len(project.load().behind)
    except ProjectError:
        return None


def _replace_damaged(copy: Path, path: Path) -> Path | None:
    """Copy the backup, move the damaged file and its log aside, then rename the copy.

    In this order no file is lost if the process ends in between.
    """
    beside = path.with_name(f".{path.stem}.restored{schema.SUFFIX}")
    schema.touch_like(copy, beside)
    shutil.copyfile(copy, beside)
    kept = _free(path) if path.exists() else None
    for ending in ("", "-wal", "-shm", "-journal"):
        part = path.with_name(path.name + ending)
        if part.exists() and kept is not None:
            part.replace(kept.with_name(kept.name + ending))
        else:
            part.unlink(missing_ok=True)  # a log whose project file is missing
    beside.replace(path)
    return kept


def _free(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.stem}.damaged-{number}{schema.SUFFIX}")).exists():
        number += 1
    return kept
