"""The shot that is open: its plate, what runs have left of it, and its project file. No Qt, no numpy.

What a hand does to it stands in `editing`; every step is written into the project file where there is one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.files import write_text
from rotopaint_ai.project import merge_run
from rotopaint_ai.project.files import Facts
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import MARKS, Box, Mark, SeamSettings, Spread, State
from rotopaint_ai.shapes import manual_keys
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.editing import Editing, Selection
from rotopaint_ui.session.history import MAX_UNDO, Step, Store
from rotopaint_ui.session.live_document import LiveDocument
from rotopaint_ui.session.painting import Painting
from rotopaint_ui.session.project_file import PlatePlace, ProjectFile, default_project
from rotopaint_ui.session.project_store import ProjectStore
from rotopaint_ui.session.shot import (
    HAND_NAME,
    RUN_NAME,
    SHAPES_NAME,
    PlateFacts,
    Results,
    default_out,
    read_results,
    write_document,
)

__all__ = [
    "HAND_NAME",
    "MARKS",
    "MAX_UNDO",
    "RUN_NAME",
    "SHAPES_NAME",
    "Box",
    "Mark",
    "PlateFacts",
    "Results",
    "SeamSettings",
    "Selection",
    "Session",
    "Spread",
    "State",
    "Step",
    "Store",
    "default_out",
    "read_results",
    "write_document",
]


class Session(Editing):
    """One open shot, with its plate, its runs and its project file."""

    def __init__(self) -> None:
        super().__init__()
        self.plate: PlateFacts | None = None
        self.out: Path | None = None
        self.span: tuple[int, int] | None = None  # In and Out, see `set_span`
        self._saved: RotoDocument | None = None
        self._asked: State | None = None  # what the run that is under way was told
        self._asked_frames: Collection[int] | None = None  # and for which frames; None: for all
        self._stepped_to: int | None = None
        self._projects = ProjectFile(self)
        self.painting = Painting(self._projects.keep_painted)

    # --- the shot

    def open(self, plate: PlateFacts, out: Path | None = None) -> None:
        """Take a plate: that of the project that waits for it, else a new shot.

        What an earlier run left in its output folder comes by `take_results`. Raises PlateError where a project waits
        for another plate; nothing has changed then.
        """
        out = out or default_out(plate)
        if self._projects.awaits_plate:
            self._projects.join(plate, out)
            self.plate, self.out = plate, out
            self.frame = min(max(self.frame, plate.first), plate.last)
        else:
            self._projects.close()
            self.plate, self.frame, self.out = plate, plate.first, out
            self._forget(State())
            self.run = RunRecord()
            self._history.clear()
        self._tell()

    def set_span(self, span: tuple[int, int] | None) -> None:
        """In and Out: the frames, both included, that are played, run, painted and edited together; None: all."""
        if span != self.span:
            self.span = span
            self._tell()

    @property
    def wanted_frames(self) -> tuple[int, ...]:
        """The plate's frames that lie between In and Out."""
        frames = () if self.plate is None else self.plate.frames
        return frames if self.span is None else tuple(f for f in frames if self.span[0] <= f <= self.span[1])

    def take_results(self, results: Results) -> None:
        """Take what an earlier run of this shot left; the artist's keys from a run that was cut off are put back."""
        if results.out != self.out:
            return  # another shot has been opened since
        if self._projects.store is not None:
            self._saved = results.document  # the project knows the shot
            return
        document = self._saved = results.document
        predicted = None if document is None else manual_keys.model_keys(document)
        if document is not None and results.hand is not None:
            document = manual_keys.with_human_keys(document, results.hand)
        self._state, self.run = replace(self._state, document=document, predicted=predicted), results.run
        self.painting.show({})
        if results.has_clean:
            self.painting.note(self._whole_frames(), State(document=results.document))
        self._history.clear()
        self._tell()

    def go_to(self, frame: int) -> None:
        """Show a frame, kept inside the plate's range; holes can be stood on, they show that nothing is there.

        While a hand drags the frame stays: what is dragged belongs to it.
        """
        self.end_burst()
        if self.plate is not None and (self._gesture is None or self._corrections.is_ending):
            frame = min(max(frame, self.plate.first), self.plate.last)
            if frame != self.frame:
                self.frame = frame
                self._tell()

    def step_key(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) key of the selected shape, or of any shape."""
        document = self.document
        if document is None:
            return
        shapes = (self.shape,) if self.shape is not None else document.shapes
        frames = sorted({frame for shape in shapes if shape is not None for frame in shape.keys})
        at = bisect_right(frames, self.frame) if direction > 0 else bisect_left(frames, self.frame) - 1
        if 0 <= at < len(frames):
            self.go_to(frames[at])

    def step_worst(self, direction: int) -> bool:
        """Go to the worst frame; from there to the next (1) or back (-1) in their order. False where there is none."""
        worst = self.worst()
        if not worst:
            return False
        is_stepping = self.frame == self._stepped_to and self.frame in worst
        at = worst.index(self.frame) + direction if is_stepping else 0
        self._stepped_to = worst[at % len(worst)]
        self.go_to(self._stepped_to)
        return True

    def worst(self) -> list[int]:
        """Frames that need eyes, worst first, by the worst shape that no person has keyed; accepted ones are done."""
        frames = self.plate.frames if self.plate is not None else ()
        accepted = frozenset(frame for frame, mark in self._state.marks.items() if mark == "accepted")
        return self.run.worst(frames, settled=accepted, keyed=self.keyed_frames())

    # --- the project file

    def open_project(self, path: Path) -> PlatePlace:
        """Open a project: its shot is shown, with its undo; `open` then takes the plate, which the caller opens.

        Raises: ProjectError, DamagedProjectError; what was open stays open then.
        """
        return self._projects.open(path)

    def leave_plate(self, out: Path | None) -> None:
        """A project is being opened: the plate of the shot before it is not its own. `out` is where its runs wrote."""
        self.plate, self.out = None, out

    def start_project(self, path: Path | None = None, results: Results | None = None) -> None:
        """Keep the open shot in a project file from now on: one that is there is opened, else one is made.

        `results`: what lies in the output folder; shapes that a run outside the panel has left there come in as a step.
        Raises: ProjectError, DamagedProjectError, and PlateError where the file is that of another plate.
        """
        if path is None and self.plate is not None and self.out is not None:
            path = default_project(self.plate, self.out)
        if path is not None:
            self._projects.start(path, results)

    def show_project(
        self, store: ProjectStore, state: State, behind: list[Step], ahead: list[Step], painted: Mapping[int, str]
    ) -> None:
        """Show what a project holds; `painted` are the prints of the frames on disk."""
        self._forget(state)
        self.painting.show(painted)
        self._history.clear(store, behind, ahead)
        self._tell()

    def relink(self, plate: PlateFacts) -> None:
        """The project's plate lies somewhere else now. Raises PlateError where it is another one."""
        self._projects.join(plate, self.out)
        self.plate = plate
        self._tell()

    def heartbeat(self) -> None:
        """Tell the project file that somebody is here, and try again what its disk refused; every 20 seconds."""
        if self._projects.store is not None and self._gesture is None:
            self._projects.store.heartbeat(self._state)

    def flush(self) -> None:
        """Wait until every step is in the project file: somebody else is about to read it."""
        self.settle()
        if self._projects.store is not None:
            self._projects.store.flush()

    def close(self) -> None:
        """Let go of the project file; the shot stays on the screen, without it."""
        self.settle()
        if self._gesture is not None:
            self.abort()
        self._projects.close()
        self._history.store = None

    def take_witnesses(self, found: Mapping[int, Facts]) -> None:
        """Keep how files of the plate look (`projects.look_at_witnesses`), to know it again."""
        self._projects.take_witnesses(found)

    @property
    def project_path(self) -> Path | None:
        """The project file that every step goes into."""
        return self._projects.path

    @property
    def awaits_plate(self) -> bool:
        """Whether a project is open whose plate is not."""
        return self._projects.awaits_plate

    def knows(self, plate: PlateFacts) -> bool:
        """Whether a plate is, by the content of its files, the one that the open project was made on."""
        return self._projects.knows(plate)

    @property
    def lock_owner(self) -> str | None:
        """Who else works on the project, as "name on host"."""
        store = self._projects.store
        return None if store is None or store.project.other_owner is None else str(store.project.other_owner)

    @property
    def is_read_only(self) -> bool:
        """Whether steps are kept in memory only, because somebody else works on the project or the disk forbids."""
        return self._projects.store is not None and self._projects.store.project.is_read_only

    def refuses(self) -> bool:
        """Whether nothing may be changed, since it would be lost: the project is read only. Says so."""
        if self.is_read_only:
            owner = self.lock_owner
            self.say(f"Read only: {owner} has the project open" if owner else "The project is open read only")
        return self.is_read_only

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written into the shot's own folder, and what to do; None where it may."""
        path, owner = self.project_path, self.lock_owner
        if path is None or not self.is_read_only:
            return None
        if owner is None:
            return f"{path.name}: the project may not be written; make it writable, or choose another folder"
        return f"{path.name}: {owner} has the project open; close it there, or choose another folder"

    @property
    def trouble(self) -> str | None:
        """Why steps do not reach the project file; None where they do."""
        return None if self._projects.store is None else self._projects.store.trouble

    # --- disk

    @property
    def shapes_path(self) -> Path | None:
        """Where the document is kept."""
        return None if self.out is None else self.out / SHAPES_NAME

    @property
    def is_saved(self) -> bool:
        """Whether the document on disk is the one that is shown."""
        return self._state.document == self._saved

    def save(self) -> bool:
        """Write the document where it differs from the disk's; returns whether it wrote. Raises as `document.write`."""
        document, path = self._state.document, self.shapes_path
        if document is None or path is None or self.is_saved:
            return False
        write_document(path, document)
        self.mark_saved(document)
        return True

    def mark_saved(self, document: RotoDocument) -> None:
        """Take note that `write_document` has written a document of this shot."""
        self._saved = document
        self._projects.keep_shapes()

    def prepare_run(self, frames: Collection[int] | None = None) -> None:
        """Before a run writes its shapes over ours: put the artist's keys in safety, on disk.

        `frames` are those that it is asked for; None is all of them.
        """
        self.flush()
        self._remember_run()
        self._asked = self._state
        self._asked_frames = None if frames is None or self.plate is None else frozenset(frames)
        document, out = self._state.document, self.out
        if document is not None and out is not None and any(manual_keys.human_keys(shape) for shape in document.shapes):
            write_text(out / HAND_NAME, documents.dumps(document))

    def take_run(self, results: Results) -> None:
        """After a run: take its shapes with the artist's keys and seam settings put back, in one step, to be saved.

        Frames that the run was not asked for stay as they are.
        """
        if results.out != self.out or results.document is None:
            return
        before, asked = self._state, self._asked_frames
        self._asked_frames = None
        if asked is None:  # a run of all, or one from outside the panel
            ran = range(results.document.first_frame, results.document.last_frame + 1)
            asked = merge_run.asked_frames(ran, before.document)
        self._saved = results.document
        if self._asked is None:  # events of a run of our own have changed the record since
            self._remember_run()
        self.run = results.run if asked is None else results.run.joined(self.run, asked)
        self.act("run", merge_run.merge_run(before, results.document, asked))
        self._note_run(results, before, asked)
        self._projects.keep_run()
        if before.document is not None and self.live is not None:
            self._corrections.again(before.document, asked)
        if self.is_saved and not self.is_read_only:
            (results.out / HAND_NAME).unlink(missing_ok=True)
        self._tell()

    def keep_run(self) -> None:
        """Keep what is known of the shot's frames in the project."""
        self._projects.keep_run()

    def stale_frames(self) -> list[int]:
        """Frames whose clean plate on disk is not what the shot says now: edited since, or never made."""
        return [] if self.plate is None else self.painting.stale(self._state, self.plate.frames)

    def note_painted(self, frames: Collection[int], state: State) -> None:
        """Clean plates of these frames have been made of a state (the one shown when the work began)."""
        self.painting.note(frames, state)
        self._tell()

    def _note_run(self, results: Results, before: State, asked: Collection[int] | None) -> None:
        """A run has painted the frames that it was asked for, with what people had set where it read the project."""
        if results.has_clean and results.document is not None:
            drawn = State() if self.project_path is None else self._asked or before
            frames = [frame for frame in self._whole_frames() if asked is None or frame in asked]
            self.painting.note(frames, merge_run.drawn_state(drawn, results.document, asked))
        self._asked = None

    def _whole_frames(self) -> list[int]:
        """Frames of the plate that the last run did not fail on."""
        return [frame for frame in self.plate.frames if frame not in self.run.failed] if self.plate is not None else []

    def take_event(self, facts: Mapping[str, Any]) -> None:
        """Take an event of a run that is under way; `show_live` puts what came on the screen."""
        if facts["event"] == "started":
            self._stream = LiveDocument(facts)
        elif facts["event"] == "frame" and self._stream is not None:
            self._stream.add(facts)
            self.run = self.run.with_frame(facts)
        elif facts["event"] == "error" and "frame" in facts:
            self.run = self.run.with_frame({**facts, "status": "failed"})

    def take_visibility(self, facts: Mapping[str, Any]) -> None:
        """Take an event of a job that paints frames again: how much the seam shows now."""
        if facts.get("seam_after") is not None:
            self.run = self.run.with_seam(int(facts["frame"]), facts["seam_before"], facts["seam_after"])

    def show_live(self) -> None:
        """Show the shapes that have come so far, the artist's own keys among them."""
        if self._stream is not None:
            self._live_document = self._stream.among(self._state.document)
            self._tell()

    def end_live(self) -> None:
        """The run has ended: back to the document."""
        self._stream = self._live_document = None
        self._tell()

    def _forget(self, state: State) -> None:
        """Another shot, or none: what was selected, hidden or held is no more."""
        self.selection, self.hidden, self.locked = Selection(), frozenset(), frozenset()
        self.span = None
        self.painting.show({})
        self._state, self._saved, self._asked, self._gesture = state, None, None, None
        self._asked_frames = self._burst = None
        self._runs = []
        self._corrections.forget()
