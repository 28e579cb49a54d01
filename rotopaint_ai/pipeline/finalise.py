"""What comes after the last frame, all made from the journal: shapes, exchange files, pictures, run.json, report."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Any, Generic, TypeVar

from rotopaint_ai.files import write_json
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Event, Sink, warning
from rotopaint_ai.landmarks.detect import DOUBT
from rotopaint_ai.pipeline.executor import give_back
from rotopaint_ai.pipeline.export import Exported, write_exports
from rotopaint_ai.pipeline.manifest import choose_worst, ordinary_frames, run_manifest
from rotopaint_ai.pipeline.out_folder import facts_in, other_frames
from rotopaint_ai.pipeline.passes import usual_width
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import changed_plates
from rotopaint_ai.pipeline.record_store import Counted, FrameRecord, RunState
from rotopaint_ai.pipeline.render_frame import remove_others
from rotopaint_ai.report.page import write_report
from rotopaint_ai.shapes.reduce import reduce_document
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Key,
    Landmark,
    LandmarkKeys,
    RotoDocument,
    RotoShape,
    StrokeWidth,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: frames by what became of them, which ones to look at first, and the files to look at.

    worst: by frame the shape that is expected to be farthest off, None without any; the worst frame first.
    """

    done: tuple[int, ...]
    failed: Mapping[int, str]
    missing: tuple[int, ...]
    lost: tuple[int, ...]
    worst: Mapping[int, str | None]
    report: Path
    exports: tuple[Exported, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every frame that was asked for came through and shows a face, and every export was written."""
        return not (self.failed or self.missing or self.lost or any(each.error for each in self.exports))


def finalise(plan: Plan, state: RunState, sink: Sink, *, wall_s: float, n_new: int) -> Outcome:
    """Write what needs the whole shot: shapes, exchange files, pictures, run.json, report."""
    plan.models.close()
    give_back()  # the document needs its own now
    counted = Counted(state)
    document = plan.work.put_back(build_document(counted, plan))
    counted.check(plan.out)
    keys = {"before": n_keys(document)}
    if plan.job.key_tolerance_px:
        document = reduce_document(document, plan.job.key_tolerance_px)
    keys["written"] = n_keys(document)
    exports = write_exports(document, plan.job, plan.out, given=plan.work.names, sink=sink, threads=plan.threads)
    del document
    records = standing(plan, state)
    worst = choose_worst(records, plan.pack.sheet.seam_names)
    remove_others(plan.out, [*worst, *ordinary_frames(plan.frames)])
    content = run_manifest(plan, state, records, exports, worst, keys, wall_s=wall_s, n_new=n_new)
    write_json(plan.out / "run.json", content)
    report = write_report(plan.out, content)
    outcome = Outcome(
        done=tuple(record.frame for record in records if record.status == "done"),
        failed={record.frame: record.message or "" for record in records if record.status == "failed"},
        missing=plan.missing,
        lost=tuple(record.frame for record in records if record.status == "lost"),
        worst=_worst_shapes(worst, records, plan.pack.sheet.seam_names),
        exports=tuple(exports),
        report=report,
    )
    if outcome.lost:
        reason = _no_face_reason(records)
        force = ", or --force where there is a face, and look its landmarks over" if reason.startswith(DOUBT) else ""
        sink(
            warning(
                f"face not found at {summarise(outcome.lost)} ({reason}); mattes are empty there and the clean plate "
                f"is the plate; add a box: --crop FRAME:X,Y,W,H{force}"
            )
        )
    if plan.job.project is None and (older := other_frames(plan.out, plan.claim().files)):
        sink(
            warning(
                f"{plan.out}: also holds frames {summarise(older)} of an earlier run, which shapes.roto.json does not; "
                "remove them, or run them again with the others"
            )
        )
    for exported in exports:
        if exported.error:
            sink(warning(f"--export {exported.format.lower()}: {exported.error}"))
    sink(_finished_event(outcome, content))
    return outcome


def _worst_shapes(
    frames: Sequence[int], records: Sequence[FrameRecord], seams: Container[str]
) -> dict[int, str | None]:
    found = {record.frame: record.worst_shape(seams) for record in records}
    return {frame: shape[0] if (shape := found[frame]) else None for frame in frames}


def _no_face_reason(records: Sequence[FrameRecord]) -> str:
    """Why most frames without a face have none."""
    reasons = [record.message or "" for record in records if record.status == "lost"]
    return max(sorted(set(reasons)), key=reasons.count)


def standing(plan: Plan, state: RunState) -> list[FrameRecord]:
    """Light records in the order of frames; failed where what was written is gone, or where the plate has changed."""
    records = [state.finished[frame] for frame in sorted(state.finished)]
    changed = set(changed_plates(plan.plate, records))
    there = facts_in(plan.out, {name.rpartition("/")[0] for record in records for name in record.outputs})
    return [_record_on_disk(record, plan, there, is_changed=record.frame in changed) for record in records]


def _record_on_disk(
    record: FrameRecord, plan: Plan, there: Mapping[str, os.stat_result], *, is_changed: bool
) -> FrameRecord:
    if record.status == "failed":
        return record
    if is_changed:
        name = record.source.path if record.source is not None else plan.plate.name
        text = f"frame {record.frame}: {name} changed on disk while the run was going on; --resume makes it again"
        return replace(record, status="failed", message=text)
    if not record.outputs_stand(plan.out, there):
        gone = f"frame {record.frame}: files are gone from {plan.out} or not those that were written"
        text = f"{gone}; --resume makes them again"
        return replace(record, status="failed", message=text)
    return record


def _finished_event(outcome: Outcome, content: Mapping[str, Any]) -> Event:
    facts = {
        "done": len(outcome.done),
        "failed": list(outcome.failed),
        "missing": list(outcome.missing),
        "lost": list(outcome.lost),
        "exports": [exported.path for exported in outcome.exports if not exported.error],
        "report": str(outcome.report),
        "wall_s": content["timing"]["wall_s"],
        "ms_per_frame": content["timing"]["ms_per_frame"],
        "device": content["device"]["note"],
    }
    return Event("finished", facts)


def build_document(records: Iterable[FrameRecord], plan: Plan) -> RotoDocument:
    """Landmarks and shapes of all frames whose face was found, reduced where the job asks for it.

    A seam has one width for the whole shot, and in frames where it was painted with another its keys say so; a shape is
    hidden in frames where the face was lost.
    """
    names = [spec.name for spec in plan.pack.sheet.shapes]
    landmarks, keys = PackedLandmarks(), {name: PackedKeys() for name in names}
    widths: dict[str, dict[int, float]] = {name: {} for name in names}
    hidden: dict[str, set[int]] = {name: set() for name in names}
    for record in records:
        for name in names if record.status == "lost" else record.hidden:
            hidden[name].add(record.frame)
        if not record.shapes:
            continue
        landmarks.put(record.frame, record.landmarks or ())
        for name, rows in record.shapes.items():
            keys[name].put(record.frame, rows)
            if name in record.widths:
                widths[name][record.frame] = record.widths[name]
    usual = {name: usual_width(list(each.values())) if each else None for name, each in widths.items()}
    for spec in plan.pack.sheet.shapes:
        for frame, width in widths[spec.name].items():
            if width != usual[spec.name] and not spec.closed:
                keys[spec.name].widen(frame, width / 2, spec.feather_px)
    return RotoDocument(
        width=plan.plate.width,
        height=plan.plate.height,
        first_frame=min([*plan.frames, *plan.missing]),
        last_frame=max([*plan.frames, *plan.missing]),
        pixel_aspect=plan.plate.pixel_aspect,
        fps=plan.plate.fps,
        landmarks=LandmarkKeys(plan.pack.sheet.landmark_names, landmarks),
        shapes=tuple(
            RotoShape(
                name=spec.name,
                closed=spec.closed,
                role=spec.role,
                keys=keys[spec.name],
                width_px=usual[spec.name] if not spec.closed else None,
                feather_px=spec.feather_px,
                taper=spec.taper,
                visible=dict.fromkeys(sorted(hidden[spec.name]), False),
            )
            for spec in plan.pack.sheet.shapes
        ),
    )


def n_keys(document: RotoDocument) -> int:
    """Keys of all shapes together."""
    return sum(len(shape.keys) for shape in document.shapes)


V = TypeVar("V")
Row = Sequence[float]
_UNSEEN = (nan, nan, nan)


class PackedValues(Mapping[int, V], Generic[V]):
    """Values by frame, in ascending order of frames; each is made of its numbers when it is asked for."""

    def __init__(self, make: Callable[[list[float]], V]) -> None:
        self._make = make
        self._numbers = array("d")
        self._ends = array("q", [0])  # where the numbers of each row end, after the first
        self._row: dict[int, int] = {}
        self._last: tuple[int, V] | None = None

    def add(self, frame: int, numbers: Sequence[float]) -> None:
        """Put numbers at a frame; equal to those of the call before, they are the same row."""
        added = array("d", numbers)
        if len(self._ends) < 2 or added != self._numbers[self._ends[-2] :]:  # one with NaN equals none
            self._numbers.extend(added)
            self._ends.append(len(self._numbers))
        self._row[frame] = len(self._ends) - 2

    def __getitem__(self, frame: int) -> V:
        row = self._row[frame]
        last = self._last
        if last is None or last[0] != row:
            last = row, self._make(self._numbers[self._ends[row] : self._ends[row + 1]].tolist())
            self._last = last
        return last[1]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._row))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, frame: object) -> bool:
        return frame in self._row


class PackedKeys(PackedValues[Key]):
    """A shape's keys, from rows of six numbers; half a width and a feather follow where a key has its own."""

    def __init__(self) -> None:
        super().__init__(_key_of_numbers)

    def put(self, frame: int, rows: Sequence[Row]) -> None:
        """The key of a frame."""
        self.add(frame, [number for row in rows for number in row])

    def widen(self, frame: int, half_px: float, feather_px: float) -> None:
        """Give the key of a frame a width of its own."""
        rows = [number for point in self[frame].points for number in point]
        self.add(frame, [*rows, half_px, feather_px])


class PackedLandmarks(PackedValues[tuple[Landmark | None, ...]]):
    """Landmarks, from rows of three numbers; None where one is not seen."""

    def __init__(self) -> None:
        super().__init__(_landmark_row_of)

    def put(self, frame: int, rows: Sequence[Row | None]) -> None:
        """The landmarks of a frame."""
        self.add(frame, [number for row in rows for number in (Landmark(*row) if row else _UNSEEN)])


def _key_of_numbers(numbers: list[float]) -> Key:
    n_points = len(numbers) // 6
    half_and_feather = numbers[6 * n_points :]
    widths = (StrokeWidth(half_and_feather[0], *half_and_feather),) * n_points if half_and_feather else ()
    return Key(tuple(ControlPoint(*numbers[at : at + 6]) for at in range(0, 6 * n_points, 6)), widths=widths)


def _landmark_row_of(numbers: list[float]) -> tuple[Landmark | None, ...]:
    rows = (numbers[at : at + 3] for at in range(0, len(numbers), 3))
    return tuple(None if isnan(row[0]) else Landmark(*row) for row in rows)
