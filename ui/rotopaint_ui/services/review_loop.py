"""The review loop: the next frame, judgements, the range of a correction, and the keys that a refit moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from rotopaint_ai.project.state import Mark, State
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ai.spreads import RANGE, SHOT, spread_way
from rotopaint_ui.session.key_diff import KeyDiff, keys_moved_between
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.spread_reach import SpreadReach

Say = Callable[[str], None]


class Visits(StrEnum):
    """The frames that N visits."""

    SEAMS = "seams only"
    WORST = "all shapes"
    NEEDS_WORK = "needs work"
    REJECTED = "rejected"
    NOTES = "with a note"
    UNMARKED = "not reviewed"


_MARKS: Mapping[Visits, Mark] = {Visits.NEEDS_WORK: "needs work", Visits.REJECTED: "rejected"}


class ReviewLoop:
    """Review commands on a session; `say` shows a line in the status."""

    def __init__(self, session: ShotSession, say: Say) -> None:
        self.visits = Visits.SEAMS
        self.reach: SpreadReach | None = None
        self.moved: KeyDiff | None = None
        self.before: RotoDocument | None = None  # the shapes before corrections were last carried on
        self._session, self._say = session, say
        session.edits.moved.append(self._forget_before)
        self._seen: tuple[object, ...] = ()
        self._stepped_to: tuple[int, object] | None = None  # where N has gone, and by which shapes
        self._own: SpreadReach | None = None  # as the artist has dragged it
        self._asked: tuple[str, RotoDocument] | None = None
        self._moved_in: RotoDocument | None = None
        session.corrections.ended = self._end_answer

    def refresh(self) -> None:
        """Update after a change of the session."""
        session = self._session
        self._look_at_answer()
        state = session.state
        seen = (session.frame, session.document, state.predicted, state.spreads, session.runs.is_live)
        if all(a is b or a == b for a, b in zip(seen, self._seen)) and self._seen:
            return
        self._seen = seen
        if self._own is not None and self._own.frame not in session.held_frames():
            self._own = None
        self.reach = self._own or self._proposed()

    def reset(self) -> None:
        """Start again for another shot."""
        self.reach = self._own = self.moved = self.before = self._asked = None
        self._seen = ()

    # --- which frame

    def visit(self, visits: Visits) -> None:
        """Change the frames that N visits."""
        self.visits = visits
        self._session.compares_all_shapes = visits is Visits.WORST
        self._session.notify()

    def step(self, direction: int) -> bool:
        """Go where N goes, or back; False where no frame is left."""
        session = self._session
        if self.visits in (Visits.SEAMS, Visits.WORST):
            return self._step_worst(direction)
        frames = [frame for frame in self.frames() if frame != session.frame]
        if not frames:
            return False
        ahead = [frame for frame in frames if (frame - session.frame) * direction > 0]
        session.go_to((min if direction > 0 else max)(ahead or frames))
        return True

    def _step_worst(self, direction: int) -> bool:
        """Go to the worst frame, or from it to the next (1) or previous (-1) in order. False where there is none.

        Where other shapes are reviewed than before, it begins with the worst one again.
        """
        session, worst = self._session, self._session.worst()
        if not worst:
            return False
        reviewed = session.reviewed_shapes()
        last, by = self._stepped_to or (None, None)
        at = 0
        if session.frame == last and session.frame in worst:
            is_stepping = reviewed == by
            at = worst.index(session.frame) + direction if is_stepping else int(worst[0] == session.frame)
        session.go_to(worst[at % len(worst)])
        self._stepped_to = session.frame, reviewed
        return True

    def frames(self) -> list[int]:
        """The frames that the filter leaves, in order; of a hold the first only."""
        session = self._session
        plate, marks = session.plate, session.state.marks
        if plate is None:
            return []
        if self.visits is Visits.NOTES:
            chosen = {frame for frame in plate.frames if frame in session.state.notes}
        else:
            wanted = _MARKS.get(self.visits)
            chosen = {frame for frame in plate.frames if marks.get(frame) == wanted}
        return [frame for frame in sorted(chosen) if session.run.hold_of(frame)[0] == frame]

    def reason(self) -> str:
        """Why the shown frame should be reviewed; empty where there is no reason."""
        session, run, frame = self._session, self._session.run, self._session.frame
        if session.plate is None or frame in session.review.settled_frames(session.reviewed_shapes()):
            return ""
        if frame in run.failed:
            return "failed"
        if frame in run.lost:
            return "face not found"
        keyed = session.review.keyed_frames()
        held = set(session.held_frames())
        among = session.reviewed_shapes() or frozenset()
        errors = {name: error for name, error in run.errors.get(frame, {}).items() if name in among}
        left = {name: e for name, e in errors.items() if not held & keyed.get(name, frozenset())}
        worst = max(left, key=left.__getitem__, default=None)
        if worst is None:
            return ""
        unseen = session.unseen_places().items()
        places = [f"{session.names.of(name)}, {third}" for name, third in unseen if name in left]
        where = f"; look at {'; '.join(places)}" if places else ""
        return f"{session.names.of(worst)} may be {left[worst]:.1f} px off{where}"

    # --- marks

    def mark(self, mark: Mark) -> None:
        """Set the review mark of this frame and its hold; the same mark again removes it."""
        session = self._session
        if session.plate is None:
            return
        same = session.state.marks.get(session.frame) == mark
        session.review.mark(self._frames_on_disk(session.frame), None if same else mark)

    def _frames_on_disk(self, frame: int) -> list[int]:
        """The frames of a frame's hold, without those that are missing on disk."""
        plate, held = self._session.plate, self._session.hold_frames(frame)
        return [] if plate is None else [frame for frame in held if frame in plate.frames]

    def write_note(self, frame: int, text: str) -> None:
        """Write a note to a frame and its hold; an empty note deletes it."""
        frames = self._frames_on_disk(frame)
        if frames and self._session.state.notes.get(frame, "") != " ".join(text.split()):
            self._session.review.write_note(frames, text)

    def accept_and_go_on(self) -> None:
        """Accept this frame, and go to the next one."""
        session = self._session
        if session.plate is None:
            return
        session.review.mark(self._frames_on_disk(session.frame), "accepted")
        if not self.step(1):
            self._say("No frame is left to check")

    def summary(self) -> str:
        """The progress of the review."""
        session = self._session
        if session.plate is None or not session.state.marks:
            return ""
        marks = session.state.marks.values()
        accepted, work = sum(m == "accepted" for m in marks), sum(m == "needs work" for m in marks)
        rejected = sum(m == "rejected" for m in marks)
        text = f"{accepted} of {len(session.plate.frames)} accepted"
        text = f"{text}, {work} need work" if work else text
        return f"{text}, {rejected} rejected" if rejected else text

    # --- spread and refit

    def drag(self, reach: SpreadReach, has_let_go: bool) -> None:
        """Set the range of the bracket; on release, a correction that was spread is spread again."""
        self.reach = self._own = reach
        if has_let_go and reach.is_spread:
            self.spread(reach.way)

    def lengthen(self, by: int) -> None:
        """Move both ends of the range, by keyboard."""
        plate = self._session.plate
        if self.reach is not None and plate is not None:
            self.drag(self.reach.longer(by, plate.first, plate.last), has_let_go=False)
            self._session.say(f"Reaches {self.reach.first}-{self.reach.last}")

    def carry(self, way: str) -> None:
        """Carry corrections to other frames by one of the methods of `spreads.SPREADS`."""
        (self.spread if spread_way(way).needs == "range" else self.refit)(way)

    def spread(self, way: str = RANGE) -> None:
        """Spread this frame's correction over the range of the bracket."""
        reach, document = self.reach, self._session.state.document
        if reach is None or document is None:
            self._say("Nothing to spread: correct this frame first, by a landmark or a shape")
            return
        self._own = None
        self._asked = (spread_way(way).step, document)
        self._session.corrections.spread(reach.frame, reach.first, reach.last, way)

    def refit(self, way: str = SHOT) -> None:
        """Refit the shot from the keys that people made."""
        document = self._session.state.document
        if document is None or not self._session.review.corrected_frames():
            self._say("Nothing to learn from yet: correct a few frames first")
            return
        self._asked = (spread_way(way).step, document)
        self._session.corrections.refit(way)

    def _proposed(self) -> SpreadReach | None:
        session = self._session
        if session.state.document is None or session.runs.is_live:
            return None
        held = session.held_frames()
        spread = next((each for each in session.state.spreads if each.frame in held), None)
        if spread is not None:
            return SpreadReach(spread.frame, spread.first, spread.last, is_spread=True, way=spread.way)
        corrected = session.review.corrected_frames()
        if session.frame not in corrected and not any(frame in corrected for frame in held):
            return None
        return SpreadReach(session.frame, *session.corrections.proposed_reach(session.frame))

    def _look_at_answer(self) -> None:
        """After a spread or refit: report the moved keys, and show them on the timeline."""
        session = self._session
        document = session.state.document
        if self.moved is not None and document is not self._moved_in:
            self.moved = None
        if self._asked is None or document is None or session.edits.last_step != self._asked[0]:
            return
        label, before = self._asked
        if document is not before:
            self._asked = None
            self._say(self.show_moved(before, document).text(label.capitalize()))

    def _end_answer(self, has_come: bool) -> None:
        """After an answer that `_look_at_answer` has not reported, because it changes nothing, or there is none."""
        asked, self._asked = self._asked, None
        if asked is not None and has_come:
            self._say(keys_moved_between(asked[1], asked[1]).text(asked[0].capitalize()))

    def _forget_before(self, before: State, after: State) -> None:
        """Undo and redo end the comparison with the shapes before a spread or refit."""
        self.before = None

    def show_moved(self, before: RotoDocument, after: RotoDocument) -> KeyDiff:
        """Show on the timeline which keys have moved, and keep the shapes before that to compare with."""
        self.before = before
        self.moved, self._moved_in = keys_moved_between(before, after), after
        return self.moved
