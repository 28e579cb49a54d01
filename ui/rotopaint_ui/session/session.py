"""The open shot: its plate, the current view, and the parts that hold the rest. No Qt, no numpy.

`edits` keeps the state and undo, `corrections` what the live engine answers, `runs` what runs have said, `painting` the
clean plate's frames, `project` the file that every step goes into.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.files import write_text
from rotopaint_ai.project import face_groups, merge_run
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes import manual_keys
from rotopaint_ai.shapes.edit_layers import members
from rotopaint_ai.shapes.pose_distance import PoseDistances
from rotopaint_ai.shapes.roto import Key, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ui.session.brush import Brush
from rotopaint_ui.session.correction_edits import CorrectionEdits
from rotopaint_ui.session.edit_stack import EditStack
from rotopaint_ui.session.error_scale import BAD_SHARE, ErrorScale
from rotopaint_ui.session.painting import Painting
from rotopaint_ui.session.project_file import OpenedProject, PlatePlace, ProjectFile, default_project
from rotopaint_ui.session.review_state import ReviewState
from rotopaint_ui.session.seam_settings import SeamEdits
from rotopaint_ui.session.selection import Selection
from rotopaint_ui.session.shape_names import ShapeNames
from rotopaint_ui.session.shapes_file import ShapesFile
from rotopaint_ui.session.shot_files import HAND_NAME, PlateFacts, Results, default_out
from rotopaint_ui.session.shot_runs import Keys, ShotRuns
from rotopaint_ui.session.xsheet import Exposures


class ShotSession:
    """One open shot. `listeners` are called after every change, `message_sent` with lines for the status.

    `leaving` are called before it is saved or closed, or another shot takes its place: what is being typed or drawn
    still belongs to it.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []
        self.message_sent: list[Callable[[str], None]] = []
        self.leaving: list[Callable[[], None]] = []
        self.plate: PlateFacts | None = None
        self.frame = 0
        self.span: tuple[int, int] | None = None  # In and Out, see `set_span`
        self.selection = Selection()
        self.hidden: frozenset[str] = frozenset()
        self.locked: frozenset[str] = frozenset()
        self.compares_all_shapes = False
        self.view_note: Mapping[str, Any] = {}  # the stored view of the last opened project
        self.looked_at: Callable[[], Mapping[str, Any]] = dict  # how the shot is looked at now: JSON values
        self.brush = Brush()
        self.version: RotoDocument | None = None  # the shapes at the last save or run, or when the shot was opened
        self.xsheet: Exposures = {}  # which printed piece each frame wears
        self.colours: Mapping[str, str] = {}  # colours that people gave to shapes in the viewer: #rrggbb
        self.project = ProjectFile(self.say)
        self.edits = EditStack(self.notify, self.say)
        self.edits.moved.append(self._follow_names)
        self.runs = ShotRuns(self.edits, self.notify, self.store_run)
        self.review = ReviewState(self.edits, self.runs, self.project.refuses, self.notify)
        self.names = ShapeNames(self.edits, lambda: not (self.runs.is_live or self.project.refuses()), self.say)
        self.seams = SeamEdits(self.edits)
        self.painting = Painting(self.project.store_painted)
        self.shapes_file = ShapesFile(lambda: self.state.document, self.project.store_shapes, self.say)
        self.corrections = CorrectionEdits(
            self.edits,
            hold_of=self.hold_frames,
            corrected=self.review.corrected_frames,
            free=self.free_keys,
            locked=lambda: self.locked,
            say=self.say,
            refuses=lambda: self.must_wait() or self.project.refuses(),
            flush=self.flush,
        )
        self._poses = PoseDistances(LandmarkKeys())
        self._asked: State | None = None  # the state that the current run started from
        self._asked_frames: Collection[int] | None = None  # the frames of that run; None: all

    # --- what is shown

    @property
    def state(self) -> State:
        """The state that is shown."""
        return self.edits.state

    @property
    def document(self) -> RotoDocument | None:
        """The shot's shapes and landmarks, while a run is under way those that have come; None before the first run."""
        live = self.runs.live_document
        return self.edits.state.document if live is None else live

    @property
    def out(self) -> Path | None:
        """The output folder of runs of the shot."""
        return self.shapes_file.folder

    @out.setter
    def out(self, folder: Path | None) -> None:
        self.shapes_file.folder = folder

    @property
    def run(self) -> RunRecord:
        """The run record, with the errors that Teach expects where it changed curves."""
        return self.runs.with_teach_errors(self.edits.state.document)

    @run.setter
    def run(self, record: RunRecord) -> None:
        self.runs.record = record

    @property
    def shape(self) -> RotoShape | None:
        """The selected shape."""
        document, name = self.document, self.selection.shape
        if document is None or name is None:
            return None
        return next((shape for shape in document.shapes if shape.name == name), None)

    def say(self, text: str) -> None:
        """Show a line to the artist."""
        for listener in self.message_sent:
            listener(text)

    def notify(self) -> None:
        """Call the listeners after a change."""
        for listener in self.listeners:
            listener()

    def select(
        self, shape: str | None, points: frozenset[int] = frozenset(), *, also: Collection[str] | None = None
    ) -> None:
        """Select a shape and some of its control points.

        `also`: the shapes that are selected beside it; None keeps them where the shape is one of them.
        """
        before = self.selection.shapes
        beside = (before if shape in before else frozenset()) if also is None else frozenset(also)
        chosen = Selection() if shape is None else Selection(shape, others=beside - {shape})
        self.set_selection(chosen if shape is None else chosen.with_points({shape: points}))

    def set_selection(self, selection: Selection) -> None:
        """Select other shapes and control points."""
        if self.selection != selection:
            self.selection = selection
            self.notify()

    def select_layer(self, name: str) -> None:
        """Select a layer as a whole, with all its shapes."""
        names = [] if self.document is None else [shape.name for shape in members(self.document, name)]
        if names:
            self.set_selection(Selection(names[0], others=frozenset(names[1:]), layer=name))

    def show(self, shape: str, visible: bool) -> None:
        """Show or hide a shape in the viewer only; what is exported does not change."""
        self.hidden = self.hidden - {shape} if visible else self.hidden | {shape}
        self.notify()

    def lock(self, shape: str, locked: bool) -> None:
        """Lock a shape, so that it cannot be picked in the viewer, and no correction of others is carried to it."""
        self.locked = self.locked | {shape} if locked else self.locked - {shape}
        self.notify()

    def free_keys(self, keys: Mapping[str, Mapping[int, Key]]) -> dict[str, dict[int, Key]]:
        """Those of the keys that a machine may set: not of locked shapes, nor on frames that a person has accepted."""
        marks = self.state.marks
        return {
            name: {frame: key for frame, key in row.items() if marks.get(frame) != "accepted"}
            for name, row in keys.items()
            if name not in self.locked
        }

    def show_xsheet(self, sheet: Exposures) -> None:
        """Show which printed piece each frame wears; kept with the view of the project."""
        self.xsheet = sheet
        self.notify()

    def error_scale(self) -> ErrorScale:
        """The colour scale of this shot's expected errors."""
        return self.review.error_scale(0.0 if self.plate is None else BAD_SHARE * self.plate.width)

    def choose_face(self, name: str, pack: str | None) -> bool:
        """Make another face of the shot the current one, or name the current one; one step. False where that is
        impossible.

        `pack`: the current face's pack, which is stored with it.
        """
        before = self.state
        if self.runs.is_live or self.project.refuses() or self.edits.is_gesture_open():
            return False
        try:
            after = face_groups.choose_face(before, name, pack)
        except RotopaintError as error:
            self.say(str(error))
            return False
        if after == before:
            return False
        fresh = set(self.painting.painted_fingerprints) - set(self.stale_frames())
        self._follow_names(before, after)
        self.selection = Selection()
        if before.face:
            self.runs.remember(before)
            self.project.store_face_run(before.face, self.runs.record)
            known = self.project.face_run(after.face)
            # Keep the holds, which belong to the plate and not to a run.
            self.run = known if known != RunRecord() else RunRecord(held=self.runs.record.held)
        self.edits.push("choose face" if before.face else "name face", after)
        self.painting.note(sorted(fresh), after)  # the same paint under other names
        self.store_run()
        return True

    def _follow_names(self, before: State, after: State) -> None:
        """Carry eyes, locks and colours over to the shapes' new names after a change of face or its undo."""
        called = face_groups.names_between(before, after) if before.face != after.face else {}
        if called:
            self.hidden = frozenset(called.get(each, each) for each in self.hidden)
            self.locked = frozenset(called.get(each, each) for each in self.locked)
            self.colours = {called.get(each, each): colour for each, colour in self.colours.items()}

    # --- frames

    def set_span(self, span: tuple[int, int] | None) -> None:
        """In and Out: the frames, both included, that are played, run, painted and edited together; None: all."""
        if span != self.span:
            self.span = span
            self.notify()

    @property
    def wanted_frames(self) -> tuple[int, ...]:
        """The plate's frames that lie between In and Out."""
        frames = () if self.plate is None else self.plate.frames
        return frames if self.span is None else tuple(f for f in frames if self.span[0] <= f <= self.span[1])

    def go_to(self, frame: int) -> None:
        """Show a frame within the plate's range; a missing frame can be shown too, as empty.

        During a drag the frame does not change, because the drag edits that frame.
        """
        self.edits.end_burst()
        if self.plate is not None and (not self.edits.has_gesture or self.corrections.is_ending):
            frame = min(max(frame, self.plate.first), self.plate.last)
            if frame != self.frame:
                self.frame = frame
                self.notify()

    def unseen_places(self) -> dict[str, str]:
        """The third of each seam that the models saw least at this frame; seams that people have keyed here are left
        out."""
        unseen = self.run.unseen.get(self.frame, {})
        if not unseen or self.frame in self.review.settled_frames(self.reviewed_shapes()):
            return {}
        keyed, held = self.review.keyed_frames(), set(self.held_frames())
        return {name: third for name, third in unseen.items() if not held & keyed.get(name, frozenset())}

    def worst(self) -> list[int]:
        """Frames to review, worst first, rated by their worst shape without a human key; accepted frames are left out.

        Errors are weighted by the pose's distance from corrected poses.
        """
        frames, posed = self.plate.frames if self.plate is not None else (), self.state.predicted or self.document
        if posed is not None and posed.landmarks is not self._poses.landmarks:
            self._poses = PoseDistances(posed.landmarks)
        corrected = {self.run.hold_of(frame)[0] for frame in self.review.corrected_frames()}
        return self.run.worst(
            frames,
            settled=self.review.accepted_frames(),
            keyed=self.review.keyed_frames(),
            among=self.reviewed_shapes(),
            novelty=lambda frame: self._poses.novelty(frame, corrected),
        )

    def reviewed_shapes(self) -> frozenset[str] | None:
        """The shapes by which frames are rated: the selected one, else the visible seams, else the visible shapes.

        None where there are no shapes. With `compares_all_shapes`, seams and other shapes count alike.
        """
        document = self.document
        if document is None:
            return None
        if self.shape is not None:
            return frozenset((self.shape.name,))
        seen = [shape for shape in document.shapes if shape.name not in self.hidden]
        seams = [shape for shape in seen if shape.role == "seam"]
        return frozenset(shape.name for shape in (seen if self.compares_all_shapes or not seams else seams))

    def held_frames(self) -> range:
        """The frames that an edit at this frame changes: the frame, or its whole hold."""
        return self.hold_frames(self.frame)

    def must_wait(self) -> bool:
        """Whether edits, undo and redo have to wait for the end of a run; shows the reason."""
        if self.runs.is_live:
            self.say("The run is under way: look, and edit when it has ended")
        return self.runs.is_live

    def hold_frames(self, frame: int) -> range:
        """A frame, or the whole hold that it belongs to."""
        first, last = self.run.hold_of(frame)
        return range(first, last + 1)

    # --- the shot and its project

    def open(self, plate: PlateFacts, out: Path | None = None) -> None:
        """Take a plate into the waiting project, or else as a new shot.

        Results of earlier runs come later, by `take_results`. Raises: PlateError where a project waits for another
        plate; nothing has changed then.
        """
        out = out or default_out(plate)
        if self.project.awaits_plate:
            self.project.join(plate, out)
            self.plate, self.out = plate, out
            self.frame = min(max(self.frame, plate.first), plate.last)
        else:
            self._leave_shot()
            self._close_project()
            self.plate, self.frame, self.out = plate, plate.first, out
            self._forget_view()
            self.edits.show(State())
            self.run = RunRecord()
        self.notify()

    def open_project(self, path: Path) -> PlatePlace:
        """Open a project and show its shot and undo steps; the caller then opens the plate and gives it to `open`.

        Raises: ProjectError, DamagedProjectError; the open shot then stays open.
        """
        self._leave_shot()
        opened = self._read_project(path)
        self.plate, self.out = None, opened.place.out
        self._show_project(opened, awaits_plate=True)
        return opened.place

    def start_project(self, path: Path | None = None, results: Results | None = None) -> None:
        """Store the open shot in a project file from now on; an existing file is opened, otherwise one is made.

        `results`: those in the output folder; shapes that a run outside the panel has written become a step. Raises:
        ProjectError, DamagedProjectError, and PlateError where the file belongs to another plate.
        """
        if path is None and self.plate is not None and self.out is not None:
            path = default_project(self.plate, self.out)
        if path is None:
            return
        shown, run, painted = self.state, self.runs.record, self.painting.painted_fingerprints
        is_there = path.exists()
        opened = self._read_project(path) if is_there else self.project.create(path, shown)
        if is_there and opened.run == RunRecord():  # else the project knows more than the last run
            opened = replace(opened, run=run)
        self._show_project(opened if is_there else replace(opened, run=run, painted=painted), awaits_plate=False)
        if results is not None:
            self.shapes_file.take(results.document)  # we have read it; what another program writes is what comes later
        if not is_there:
            self.project.store_painted(painted)
        if self.plate is not None:
            self.project.join(self.plate, self.out)
        if is_there:
            self._take_newer(results)

    def _read_project(self, path: Path) -> OpenedProject:
        own = self.project.path
        if own is not None and own.resolve() == path.resolve():
            self._close_project()  # else it would be found locked, by ourselves
        return self.project.read(path)

    def _show_project(self, opened: OpenedProject, *, awaits_plate: bool) -> None:
        self._close_project()
        self._forget_view()
        self.view_note = opened.view
        self.painting.show(opened.painted)
        self.run = opened.run
        self.project.take(opened, awaits_plate=awaits_plate)
        self.edits.show(opened.state, opened.store, opened.behind, opened.ahead)
        taught, document = self.project.taught_of(opened.run), opened.state.document
        if taught is not None and document is not None:
            self.runs.restore_taught(taught[0].errors, taught[1], document)
        self.notify()
        if opened.was_left_behind:
            steps = f"{len(opened.behind)} steps" if len(opened.behind) != 1 else "1 step"
            self.say(f"Recovered: the last session ended without closing; {steps} can be undone")

    def _take_newer(self, results: Results | None) -> None:
        """Take shapes that a run outside the panel has written since the project was last open, as one step."""
        path = self.shapes_file.path
        if path is not None and results is not None and results.document is not None and not self.project.is_ours(path):
            if results.document != self.state.document:
                self.take_run(results)
            self.store_run()

    def relink(self, plate: PlateFacts) -> None:
        """Set a new place for the project's plate. Raises PlateError where it is a different plate."""
        self.project.join(plate, self.out)
        self.plate = plate
        self.notify()

    def heartbeat(self) -> None:
        """Renew the project's lock and repeat failed writes; called every 20 seconds."""
        if not self.edits.has_gesture:
            self.project.store_view(self.looked_at())
            self.project.heartbeat(self.state)

    def flush(self) -> None:
        """Wait until every step is in the project file, because another program will read it."""
        self.edits.settle()
        self.project.flush()

    def close(self) -> None:
        """Close the project file; the shot stays on the screen."""
        self._leave_shot()
        self._close_project()
        self.edits.leave_store()

    def _leave_shot(self) -> None:
        """End what is under way: half a drag is no step, what is typed or drawn is one."""
        self.edits.settle()
        if self.edits.has_gesture:
            self.edits.abort()
        self.tell_leaving()

    def tell_leaving(self) -> None:
        """Have what is being typed or drawn become part of the shot."""
        for listener in self.leaving:
            listener()

    def _close_project(self) -> None:
        self.project.store_view(self.looked_at())
        self.project.close(self.state)

    def _forget_view(self) -> None:
        """Reset selection, hidden shapes and gestures for another shot, or for none."""
        self.selection, self.hidden, self.locked = Selection(), frozenset(), frozenset()
        self.span = self._asked = self._asked_frames = None
        self.colours, self.view_note, self.xsheet = {}, {}, {}
        self.shapes_file.take(None)
        self.painting.show({})
        self.runs.forget()

    # --- runs

    def take_results(self, results: Results) -> None:
        """Take the results of an earlier run of this shot, with the artist's keys from an interrupted run restored."""
        if results.out != self.out:
            return  # another shot has been opened since
        if self.project.is_open:
            self.shapes_file.take(results.document)  # the project knows the shot
            return
        document = results.document
        self.shapes_file.take(document)
        predicted = None if document is None else manual_keys.without_manual_edits(document)
        if document is not None and results.hand is not None:
            document = manual_keys.with_manual_keys(document, results.hand)
        self.run = results.run
        self.painting.show({})
        if results.has_clean:
            self.painting.note(self._whole_frames(), State(document=results.document))
        self.edits.show(replace(self.state, document=document, predicted=predicted))
        self.notify()

    def prepare_run(self, frames: Collection[int] | None = None) -> None:
        """Before a run overwrites the shapes file: save a copy of the artist's keys on disk.

        `frames`: those that the run is asked for; None: all.
        """
        self.flush()
        self.runs.remember(self.state)
        self._asked = self.state
        self._asked_frames = None if frames is None or self.plate is None else frozenset(frames)
        document, out = self.state.document, self.out
        if document is None or out is None:
            return
        if any(manual_keys.manual_keys(shape) for shape in document.shapes):
            write_text(out / HAND_NAME, documents.dumps(document))

    def take_run(self, results: Results) -> None:
        """After a run: take its shapes, with the artist's keys and seam settings restored, in one step.

        Frames outside the run do not change.
        """
        if results.out != self.out or results.document is None:
            return
        before, asked = self.state, self._asked_frames
        self._asked_frames = None
        if asked is None:  # a run of all, or one from outside the panel
            ran = range(results.document.first_frame, results.document.last_frame + 1)
            asked = merge_run.partial_run_frames(ran, before.document)
        self.shapes_file.take(results.document)
        if self._asked is None:  # events of a run of our own have changed the record since
            self.runs.remember(before)
        self.run = results.run if asked is None else results.run.joined(self.runs.record, asked)
        edited = self.runs.take_edited_predictions()
        if self._asked is not None and before.predicted is not None:  # it may have gone on where another had ended
            edited = merge_run.with_earlier_predictions(edited, results.document, before.predicted)
        self.edits.push("run", merge_run.merge_run(before, results.document, asked, edited=edited))
        self._note_run(results, before, asked)
        self.store_run()
        if before.document is not None:
            frames = None if self._is_whole(asked, before.document) else asked
            self.corrections.carry_on(before.document, frames, lambda: self._take_marks_off(before))
        if self.shapes_file.is_saved and not self.project.is_read_only:
            (results.out / HAND_NAME).unlink(missing_ok=True)
        self.notify()

    def _take_marks_off(self, before: State) -> None:
        """Where a run has moved accepted frames, their mark goes."""
        document = self.state.document
        marks = self.state.marks if document is None else merge_run.standing_marks(before, document)
        if marks != before.marks and self.state.marks == before.marks:
            self.edits.push("take marks off", replace(self.state, marks=marks))
            self.say(f"{len(before.marks) - len(marks)} accepted frames moved: look at them again")

    def _is_whole(self, asked: Collection[int] | None, document: RotoDocument) -> bool:
        """Whether a run of some frames (None: of all) covered every frame of the shapes on disk."""
        if asked is None or self.plate is None:
            return asked is None
        missing = set(range(document.first_frame, document.last_frame + 1)) - {*self.plate.frames}
        return merge_run.partial_run_frames({*asked, *missing}, document) is None

    def keep_version(self) -> None:
        """Store the current shapes as the version with which later changes are compared."""
        self.version = self.state.document

    def take_expected(self, errors: Mapping[str, Mapping[int, float]]) -> None:
        """Set the expected errors of the next predictions; undo restores the old ones with the old predictions."""
        self.runs.remember(self.state)
        self.run = self.runs.record.with_errors(errors)
        self.store_run()

    def take_taught(self, before: RotoDocument, keys: Keys, errors: Mapping[str, Mapping[int, float]]) -> None:
        """Set the expected errors of Teach's curves, and store them in the project."""
        self.runs.take_taught(before, keys, errors)
        if (taught := self.runs.teach_effect) is not None:
            self.project.store_taught(self.runs.record, *taught)

    def store_run(self) -> None:
        """Store the run record in the project, and the identity of the shapes file that belongs to it."""
        self.project.store_run(self.runs.record)
        self.project.store_shapes(self.shapes_file.path)

    def stale_frames(self) -> list[int]:
        """Frames whose clean plate on disk is out of date or missing."""
        return [] if self.plate is None else self.painting.stale(self.state, self.plate.frames)

    def _note_run(self, results: Results, before: State, asked: Collection[int] | None) -> None:
        """Record the frames that a run has painted, with people's settings where the run read the project."""
        if results.has_clean and results.document is not None:
            drawn = State() if self.project.path is None else self._asked or before
            frames = [frame for frame in self._whole_frames() if asked is None or frame in asked]
            self.painting.note(frames, merge_run.drawn_state(drawn, results.document, asked))
        self._asked = None

    def _whole_frames(self) -> list[int]:
        """Frames of the plate that the last run did not fail on."""
        return [frame for frame in self.plate.frames if frame not in self.run.failed] if self.plate is not None else []
