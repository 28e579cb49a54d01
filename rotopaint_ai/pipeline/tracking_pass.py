"""The first pass of a run: the face followed through the whole shot, in order, and what the whole shot makes of it.

    open_tracking   the journal of an earlier run, where it is still good
    track_shot      every frame through the tracker, into `tracked.journal`; then ends of seams by the whole shot, into
                    `settled.journal`, from which any process may paint

Nothing is painted here. So a frame is painted once, when all that decides it is known.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from rotopaint_ai.files import replacing
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.executor import Eta, Executor, Snapshot, Times, load_snapshot, save_snapshot
from rotopaint_ai.pipeline.pictures import choose_pictured
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import FrameProcessor, Settled, changed_plates, tracked
from rotopaint_ai.pipeline.record_store import (
    SETTLED,
    TRACKED,
    Counted,
    FrameRecord,
    Journal,
    JournalIndex,
    RunState,
    open_state,
)
from rotopaint_ai.pipeline.render_frame import NOT_FINITE
from rotopaint_ai.pipeline.run_events import tracked_event
from rotopaint_ai.pipeline.shot_seams import PROGRESS_INTERVAL_S, with_shot_seams
from rotopaint_ai.pipeline.shot_widths import with_shot_widths
from rotopaint_ai.pipeline.track import FaceTracker
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area

SNAPSHOT_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class TrackedShot:
    """What a shot is painted from: settled records by frame, and the frames that get pictures."""

    records: JournalIndex
    pictured: frozenset[int]


@dataclass(frozen=True, slots=True)
class _TrackingProcessor:
    """Keeps what was settled of a frame, and its pixels while there is room."""

    inner: FrameProcessor

    def read(self, frame: int, near: Area | None = None) -> Frame:
        """A frame, ready to be written again while there is room for it."""
        return self.inner.read(frame, near, keep_native=self.inner.kept.has_room)

    def finish(self, frame: Frame, settled: Settled, ms: Times) -> FrameRecord:
        """The record of a tracked frame."""
        record = tracked(frame.number, "done" if settled.lost is None else "lost", settled)
        if not record.is_finite:
            return self.inner.fail(frame.number, NOT_FINITE)
        self.inner.kept.keep(frame)
        source = self.inner.source(frame.number)
        times = {stage: round(time, 2) for stage, time in ms.items()}
        return replace(record, source=source, message=settled.lost, ms=times)


def open_tracking(plan: Plan, sink: Sink) -> tuple[RunState, str | None]:
    """What an earlier run has tracked, where the job goes on from there, and why it cannot (None: it does, or was not
    asked to).

    Raises OSError where the disk refuses.
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
    """Follow the face through the whole shot, going on where `state` ended, and settle it.

    `after_s` and `n_later`: see `Eta`. Raises CancelledError; DiskError where the journal is gone meanwhile.
    """
    with closing(plan.looks):
        if plan.models.find_seams is not None:
            plan.looks.open_in(state.folder)
        if any(frame not in state.finished for frame in plan.frames):
            eta = Eta(total=len(plan.frames), done=len(state.finished), after_s=after_s, n_later=n_later)
            _follow_face(plan, state, sink, cancel, eta)
        return _settled_shot(plan, state, sink, cancel)


def _follow_face(plan: Plan, state: RunState, sink: Sink, cancel: Cancel, eta: Eta) -> None:
    """Every frame through the tracker that an earlier process has not tracked."""
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
    """The tracker's memory; None where the journal lacks frames that have left it."""
    snapshot = load_snapshot(state.snapshot_path, models)
    if snapshot is None:
        return None
    in_line = {*snapshot.waiting, *(frame for frame, _ in snapshot.settled)}
    left = (frame for frame in plan.frames[: snapshot.n_pushed] if frame not in in_line)
    return snapshot if all(frame in state.finished for frame in left) else None


def _settled_shot(plan: Plan, state: RunState, sink: Sink, cancel: Cancel) -> TrackedShot:
    """Write the settled journal anew: what people have keyed since may move seams in every frame."""
    path, counted = state.folder / f"{SETTLED}.journal", Counted(state)
    settled = with_shot_widths(with_shot_seams(plan, counted, sink, cancel))
    light = list[FrameRecord]()
    with replacing(path) as beside, closing(Journal(beside)) as journal:
        for record in _with_progress(settled, len(state.finished), sink):
            journal.append(record)
            light.append(_respected(record, plan).light())
        counted.check(plan.out)
    return TrackedShot(JournalIndex(path), choose_pictured(light, plan.frames, plan.pack.sheet.seam_names))


def _with_progress(records: Iterable[FrameRecord], total: int, sink: Sink) -> Iterator[FrameRecord]:
    """Records as they go by, told where they take long."""
    eta, last = Eta(total=total, done=0), time.monotonic()
    for record in records:
        facts = eta.step()
        if time.monotonic() - last >= PROGRESS_INTERVAL_S:
            sink(Event("progress", {"task": "seam ends", **facts}))
            last = time.monotonic()
        yield record


def _respected(record: FrameRecord, plan: Plan) -> FrameRecord:
    """A record as it will be once what people have done is laid over it."""
    if record.crop is None:
        return record
    own = plan.work.respected(record.frame, Settled.of(record), plan.pack.sheet)
    return replace(record, status="done" if own.lost is None else "lost", errors=own.errors)
