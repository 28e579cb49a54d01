"""The main job in tasks for several processes, ending with the files that one `run` would have written.

    track(job)          follows the face through the whole shot, in order: landmarks, shapes, widths into a journal
    paint(job, frames)  mattes and clean plates of a range of tracked frames; ranges side by side, on any machine
    gather(job)         shapes, exchange files, report and run.json, once every frame has been painted

Each task can be killed at any time and done again; what it had finished stays. All share the run's folder on one disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import Pack, load_pack
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink, n_cores
from rotopaint_ai.locks import locked
from rotopaint_ai.pipeline.executor import Eta, Executor, Replay, Snapshot, Times, keep_nothing
from rotopaint_ai.pipeline.finalise import Outcome, finalise
from rotopaint_ai.pipeline.out_folder import FOLDER, claimed
from rotopaint_ai.pipeline.overrides import OverridingProcessor, inputs_for
from rotopaint_ai.pipeline.paint_job import Painted
from rotopaint_ai.pipeline.plan import make_plan
from rotopaint_ai.pipeline.process_frame import FrameProcessor, Settled, tracked
from rotopaint_ai.pipeline.record_store import CHUNKS, TRACKED, FrameRecord, Journal, RunState, open_state, read_journal
from rotopaint_ai.pipeline.run import forget_changed, frame_event, started, walk
from rotopaint_ai.pipeline.save_to_project import opened, save_results
from rotopaint_ai.pipeline.shot_ends import carry_ends
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.plates.plate_window import Area

NOTE = "tracked.json"


@dataclass(frozen=True, slots=True)
class TrackingProcessor:
    """Keeps what was settled of a frame; nothing is painted."""

    inner: FrameProcessor

    @property
    def plate(self) -> Plate:
        """The plate."""
        return self.inner.plate

    def read(self, frame: int, near: Area | None = None) -> Frame:
        """A frame whose file will not be written again."""
        return self.inner.read(frame, near, keep_native=False)

    def finish(self, frame: Frame, settled: Settled, ms: Times) -> FrameRecord:
        """The record of a tracked frame."""
        record = tracked(frame.number, "done" if settled.lost is None else "lost", settled)
        source = self.inner.source(frame.number)
        return replace(record, source=source, message=settled.lost, ms=dict(ms))

    def fail(self, frame: int, message: str) -> FrameRecord:
        """The record of a frame that could not be read."""
        return self.inner.fail(frame, message)


def track(job: RunJob, sink: Sink, cancel: Cancel) -> tuple[int, ...]:
    """Follow the face through the whole shot; returns the frames that could not be read.

    Raises: as `run`.
    """
    began = time.time()
    plan = make_plan(job)
    with plan.plate, claimed(plan.claim()):
        state, _ = open_state(plan.out, plan.fingerprint(), resume=job.resume, stage=TRACKED)
        try:
            processor = FrameProcessor.of(plan.job, plan.plate, plan.pack.sheet, plan.models.fill)
            forget_changed(state, plan.plate, sink)
            sink(started(plan, n_done=len(state.finished)))
            if plan.note is not None:
                sink(plan.note)
            walk(plan, state, TrackingProcessor(processor), sink, cancel)
            for record in carry_ends(plan, state, TrackingProcessor(processor), sink, cancel):
                sink(frame_event(record))
            note = {
                "began": began,
                "crops": list(plan.crops.words()),
                "frames": list(plan.frames),
                **_identity(plan.plate, plan.pack, job),
            }
            write_json(state.folder / NOTE, note)
            return tuple(frame for frame, record in state.finished.items() if record.status == "failed")
        finally:
            state.close()


def paint(job: RunJob, frames: FrameRange, sink: Sink, cancel: Cancel) -> Painted:
    """Paint the frames of a tracked shot that lie in a range.

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
        with locked(out / FOLDER / f"{name}.lock", refusal=busy):
            return _paint_range(job, plate, pack, wanted, out / FOLDER / f"{name}.journal", sink, cancel)


def gather(job: RunJob, sink: Sink) -> Outcome:
    """Write what needs the whole shot, from the journals of its ranges.

    Raises: UsageError where frames have not been painted yet, or as `paint`.
    """
    out = Path(job.out)
    with open_plate(job.plates, colourspace=job.colourspace) as plate:
        note = _tracking_note(out, plate, load_pack(job.model), job)
    plan = make_plan(replace(job, crops=tuple(note["crops"])))
    with plan.plate, opened(job) as project, claimed(replace(plan, job=job).claim()):
        state, trouble = open_state(plan.out, plan.fingerprint(), resume=True)
        try:
            if trouble is not None:
                raise UsageError(f"{out}: {trouble}; track the shot again")
            _collect_ranges(state, plan.frames)
            wall_s = time.time() - note["began"]
            plan = replace(plan, job=job)
            outcome = finalise(plan, state, sink, wall_s=wall_s, n_new=len(plan.frames))
            if project is not None:
                save_results(project, plan, state, sink)
            return outcome
        finally:
            state.close()


def _paint_range(
    job: RunJob, plate: Plate, pack: Pack, wanted: Sequence[int], path: Path, sink: Sink, cancel: Cancel
) -> Painted:
    out = Path(job.out)
    work = inputs_for(job).work
    inner = FrameProcessor.of(job, plate, work.sheet(pack.sheet), open_fill(pack) if job.clean else None)
    inner = replace(inner, paints=work.paints, strokes=work.strokes)
    processor = OverridingProcessor(inner, work)
    known = _tracked_records(out, wanted)
    finished = _painted_before(path, out, processor, known)
    journal = Journal(path)
    try:
        for frame in wanted:
            if known[frame].crop is None and frame not in finished:
                finished[frame] = known[frame]
                journal.append(known[frame])
        rest = [frame for frame in wanted if frame not in finished]
        threads = job.threads or n_cores()
        executor = Executor(
            processor.read, processor.finish, processor.fail, finished.__contains__, keep_nothing, threads
        )
        eta = Eta(total=len(wanted), done=len(finished))
        for record in executor.run(rest, Snapshot(0, Replay(lambda frame: Settled.of(known[frame]))), cancel):
            journal.append(record)
            finished[record.frame] = record.light()
            sink(frame_event(record))
            sink(Event("progress", eta.step()))
    finally:
        journal.close()
    failed = {frame: record.message or "" for frame, record in finished.items() if record.status == "failed"}
    return Painted(tuple(sorted(set(finished) - set(failed))), failed)


def _tracked_records(out: Path, wanted: Sequence[int]) -> dict[int, FrameRecord]:
    path, frames = out / FOLDER / f"{TRACKED}.journal", set(wanted)
    known = {record.frame: record for record in read_journal(path) if record.frame in frames}
    if lacking := sorted(frames - set(known)):
        raise UsageError(
            f"{path}: lacks frames {summarise(lacking)}, or they are not yet to be seen from here; wait, or track the "
            "shot again"
        )
    return known


def _painted_before(
    path: Path, out: Path, processor: OverridingProcessor, known: Mapping[int, FrameRecord]
) -> dict[int, FrameRecord]:
    """Frames of an earlier attempt that need no painting: written as they are tracked now and with what people had
    done, and still there."""
    last = {record.frame: record for record in read_journal(path) if record.frame in known}
    return {
        frame: record.light()
        for frame, record in last.items()
        if record.status != "failed"
        and record.work == processor.work.digest(frame)
        and _is_painted_as_tracked(record, known[frame], processor)
        and record.outputs_stand(out)
    }


def _is_painted_as_tracked(painted: FrameRecord, now: FrameRecord, processor: OverridingProcessor) -> bool:
    """Whether a frame was painted by what tracking says of it now: a shot's keys may have moved its ends since."""
    if now.crop is None:
        return False
    own = processor.work.respected(now.frame, Settled.of(now), processor.inner.sheet)
    return (painted.shapes, painted.errors, painted.landmarks or ()) == (own.shapes, own.errors, own.landmarks)


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
    """What tracking left. Raises UsageError where there is nothing, or where the job is another one now."""
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
    """What the tasks of a job must have in common, as JSON values."""
    return {
        "plate": [plate.name, plate.suffix, plate.width, plate.height, plate.colourspace],
        "pack": dict(pack.card["files"]),
        "range": job.frames,
        "fill": [job.clean, job.method],
    }
