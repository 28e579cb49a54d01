"""A shot under the hand: its state, what is selected, gestures, undo, marks, seams and corrections. No Qt, no numpy.

Undo keeps whole states; states are frozen values, so that a step costs what changed and nothing else. Everything that
changes goes through `act` or a gesture, one step each, and is told to the listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from rotopaint_ai.errors import ProjectError, UsageError
from rotopaint_ai.project.names import with_name
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import Mark, SeamSettings, State
from rotopaint_ai.shapes import manual_keys
from rotopaint_ai.shapes.manual_keys import settled_in
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ui.session import seam_settings
from rotopaint_ui.session.corrections import Corrections, Live, Place
from rotopaint_ui.session.history import History, Step
from rotopaint_ui.session.live_document import LiveDocument

LET_GO = "Let go of the drag first, or leave it with Esc"
_NOTHING: dict[str, frozenset[int]] = {}


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected shape and, of it, the selected control points."""

    shape: str | None = None
    points: frozenset[int] = frozenset()


class Editing:
    """The open shot's state. `listeners` are called after every change, `said` with lines for the status."""

    def __init__(self) -> None:
        self.frame = 0
        self.selection = Selection()
        self.run = RunRecord()
        self.hidden: frozenset[str] = frozenset()
        self.locked: frozenset[str] = frozenset()
        self.live: Live | None = None
        self.listeners: list[Callable[[], None]] = []
        self.said: list[Callable[[str], None]] = []
        self._stream: LiveDocument | None = None
        self._live_document: RotoDocument | None = None
        self._state = State()
        self._gesture: Step | None = None
        self._keyed: tuple[RotoDocument, RotoDocument | None, dict[str, frozenset[int]]] | None = None
        self._settled: tuple[object, object, object, AbstractSet[int]] | None = None
        self._burst: object = None  # what the keys that are pressed one after the other move
        self._history = History()
        self._runs: list[tuple[RotoDocument | None, RunRecord]] = []  # records by what the models had said
        self._corrections = Corrections(self)

    @property
    def state(self) -> State:
        """The state that is shown."""
        return self._state

    @property
    def document(self) -> RotoDocument | None:
        """The shot's shapes and landmarks, while a run is under way those that have come; None before the first run."""
        return self._state.document if self._live_document is None else self._live_document

    @property
    def is_live(self) -> bool:
        """Whether what is shown is a run that is under way: to look at, not to edit."""
        return self._stream is not None

    @property
    def shape(self) -> RotoShape | None:
        """The selected shape."""
        document, name = self.document, self.selection.shape
        if document is None or name is None:
            return None
        return next((shape for shape in document.shapes if shape.name == name), None)

    def corrected_frames(self) -> set[int]:
        """Frames where a person has keyed a shape or placed a landmark."""
        document = self.document
        if document is None:
            return set()
        return {f for shape in document.shapes for f in manual_keys.human_keys(shape)} | set(document.landmarks.hand)

    def keyed_frames(self) -> dict[str, frozenset[int]]:
        """For every shape the frames where a person has keyed it, or moved it by a landmark that sits on it."""
        document, predicted = self.document, None if self.is_live else self._state.predicted
        if document is None:
            return _NOTHING
        known = self._keyed
        if known is None or known[0] is not document or known[1] is not predicted:
            known = self._keyed = document, predicted, settled_in(predicted, document)
        return known[2]

    def settled_frames(self) -> AbstractSet[int]:
        """Frames that a person is done with: accepted, or corrected with no shape left that they have not keyed."""
        keyed, marks, run = self.keyed_frames(), self._state.marks, self.run
        known = self._settled
        if known is None or any(a is not b for a, b in zip(known, (keyed, marks, run))):
            done = {frame for frame in set().union(*keyed.values()) if run.error_left(frame, keyed) is None}
            done |= {frame for frame, mark in marks.items() if mark == "accepted"}
            known = self._settled = keyed, marks, run, done
        return known[3]

    def held_frames(self) -> range:
        """The frames that an edit here changes: this frame, or the whole hold that it belongs to."""
        return self.hold_frames(self.frame)

    def hold_frames(self, frame: int) -> range:
        """A frame, or the whole hold that it belongs to."""
        first, last = self.run.hold_of(frame)
        return range(first, last + 1)

    def select(self, shape: str | None, points: frozenset[int] = frozenset()) -> None:
        """Select a shape and some of its control points."""
        if self.selection != Selection(shape, points):
            self.selection = Selection(shape, points)
            self._tell()

    def show(self, shape: str, visible: bool) -> None:
        """Show or hide a shape in the viewer only; what is exported does not change."""
        self.hidden = self.hidden - {shape} if visible else self.hidden | {shape}
        self._tell()

    def lock(self, shape: str, locked: bool) -> None:
        """Keep a shape from being taken hold of in the viewer."""
        self.locked = self.locked | {shape} if locked else self.locked - {shape}
        self._tell()

    def say(self, text: str) -> None:
        """Tell the artist something in one line."""
        for listener in self.said:
            listener(text)

    # --- acts and undo

    def act(self, label: str, new: State) -> None:
        """Go to a new state in one step that can be undone. While a hand drags nothing is done, and it is said."""
        if self.is_gesture_open():
            self._tell()  # what was pressed shows again what is
        elif new != self._state:
            self._push(Step(label, self._state), new)
            self._state = new
            self._tell()

    def begin(self, label: str) -> None:
        """Begin a gesture: the states shown until `commit` become one step."""
        self.settle()
        self._gesture = Step(label, self._state)

    def begin_burst(self, label: str, what: object) -> bool:
        """Begin a gesture of keys pressed one after the other, or go on with it; whether it goes on.

        It lasts until `end_burst`, until something else is done, or until `what` they move is another thing.
        """
        if self._burst is not None and self._burst == what:
            return True
        self.begin(label)
        self._burst = what
        return False

    def end_burst(self) -> None:
        """The keys rest: what they did becomes one step, once the shapes have followed."""
        if self._burst is not None:
            self._burst = None
            self._corrections.end_landmarks()

    def settle(self) -> None:
        """Something else begins: keys and drags whose last answer has not come end with what is on the screen."""
        self.end_burst()
        self._corrections.settle()

    def is_gesture_open(self) -> bool:
        """Whether a hand drags, which must end before anything else is done; says so."""
        self.settle()
        if self._gesture is not None:
            self.say(LET_GO)
        return self._gesture is not None

    @property
    def before_gesture(self) -> State:
        """The state when the gesture began; the current one without a gesture."""
        before = self._gesture.before if self._gesture is not None else None
        return self._state if before is None else before

    @property
    def is_dragging(self) -> bool:
        """Whether a gesture goes on and has changed something."""
        return self._gesture is not None and self._gesture.before is not self._state

    def preview(self, new: State) -> None:
        """Show a state while a gesture goes on; one that was ended by something else shows nothing more."""
        if self._gesture is not None:
            self._state = new
            self._tell()

    def commit(self) -> None:
        """End the gesture; one that has led back to where it began was none."""
        step, self._gesture = self._gesture, None
        if step is not None and step.before != self._state:
            self._push(step, self._state)
            self._tell()
        elif step is not None and step.before is not None:
            self._state = step.before

    def abort(self) -> None:
        """End the gesture and take it back."""
        self._burst = None
        step, self._gesture = self._gesture, None
        self._corrections.forget()
        if step is not None and step.before is not None:
            self._state = step.before
            self._tell()

    def undo(self) -> str | None:
        """Take the last step back; returns what it was called, None when there is none."""
        return self._swap(self._history.undo)

    def redo(self) -> str | None:
        """Do the last undone step again; returns what it was called, None when there is none."""
        return self._swap(self._history.redo)

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to take back, or one is being made."""
        return self._history.can_undo or self.is_dragging

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to do again."""
        return self._history.can_redo

    @property
    def last_step(self) -> str | None:
        """What the step that undo would take back is called."""
        return self._history.labels[-1] if self._history.can_undo else None

    # --- review and seams

    def mark(self, frames: Collection[int], mark: Mark | None) -> None:
        """Judge frames: accepted, needs work, or (None) not looked at. One step."""
        if self.refuses():
            self._tell()  # what was pressed shows again what is
            return
        marks = {frame: old for frame, old in self._state.marks.items() if frame not in frames}
        if mark is not None:
            marks |= dict.fromkeys(sorted(frames), mark)
        label = {"accepted": "accept", "needs work": "needs work", None: "clear mark"}[mark]
        self.act(label, replace(self._state, marks=dict(sorted(marks.items()))))

    def seam(self, shape: str) -> SeamSettings:
        """What is set for a seam."""
        return self._state.seam(shape)

    def set_seam(self, shape: str, settings: SeamSettings) -> None:
        """Set a seam by hand; its shape takes width, feather and taper. In a gesture it is previewed, else one step."""
        new = seam_settings.applied(self.before_gesture, shape, settings)
        if self._gesture is not None:
            self.preview(new)
        else:
            self.act("seam settings", new)

    # --- names

    def name_of(self, shape: str) -> str:
        """What a shape is called on the screen and in exchange files."""
        return self._state.names.get(shape, shape)

    def rename(self, shape: str, given: str) -> bool:
        """Call a shape something else, in one step; False, and a line that says why, where that cannot be."""
        if self._state.document is None or self.is_live or self.refuses():
            return False
        try:
            names = with_name(self._state.names, self._state.document, shape, given)
        except UsageError as error:
            self.say(str(error))
            return False
        self.act("rename shape", replace(self._state, names=names))
        return True

    # --- corrections

    def move_landmarks(self, frame: int, places: Mapping[int, Place]) -> None:
        """Put landmarks at places (x, y), inside a gesture; the shapes that hang on them follow."""
        self._corrections.move_landmarks(frame, places)

    def end_landmarks(self) -> None:
        """The hand let go of the landmarks: one step, once the shapes have followed."""
        self._corrections.end_landmarks()

    @property
    def awaits_shapes(self) -> bool:
        """Whether a landmark has moved whose shapes have not followed yet: the engine answers within milliseconds."""
        return self._corrections.is_asking

    def proposed_reach(self, frame: int) -> tuple[int, int]:
        """First and last frame that a correction at `frame` is proposed for."""
        return self._corrections.proposed_reach(frame)

    def spread(self, frame: int, first: int, last: int) -> None:
        """Spread the correction at `frame` over `first` to `last`; human keys stay. One step, when it is worked out."""
        if not self.refuses():
            self._corrections.spread(frame, first, last)

    def refit(self) -> None:
        """Refit the whole shot from the keys that people made. One step, when it is worked out."""
        if not self.refuses():
            self._corrections.refit()

    def refuses(self) -> bool:
        """Whether nothing may be changed; says why."""
        return False

    def flush(self) -> None:
        """Wait until every step is on disk: somebody else is about to read it."""

    def _swap(self, move: Callable[[State], tuple[str, State] | None]) -> str | None:
        self.settle()
        said = self._state.predicted
        try:
            moved = move(self._state) if self._gesture is None else None
        except ProjectError as error:
            self.say(str(error))
            return None
        if moved is None:
            return None
        self._remember_run()
        label, self._state = moved
        if self._state.predicted is not said:
            self._recall_run()
        self._tell()
        return label

    def _remember_run(self) -> None:
        """What is known of the frames belongs to what the models have said: a run that is undone takes both away."""
        said = self._state.predicted
        self._runs = [*(row for row in self._runs if row[0] is not said), (said, self.run)]

    def _recall_run(self) -> None:
        """What was known of the frames in the state that undo has brought back, where this session saw it."""
        run = next((run for said, run in self._runs if said is self._state.predicted), None)
        if run is not None:
            self.run = run
            self.keep_run()

    def keep_run(self) -> None:
        """Keep what is known of the shot's frames."""

    def _push(self, step: Step, state: State) -> None:
        self._history.push(step, state)

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
