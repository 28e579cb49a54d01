"""The shot that is open: plate, document, crop boxes, selection, what the last run said, and undo. No Qt, no numpy.

Undo keeps whole states; states are frozen values, so that a step costs what changed and nothing else. Everything that
changes goes through `act` or a gesture, one step each, and is told to the listeners.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.files import write_text
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ui import edits, record
from rotopaint_ui.record import RunRecord
from rotopaint_ui.stream import Stream

MAX_UNDO = 500
SHAPES_NAME = "shapes.roto.json"
HAND_NAME = "shapes.before-run.roto.json"  # the artist's keys while a run is under way; gone when it has ended
RUN_NAME = "run.json"


@dataclass(frozen=True, slots=True)
class Box:
    """A crop box dragged by hand: top-left corner and size, plate pixels."""

    x: float
    y: float
    width: float
    height: float

    def word(self, frame: int) -> str:
        """As the command line takes it."""
        return f"{frame}:" + ",".join(f"{value:.6g}" for value in (self.x, self.y, self.width, self.height))


@dataclass(frozen=True, slots=True)
class PlateFacts:
    """What the decoder said of the open plate."""

    source: str
    name: str
    path: Path
    width: int
    height: int
    pixel_aspect: float
    fps: float
    frames: tuple[int, ...]
    missing: tuple[int, ...]
    colourspace: str
    bit_depth: str

    @classmethod
    def from_json(cls, source: str, facts: Mapping[str, Any]) -> PlateFacts:
        """The decoder's reply to an open request."""
        return cls(
            source=source,
            name=facts["name"],
            path=Path(facts["path"]),
            width=facts["width"],
            height=facts["height"],
            pixel_aspect=facts["pixel_aspect"],
            fps=facts["fps"],
            frames=tuple(facts["frames"]),
            missing=tuple(facts["missing"]),
            colourspace=facts["colourspace"],
            bit_depth=facts["bit_depth"],
        )

    @property
    def first(self) -> int:
        """First frame on disk."""
        return self.frames[0]

    @property
    def last(self) -> int:
        """Last frame on disk."""
        return self.frames[-1]


@dataclass(frozen=True, slots=True)
class State:
    """What undo brings back."""

    document: RotoDocument | None = None
    crops: Mapping[int, Box] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """An act that can be undone: what it was called, and the state before it."""

    label: str
    before: State


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected shape and, of it, the selected control points."""

    shape: str | None = None
    points: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Results:
    """What a run left in its folder. `trouble` is one line on what could not be read."""

    out: Path
    document: RotoDocument | None = None
    hand: RotoDocument | None = None  # the artist's keys from before a run that was cut off
    run: RunRecord = field(default_factory=RunRecord)
    trouble: str | None = None


def read_results(out: Path) -> Results:
    """Read what a run left; touches nothing but the disk, so that it may run beside the screen."""
    found = Results(out)
    try:
        if (out / SHAPES_NAME).is_file():
            found = replace(found, document=documents.read(out / SHAPES_NAME))
        if (out / HAND_NAME).is_file():
            found = replace(found, hand=documents.read(out / HAND_NAME))
        if (out / RUN_NAME).is_file():
            found = replace(found, run=record.read(out / RUN_NAME))
    except (RotopaintError, OSError) as error:
        found = replace(found, trouble=str(error))
    return found


class Session:
    """One open shot. `listeners` are called after every change, with no arguments."""

    def __init__(self) -> None:
        self.plate: PlateFacts | None = None
        self.frame = 0
        self.selection = Selection()
        self.run = RunRecord()
        self.hidden: frozenset[str] = frozenset()
        self._stream: Stream | None = None
        self._live: RotoDocument | None = None
        self.out: Path | None = None
        self.listeners: list[Callable[[], None]] = []
        self._state = State()
        self._saved: RotoDocument | None = None
        self._stepped_to: int | None = None
        self._gesture: Step | None = None
        self._undo: list[Step] = []
        self._redo: list[Step] = []

    # --- the shot

    def open(self, plate: PlateFacts, out: Path | None = None) -> None:
        """Take a plate. What an earlier run left in its output folder comes by `take_results`."""
        self.plate, self.frame, self.out = plate, plate.first, out or default_out(plate)
        self.selection, self.run, self.hidden = Selection(), RunRecord(), frozenset()
        self._state, self._saved, self._gesture = State(), None, None
        self._undo.clear()
        self._redo.clear()
        self._tell()

    def take_results(self, results: Results) -> None:
        """Take what an earlier run of this shot left; the artist's keys from a run that was cut off are put back."""
        if results.out != self.out:
            return  # another shot has been opened since
        document = self._saved = results.document
        if document is not None and results.hand is not None:
            document = edits.with_human_keys(document, results.hand)
        self._state, self.run = replace(self._state, document=document), results.run
        self._undo.clear()
        self._redo.clear()
        self._tell()

    @property
    def state(self) -> State:
        """The state that is shown."""
        return self._state

    @property
    def document(self) -> RotoDocument | None:
        """The shot's shapes and landmarks, while a run is under way those that have come; None before the first run."""
        return self._state.document if self._live is None else self._live

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

    def go_to(self, frame: int) -> None:
        """Show a frame, kept inside the plate's range; holes can be stood on, they show that nothing is there."""
        if self.plate is not None:
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
        """Frames that need eyes, the worst first; frames that a person has keyed are done."""
        frames = self.plate.frames if self.plate is not None else ()
        document = self.document
        shapes = document.shapes if document is not None else ()
        return self.run.worst(frames, settled=frozenset(f for shape in shapes for f in edits.human_keys(shape)))

    def select(self, shape: str | None, points: frozenset[int] = frozenset()) -> None:
        """Select a shape and some of its control points."""
        if self.selection != Selection(shape, points):
            self.selection = Selection(shape, points)
            self._tell()

    def show(self, shape: str, visible: bool) -> None:
        """Show or hide a shape in the viewer only; what is exported does not change."""
        self.hidden = self.hidden - {shape} if visible else self.hidden | {shape}
        self._tell()

    # --- acts and undo

    def act(self, label: str, new: State) -> None:
        """Go to a new state in one step that can be undone."""
        if new != self._state:
            self._push(Step(label, self._state))
            self._state = new
            self._tell()

    def begin(self, label: str) -> None:
        """Begin a gesture: the states shown until `commit` become one step."""
        self._gesture = Step(label, self._state)

    @property
    def before_gesture(self) -> State:
        """The state when the gesture began; the current one without a gesture."""
        return self._gesture.before if self._gesture is not None else self._state

    @property
    def is_dragging(self) -> bool:
        """Whether a gesture goes on and has changed something."""
        return self._gesture is not None and self._gesture.before != self._state

    def preview(self, new: State) -> None:
        """Show a state while a gesture goes on."""
        self._state = new
        self._tell()

    def commit(self) -> None:
        """End the gesture."""
        step, self._gesture = self._gesture, None
        if step is not None and step.before != self._state:
            self._push(step)
            self._tell()

    def abort(self) -> None:
        """End the gesture and take it back."""
        step, self._gesture = self._gesture, None
        if step is not None:
            self._state = step.before
            self._tell()

    def undo(self) -> str | None:
        """Take the last step back; returns what it was called, None when there is none."""
        return self._swap(self._undo, self._redo)

    def redo(self) -> str | None:
        """Do the last undone step again; returns what it was called, None when there is none."""
        return self._swap(self._redo, self._undo)

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to take back."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to do again."""
        return bool(self._redo)

    def held_frames(self) -> range:
        """The frames that an edit here changes: this frame, or the whole hold that it belongs to."""
        first, last = self.run.hold_of(self.frame)
        return range(first, last + 1)

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

    def prepare_run(self) -> None:
        """Before a run writes its shapes over ours: put the artist's keys in safety, on disk."""
        document, out = self._state.document, self.out
        if document is not None and out is not None and any(edits.human_keys(shape) for shape in document.shapes):
            write_text(out / HAND_NAME, documents.dumps(document))

    def take_run(self, results: Results) -> None:
        """After a run: take its shapes with the artist's keys put back, in one step. They are still to be saved."""
        if results.out != self.out or results.document is None:
            return
        new = self._saved = results.document
        if self._state.document is not None:
            new = edits.with_human_keys(new, self._state.document)
        self.run = results.run
        self.act("run", replace(self._state, document=new))
        if self.is_saved:
            (results.out / HAND_NAME).unlink(missing_ok=True)
        self._tell()

    def take_event(self, facts: Mapping[str, Any]) -> None:
        """Take an event of a run that is under way; `show_live` puts what came on the screen."""
        if facts["event"] == "started":
            self._stream = Stream(facts)
        elif facts["event"] == "frame" and self._stream is not None:
            self._stream.add(facts)
            self.run = self.run.with_frame(facts)
        elif facts["event"] == "error" and "frame" in facts:
            self.run = self.run.with_frame({**facts, "status": "failed"})

    def show_live(self) -> None:
        """Show the shapes that have come so far, the artist's own keys among them."""
        if self._stream is not None:
            live = self._stream.document()
            own = self._state.document
            self._live = live if own is None else edits.with_human_keys(live, own)
            self._tell()

    def end_live(self) -> None:
        """The run has ended: back to the document."""
        self._stream = self._live = None
        self._tell()

    def _swap(self, source: list[Step], target: list[Step]) -> str | None:
        if not source or self._gesture is not None:
            return None
        step = source.pop()
        target.append(Step(step.label, self._state))
        self._state = step.before
        self._tell()
        return step.label

    def _push(self, step: Step) -> None:
        self._undo.append(step)
        del self._undo[:-MAX_UNDO]
        self._redo.clear()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()


def write_document(path: Path, document: RotoDocument) -> None:
    """Write the shot's document; the copy of the artist's keys that was made before a run has then done its duty."""
    documents.write(path, document)
    path.with_name(HAND_NAME).unlink(missing_ok=True)


def default_out(plate: PlateFacts) -> Path:
    """Where a run of this plate writes when nobody says: beside the plate's folder, named after folder and plate."""
    folder = plate.path.parent
    return folder.parent / f"{folder.name}_rotopaint" / (plate.name or "plate")
