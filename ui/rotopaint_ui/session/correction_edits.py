"""Effects of a correction beyond its frame: live landmark drags, spreads, refits. No Qt.

The live engine, a separate process, computes the numbers; this module turns its answers into states of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rotopaint_ai.project.state import Spread, State
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.manual_keys import LandmarkRow, carried_keys, to_carry_on, with_model_keys
from rotopaint_ai.shapes.propagation_range import propose
from rotopaint_ai.shapes.roto import Key, Points, RotoDocument, Source
from rotopaint_ai.spreads import RANGE, SHOT, spread_way
from rotopaint_ui.session.edit_stack import EditStack

Place = tuple[float, float]
ShapesReply = Callable[[Mapping[str, Points] | None], None]  # None: the engine is not there
KeysOfShapes = Mapping[str, Mapping[int, Key]]
KeysReply = Callable[[KeysOfShapes | None], None]


@dataclass(frozen=True, slots=True)
class LandmarkDrag:
    """A question to the engine: how do a frame's shapes move when its landmarks go from `before` to `after`?"""

    frame: int
    before: LandmarkRow
    after: LandmarkRow
    document: RotoDocument  # as it was before the drag


class LiveAnswers(Protocol):
    """The live engine. Replies come later, in the same thread; a newer question of a kind replaces an older one."""

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        """The shapes of the frame after the drag, by name."""

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        """New keys by a way of `spreads.SPREADS`: of the spread's range, or of the whole shot where there is none."""


class CorrectionEdits:
    """Carries corrections out on the edits of a session.

    `hold_of` gives the frames of a frame's hold, `corrected` the frames that people have corrected, `free` those of
    some keys that may be moved, `locked` the shapes that may not; `refuses` says whether nothing may be changed,
    `flush` waits until every step is on disk.
    """

    def __init__(
        self,
        edits: EditStack,
        *,
        hold_of: Callable[[int], range],
        corrected: Callable[[], Collection[int]],
        free: Callable[[KeysOfShapes], KeysOfShapes],
        locked: Callable[[], Collection[str]],
        say: Callable[[str], None],
        refuses: Callable[[], bool],
        flush: Callable[[], None],
    ) -> None:
        self.live: LiveAnswers | None = None
        self._edits, self._hold_of, self._corrected = edits, hold_of, corrected
        self._free, self._locked = free, locked
        self.ended: Callable[[bool], None] = lambda changed: None  # told when a spread or refit has been answered
        self._say, self._refuses, self._flush = say, refuses, flush
        self._asked: LandmarkDrag | None = None  # what the engine is working on
        self._is_ending = False
        self._proposed: tuple[RotoDocument, int, frozenset[int], tuple[int, int]] | None = None
        edits.pending = self

    # --- landmarks

    def move_landmarks(self, frame: int, places: Mapping[int, Place]) -> None:
        """Move landmarks during a gesture; the shapes follow when the engine has answered."""
        edits = self._edits
        before = edits.before_gesture.document
        if before is None:
            return
        frames = self._hold_of(frame)
        document = _with_landmarks_at(edits.state.document or before, before, frames, places)
        question = _question(frame, before, document)
        self._asked = question if self.live is not None else None
        edits.preview(replace(edits.state, document=document))
        if self.live is not None:
            self.live.drag(question, lambda shapes: self._follow_landmarks(question, shapes))

    def finish(self) -> None:
        """End the drag; it becomes one step once the engine has answered for the last position."""
        if self._asked is None:
            self._edits.commit()
        else:
            self._is_ending = True

    @property
    def is_asking(self) -> bool:
        """Whether the engine is computing the shapes of a drag."""
        return self._asked is not None

    @property
    def is_ending(self) -> bool:
        """Whether the mouse is released and only the engine's last answer is missing."""
        return self._is_ending

    def settle(self) -> None:
        """Before another edit: end a drag at once, with the shown state, if its last answer is missing."""
        if self._is_ending:
            self._asked, self._is_ending = None, False
            self._edits.commit()

    def forget(self) -> None:
        """Drop a drag that was cancelled."""
        self._asked, self._is_ending = None, False

    def _follow_landmarks(self, question: LandmarkDrag, shapes: Mapping[str, Points] | None) -> None:
        if self._asked is None or self._asked.document is not question.document:
            return  # that drag is over
        edits, is_last = self._edits, question is self._asked
        if is_last:
            self._asked = None
        document = edits.state.document
        if shapes and document is not None:
            held = self._hold_of(question.frame)
            for name, points in shapes.items():
                if name not in self._locked():
                    document = _with_new_points(document, name, held, points)
            edits.preview(replace(edits.state, document=document))
        if is_last and self._is_ending:
            self._is_ending = False
            edits.commit()

    # --- spread and refit

    def proposed_reach(self, frame: int) -> tuple[int, int]:
        """The range over which a correction at a frame is likely to be valid."""
        state = self._edits.state
        document = state.predicted or state.document
        if document is None:
            return frame, frame
        corrected, known = frozenset(self._corrected()), self._proposed
        if known is None or known[0] is not document or known[1:3] != (frame, corrected):
            reach = propose(document, frame, corrected=corrected)
            known = self._proposed = document, frame, corrected, reach
        return known[3]

    def spread(self, frame: int, first: int, last: int, way: str = RANGE) -> None:
        """Spread the correction at `frame` over `first` to `last`, in one step once it is computed; human keys stay."""
        if self._refuses():
            return
        held = self._hold_of(frame)
        spread = Spread(frame, min(first, held[0]), max(last, held[-1]), way=way)
        self._say(f"{spread_way(way).label}: {frame} over {spread.first}-{spread.last}")
        self._ask_for_keys(way, spread)

    def refit(self, way: str = SHOT) -> None:
        """Refit the whole shot to human keys, in one step when it is computed."""
        if self._refuses():
            return
        self._say(f"{spread_way(way).label}: from the keys that people made")
        self._ask_for_keys(way, None)

    def carry_on(self, before: RotoDocument, frames: Collection[int] | None, done: Callable[[], None]) -> None:
        """After a run of some frames (None: of all), repeat on them the spreads that `before` has; then `done`.

        Each spread is one step and changes these frames alone. Outside the panel `pipeline.save_to_project` does this.
        """
        state = self._edits.state
        questions = [] if state.predicted is None else to_carry_on(before, state.spreads, frames, state.predicted)
        self._carry_next(questions, frames, done)

    def _carry_next(
        self, questions: Sequence[Spread | None], frames: Collection[int] | None, done: Callable[[], None]
    ) -> None:
        edits, asked = self._edits, self._edits.state
        if not questions or self.live is None:
            done()
            return
        first = questions[0]
        self._flush()

        def take(keys: Mapping[str, Mapping[int, Key]] | None) -> None:
            if keys is None or asked.document is None or edits.state is not asked:
                self._say("Corrections were not carried on over the run; Refit shot does it")
                done()
                return
            carried = carried_keys(keys, first, frames, asked.predicted or asked.document)
            document = with_landmarks(asked.document, with_model_keys(asked.document, carried))
            edits.push("carry on corrections", replace(asked, document=document))
            self._carry_next(questions[1:], frames, done)

        self.live.spread(SHOT if first is None else first.way, asked, first, take)

    def _ask_for_keys(self, way: str, spread: Spread | None) -> None:
        asked = self._edits.state
        if self.live is None or asked.document is None:
            self._say("The engine is not running; nothing was changed")
            return
        self._flush()
        label = spread_way(way).step
        self.live.spread(way, asked, spread, lambda keys: self._take_keys(label, spread, asked, keys))

    def _take_keys(
        self, label: str, spread: Spread | None, asked: State, keys: Mapping[str, Mapping[int, Key]] | None
    ) -> None:
        edits = self._edits
        if keys is None or asked.document is None or edits.is_gesture_open():
            self.ended(False)  # why has been said
        elif edits.state is not asked:
            self.ended(False)
            self._say("The shot was changed meanwhile; ask again")
        else:
            document = with_landmarks(asked.document, with_model_keys(asked.document, self._free(keys)))
            spreads = asked.spreads if spread is None else (*_other_spreads(asked.spreads, spread), spread)
            edits.push(label, replace(asked, document=document, spreads=spreads))
            self.ended(True)


def _other_spreads(spreads: tuple[Spread, ...], spread: Spread) -> tuple[Spread, ...]:
    return tuple(each for each in spreads if each.frame != spread.frame)


def _question(frame: int, before: RotoDocument, now: RotoDocument) -> LandmarkDrag:
    nothing: LandmarkRow = (None,) * len(before.landmarks.names)
    row, new = (document.landmarks.keys.get(frame, nothing) for document in (before, now))
    return LandmarkDrag(frame, row, new, before)


def _is_human(key: Key | None) -> bool:
    return key is not None and key.source == "human"


def _with_landmarks_at(
    document: RotoDocument, before: RotoDocument, frames: range, places: Mapping[int, Place]
) -> RotoDocument:
    document = replace(document, landmarks=before.landmarks)
    for frame in frames:
        for index, (x, y) in places.items():
            document = edit.place_landmark(document, frame, before.landmarks.names[index], x, y)
    return document


def _with_new_points(document: RotoDocument, name: str, frames: range, points: Points) -> RotoDocument:
    shape = document.shape(name)
    for frame in frames:
        old = shape.keys.get(frame)
        source: Source = "human" if _is_human(old) else "model"
        document = edit.set_key(document, name, frame, points, source=source)
    return document
