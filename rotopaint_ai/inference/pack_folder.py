"""Replace a pack's folder completely or not at all. Other files in the folder stay."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import CARD, HEAD, SHEET, load_card
from rotopaint_ai.inference.signing import SIGNATURE

_OURS = frozenset((CARD, SHEET, HEAD, SIGNATURE, "weights.npz", "recipe.yaml"))  # a pack's files other than models


def is_replaceable(folder: Path) -> bool:
    """Whether a pack may be written here: the folder is missing, empty, or holds a pack."""
    try:
        load_card(folder)
    except PackError:
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    return True


def copy_pack(pack: Path, to: Path, *, without: frozenset[str] = frozenset()) -> None:
    """Copy a pack's files into an empty folder, without the modes of a folder or files that may not be written."""
    for path in pack.rglob("*"):
        if path.is_file() and path.name not in without:
            beside = to / path.relative_to(pack)
            beside.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(path, beside)
            except OSError as error:
                error.filename = str(beside) if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.filename
                raise


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary empty folder that replaces `folder` at the end; after an error it is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
        fresh = Path(made) / "pack"
        fresh.mkdir()
        yield fresh
        _swap_folders(fresh, folder)


def _swap_folders(fresh: Path, folder: Path) -> None:
    """Rename the new pack to the folder's name; restore the old pack when that fails."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    _keep_others(old, folder)
    shutil.rmtree(old, ignore_errors=True)


def _keep_others(old: Path, new: Path) -> None:
    """Move files that do not belong to the pack from the old folder to the new one."""
    for path in old.iterdir() if old.is_dir() else ():
        is_ours = path.suffix in (".onnx", ".data") or path.name in _OURS
        if not is_ours and not (new / path.name).exists():
            path.rename(new / path.name)
