"""The folder that a data set is mined into: nothing of others in it is replaced, and one process at a time writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_text
from rotopaint_ai.locks import locked
from rotopaint_ai.training.data.dataset import FORMAT

_FOLDERS = ("images", "mining", "shards")
_FILES = ("dataset.json", "sheet.yaml", "samples.jsonl")
_STATE = ".rotopaint"
_LOCK, _MARK = "lock", "dataset"  # says that what lies in the folder was mined, also where that was stopped half-way


@contextmanager
def claimed_dataset(folder: Path) -> Iterator[None]:
    """The folder of a data set for as long as the block runs.

    Raises: UsageError where files of others lie where ours would, where one of its folders is a link, and where another
    process mines into it.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder}: is a file; wanted a folder for the data set")
    for name in (_STATE, *_FOLDERS):
        if (folder / name).is_symlink():
            raise UsageError(f"{folder / name}: is a link, and nothing is written through links; remove it")
    if not _is_dataset(folder) and (foreign := _in_the_way(folder)):
        raise UsageError(
            f"{folder / foreign}: not written by RotoPaint, and in the way of a data set; choose another --out"
        )
    is_new = not folder.exists()
    busy = f"{folder}: somebody is mining into it; wait, or choose another --out"
    with locked(folder / _STATE / _LOCK, refusal=busy):
        write_text(folder / _STATE / _MARK, "mined\n")
        try:
            yield
        except BaseException:
            if _in_the_way(folder) is None:
                _withdraw(folder, is_new=is_new)
            raise


def _withdraw(folder: Path, *, is_new: bool) -> None:
    """Leave a folder as it was, in which nothing was mined."""
    state = folder / _STATE
    for name in (_MARK, _LOCK):
        (state / name).unlink(missing_ok=True)
    with suppress(OSError):  # what others have there stays
        state.rmdir()
        if is_new:
            folder.rmdir()


def _is_dataset(folder: Path) -> bool:
    """Whether something was mined or rendered here before; sets of older versions have no mark."""
    if (folder / _STATE / _MARK).is_file():
        return True
    try:
        head = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(head, dict) and head.get("format") == FORMAT


def _in_the_way(folder: Path) -> str | None:
    """The first file or filled folder of others by a name of a data set's own."""
    files = [name for name in _FILES if (folder / name).exists()]
    filled = [name for name in _FOLDERS if (folder / name).is_dir() and any((folder / name).iterdir())]
    return next(iter([*files, *filled]), None)
