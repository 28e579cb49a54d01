"""Teach shot: the whole shot solved from its corrections and its pictures, beside the screen, as one step.

It has an engine of its own, which keeps what it has read of the shot: the hand goes on with landmarks meanwhile, and
the second time is quick. Keys that people made never move, nor do those that they make while it works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.project.state import Mark, State
from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.manual_keys import human_keys, with_keys
from rotopaint_ai.shapes.roto import Key, Landmark, RotoDocument
from rotopaint_ui.engine.live_client import LiveClient, TaughtKeys
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.session.key_diff import KeyDiff, keys_moved_between
from rotopaint_ui.session.repeats import repeated_correction
from rotopaint_ui.session.session import ShotSession

STEP = "teach shot"
SEEN_PX = 0.1  # a frame whose curves move by less counts as not moved
REST_MS = 150  # between looks whether the hand has let go


class Teacher(QObject):
    """`said` gives a line and its kind, `progressed` done, total and a note, `taught` the shapes before and after."""

    said = Signal(str, str)
    progressed = Signal(int, int, str)
    taught = Signal(object, object)
    ended = Signal()

    def __init__(self, session: ShotSession, engine: Callable[[], Engine], parent: QObject) -> None:
        super().__init__(parent)
        self.live = LiveClient(self)
        self.live.project_path = lambda: session.project.path
        self.live.said.connect(self._tell_trouble)
        self.live.lost.connect(self._tell_trouble)
        self.live.progressed.connect(self._tell_progress)
        self._session, self._engine = session, engine
        self._shot: tuple[PlateChoice, str | None] | None = None  # what the engine was told to open
        self._asked: State | None = None
        self._came: TaughtKeys | None = None
        self._has_said_why = False  # there is no answer
        self._told: tuple[RotoDocument, str] | None = None  # of the models, and the shape that was offered
        self._marked: frozenset[int] = frozenset()  # frames whose marks are those that teaching made last
        self._learned: frozenset[int] = frozenset()  # corrected frames that the shot was taught from
        self._found: tuple[RotoDocument, tuple[str, int] | None] | None = None
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._put_in)
        session.listeners.append(self._keep_own_marks)

    @property
    def is_running(self) -> bool:
        """Whether the shot is being taught."""
        return self._asked is not None

    def teach(self, choice: PlateChoice, pack: str | None) -> None:
        """Begin; does nothing but say why where nobody has corrected anything, or it is under way."""
        session = self._session
        if self.is_running:
            self.said.emit("The shot is being taught already; Esc stops it", "plain")
            return
        if session.state.document is None or not session.review.corrected_frames():
            self.said.emit("Nothing to learn from yet: correct a few frames first", "plain")
            return
        if session.project.refuses() or session.edits.is_gesture_open():
            return
        try:
            self._prepare(choice, pack)
        except RotopaintError as error:
            self.said.emit(str(error), "trouble")
            return
        session.flush()
        self._has_said_why = False
        self._asked, self._learned = session.state, frozenset(session.review.corrected_frames())
        self.said.emit("Teach shot: looking at every pose again, from your corrections; Esc stops it", "plain")
        self.progressed.emit(0, 0, "")
        self.live.teach(session.state, self._take)

    def stop(self) -> None:
        """Leave it; nothing has changed."""
        if self.is_running:
            self.live.shut_down("kill")
            self._end()
            self.said.emit("Teach shot: stopped, nothing was changed", "plain")

    def forget(self) -> None:
        """Another shot is open."""
        self.stop()
        self._told = self._found = None
        self._learned = self._marked = frozenset()

    def shut_down(self) -> None:
        """End the engine; what it works on is left."""
        self._end()
        self.live.shut_down("kill")

    def offer(self) -> str:
        """Why the shot should be taught now, in one line; empty where corrections do not repeat themselves.

        What was offered once is said once.
        """
        state, session = self._session.state, self._session
        if state.document is None or state.predicted is None or self.is_running:
            return ""
        if self._found is None or self._found[0] is not state.document:
            self._found = state.document, repeated_correction(state.predicted, state.document, session.hold_frames)
        found = self._found[1]
        if found is None or session.review.corrected_frames() <= self._learned:
            return ""
        name, n = found
        text = f"{session.names.of(name)} was corrected the same way {n} times: Teach shot carries it over the rest"
        if self._told != (state.predicted, name):
            self._told = state.predicted, name
            self.said.emit(text, "plain")
        return text

    def _prepare(self, choice: PlateChoice, pack: str | None) -> None:
        """Tell the engine which plate and pack; what it has read before is kept where they are the same."""
        self.live.use(self._engine())
        if self._shot != (choice, pack):
            self._shot = choice, pack
            self.live.load_pack(pack)
            self.live.open_plate(choice.source, choice.colourspace)

    def _tell_progress(self, done: int, total: int) -> None:
        if self.is_running:
            self.progressed.emit(done, total, f"pose {done} of {total}" if done < total else "solving the seams")

    def _tell_trouble(self, text: str) -> None:
        self._has_said_why = True
        self.said.emit(text, "trouble")

    def _keep_own_marks(self) -> None:
        """A mark that was taken back, or made another one, is a person's from then on."""
        marks = self._session.state.marks
        self._marked = frozenset(frame for frame in self._marked if marks.get(frame) == "needs work")

    def _end(self) -> None:
        self._asked = self._came = None
        self._rest.stop()
        self.ended.emit()

    def _take(self, taught: TaughtKeys | None) -> None:
        if not self.is_running:
            return
        if taught is None:
            self._end()
            if not self._has_said_why:
                self.said.emit("Teach shot: no answer, nothing was changed", "trouble")
            return
        self._came = taught
        self._put_in()

    def _put_in(self) -> None:
        """Put what came into the shot as it is now, once no hand drags."""
        session, asked, taught = self._session, self._asked, self._came
        if asked is None or taught is None:
            return
        if session.edits.has_gesture or session.runs.is_live:
            self._rest.start()
            return
        before = session.state
        self._end()
        if before.document is None or asked.document is None or before.predicted is not asked.predicted:
            self.said.emit("The shot was run again meanwhile; Teach shot once more", "trouble")
            return
        if not keeps_corrections(asked.document, before.document):
            self.said.emit("Teach shot once more: a correction that it learned from was changed meanwhile", "trouble")
            return
        alike = shape_kinds(asked.document) & shape_kinds(before.document)
        keys = {name: taught.keys[name] for name, _, _ in alike if name in taught.keys}
        document = with_landmarks(before.document, with_keys(before.document, keys))
        judged: dict[int, Mark] = {frame: mark for frame, mark in before.marks.items() if frame not in self._marked}
        doubtful = {frame for frames in taught.doubtful.values() for frame in frames} - set(judged)
        marks: dict[int, Mark] = {**judged, **dict.fromkeys(doubtful, "needs work")}
        session.edits.act(STEP, replace(before, document=document, marks=dict(sorted(marks.items()))))
        self._marked = frozenset(doubtful)
        moved = keys_moved_between(before.document, document)
        self.taught.emit(before.document, document)
        session.notify()
        self.said.emit(summary_of(moved, session, len(doubtful)), "good")


def shape_kinds(document: RotoDocument) -> set[tuple[str, int, bool]]:
    """Name, number of control points, and whether it is closed, of every shape that has keys."""
    return {(shape.name, shape.n_points, shape.closed) for shape in document.shapes if shape.keys}


def keeps_corrections(asked: RotoDocument, now: RotoDocument) -> bool:
    """Whether every human key and hand landmark of a document is still the same in a later one; new ones may be."""
    return _corrections(asked).items() <= _corrections(now).items()


def _corrections(document: RotoDocument) -> dict[tuple[str, int], Key | Landmark | None]:
    made: dict[tuple[str, int], Key | Landmark | None] = {
        (shape.name, frame): key for shape in document.shapes for frame, key in human_keys(shape).items()
    }
    marks = document.landmarks
    for frame, names in marks.hand.items():
        row = dict(zip(marks.names, marks.keys.get(frame, ())))
        made |= {(f"landmark {name}", frame): row.get(name) for name in names}
    return made


def summary_of(moved: KeyDiff, session: ShotSession, n_doubtful: int) -> str:
    """What teaching has changed, in one line."""
    frames = [frame for frame, px in moved.by_frame.items() if px >= SEEN_PX]
    total = 0 if session.plate is None else len(session.plate.frames)
    marked = f"; {n_doubtful} marked needs work" if n_doubtful else ""
    if not frames:
        return f"Teach shot: every frame already fits, none was moved{marked}"
    at = max(frames, key=moved.by_frame.__getitem__)
    most = f"at most {moved.by_frame[at]:.1f} px at {at}"
    return f"Teach shot: moved {len(frames)} of {total} frames, {most}{marked}. Hold U to see them before"
