"""Files that can be dropped on the panel or opened by path: plates, and shapes to add to the open shot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject, Signal

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import formats
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.session.session import ShotSession


class Importer(QObject):
    """Reads shapes in a thread and adds them to the shot in one undo step."""

    message_sent = Signal(str, str)

    def __init__(self, session: ShotSession, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._reading = BackgroundTask(self)
        self._reading.done.connect(self._take_shapes)
        self._reading.failed.connect(lambda text: self.message_sent.emit(text, "trouble"))

    def takes(self, path: str) -> bool:
        """Whether a path is a file of shapes."""
        try:
            return formats.format_of(path).read is not None
        except UsageError:
            return False

    def read(self, path: str) -> None:
        """Read shapes for the plate that is open."""
        plate = self._session.plate
        if plate is None or self._session.runs.is_live:
            why = "open their plate first" if plate is None else "wait for the run, or stop it with Esc"
            self.message_sent.emit(f"{Path(path).name}: shapes cannot be taken in now; {why}", "trouble")
            return
        self.message_sent.emit(f"Reading {path}", "plain")
        size = (plate.width, plate.height)

        def work() -> object:
            document, losses = formats.read(path, width=size[0], height=size[1])
            return path, document, losses

        self._reading.start(work)

    def wait(self) -> None:
        """Wait until the files that are being read are done."""
        self._reading.wait()

    def _take_shapes(self, found: tuple[str, RotoDocument, tuple[str, ...]]) -> None:
        path, document, losses = found
        state, plate, name = self._session.state, self._session.plate, Path(path).name
        if plate is None or (document.width, document.height) != (plate.width, plate.height):
            size = f"{document.width} x {document.height}"
            self.message_sent.emit(f"{name}: drawn for {size}; open the plate of that size first", "trouble")
            return
        own = state.document or replace(document, shapes=())
        added = with_shapes(own, document.shapes)
        self._session.edits.push("import shapes", replace(state, document=added))
        lost = f"; lost: {'; '.join(losses)}" if losses else ""
        self.message_sent.emit(f"{len(document.shapes)} shapes from {name}{lost}", "good")


def with_shapes(document: RotoDocument, shapes: tuple[RotoShape, ...]) -> RotoDocument:
    """A document with additional shapes; a shape whose name is taken gets a number, so that no work is replaced."""
    taken = {shape.name for shape in document.shapes}
    added = []
    for shape in shapes:
        name, number = shape.name, 2
        while name in taken:
            name, number = f"{shape.name}_{number}", number + 1
        taken.add(name)
        added.append(replace(shape, name=name))
    return replace(document, shapes=(*document.shapes, *added))


def dropped_file(data: QMimeData) -> str | None:
    """The first local file of what is dropped."""
    paths = [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
    return paths[0] if paths else None
