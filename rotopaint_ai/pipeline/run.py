"""The main job: one plate through the whole pipeline, into a folder.

    run(job, sink, cancel) -> Outcome

The face is followed through the whole shot, the shot is settled, and then each frame is painted once. What has been
finished is on disk at every moment; killed at any time, the same job with `resume` ends with the same files.
Everything that comes after the last frame is made from the journal.

The same in tasks for several processes, which end with the same files:

    track(job)          follows the face through the whole shot, in order: landmarks, shapes, widths into a journal
    paint(job, frames)  mattes and clean plates of a range of tracked frames; ranges side by side, on any machine
    gather(job)         shapes, exchange files, report and run.json, once every frame has been painted

Each task can be killed at any time and done again; what it had finished stays. All share the run's folder on one disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import CancelledError, UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.frames import FrameRange, n_frames, summarise
from rotopaint_ai.inference.models import open_fill, open_front
from rotopaint_ai.inference.pack import Pack, load_pack
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink, n_cores, warning
from rotopaint_ai.locks import hold_lock
from rotopaint_ai.pipeline.export import expected_s
from rotopaint_ai.pipeline.finalise import Outcome, finalise
from rotopaint_ai.pipeline.out_folder import FOLDER, claim_folder, facts_in
from rotopaint_ai.pipeline.overrides import OverridingProcessor, inputs_for
from rotopaint_ai.pipeline.paint_job import PaintedFrames
from rotopaint_ai.pipeline.passes import TrackedShot, open_tracking, paint_frames, track_shot
from rotopaint_ai.pipeline.plan import Plan, make_plan, start_event
from rotopaint_ai.pipeline.process_frame import FrameProcessor
from rotopaint_ai.pipeline.record_store import (
    CHUNKS,
    SETTLED,
    JournalIndex,
    RunState,
    open_part,
    open_state,
    read_journal,
)
from rotopaint_ai.pipeline.render_frame import Format
from rotopaint_ai.pipeline.save_to_project import compare_plate, open_target, save_results
from rotopaint_ai.plates.plate import Plate, open_plate

NOTE = "tracked.json"


def run(job: RunJob, sink: Sink, cancel: Cancel) -> Outcome:
    """Do the main job, sending events to `sink`.

    Raises: as `make_plan`; CancelledError when asked to stop; OSError where the disk refuses.
    """
    start = time.monotonic()
    plan = make_plan(job)
    with plan.plate, open_target(job) as project, claim_folder(plan.claim()):
        if (other := compare_plate(plan.inputs, job.project, plan.plate, is_same_shot=job.force)) is not None:
            sink(warning(other))
        tell = sink if project is None else project.sink(sink)
        tracking, note = open_tracking(plan, tell)
        with closing(tracking):
            if note is not None:
                tell(warning(f"--resume: {note}; starting from the first frame"))
            state, _ = open_state(plan.out, plan.fingerprint(), resume=True)
            with closing(state):
                n_new = _run_passes(plan, tracking, state, tell, cancel)
                outcome = finalise(plan, state, tell, wall_s=time.monotonic() - start, n_new=n_new)
                if project is not None:
                    save_results(project, plan, state)
                return outcome


def _run_passes(plan: Plan, tracking: RunState, state: RunState, sink: Sink, cancel: Cancel) -> int:
    """Track every frame, then paint every frame; `tracking` and `state` take the records. Returns the number of painted
    frames."""
    sink(start_event(plan, n_done=len(state.finished)))
    _tell_beforehand(plan, sink)
    processor = FrameProcessor.of(plan.job, plan.plate, plan.pack.sheet, plan.models.fill)
    processor = replace(
        processor,
        paints=plan.work.paints,
        strokes=plan.work.strokes,
        kept=plan.kept,
        find_front=plan.models.find_front,
    )
    painter = OverridingProcessor(processor, plan.work)
    exports_s = expected_s(plan.job.exports, len(plan.frames), len(plan.pack.sheet.shape_names), plan.threads)
    n_later = len(plan.frames) - len(state.finished)
    try:
        shot = track_shot(plan, tracking, sink, cancel, after_s=exports_s, n_later=n_later)
        return paint_frames(shot, painter, state, plan.frames, plan.threads, sink, cancel, after_s=exports_s)
    except CancelledError:
        sink(Event("cancelled", {"done": len(state.finished), "total": len(plan.frames)}))
        raise


def _older_cleans(plan: Plan) -> int:
    """The number of this run's frames that have a clean plate in the folder already."""
    there, format = facts_in(plan.out, ["clean"]), Format.of(plan.plate)
    return sum(format.clean_name(frame) in there for frame in plan.frames)


def _tell_beforehand(plan: Plan, sink: Sink) -> None:
    """Send warnings to the user before the first frame."""
    for note in plan.notes:
        sink(note)
    if not plan.job.clean and (older := _older_cleans(plan)):
        sink(
            warning(
                f"{plan.out / 'clean'}: {n_frames(older)} of an earlier run stay as they are; remove them, or leave "
                "--no-clean out"
            )
        )
    if plan.missing:
        sink(warning(f"{plan.plate.name}: not on disk: frames {summarise(plan.missing)}; render or copy them"))


def track(job: RunJob, sink: Sink, cancel: Cancel) -> tuple[int, ...]:
    """Follow the face through the whole shot; returns the frames that could not be read.

    Raises: as `run`.
    """
    began = time.time()
    plan = make_plan(job)
    with plan.plate, claim_folder(plan.claim()), closing(open_tracking(plan, sink)[0]) as state:
        sink(start_event(plan, n_done=len(state.finished)))
        for event in plan.notes:
            sink(event)
        shot = track_shot(plan, state, sink, cancel)
        note = {
            "began": began,
            "crops": list(plan.crops.words()),
            "frames": list(plan.frames),
            "pictured": sorted(shot.pictured),
            **_identity(plan.plate, plan.pack, job),
        }
        write_json(state.folder / NOTE, note)
        return tuple(frame for frame, record in state.finished.items() if record.status == "failed")


def paint(job: RunJob, frames: FrameRange, sink: Sink, cancel: Cancel) -> PaintedFrames:
    """Paint the frames of a tracked shot in a range.

    Raises: UsageError where the shot was not tracked, or as another job, or where another process paints this range;
    CancelledError; OSError where the disk refuses.
    """
    out = Path(job.out)
    with open_plate(job.plates, colourspace=job.colourspace) as plate:
        pack = load_pack(job.model)
        note = _tracking_note(out, plate, pack, job)
        wanted = [frame for frame in note["frames"] if frame in frames]
        if not wanted:
            raise UsageError(
                f"--frames {frames}: {plate.name} was tracked at {summarise(note['frames'])}; choose among those"
            )
        name = f"{CHUNKS}/{frames.first}-{frames.last}"
        busy = f"{out}: another process paints these frames; wait for it"
        with hold_lock(out / FOLDER / f"{name}.lock", refusal=busy):
            shot, state = _tracked_shot(out, wanted, note["pictured"]), open_part(out, name)
            with closing(state):
                return _paint_range(job, plate, pack, wanted, shot, state, sink, cancel)


def gather(job: RunJob, sink: Sink) -> Outcome:
    """Write what needs the whole shot, from the journals of its ranges.

    Raises: UsageError where frames have not been painted yet, or as `paint`.
    """
    out = Path(job.out)
    with open_plate(job.plates, colourspace=job.colourspace) as plate:
        note = _tracking_note(out, plate, load_pack(job.model), job)
    plan = make_plan(replace(job, crops=tuple(note["crops"])))
    with plan.plate, open_target(job) as project, claim_folder(replace(plan, job=job).claim()):
        state, trouble = open_state(plan.out, plan.fingerprint(), resume=True)
        try:
            if trouble is not None:
                raise UsageError(f"{out}: {trouble}; track the shot again")
            _collect_ranges(state, plan.frames)
            wall_s = time.time() - note["began"]
            plan = replace(plan, job=job)
            outcome = finalise(plan, state, sink, wall_s=wall_s, n_new=len(plan.frames))
            if project is not None:
                save_results(project, plan, state)
            return outcome
        finally:
            state.close()


def _paint_range(
    job: RunJob,
    plate: Plate,
    pack: Pack,
    wanted: Sequence[int],
    shot: TrackedShot,
    state: RunState,
    sink: Sink,
    cancel: Cancel,
) -> PaintedFrames:
    work = inputs_for(job).work
    inner = FrameProcessor.of(job, plate, work.sheet(pack.sheet), open_fill(pack) if job.clean else None)
    inner = replace(inner, paints=work.paints, strokes=work.strokes, find_front=open_front(pack))
    paint_frames(shot, OverridingProcessor(inner, work), state, wanted, job.threads or n_cores(), sink, cancel)
    failed = {frame: record.message or "" for frame, record in state.finished.items() if record.status == "failed"}
    return PaintedFrames(tuple(sorted(set(state.finished) - set(failed))), failed)


def _tracked_shot(out: Path, wanted: Sequence[int], pictured: Sequence[int]) -> TrackedShot:
    """The tracking records of some frames. Raises UsageError where some are not visible on the disk yet."""
    path = out / FOLDER / f"{SETTLED}.journal"
    records = JournalIndex(path)
    if lacking := sorted(set(wanted) - set(records.frames)):
        raise UsageError(
            f"{path}: lacks frames {summarise(lacking)}, or they are not yet to be seen from here; wait, or remove it "
            "and track the shot again"
        )
    return TrackedShot(records, frozenset(pictured))


def _collect_ranges(state: RunState, frames: Sequence[int]) -> None:
    """Take the records of all ranges into the run's own journal. Raises UsageError for frames that have none."""
    records: dict[int, Path] = {}
    for path in sorted(
        (state.folder / CHUNKS).glob("*.journal"), key=_age
    ):  # divided otherwise before: the last counts
        records.update({record.frame: path for record in read_journal(path)})
    if lacking := sorted(set(frames) - set(records)):
        raise UsageError(
            f"{state.folder.parent}: frames {summarise(lacking)} have not been painted yet; paint them first"
        )
    for path in sorted(set(records.values())):
        for record in read_journal(path):
            if records[record.frame] == path and state.finished.get(record.frame) != record.light():
                state.add(record)


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def _tracking_note(out: Path, plate: Plate, pack: Pack, job: RunJob) -> dict[str, Any]:
    """The state that tracking wrote. Raises: UsageError where there is none, or where the job has changed since."""
    path = out / FOLDER / NOTE
    try:
        note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{out}: {plate.name} has not been tracked yet; do that first") from None
    except ValueError:  # a disk may show another machine's file before it is whole
        raise UsageError(
            f"{path}: is not whole, or not yet to be seen from here; wait, or track the shot again"
        ) from None
    for name, value in _identity(plate, pack, job).items():
        if note.get(name) != value:
            raise UsageError(f"{out}: was tracked with another {name}; track the shot again")
    return note


def _identity(plate: Plate, pack: Pack, job: RunJob) -> dict[str, Any]:
    """The settings that all tasks of a job must share, as JSON values."""
    return {
        "plate": [plate.name, plate.suffix, plate.width, plate.height, plate.colourspace],
        "pack": dict(pack.files),
        "range": job.frames,
        "fill": [job.clean, job.method],
    }
