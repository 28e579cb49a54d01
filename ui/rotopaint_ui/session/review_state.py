"""Which frames are reviewed, and which need review. No Qt, no numpy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace

from rotopaint_ai.project.state import Mark
from rotopaint_ai.shapes import manual_keys
from rotopaint_ai.shapes.manual_keys import frames_settled
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.edit_stack import EditStack
from rotopaint_ui.session.error_scale import ErrorScale, scale_of
from rotopaint_ui.session.shot_runs import ShotRuns

KeyedFrames = dict[str, frozenset[int]]
_Keyed = tuple[RotoDocument, RotoDocument | None, KeyedFrames]  # what they were found in, and the frames
_NOTHING: KeyedFrames = {}


class ReviewState:
    """Review facts from edits and runs, cached until these change. `refuses`: nothing may be changed."""

    def __init__(
        self, edits: EditStack, runs: ShotRuns, refuses: Callable[[], bool], changed: Callable[[], None]
    ) -> None:
        self._edits, self._runs, self._refuses, self._changed = edits, runs, refuses, changed
        self._keyed: _Keyed | None = None
        self._corrected: tuple[RotoDocument, RotoDocument | None, frozenset[int]] | None = None
        self._scale: tuple[object, float, ErrorScale] | None = None
        self._settled: tuple[object, object, object, object, AbstractSet[int]] | None = None

    def corrected_frames(self) -> frozenset[int]:
        """Frames where a person has keyed a shape of the models or placed a landmark; people's own shapes do not
        count."""
        document, predicted = self._document, self._edits.state.predicted
        if document is None:
            return frozenset()
        known = self._corrected
        if known is None or known[0] is not document or known[1] is not predicted:
            model = {shape.name for shape in (predicted or document).shapes}
            shapes = (shape for shape in document.shapes if shape.name in model)
            keyed = {frame for shape in shapes for frame in manual_keys.manual_keys(shape)}
            known = self._corrected = document, predicted, frozenset(keyed | document.landmarks.hand.keys())
        return known[2]

    def keyed_frames(self) -> KeyedFrames:
        """For every shape, the frames where a person has keyed it, or moved it with a landmark that sits on it."""
        document, predicted = self._document, None if self._runs.is_live else self._edits.state.predicted
        if document is None:
            return _NOTHING
        known = self._keyed
        if known is None or known[0] is not document or known[1] is not predicted:
            known = self._keyed = document, predicted, _keyed_anew(known, predicted, document)
        return known[2]

    def accepted_frames(self) -> frozenset[int]:
        """Frames that a person has accepted."""
        return frozenset(frame for frame, mark in self._edits.state.marks.items() if mark == "accepted")

    def settled_frames(self, among: frozenset[str] | None = None) -> AbstractSet[int]:
        """Reviewed frames: accepted, or corrected with every shape keyed.

        `among`: the shapes that count; None: all.
        """
        keyed, marks, run = self.keyed_frames(), self._edits.state.marks, self._runs.record
        known = self._settled
        is_known = known is not None and all(a is b for a, b in zip(known, (keyed, marks, run)))
        if known is None or not is_known or known[3] != among:
            at = [frames for name, frames in keyed.items() if among is None or name in among]
            done = {frame for frame in set().union(*at) if run.error_left(frame, keyed, among) is None}
            known = self._settled = keyed, marks, run, among, done | self.accepted_frames()
        return known[4]

    def error_scale(self, bad_px: float) -> ErrorScale:
        """The colour scale of expected errors, over all known frames and shapes."""
        run, known = self._runs.record, self._scale
        if known is None or known[0] is not run or known[1] != bad_px:
            errors = (error for row in run.errors.values() for error in row.values())
            known = self._scale = run, bad_px, scale_of(errors, bad_px or 1.0)
        return known[2]

    def mark(self, frames: Collection[int], mark: Mark | None) -> None:
        """Set the review mark of frames in one step: accepted, needs work, rejected, or None (not reviewed)."""
        if self._refuses():
            self._changed()  # the pressed button shows the real state again
            return
        state = self._edits.state
        marks = {frame: old for frame, old in state.marks.items() if frame not in frames}
        if mark is not None:
            marks |= dict.fromkeys(sorted(frames), mark)
        label = {"accepted": "accept", "needs work": "needs work", "rejected": "reject", None: "clear mark"}[mark]
        self._edits.push(label, replace(state, marks=dict(sorted(marks.items()))))

    def write_note(self, frames: Collection[int], text: str) -> None:
        """Write a note to frames in one step; an empty note deletes it."""
        state, text = self._edits.state, " ".join(text.split())
        if self._refuses():
            self._changed()
            return
        notes = {frame: old for frame, old in state.notes.items() if frame not in frames}
        if text:
            notes |= dict.fromkeys(sorted(frames), text)
        self._edits.push("note" if text else "clear note", replace(state, notes=dict(sorted(notes.items()))))

    @property
    def _document(self) -> RotoDocument | None:
        live = self._runs.live_document
        return self._edits.state.document if live is None else live


def _keyed_anew(known: _Keyed | None, predicted: RotoDocument | None, document: RotoDocument) -> KeyedFrames:
    """Frames that people have keyed, by shape; only shapes that differ from `known` are searched."""
    if known is None or known[1] is not predicted or known[0].landmarks is not document.landmarks:
        return frames_settled(predicted, document)
    same = {id(shape) for shape in known[0].shapes}
    changed = tuple(shape for shape in document.shapes if id(shape) not in same)
    found = known[2] | frames_settled(predicted, replace(document, shapes=changed))
    return {shape.name: found[shape.name] for shape in document.shapes}
