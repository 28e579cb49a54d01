"""Opening shots: plates, projects that bring their plate with them, plates that were moved, the sample's crop box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.project import plate_files
from rotopaint_ai.project.state import CropBox
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.engine.frame_cache import PLATE, FrameCache
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.session.project_file import look_at_witnesses
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, Results

BEAT_MS = 5_000


class Opening(QObject):
    """Opens plates and projects into the session. `choice` is the source of the plate in the session, as it was asked
    for.

    `opened`: a plate is in the session. `put_back`: another plate was refused, and the old one's pictures are loaded
    again. `waits`: a project is open without its plate. `message_sent` gives a line and its kind.
    """

    opened = Signal(object)
    put_back = Signal()
    waits = Signal(str)  # a project is open, its plate is not: the project's name
    message_sent = Signal(str, str)

    def __init__(
        self, session: ShotSession, frame_cache: FrameCache, engine: Callable[[], Engine], parent: QObject
    ) -> None:
        super().__init__(parent)
        self.choice: PlateChoice | None = None
        self._asked: PlateChoice | None = None
        self._session, self._frames, self._engine = session, frame_cache, engine
        self._out: Path | None = None
        self._crop: tuple[int, CropBox] | None = None
        self._is_relinking = self._is_own = False
        self._looking = BackgroundTask(self)
        self._looking.done.connect(self._take_witnesses)
        self._heartbeat = QTimer(self, interval=BEAT_MS)
        self._heartbeat.timeout.connect(session.heartbeat)
        frame_cache.opened.connect(self._take_facts)

    def open_plate(self, choice: PlateChoice, out: Path | None = None, crop: tuple[int, CropBox] | None = None) -> None:
        """Open a plate; `crop` is a first box where no box was drawn.

        A project that waits for its plate takes it if it is the project's plate; any other plate opens a new shot.
        """
        self._ask_to_open(choice, out, crop, is_own=False)

    def _ask_to_open(
        self, choice: PlateChoice, out: Path | None, crop: tuple[int, CropBox] | None, *, is_own: bool
    ) -> None:
        """Ask the decoder for a plate; `is_own`: it must be the waiting project's plate, and must not open a new
        shot."""
        try:
            self._frames.use(self._engine())
        except RotopaintError as error:
            self.message_sent.emit(str(error), "trouble")
            return
        self._asked, self._out, self._crop, self._is_relinking = choice, out, crop, False
        self._is_own = is_own
        self.message_sent.emit(f"Opening {choice.source}", "plain")
        self._frames.open(PLATE, choice.source, choice.colourspace)

    def open_project(self, path: Path) -> None:
        """Open a project with its plate; where that has been moved, say how to find it."""
        try:
            place = self._session.open_project(path)
        except RotopaintError as error:
            self.message_sent.emit(str(error), "trouble")
            return
        self.choice = None  # that of the shot before
        self.waits.emit(path.stem)
        self._heartbeat.start()
        if place.source is None:
            self.message_sent.emit(f"{path.name}: its plate was never noted; File, Relink the plate", "trouble")
            return
        self._ask_to_open(PlateChoice(place.source, colourspace=place.colourspace), place.out, None, is_own=True)

    def relink(self, source: str) -> None:
        """Set a new place for the plate of the open project."""
        session = self._session
        if session.project.path is None:
            self.message_sent.emit("No project is open: open the plate itself", "trouble")
        elif session.project.awaits_plate:
            self._ask_to_open(PlateChoice(source), self._session.out, None, is_own=True)
        else:
            colourspace = None if self.choice is None else self.choice.colourspace
            self._ask_to_open(PlateChoice(source, colourspace=colourspace), self._out, None, is_own=True)
            self._is_relinking = True

    def read_as(self, colourspace: str | None) -> None:
        """Set the colour space of the open project's plate; None: the file decides."""
        if self.choice is None or self._session.project.path is None:
            self.message_sent.emit("Open a plate first", "trouble")
            return
        self._ask_to_open(replace(self.choice, colourspace=colourspace), self._out, None, is_own=True)
        self._is_relinking = True

    def explain(self, text: str) -> str:
        """The text of a plate's error, with advice where a project waits for the plate."""
        return f"{text}. File, Relink the plate tells where it lies now" if self._session.project.awaits_plate else text

    def store(self, results: Results | None) -> None:
        """Store every step in the project file from now on; called after the results of an earlier run were read."""
        session = self._session
        if session.project.path is None:
            try:
                session.start_project(None, results)
            except (RotopaintError, OSError) as error:
                session.project.go_without(f"Not kept in a project: {error}")
                self.message_sent.emit(str(session.project.trouble), "trouble")
        self._heartbeat.start()
        plate = session.plate
        if plate is not None and session.project.path is not None and not session.project.is_read_only:
            self._looking.start(lambda: (plate, look_at_witnesses(plate)))
        if self._crop is not None and not session.state.crops and session.document is None:
            frame, box = self._crop
            session.edits.push("crop box", replace(session.state, crops={frame: box}))
        self._crop = None

    def _take_witnesses(self, found: tuple[PlateFacts, Mapping[int, plate_files.FileFacts]]) -> None:
        """Store the facts of a plate's files, unless another project was opened meanwhile."""
        plate, facts = found
        if plate is self._session.plate:
            self._session.project.take_witnesses(facts)

    def shut_down(self) -> None:
        """Close the project file."""
        self._heartbeat.stop()
        self._looking.wait()
        self._session.close()

    def _take_facts(self, name: str, facts: Mapping[str, Any]) -> None:
        if name != PLATE:
            return
        if self._asked is None:
            self.put_back.emit()
            return
        choice, self._asked = self._asked, None
        plate = PlateFacts.from_json(choice.source, facts)
        try:
            if self._is_relinking:
                self._session.relink(plate)
            else:
                self._leave_waiting(plate)
                self._session.open(plate, self._out)
        except RotopaintError as error:
            self.message_sent.emit(self.explain(str(error)), "trouble")
            self._put_back()
            return
        is_read_anew = self._is_relinking and self.choice is not None and choice.source == self.choice.source
        self.choice, self._is_relinking = choice, False
        self.opened.emit(plate)
        if is_read_anew:
            name = choice.colourspace or "its file says"
            self.message_sent.emit(f"The plate is read as {name} from now on; Run takes it so, too", "plain")

    def _leave_waiting(self, plate: PlateFacts) -> None:
        """Close the waiting project and open the plate as a new shot, because it is not the project's plate."""
        session, path = self._session, self._session.project.path
        if session.project.awaits_plate and not self._is_own and path is not None and not session.project.knows(plate):
            session.close()
            self.message_sent.emit(f"{path.name} was closed: {plate.name} is not its plate", "plain")

    def _put_back(self) -> None:
        """Show the session's plate again, whose pictures are loaded after another plate was refused."""
        self._crop = None
        self._frames.forget(PLATE)
        if self.choice is not None:
            self._frames.open(PLATE, self.choice.source, self.choice.colourspace)
