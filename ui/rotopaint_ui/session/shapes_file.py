"""The shot's `shapes.roto.json`: its path, and whether the file equals the shown shapes. No Qt.

The file is everybody's: what another program has written there since we looked is kept beside it, never overwritten.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rotopaint_ai.files import free_copy_name
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.shot_files import SHAPES_NAME, write_document

_Look = tuple[int, int, int]  # identity of a file: its number on disk, size, time in nanoseconds


@dataclass(frozen=True, slots=True)
class SavedShapes:
    """The document on disk, facts that identify its file, and the copy of another program's file, if there was one."""

    document: RotoDocument
    look: _Look | None
    kept: Path | None


class ShapesFile:
    """`shown` returns the shown document; `written` is called with the path of a written file, `say` with lines for the
    status."""

    def __init__(
        self,
        shown: Callable[[], RotoDocument | None],
        written: Callable[[Path | None], None],
        say: Callable[[str], None],
    ) -> None:
        self.folder: Path | None = None
        self._shown, self._written, self._say = shown, written, say
        self._saved: RotoDocument | None = None
        self._look: _Look | None = None

    @property
    def path(self) -> Path | None:
        """Where the document is stored."""
        return None if self.folder is None else self.folder / SHAPES_NAME

    @property
    def is_saved(self) -> bool:
        """Whether the document on disk is the one that is shown."""
        return self._shown() == self._saved

    def take(self, document: RotoDocument | None) -> None:
        """Record that this document is on disk, written by this or another program."""
        self._saved = document
        self._look = None if document is None or self.path is None else _look(self.path)

    def save(self) -> bool:
        """Write the document if it differs from the one on disk; returns whether it wrote. Raises as
        `document.write`."""
        document, path = self._shown(), self.path
        if document is None or path is None or self.is_saved:
            return False
        self.mark_saved(self.write(path, document))
        return True

    def write(self, path: Path, document: RotoDocument) -> SavedShapes:
        """Write a document; changes nothing in memory, so that it may run in a thread."""
        found = _look(path)
        kept = _keep(path) if found is not None and found != self._look else None
        write_document(path, document)
        return SavedShapes(document, _look(path), kept)

    def mark_saved(self, written: SavedShapes) -> None:
        """Record a document of this shot that `write` has written."""
        self._saved, self._look = written.document, written.look
        self._written(self.path)
        if written.kept is not None:
            self._say(f"{SHAPES_NAME} was written by another program; its shapes are kept as {written.kept.name}")


def _look(path: Path) -> _Look | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _keep(path: Path) -> Path:
    """Copy another program's file, in its folder, to a name that is free."""
    return Path(shutil.copy2(path, free_copy_name(path)))
