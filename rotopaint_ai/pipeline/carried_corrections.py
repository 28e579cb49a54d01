"""What people corrected on some frames of a shot, carried over to the other frames before these are painted (`teach`).

One stretch of `STRETCH` holds at a time is read and taught, which bounds the memory for a shot of any length. So a
correction reaches only the poses of its stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Sink, notice
from rotopaint_ai.pipeline.executor import make_progress
from rotopaint_ai.pipeline.face_tracker import DIGITS, rounded_rows
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.run_document import build_document
from rotopaint_ai.pipeline.shot_seams import stretches, with_placed
from rotopaint_ai.pipeline.teach import TeachResult, n_moved, open_seams, read_shot, teach_below
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.seams.placement import PlacedSeam
from rotopaint_ai.shapes.group_moves import remove_groups
from rotopaint_ai.shapes.refit import corrected_shapes
from rotopaint_ai.sheet import Sheet


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedShot:
    """Settled frames with the seams that other frames' corrections have moved; can be iterated more than once."""

    records: Iterable[FrameRecord]
    sheet: Sheet
    taught: Sequence[TeachResult]

    def __iter__(self) -> Iterator[FrameRecord]:
        for record in self.records:
            for taught in self.taught:
                record = _with_taught(record, taught, self.sheet)
            yield record


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Records of some holds; can be iterated more than once."""

    records: Iterable[FrameRecord]
    first: int
    last: int

    def __iter__(self) -> Iterator[FrameRecord]:
        holds = ((record.frame if record.hold is None else record.hold, record) for record in self.records)
        return (record for hold, record in holds if self.first <= hold <= self.last)


def with_corrections(plan: Plan, records: Iterable[FrameRecord], sink: Sink, cancel: Cancel) -> CorrectedShot:
    """Settled frames with their open seams moved by people's corrections of other frames.

    Nothing is carried over in a run of a part of the shot. `records` is iterated more than once. Raises CancelledError.
    """
    taught = list[TeachResult]()
    work = plan.work
    if work.splines and plan.has_whole_shot:
        starts = sorted(record.frame for record in records if record.hold is None and record.landmarks)
        parts = list(stretches(starts, fewest=1))
        for part, end in zip(parts, [*(part[0] for part in parts[1:]), inf]):
            if any(part[0] <= frame < end for frame in work.splines):
                taught += _teach_stretch(plan, _Stretch(records, part[0], part[-1]), sink, cancel)
    if taught:
        sink(notice(_summary(taught), is_warning=False))
    return CorrectedShot(records, plan.pack.sheet, taught)


def _teach_stretch(plan: Plan, records: _Stretch, sink: Sink, cancel: Cancel) -> Sequence[TeachResult]:
    """The effect of corrections at some frames of a stretch on its other frames; empty without corrections."""
    predicted = build_document(records, plan)
    document = plan.work.restore_provenance(build_document((plan.apply_overrides(record) for record in records), plan))
    below = predicted, remove_groups(document, document)  # groups place what models say when it is drawn
    names = {spec.name for spec in open_seams(plan.pack.sheet)}
    known = predicted.landmarks.keys.keys()
    if not any(base.name in names and known & set(hand) for base, _, hand in corrected_shapes(*below)):
        return ()
    errors = RunRecord(errors={record.frame: record.errors for record in records}).errors_by_shape()
    try:
        reading = read_shot(predicted, plan.plate, plan.models, progress=make_progress("corrections", sink, cancel))
        found = teach_below(reading, *below, errors)
    except (PlateError, UsageError) as error:
        sink(notice(f"corrections were not carried over to other frames: {error}", is_warning=True))
        return ()
    keys = {name: row for name, row in found.keys.items() if name in names}
    return (replace(found, keys=keys, n_moved=n_moved(keys, below[0])),)


def _with_taught(record: FrameRecord, taught: TeachResult, sheet: Sheet) -> FrameRecord:
    """A frame with its stretch's taught seams, if it has any; the models' own seams are kept in `predicted`."""
    frame = record.frame
    errors = {name: round(row[frame], DIGITS) for name, row in taught.errors.items() if frame in row}
    if not errors:
        return record
    record = replace(record, errors={**record.errors, **errors})
    points = {name: np.array(row[frame].points) for name, row in taught.keys.items() if frame in row}
    moved = {
        name: PlacedSeam(rows, 1.0, 0.0, errors[name])
        for name, rows in points.items()
        if rounded_rows(rows) != record.shapes[name]
    }
    if not moved:
        return record
    predicted = {name: record.shapes[name] for name in moved}
    return replace(with_placed(record, moved, sheet), predicted=predicted, predicted_landmarks=record.landmarks)


def _summary(taught: Sequence[TeachResult]) -> str:
    """One line for the artist on what corrections have moved."""
    doubtful: dict[str, list[int]] = {}
    for each in taught:
        for name, frames in each.doubtful.items():
            doubtful.setdefault(name, []).extend(frames)
    unsure = "".join(f"; not sure of {name} on {summarise(row)}, look there" for name, row in doubtful.items() if row)
    return f"corrections carried over: {sum(each.n_moved for each in taught)} keys moved{unsure}"
