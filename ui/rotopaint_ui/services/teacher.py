"""Teach shot: the whole shot solved from its corrections and its pictures, beside the screen, as one step.

It has an engine of its own, which keeps what it has read of the shot: the hand goes on with landmarks meanwhile, and
the second time is quick. Keys that people made never move, nor do those that they make while it works.

Learn shot first trains a pack on the corrected poses, in a process of its own, and has the engine read the shot with
that. What it says stands for the models from then on, so that later corrections are carried on from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.project.merge_run import SEEN_PX
from rotopaint_ai.project.state import Mark, State
from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.manual_keys import manual_keys, with_model_keys
from rotopaint_ai.shapes.roto import Key, Landmark, RotoDocument
from rotopaint_ui.engine.live_client import LiveClient, TaughtKeys
from rotopaint_ui.engine.run_worker import outcome_kind
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.services.learner import Learner, LessonOfShot, TrainingProbe
from rotopaint_ui.session.key_diff import KeyDiff, keys_moved_between
from rotopaint_ui.session.repeats import ENOUGH_POSES, repeated_correction
from rotopaint_ui.session.session import ShotSession

TEACH, LEARN = "Teach shot", "Learn shot"  # their steps are called so, too
_BEGINS = {
    TEACH: "looking at every pose again, from your corrections",
    LEARN: "a model for this character from the corrected poses, two minutes or less; go on meanwhile",
}
REST_MS = 150  # interval of checks whether the drag has ended


class Teacher(QObject):
    """`message_sent` gives a line and its kind, `progressed` done, total and a note, `taught` the shapes before and
    after."""

    message_sent = Signal(str, str)
    progressed = Signal(int, int, str)
    taught = Signal(object, object)
    ended = Signal()
    wants_look = Signal()  # the offer may have changed
    learnt = Signal(str)  # the folder of the pack that Learn shot has made

    def __init__(self, session: ShotSession, engine: Callable[[], Engine], parent: QObject) -> None:
        super().__init__(parent)
        self.live = LiveClient(self)
        self.live.project_path = lambda: session.project.path
        self.live.message_sent.connect(self._tell_trouble)
        self.live.lost.connect(self._tell_trouble)
        self.live.progressed.connect(self._tell_progress)
        self._session, self._engine = session, engine
        self._shot: tuple[PlateChoice, str | None] | None = None  # the plate and pack that the engine has opened
        self.learner = Learner(self)
        self.learner.progressed.connect(self._tell_reading)
        self.learner.ended.connect(self._end_training)
        self._training = TrainingProbe(self)
        self._training.answered.connect(self.wants_look)
        self._what = TEACH  # the current task
        self._lesson: tuple[PlateChoice, Path] | None = None  # the plate that is learned from, and the new pack
        self._made_how = ""  # what the end of Learn shot adds on its pack
        self._asked: State | None = None
        self._arrived_keys: TaughtKeys | None = None
        self._offered: tuple[RotoDocument, str] | None = None  # the models' document, and the shape that was offered
        self._marked: frozenset[int] = frozenset()  # frames whose marks are those that teaching made last
        self._used: dict[str, frozenset[int]] = {}  # corrected frames of the last time each task was done
        self._found: tuple[RotoDocument, tuple[str, int] | None] | None = None
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._merge_answer)
        session.listeners.append(self._keep_own_marks)

    @property
    def is_running(self) -> bool:
        """Whether the shot is being taught."""
        return self._asked is not None

    def teach(self, choice: PlateChoice, pack: str | None) -> None:
        """Start; without corrections, or while it runs, only a message is shown."""
        if not self._may_begin():
            return
        try:
            self._prepare(choice, self._pack_of_shot() or pack)
        except RotopaintError as error:
            self.message_sent.emit(str(error), "trouble")
            return
        self._note_start(TEACH)
        self.live.teach(self._session.state, self._take)

    def learn(self, choice: PlateChoice, pack: str | None) -> None:
        """Train a pack beside the project on its corrections, starting from `pack`, then teach the shot with its
        predictions. Without training installed the new pack is the old one with the shot's head."""
        if not self._may_begin():
            return
        try:
            if self._session.project.path is None:
                self._session.start_project()
            path, engine = self._session.project.path, self._engine()
        except RotopaintError as error:
            self.message_sent.emit(str(error), "trouble")
            return
        if path is None:
            self.message_sent.emit("Learn shot: save the project first (Ctrl+S)", "trouble")
            return
        self._lesson = choice, _pack_beside(path, self._session.state)
        self._note_start(LEARN)
        self.learner.start(engine, LessonOfShot(path, self._lesson[1], pack or "default"))

    def stop(self) -> None:
        """Stop; nothing has changed."""
        if self.learner.is_running:
            self.learner.stop()
        elif self.is_running:
            self.live.shut_down("kill")
            self._say_stopped()

    def forget(self) -> None:
        """Drop everything about the shot, because another is open."""
        self.learner.shut_down()
        self.stop()
        self._offered = self._found = None
        self._used, self._marked = {}, frozenset()

    def shut_down(self) -> None:
        """End the engine, and drop its work."""
        self._end()
        self.learner.shut_down()
        self._training.shut_down()
        self.live.shut_down("kill")

    def offer(self) -> str:
        """Why the shot should be taught now, in one line; empty where corrections do not repeat themselves.

        An offer is shown only once.
        """
        found, session = self._new_repetition(TEACH), self._session
        if found is None:
            return ""
        name, n = found
        text = f"{session.names.of(name)} was corrected the same way {n} times: Teach shot carries it over the rest"
        assert session.state.predicted is not None
        if self._offered != (session.state.predicted, name):
            self._offered = session.state.predicted, name
            self.message_sent.emit(text, "plain")
        return text

    def offers_learning(self) -> bool:
        """Whether corrections repeat themselves over enough poses to train a pack, and training is installed."""
        if self._new_repetition(LEARN) is None:
            return False
        session = self._session
        poses = {session.run.hold_of(frame)[0] for frame in session.review.corrected_frames()}
        return len(poses) >= ENOUGH_POSES and self._training.ask(self._engine)

    def _new_repetition(self, what: str) -> tuple[str, int] | None:
        """A correction that repeats itself since Teach (or Learn) was last used, and how often; None without one."""
        state, session = self._session.state, self._session
        if state.document is None or state.predicted is None or self.is_running:
            return None
        if self._found is None or self._found[0] is not state.document:
            self._found = state.document, repeated_correction(state.predicted, state.document, session.hold_frames)
        corrected = session.review.corrected_frames()
        is_used = corrected <= self._used.get(what, frozenset())
        return None if is_used or self._found[1] is None or not self._has_rest(corrected) else self._found[1]

    def _has_rest(self, corrected: Collection[int]) -> bool:
        """Whether there are frames beside corrected ones and their holds."""
        held = {frame for each in corrected for frame in self._session.hold_frames(each)}
        return self._session.plate is not None and not held >= set(self._session.plate.frames)

    def _may_begin(self) -> bool:
        """Whether the shot can be taught now; says why not."""
        session = self._session
        if self.is_running:
            self.message_sent.emit(f"{self._what} is under way already; Esc stops it", "plain")
        elif session.state.document is None or not session.review.corrected_frames():
            self.message_sent.emit("Nothing to learn from yet: correct a few frames first", "plain")
        else:
            return not (session.project.refuses() or session.edits.is_gesture_open())
        return False

    def _note_start(self, what: str) -> None:
        session = self._session
        session.flush()
        self._what, self._asked = what, session.state
        self._used |= dict.fromkeys((TEACH, what), frozenset(session.review.corrected_frames()))
        self.message_sent.emit(f"{what}: {_BEGINS[what]}; Esc stops it", "plain")
        self.progressed.emit(0, 0, "")

    def _pack_of_shot(self) -> str | None:
        """The pack that made the shot's current predictions, if it was trained on this shot."""
        project, predicted = self._session.project, self._session.state.predicted
        if project.path is None or predicted is None or not project.is_learnt(predicted):
            return None
        folder = _pack_beside(project.path, self._session.state)
        return str(folder) if folder.is_dir() else None

    def _prepare(self, choice: PlateChoice, pack: str | None) -> None:
        """Send plate and pack to the engine, which keeps its predictions where both are the same."""
        self.live.use(self._engine())
        if self._shot != (choice, pack):
            self._shot = choice, pack
            self.live.load_pack(pack)
            self.live.open_plate(choice.source, choice.colourspace)

    def _tell_reading(self, doing: str, share: float) -> None:
        if self.is_running:
            self.progressed.emit(round(1000 * share), 1000, doing)

    def _end_training(self, is_made: bool, text: str) -> None:
        """Handle the end of training: a pack, or the reason for none."""
        asked, session = self._asked, self._session
        if asked is None or self._lesson is None:
            return
        if not is_made:
            self._used = {}
            self._end()
            self.message_sent.emit(f"Learn shot: {text}", outcome_kind(text, is_done=False))
            return
        self._made_how = text
        self.learnt.emit(str(self._lesson[1]))
        if session.state.predicted is asked.predicted:  # with what was corrected meanwhile
            session.flush()
            self._asked = asked = session.state
        self._shot = None  # a pack in this folder may have been read before
        self._prepare(self._lesson[0], str(self._lesson[1]))
        self.live.teach(asked, self._take)

    def _say_stopped(self) -> None:
        self._used = {}
        self._end()
        self.message_sent.emit(f"{self._what}: stopped, nothing was changed", "plain")

    def _tell_progress(self, done: int, total: int) -> None:
        if self.is_running:
            self.progressed.emit(done, total, "looking at every pose" if done < total else "solving the seams")

    def _tell_trouble(self, text: str) -> None:
        self.message_sent.emit(text, "trouble")

    def _keep_own_marks(self) -> None:
        """Forget Teach's own marks that a person has changed since."""
        marks = self._session.state.marks
        self._marked = frozenset(frame for frame in self._marked if marks.get(frame) == "needs work")

    def _end(self) -> None:
        self._asked = self._arrived_keys = None
        self._rest.stop()
        self.ended.emit()

    def _take(self, taught: TaughtKeys | None) -> None:
        if not self.is_running:
            return
        if taught is None:
            self._end()  # the engine has said why
            return
        self._arrived_keys = taught
        self._merge_answer()

    def _merge_answer(self) -> None:
        """Merge the answer into the current shot, once no drag is in progress."""
        session, asked, taught = self._session, self._asked, self._arrived_keys
        if asked is None or taught is None:
            return
        if session.edits.has_gesture or session.runs.is_live:
            self._rest.start()
            return
        before = session.state
        self._end()
        if before.document is None or asked.document is None or before.predicted is not asked.predicted:
            self.message_sent.emit(
                f"The shot was run again, or a group moved, meanwhile; {self._what} once more", "trouble"
            )
            return
        if not keeps_corrections(asked.document, before.document):
            self.message_sent.emit(
                f"{self._what} once more: a correction that it learned from was changed meanwhile", "trouble"
            )
            return
        alike = shape_kinds(asked.document) & shape_kinds(before.document)
        keys = session.free_keys({name: taught.keys[name] for name, _, _ in alike if name in taught.keys})
        document = with_landmarks(before.document, with_model_keys(before.document, keys))
        marked: dict[int, Mark] = {frame: mark for frame, mark in before.marks.items() if frame not in self._marked}
        doubtful = {frame for frames in taught.doubtful.values() for frame in frames} - set(marked)
        marks: dict[int, Mark] = {**marked, **dict.fromkeys(doubtful, "needs work")}
        after = replace(before, document=document, marks=dict(sorted(marks.items())))
        if self._what == LEARN and self._lesson is not None and before.predicted is not None:
            predicted = with_model_keys(before.predicted, keys)
            after = replace(after, predicted=predicted)
            session.project.store_learnt(predicted)
            session.take_expected(taught.errors)
        else:
            session.take_taught(before.document, keys, taught.errors)
        session.edits.push(self._what.lower(), after)
        self._marked = frozenset(doubtful)
        moved = keys_moved_between(before.document, document)
        self.taught.emit(before.document, document)
        session.notify()
        kept = ""
        if self._what == LEARN and self._lesson is not None:
            kept = f". {self._lesson[1].name} is the model for this character's next shots{self._made_how}"
        self.message_sent.emit(
            f"{self._what}: {summary_of(moved, session, taught.doubtful, len(doubtful))}{kept}", "good"
        )


def _pack_beside(project: Path, state: State) -> Path:
    """The path of the pack that is learnt from a project's shot, one for each of several faces."""
    face = re.sub(r"[^\w.-]+", "_", state.face) if state.faces else ""
    return project.with_name("_".join(filter(None, (project.stem, face, "pack"))))


def shape_kinds(document: RotoDocument) -> set[tuple[str, int, bool]]:
    """Name, number of control points, and whether it is closed, of every shape that has keys."""
    return {(shape.name, shape.n_points, shape.closed) for shape in document.shapes if shape.keys}


def keeps_corrections(asked: RotoDocument, now: RotoDocument) -> bool:
    """Whether every human key and hand landmark of a document is still the same in a later one; new ones may be."""
    return _edits_by_hand(asked).items() <= _edits_by_hand(now).items()


def _edits_by_hand(document: RotoDocument) -> dict[tuple[str, int], Key | Landmark | None]:
    made: dict[tuple[str, int], Key | Landmark | None] = {
        (shape.name, frame): key for shape in document.shapes for frame, key in manual_keys(shape).items()
    }
    marks = document.landmarks
    for frame, names in marks.hand.items():
        row = dict(zip(marks.names, marks.keys.get(frame, ())))
        made |= {(f"landmark {name}", frame): row.get(name) for name in names}
    return made


def summary_of(moved: KeyDiff, session: ShotSession, doubtful: Mapping[str, Collection[int]], n_marked: int) -> str:
    """One line on what teaching has changed, in which shapes, and where it is unsure."""
    frames = [frame for frame, px in moved.by_frame.items() if px >= SEEN_PX]
    total = 0 if session.plate is None else len(session.plate.frames)
    unsure = ", ".join(session.names.of(name) for name, rows in doubtful.items() if rows)
    marked = f"; not sure of {unsure}: {n_marked} marked needs work" if n_marked else ""
    if not frames:
        return f"every frame already fits, none was moved{marked}"
    at = max(frames, key=moved.by_frame.__getitem__)
    what = session.names.of(min(moved.shapes)) if len(moved.shapes) == 1 else f"{len(moved.shapes)} shapes"
    most = f"at most {moved.by_frame[at]:.1f} px at {at}"
    return f"moved {what} on {len(frames)} of {total} frames, {most}{marked}. Hold U to see them before"
