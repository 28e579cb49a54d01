"""The main job: one plate through the whole line, into a folder.

    run(job, sink, cancel) -> Outcome

What has been finished is on disk at every moment; killed at any time, the same job with `resume` ends with the same
files. Everything that comes after the last frame is made from the journal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from rotopaint_ai.errors import CancelledError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink, warning
from rotopaint_ai.pipeline.executor import Eta, Executor, Snapshot, Times, load_snapshot, save_snapshot
from rotopaint_ai.pipeline.export_workers import expected_s
from rotopaint_ai.pipeline.finalise import Outcome, finalise
from rotopaint_ai.pipeline.out_folder import claimed
from rotopaint_ai.pipeline.overrides import OverridingProcessor
from rotopaint_ai.pipeline.pictures import Gallery
from rotopaint_ai.pipeline.plan import Plan, make_plan
from rotopaint_ai.pipeline.process_frame import FrameProcessor, Settled, changed_plates
from rotopaint_ai.pipeline.record_store import FrameRecord, RunState, open_state
from rotopaint_ai.pipeline.save_to_project import compare_plate, opened, save_results
from rotopaint_ai.pipeline.shot_ends import carry_ends
from rotopaint_ai.pipeline.track import FaceTracker
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ai.plates.plate_window import Area

SNAPSHOT_INTERVAL_S = 2.0


def run(job: RunJob, sink: Sink, cancel: Cancel) -> Outcome:
    """Do the main job, telling `sink` what happens.

    Raises: whatever `make_plan` refuses; CancelledError when asked to stop; OSError where the disk refuses.
    """
    start = time.monotonic()
    plan = make_plan(job)
    with plan.plate, opened(job) as project, claimed(plan.claim()):
        if (other := compare_plate(plan.inputs, job.project, plan.plate)) is not None:
            sink(warning(other))
        state, note = open_state(plan.out, plan.fingerprint(), resume=job.resume)
        try:
            outcome = _run_plan(plan, state, note, sink if project is None else project.sink(sink), cancel, start)
            if project is not None:
                save_results(project, plan, state, sink)
            return outcome
        finally:
            state.close()


def _run_plan(plan: Plan, state: RunState, note: str | None, sink: Sink, cancel: Cancel, start: float) -> Outcome:
    processor = FrameProcessor.of(plan.job, plan.plate, plan.pack.sheet, plan.models.fill)
    processor = replace(processor, paints=plan.work.paints, strokes=plan.work.strokes)
    if note is not None:
        sink(warning(f"--resume: {note}; starting from the first frame"))
    forget_changed(state, plan.plate, sink)
    sink(started(plan, n_done=len(state.finished)))
    if plan.note is not None:
        sink(plan.note)
    if plan.missing:
        sink(warning(f"{plan.plate.name}: not on disk: frames {summarise(plan.missing)}; render or copy them"))
    n_before = len(state.finished)
    try:
        n_shapes = len(plan.pack.sheet.shape_names)
        exports_s = expected_s(plan.job.exports, len(plan.frames), n_shapes, plan.threads)
        painter = OverridingProcessor(processor, plan.work)
        walk(plan, state, painter, sink, cancel, after_s=exports_s)
        for record in carry_ends(plan, state, painter, sink, cancel):
            sink(frame_event(record))
    except CancelledError:
        sink(Event("cancelled", {"done": len(state.finished), "total": len(plan.frames)}))
        raise
    return finalise(plan, state, sink, wall_s=time.monotonic() - start, n_new=len(state.finished) - n_before)


def forget_changed(state: RunState, plate: Plate, sink: Sink) -> None:
    """Start from the first frame where a finished frame's plate is no longer what was worked on."""
    if changed := changed_plates(plate, state.finished.values()):
        where = f"{plate.name} changed on disk at {summarise(changed)}"
        sink(warning(f"--resume: {where}; starting from the first frame"))
        state.clear()


class Processor(Protocol):
    """What is done with each frame of a run."""

    def read(self, frame: int, near: Area | None = None) -> Frame:
        """The frame from disk; `near` is where it will be looked at, see `Plate.read`. Raises PlateError."""

    def finish(self, frame: Frame, settled: Settled, ms: Times) -> FrameRecord:
        """What becomes of a settled frame."""

    def fail(self, frame: int, message: str) -> FrameRecord:
        """The record of a frame that could not be read."""


def walk(
    plan: Plan, state: RunState, processor: Processor, sink: Sink, cancel: Cancel, *, after_s: float = 0.0
) -> None:
    """Take every frame of a plan through the executor, going on where `state` ended. Raises CancelledError.

    `after_s`: how long what follows the last frame is expected to take.
    """
    models: dict[str, object] = {
        "detect": plan.models.detect,
        "predict_shapes": plan.models.predict_shapes,
        "display": to_display,
    }
    if plan.models.find_seams is not None:
        models["find_seams"] = plan.models.find_seams
    start = _start_snapshot(plan, state, models)
    last_kept = time.monotonic()

    def keep(snapshot: Snapshot) -> None:
        nonlocal last_kept
        if time.monotonic() - last_kept >= SNAPSHOT_INTERVAL_S:
            save_snapshot(state.snapshot_path, snapshot, models)
            last_kept = time.monotonic()

    executor = Executor(
        processor.read, processor.finish, processor.fail, state.finished.__contains__, keep, plan.threads
    )
    eta = Eta(total=len(plan.frames), done=len(state.finished), after_s=after_s)
    for record in executor.run(plan.frames, start, cancel):
        if record.frame in state.finished:
            continue
        state.add(record)
        sink(frame_event(record))
        sink(Event("progress", eta.step()))


def _start_snapshot(plan: Plan, state: RunState, models: Mapping[str, object]) -> Snapshot:
    """Where to go on: the last snapshot, or the first frame where files of finished frames are gone."""
    gone = [frame for frame, record in state.finished.items() if _is_to_be_remade(record, plan)]
    for frame in gone:
        del state.finished[frame]
    snapshot = None if gone else load_snapshot(state.snapshot_path, models)
    return snapshot or Snapshot(
        0, FaceTracker(plan.models, plan.crops, Gallery(plan.frames), instability=plan.instability)
    )


def _is_to_be_remade(record: FrameRecord, plan: Plan) -> bool:
    """Whether a finished frame's files are gone or show other work of people than stands now, or it was tracked and
    then could not be painted or written."""
    is_stale = record.work != plan.work.digest(record.frame)
    return (
        is_stale
        or not record.outputs_stand(plan.out, untouched=True)
        or (record.status == "failed" and record.crop is not None)
    )


def started(plan: Plan, *, n_done: int) -> Event:
    """The plate, the pack and the device, before the first frame."""
    sheet, plate = plan.pack.sheet, plan.plate
    facts = {
        "name": plate.name,
        "plates": plan.job.plates,
        "out": str(plan.out),
        "width": plate.width,
        "height": plate.height,
        "pixel_aspect": plate.pixel_aspect,
        "fps": plate.fps,
        "first_frame": plan.frames[0],
        "last_frame": plan.frames[-1],
        "total": len(plan.frames),
        "done": n_done,
        "missing": list(plan.missing),
        "pack": plan.pack.name,
        "device": plan.models.device_note,
        "threads": plan.threads,
        "landmarks": list(sheet.landmark_names),
        "shapes": [
            {"name": s.name, "closed": s.closed, "role": s.role, "feather_px": s.feather_px} for s in sheet.shapes
        ],
    }
    return Event("started", facts)


def frame_event(record: FrameRecord) -> Event:
    """A frame that has gone through, or failed."""
    if record.status == "failed":
        return Event("error", {"message": record.message, "frame": record.frame})
    facts: dict[str, Any] = {
        "frame": record.frame,
        "status": record.status,
        "lost": record.message,
        "hold": record.hold,
        "crop": record.crop,
        "landmarks": record.landmarks,
        "shapes": record.shapes,
        "widths": record.widths,
        "hidden": list(record.hidden),
        "expected_error_px": record.errors,
        "seam_before": record.seam_before,
        "seam_after": record.seam_after,
        "outputs": list(record.outputs),
        "ms": record.ms,
    }
    return Event("frame", facts)
