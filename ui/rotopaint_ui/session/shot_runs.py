"""The run records of the shot's frames, and the shapes of the current run. No Qt, no numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rotopaint_ai.project.merge_run import EditedPredictions
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.roto import Key, RotoDocument
from rotopaint_ui.session.edit_stack import EditStack
from rotopaint_ui.session.live_document import LiveDocument

Keys = Mapping[str, Mapping[int, Key]]
Expected = Mapping[int, Mapping[str, float]]
MOST_RECORDS = 50  # runs whose records undo brings back


@dataclass(frozen=True, slots=True)
class _TeachEffect:
    """Expected errors before and after Teach, and the keys that it moved."""

    before: Expected
    moved: Keys
    errors: Expected

    def stands_in(self, document: RotoDocument) -> bool:
        return any(
            shape.keys.get(frame) == key
            for shape in document.shapes
            for frame, key in self.moved.get(shape.name, {}).items()
        )


class ShotRuns:
    """`record` is the run record; `recalled` is called when undo or redo brings an earlier record back."""

    def __init__(self, edits: EditStack, changed: Callable[[], None], recalled: Callable[[], None]) -> None:
        self.record = RunRecord()
        self._edits, self._changed, self._recalled = edits, changed, recalled
        self._coming: LiveDocument | None = None
        self._shown: RotoDocument | None = None
        self._edited = EditedPredictions()  # results of an ended run that are not merged yet
        self._taught: _TeachEffect | None = None
        self._with_taught: tuple[RunRecord, RunRecord] | None = None  # a record, and the same with these errors
        self._bare: tuple[RunRecord, RunRecord] | None = None  # a record, and the same without errors
        self._records: dict[int, RunRecord] = {}  # run records by the models' predictions, the latest last
        self._hashed: tuple[RotoDocument | None, int] = None, 0
        edits.moved.append(self._follow_undo)

    @property
    def is_live(self) -> bool:
        """Whether the shown shapes come from a run in progress: they can be viewed, not edited."""
        return self._coming is not None

    @property
    def live_document(self) -> RotoDocument | None:
        """The shapes of the current run; None while it has none."""
        return self._shown

    def is_known(self, frame: int) -> bool:
        """Whether a run has processed a frame; True for all frames where there is no run record."""
        run = self.record
        return not run.errors or frame in run.errors or frame in run.lost or frame in run.failed

    def forget(self) -> None:
        """Reset for another shot."""
        self._records, self._taught, self._edited = {}, None, EditedPredictions()

    def take_taught(self, before: RotoDocument, keys: Keys, errors: Mapping[str, Mapping[int, float]]) -> None:
        """Take Teach's expected errors; they hold while at least one key that Teach moved is unchanged."""
        was = {shape.name: shape.keys for shape in before.shapes}
        moved = {name: {f: key for f, key in row.items() if key != was[name].get(f)} for name, row in keys.items()}
        self._taught = _TeachEffect(self.record.errors, moved, self.record.with_errors(errors).errors)

    @property
    def teach_effect(self) -> tuple[RunRecord, dict[str, list[int]]] | None:
        """The record with Teach's expected errors, and the frames that it moved, by shape; None before Teach."""
        taught = self._taught
        if taught is None or taught.before is not self.record.errors:
            return None
        return replace(self.record, errors=taught.errors), {name: sorted(row) for name, row in taught.moved.items()}

    def restore_taught(self, errors: Expected, moved: Mapping[str, Sequence[int]], document: RotoDocument) -> None:
        """Restore Teach's expected errors of an earlier session, for the keys it moved that are still there.

        Not restored where one of those keys is a model's again, because Teach was undone. A propagated key is then a
        spread's.
        """
        keys = {
            shape.name: {f: key for f in moved.get(shape.name, ()) if (key := shape.keys.get(f)) is not None}
            for shape in document.shapes
        }
        sources = {key.source for row in keys.values() for key in row.values()}
        if "model" not in sources:
            kept = {name: {f: k for f, k in row.items() if k.source == "propagated"} for name, row in keys.items()}
            self._taught = _TeachEffect(self.record.errors, kept, errors)

    def with_teach_errors(self, document: RotoDocument | None) -> RunRecord:
        """The run record with Teach's expected errors while they hold; without errors where the run was undone."""
        if document is None and not self.is_live:
            return self._without_errors()
        taught, known = self._taught, self._with_taught
        if taught is None or document is None or taught.before is not self.record.errors:
            return self.record
        if not taught.stands_in(document):
            return self.record
        if known is None or known[0] is not self.record or known[1].errors is not taught.errors:
            known = self._with_taught = self.record, replace(self.record, errors=taught.errors)
        return known[1]

    def _without_errors(self) -> RunRecord:
        """The run record without expected errors, for a state without shapes."""
        if not self.record.errors:
            return self.record
        if self._bare is None or self._bare[0] is not self.record:
            self._bare = self.record, replace(self.record, errors={}, unseen={})
        return self._bare[1]

    def take_event(self, facts: Mapping[str, Any]) -> None:
        """Take an event of a run in progress; `show_live` shows what it brought."""
        if facts["event"] == "started":
            self._coming = LiveDocument(facts, self._edited)
        elif facts["event"] in ("tracked", "frame") and self._coming is not None:
            self._coming.add(facts)
            self.record = self.record.with_frame(facts)
        elif facts["event"] == "error" and "frame" in facts:
            self.record = self.record.with_frame({**facts, "status": "failed"})

    def take_visibility(self, facts: Mapping[str, Any]) -> None:
        """Take an event of a job that renders the clean plate: each seam's new visibility."""
        if facts.get("seam_after") is not None:
            self.record = self.record.with_seam(int(facts["frame"]), facts["seam_before"], facts["seam_after"])

    def show_live(self) -> None:
        """Show the run's shapes so far, with the artist's own keys."""
        if self._coming is not None:
            self._shown = self._coming.among(self._edits.state)
            self._changed()

    def end_live(self) -> None:
        """Show the document again after a run has ended."""
        if self._coming is not None:
            self._edited = self._coming.edited
        self._coming = self._shown = None
        self._changed()

    def take_edited_predictions(self) -> EditedPredictions:
        """The predictions of the run that has just ended at places that a person edited; returned only once."""
        found, self._edited = self._edited, EditedPredictions()
        return found

    def remember(self, state: State) -> None:
        """Restore the run record that belongs to the current predictions, after a run was undone or redone."""
        key = self._key_of(state.predicted)
        self._records.pop(key, None)
        self._records[key] = self.record
        for old in list(self._records)[:-MOST_RECORDS]:
            del self._records[old]

    def _follow_undo(self, before: State, after: State) -> None:
        self.remember(before)
        if after.predicted is before.predicted:
            return
        record = self._records.get(self._key_of(after.predicted))
        if record is not None:
            self.record = record
            self._recalled()

    def _key_of(self, predicted: RotoDocument | None) -> int:
        """A hash of the predictions' content, because undo may load equal ones again from the project file."""
        if self._hashed[0] is not predicted:
            self._hashed = predicted, 0 if predicted is None else _hash_of(predicted)
        return self._hashed[1]


def _hash_of(document: RotoDocument) -> int:
    head = document.width, document.height, document.first_frame, document.last_frame, document.fps
    return hash((head, *((shape.name, *shape.keys.items()) for shape in document.shapes)))
