"""What people corrected on some frames of a shot, carried over to the other frames before these are painted (`teach`).

One stretch of `STRETCH` holds at a time is read and taught, which bounds the memory for a shot of any length. Up to
`MOST_ELSEWHERE` holds outside it are read with it, so that a correction reaches the whole shot: the nearest corrected
ones, then, in a run of a part of the shot, the nearest that only the project knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Sink, notice
from rotopaint_ai.pipeline.executor import make_progress
from rotopaint_ai.pipeline.face_tracker import DIGITS, rounded_rows
from rotopaint_ai.pipeline.head_solve import open_seams
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.run_document import build_document
from rotopaint_ai.pipeline.shot_seams import stretches, with_placed
from rotopaint_ai.pipeline.teach import TeachResult, n_moved, read_shot, teach_below
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.seams.placement import PlacedSeam
from rotopaint_ai.shapes.group_moves import remove_groups
from rotopaint_ai.shapes.merge import with_frames_of
from rotopaint_ai.shapes.refit import corrected_shapes
from rotopaint_ai.shapes.roto import hold_starts
from rotopaint_ai.sheet import Sheet

T = TypeVar("T")
MOST_ELSEWHERE = 40  # holds outside a stretch that are read with it


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
    holds: frozenset[int]

    def __iter__(self) -> Iterator[FrameRecord]:
        return (record for record in self.records if record.exposure in self.holds)


def with_corrections(plan: Plan, records: Iterable[FrameRecord], sink: Sink, cancel: Cancel) -> CorrectedShot:
    """Settled frames with their open seams moved by people's corrections of other frames.

    `records` is iterated more than once. Raises CancelledError.
    """
    taught = list[TeachResult]()
    if plan.work.splines:
        holds = {record.frame: record.exposure for record in records if record.landmarks}
        known = _known_elsewhere(plan)
        corrected = {row[frame] for row in (holds, known) for frame in plan.work.splines if frame in row}
        for part in stretches(sorted(set(holds.values())), fewest=1):
            others = set(known.values()) - corrected
            beside = (*_nearest(corrected - set(part), part), *_nearest(others, part))[:MOST_ELSEWHERE]
            stretch = _Stretch(records, frozenset((*part, *beside)))
            earlier = [frame for frame, hold in known.items() if hold in stretch.holds]
            frames = {frame for frame, hold in holds.items() if part[0] <= hold <= part[-1]}
            taught += _teach_stretch(plan, stretch, earlier, frames, sink, cancel)
    if taught:
        sink(notice(_summary(taught), is_warning=False))
    return CorrectedShot(records, plan.pack.sheet, taught)


def _known_elsewhere(plan: Plan) -> Mapping[int, int]:
    """Frames on disk that the run leaves out and whose face the project knows, each with the first such frame of its
    hold."""
    if plan.work.predicted is None:
        return {}
    outside, rows = set(plan.plate.frames) - set(plan.frames), plan.work.predicted.landmarks.keys
    return hold_starts({frame: rows[frame] for frame in rows if frame in outside})


def _nearest(holds: Iterable[int], part: Sequence[int]) -> Sequence[int]:
    """Holds outside a stretch in order of their distance in time, the nearest first."""
    return sorted(holds, key=lambda hold: max(part[0] - hold, hold - part[-1]))


def _teach_stretch(
    plan: Plan, records: _Stretch, earlier: Collection[int], frames: Collection[int], sink: Sink, cancel: Cancel
) -> Sequence[TeachResult]:
    """The effect of all corrections in these records, and in the project's `earlier` frames, on `frames`; empty without
    corrections."""
    work, applied = plan.work, (plan.apply_overrides(record) for record in records)
    predicted, document = build_document(records, plan), work.restore_provenance(build_document(applied, plan))
    if work.predicted is not None and work.document is not None:
        predicted = with_frames_of(remove_groups(work.predicted, work.document), earlier, predicted)
        document = with_frames_of(work.document, earlier, document)
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
    keys = {name: row for name, row in _at_frames(found.keys, frames).items() if name in names}
    doubtful = {name: tuple(frame for frame in row if frame in frames) for name, row in found.doubtful.items()}
    return (TeachResult(keys, _at_frames(found.errors, frames), doubtful, n_moved(keys, below[0])),)


def _at_frames(table: Mapping[str, Mapping[int, T]], frames: Collection[int]) -> dict[str, dict[int, T]]:
    return {name: {frame: row[frame] for frame in row if frame in frames} for name, row in table.items()}


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
