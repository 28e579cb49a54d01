"""The shot's `shapes.roto.json`: where it lies, and whether what is shown is what is written. No Qt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.shot import SHAPES_NAME, write_document


class ShapesFile:
    """`shown` gives the document that is shown; `written` is called with the path of a file that has been written."""

    def __init__(self, shown: Callable[[], RotoDocument | None], written: Callable[[Path | None], None]) -> None:
        self.folder: Path | None = None
        self._shown, self._written = shown, written
        self._saved: RotoDocument | None = None

    @property
    def path(self) -> Path | None:
        """Where the document is kept."""
        return None if self.folder is None else self.folder / SHAPES_NAME

    @property
    def is_saved(self) -> bool:
        """Whether the document on disk is the one that is shown."""
        return self._shown() == self._saved

    def take(self, document: RotoDocument | None) -> None:
        """This document is on disk, whoever wrote it."""
        self._saved = document

    def save(self) -> bool:
        """Write the document where it differs from the disk's; returns whether it wrote. Raises as `document.write`."""
        document, path = self._shown(), self.path
        if document is None or path is None or self.is_saved:
            return False
        write_document(path, document)
        self.mark_saved(document)
        return True

    def mark_saved(self, document: RotoDocument) -> None:
        """Take note that `write_document` has written a document of this shot."""
        self._saved = document
        self._written(self.path)
