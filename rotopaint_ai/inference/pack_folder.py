"""The folder of a pack. A new pack replaces it completely or not at all; other files in the folder stay."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rotopaint_ai.errors import PackError
from rotopaint_ai.inference.pack import CARD, SHEET, load_card
from rotopaint_ai.inference.signing import SIGNATURE

_OURS = frozenset((CARD, SHEET, SIGNATURE, "weights.npz", "recipe.yaml"))  # files of a pack besides its models


def is_replaceable(folder: Path) -> bool:
    """Whether a pack may be written here: nothing is there, an empty folder, or an old pack."""
    try:
        load_card(folder)
    except PackError:
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    return True


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """An empty folder that replaces `folder` once it has been filled; after a failure it is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
        beside = Path(made) / "pack"
        beside.mkdir()
        yield beside
        _take_place(beside, folder)


def _take_place(beside: Path, folder: Path) -> None:
    """Put the new pack where the old one was; the old one comes back when that fails."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    try:
        beside.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    _keep_others(old, folder)
    shutil.rmtree(old, ignore_errors=True)


def _keep_others(old: Path, new: Path) -> None:
    """Move what an old pack's folder holds besides files of a pack."""
    for path in old.iterdir() if old.is_dir() else ():
        is_ours = path.suffix in (".onnx", ".data") or path.name in _OURS
        if not is_ours and not (new / path.name).exists():
            path.rename(new / path.name)
