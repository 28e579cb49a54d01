"""The two passes of a run over its plate.

    open_tracking   the journal of an earlier run, where it is still good
    track_shot      the face followed through the whole shot, in order, into `tracked.journal`; then seams by the whole
                    shot (`shot_seams`) and their widths (`shot_widths`), into `settled.journal`, from which any process
                    may paint
    paint_frames    mattes and clean plates of settled frames, side by side, each once

A frame that an earlier process has painted stays where all that decided it still holds and its files stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import PlateError
from rotopaint_ai.files import replacing
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.carried_corrections import with_corrections
from rotopaint_ai.pipeline.executor import (
    Eta,
    Executor,
    FrameMemo,
    SettledFrames,
    Snapshot,
    StageTimes,
    Steps,
    keep_nothing,
    load_snapshot,
    make_progress,
    save_snapshot,
    time_stage,
)
from rotopaint_ai.pipeline.face_tracker import FaceTracker
from rotopaint_ai.pipeline.hold_outs import KEPT, FrontPlace, Fronts
from rotopaint_ai.pipeline.manifest import choose_pictured
from rotopaint_ai.pipeline.overrides import OverridingProcessor
from rotopaint_ai.pipeline.plan import Plan, frame_event, tracked_event
from rotopaint_ai.pipeline.process_frame import (
    AIR_PX,
    FrameProcessor,
    TrackedFrame,
    changed_plates,
    face_area,
    tracked_record,
)
from rotopaint_ai.pipeline.record_store import (
    SETTLED,
    TRACKED,
    CountedRecords,
    FrameRecord,
    Journal,
    JournalIndex,
    RunState,
    open_state,
)
from rotopaint_ai.pipeline.render_frame import NOT_FINITE, SURROUND_PX, PictureNames
from rotopaint_ai.pipeline.shot_seams import with_shot_seams
from rotopaint_ai.pipeline.shot_widths import with_measured_widths, with_shot_widths
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area

SNAPSHOT_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class TrackedShot:
    """The input for painting a shot: settled records by frame, and the frames that get pictures."""

    records: JournalIndex
    pictured: frozenset[int]


@dataclass(frozen=True, slots=True)
class _TrackingProcessor:
    """Keeps a frame's settled record, and its pixels while there is room."""

    inner: FrameProcessor

    def read(self, frame: int, near: Area | None = None) -> Frame:
        """A frame; while the store has room, ready to be written again."""
        return self.inner.read(frame, near, keep_native=self.inner.kept.has_room)

    def finish(self, frame: Frame, settled: TrackedFrame, ms: StageTimes) -> FrameRecord:
        """The record of a tracked frame."""
        record = tracked_record(frame.number, "done" if settled.lost is None else "lost", settled)
        if not record.is_finite:
            return self.inner.fail(frame.number, NOT_FINITE)
        self.inner.kept.keep(frame)
        source = self.inner.source(frame.number)
        times = {stage: round(time, 2) for stage, time in ms.items()}
        return replace(record, source=source, message=settled.lost, ms=times)


def open_tracking(plan: Plan, sink: Sink) -> tuple[RunState, str | None]:
    """The tracking state in the run's folder, and why an earlier one could not be used (None: it could, or was not
    asked for).

    Raises: OSError where the disk refuses.
    """
    state, note = open_state(plan.out, plan.fingerprint(), resume=plan.job.resume, stage=TRACKED)
    if changed := changed_plates(plan.plate, state.finished.values()):
        where = f"{plan.plate.name} changed on disk at {summarise(changed)}"
        sink(warning(f"--resume: {where}; starting from the first frame"))
        state.clear()
    return state, note


def track_shot(
    plan: Plan, state: RunState, sink: Sink, cancel: Cancel, *, after_s: float = 0.0, n_later: int = 0
) -> TrackedShot:
    """Follow the face through the whole shot, resuming where `state` ended, and settle it.

    `after_s` and `n_later`: see `Eta`. Raises: CancelledError; DiskError where the journal has disappeared.
    """
    with closing(plan.looks):
        if plan.models.find_seams is not None:
            plan.looks.open_in(state.folder)
        if any(frame not in state.finished for frame in plan.frames):
            eta = Eta(total=len(plan.frames), done=len(state.finished), after_s=after_s, n_later=n_later)
            _follow_face(plan, state, sink, cancel, eta)
        return _settled_shot(plan, state, sink, cancel)


def _follow_face(plan: Plan, state: RunState, sink: Sink, cancel: Cancel, eta: Eta) -> None:
    """Track the frames that no earlier process has tracked."""
    models: dict[str, object] = {
        "detect": plan.models.detect,
        "predict_shapes": plan.models.predict_shapes,
        "display": to_display,
        "keep_look": (keep_look := plan.looks.keep),
    }
    if plan.models.find_seams is not None:
        models["find_seams"] = plan.models.find_seams
    start = _snapshot_of(plan, state, models)
    tracker = FaceTracker(plan.models, plan.crops, instability=plan.instability, keep_look=keep_look)
    start = start or Snapshot(0, tracker)
    last_kept = time.monotonic()

    def keep(snapshot: Snapshot) -> None:
        nonlocal last_kept
        if time.monotonic() - last_kept >= SNAPSHOT_INTERVAL_S:
            save_snapshot(state.snapshot_path, snapshot, models)
            last_kept = time.monotonic()

    processor = FrameProcessor.of(plan.job, plan.plate, plan.pack.sheet, None)
    line = _TrackingProcessor(replace(processor, kept=plan.kept))
    executor = Executor(line.read, line.finish, line.inner.fail, state.finished.__contains__, keep, plan.threads)
    for record in executor.run(plan.frames, start, cancel):
        if record.frame not in state.finished:
            state.add(record)
            sink(tracked_event(record))
            sink(Event("progress", {"task": "track", **eta.step()}))


def _snapshot_of(plan: Plan, state: RunState, models: Mapping[str, object]) -> Snapshot | None:
    """The tracker's state; None where the journal lacks frames that are no longer in that state."""
    snapshot = load_snapshot(state.snapshot_path, models)
    if snapshot is None:
        return None
    in_line = {*snapshot.waiting, *(frame for frame, _ in snapshot.settled)}
    left = (frame for frame in plan.frames[: snapshot.n_pushed] if frame not in in_line)
    return snapshot if all(frame in state.finished for frame in left) else None


def _settled_shot(plan: Plan, state: RunState, sink: Sink, cancel: Cancel) -> TrackedShot:
    """Write the settled journal again, because later human keys may move seams in any frame."""
    path, counted = state.folder / f"{SETTLED}.journal", CountedRecords(state)
    seams = with_shot_seams(plan, counted, sink, cancel)
    corrected = with_corrections(plan, seams, sink, cancel)
    settled = with_shot_widths(with_measured_widths(plan, corrected))
    light = list[FrameRecord]()
    with replacing(path) as beside, closing(Journal(beside)) as journal:
        steps = Steps(make_progress("seam ends", sink, cancel), len(state.finished))
        for record in steps.over(settled):
            journal.append(record)
            light.append(plan.apply_overrides(record).light())
        counted.check(plan.out)
    return TrackedShot(JournalIndex(path), choose_pictured(light, plan.frames, plan.pack.sheet.seam_names))


class _KnownTracker:
    """A tracker for frames that are already tracked: returns each with its settled record and its tracking times."""

    def __init__(self, at: Callable[[int], FrameRecord]) -> None:
        self._at = at

    def push(self, frame: Frame, ms: StageTimes) -> SettledFrames:
        """The frame, settled at once."""
        record = self._at(frame.number)
        for stage, taken in record.ms.items():
            ms[stage] = ms.get(stage, 0.0) + taken
        return ((frame.number, TrackedFrame.of(record)),)

    def skip(self, frame: int) -> SettledFrames:
        """Nothing settles for a frame that cannot be read any more."""
        return ()

    @property
    def reach(self) -> None:
        """None: the whole frame is kept for the paint, which begins at once."""

    @property
    def room(self) -> float:
        """No margin."""
        return 0.0

    def flush(self) -> SettledFrames:
        """Nothing, because no frame waits."""
        return ()


def paint_frames(
    shot: TrackedShot,
    processor: OverridingProcessor,
    state: RunState,
    frames: Sequence[int],
    threads: int,
    sink: Sink,
    cancel: Cancel,
    *,
    after_s: float = 0.0,
) -> int:
    """Paint the frames of a tracked shot that `state` lacks in their settled form; returns how many.

    `after_s`: expected seconds after the last frame. Raises: CancelledError; OSError where the disk refuses.
    """
    known = FrameMemo(shot.records.at, kept=4 * threads)
    fronts = _fronts_of(processor, known, kept=max(KEPT, 4 * threads))
    processor = replace(processor, inner=replace(processor.inner, pictured=shot.pictured, fronts=fronts))
    _forget_others(shot, processor, state)
    for frame in frames:
        if frame not in state.finished and (record := shot.records.at(frame)).crop is None:  # it could not be read
            state.add(replace(record, work=processor.work.digest(frame)))

    def read(frame: int, near: Area | None) -> Frame:
        record = known.at(frame)
        assert record.crop is not None
        area = face_area(Crop(*record.crop)) if frame in shot.pictured else _seam_area(record, processor)
        looked_at = None if fronts is None else fronts.area_at(frame)
        area = area.around(looked_at) if area is not None and looked_at is not None else area
        got = processor.read(frame, area, record.source)
        if record.source is not None and got.fingerprint != record.source.fingerprint:
            raise PlateError(f"{record.source.path}: changed on disk since its face was followed; --resume starts anew")
        return got

    def look_ahead(frame: Frame, ms: StageTimes) -> None:
        if fronts is not None and fronts.starts_exposure(frame.number):
            with time_stage(ms, "front"), suppress(Exception):  # what goes wrong is told when the frame is finished
                fronts.at(frame)

    line = Executor(read, processor.finish, processor.fail, lambda frame: False, keep_nothing, threads, look_ahead)
    eta = Eta(total=len(frames), done=len(state.finished), after_s=after_s)
    rest = [frame for frame in frames if frame not in state.finished]
    for record in line.run(rest, Snapshot(0, _KnownTracker(known.at)), cancel):
        state.add(record)
        sink(frame_event(record))
        sink(Event("progress", {"task": "paint", **eta.step()}))
    return len(rest)


def _fronts_of(processor: OverridingProcessor, known: FrameMemo[FrameRecord], *, kept: int) -> Fronts | None:
    """What stands in front of the face in a shot of settled records; None where no network looks for it. `kept`:
    exposures in memory, no fewer than are read ahead and painted at a time."""
    inner = processor.inner
    if inner.find_front is None:
        return None

    def place_at(frame: int) -> FrontPlace | None:
        record = known.at(frame)
        return None if record.crop is None else processor.place_of(frame, TrackedFrame.of(record))

    return Fronts(inner.plate, inner.find_front, place_at, lambda frame: known.at(frame).exposure, kept)


def _seam_area(record: FrameRecord, processor: OverridingProcessor) -> Area | None:
    """The area of a frame that a fill reads: its seams with a margin; None where no seam is visible."""
    sheet = processor.inner.sheet
    settled = processor.work.apply_overrides(record.frame, TrackedFrame.of(record), sheet)
    specs = [spec for spec in sheet.shapes if spec.role == "seam" and spec.name in settled.shapes]
    if not specs:
        return None
    points = [(row[0], row[1]) for spec in specs for row in settled.shapes[spec.name]]
    x, y = zip(*points)
    air = max(settled.widths.get(spec.name, 0.0) / 2 + spec.feather_px for spec in specs) + SURROUND_PX + AIR_PX
    return Area(min(x), min(y), max(x), max(y)).grown(air)


def _forget_others(shot: TrackedShot, processor: OverridingProcessor, state: RunState) -> None:
    """Forget painted frames whose settled record, edits or files have changed.

    Where only expected errors or `unseen` differ, the painted frame stays and its record takes the new values.
    """
    out, pictured = processor.inner.out, shot.pictured
    standing: dict[int, TrackedFrame | None] = {}
    for record in state.records():
        now = _settled_now(record.frame, shot, processor)
        if (
            record.frame in shot.records.frames
            and _is_as_settled(record, now)
            and record.work == processor.work.digest(record.frame)
            and record.outputs_stand(out)
            and (record.frame not in pictured or _has_picture(out, record.frame))
        ):
            standing[record.frame] = now
    for frame in set(state.finished) - standing.keys():
        del state.finished[frame]
    painted = JournalIndex(state.journal_path)
    for frame, settled in standing.items():
        known = state.finished[frame]
        if settled is not None and (settled.errors, settled.unseen) != (known.errors, known.unseen):
            state.add(replace(painted.at(frame), errors=settled.errors, unseen=settled.unseen))


def _settled_now(frame: int, shot: TrackedShot, processor: OverridingProcessor) -> TrackedFrame | None:
    """The settled record of a frame with people's edits; None where the frame could not be read."""
    record = shot.records.at(frame) if frame in shot.records.frames else None
    if record is None or record.crop is None:
        return None
    return processor.work.apply_overrides(frame, TrackedFrame.of(record), processor.inner.sheet)


def _is_as_settled(painted: FrameRecord, now: TrackedFrame | None) -> bool:
    """Whether a frame was painted from its current settled record. Keys at other frames can move its seams' ends."""
    if now is None:
        return painted.crop is None
    if painted.status == "failed":
        return False
    return (painted.shapes, painted.landmarks or (), painted.widths) == (now.shapes, now.landmarks, now.widths)


def _has_picture(out: Path, frame: int) -> bool:
    return (out / PictureNames.of(frame).face).exists()
