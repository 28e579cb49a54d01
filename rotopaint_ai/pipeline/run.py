"""The main job: one plate through the whole line, into a folder.

    run(job, sink, cancel) -> Outcome

What has been finished is on disk at every moment; killed at any time, the same job with `resume` ends with the same
files. Everything that comes after the last frame is made from the journal.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import CancelledError
from rotopaint_ai.files import write_json
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink, warning
from rotopaint_ai.pipeline.clock import Eta
from rotopaint_ai.pipeline.content import run_content
from rotopaint_ai.pipeline.document import build_document, n_keys
from rotopaint_ai.pipeline.export import Exported, write_exports
from rotopaint_ai.pipeline.frame import FrameWorks
from rotopaint_ai.pipeline.line import Line, Snapshot
from rotopaint_ai.pipeline.pictures import Gallery, choose_worst, remove_others
from rotopaint_ai.pipeline.plan import Plan, make_plan
from rotopaint_ai.pipeline.records import FrameRecord
from rotopaint_ai.pipeline.snapshot import load_snapshot, save_snapshot
from rotopaint_ai.pipeline.state import RunState, open_state
from rotopaint_ai.pipeline.track import FaceTracker
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import fingerprint
from rotopaint_ai.report.page import write_report
from rotopaint_ai.shapes.reduce import reduce_document

SNAPSHOT_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: frames by what became of them, and the files to look at."""

    done: tuple[int, ...]
    failed: Mapping[int, str]
    missing: tuple[int, ...]
    lost: tuple[int, ...]
    report: Path
    exports: tuple[Exported, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every frame that was asked for came through."""
        return not self.failed and not self.missing


def run(job: RunJob, sink: Sink, cancel: Cancel) -> Outcome:
    """Do the main job, telling `sink` what happens.

    Raises: whatever `make_plan` refuses; CancelledError when asked to stop; OSError where the disk refuses.
    """
    start = time.monotonic()
    plan = make_plan(job)
    with plan.plate:
        state, note = open_state(plan.out, plan.fingerprint(), resume=job.resume)
        try:
            return _run(plan, state, note, sink, cancel, start)
        finally:
            state.close()


def _run(plan: Plan, state: RunState, note: str | None, sink: Sink, cancel: Cancel, start: float) -> Outcome:
    works = FrameWorks(plan.plate, plan.out, plan.pack.sheet, plan.job.clean, plan.job.method)
    if note is not None:
        sink(warning(f"--resume: {note}; starting from the first frame"))
    if changed := _changed_plates(state, works):
        sink(
            warning(
                f"--resume: {plan.plate.name} changed on disk at {summarise(changed)}; starting from the first frame"
            )
        )
        state.clear()
    sink(_started(plan, state))
    if plan.missing:
        sink(warning(f"{plan.plate.name}: not on disk: frames {summarise(plan.missing)}; render or copy them"))
    n_before = len(state.finished)
    try:
        _walk(plan, state, works, sink, cancel)
    except CancelledError:
        sink(Event("cancelled", {"done": len(state.finished), "total": len(plan.frames)}))
        raise
    return _conclude(plan, state, sink, wall_s=time.monotonic() - start, n_new=len(state.finished) - n_before)


def _changed_plates(state: RunState, works: FrameWorks) -> list[int]:
    """Finished frames whose file is no longer the one that was worked on: another time or size, and other content."""
    changed = []
    for frame, record in state.finished.items():
        before, now = record.source, works.source(frame)
        if before is None or now is None:
            changed += [frame] if before is not now else []
        elif (before.size, before.mtime_ns) != (now.size, now.mtime_ns) and not _same_content(record, works):
            changed.append(frame)
    return changed


def _same_content(record: FrameRecord, works: FrameWorks) -> bool:
    assert record.source is not None
    if works.plate.is_movie or not record.source.fingerprint:
        return False
    return fingerprint(works.plate.path_of(record.frame)) == record.source.fingerprint


def _walk(plan: Plan, state: RunState, works: FrameWorks, sink: Sink, cancel: Cancel) -> None:
    models: dict[str, object] = {
        "detect": plan.models.detect,
        "predict_shapes": plan.models.predict_shapes,
        "display": to_display,
    }
    if plan.models.find_seams is not None:
        models["find_seams"] = plan.models.find_seams
    start = _start(plan, state, models)
    last_kept = time.monotonic()

    def keep(snapshot: Snapshot) -> None:
        nonlocal last_kept
        if time.monotonic() - last_kept >= SNAPSHOT_INTERVAL_S:
            save_snapshot(state.snapshot_path, snapshot, models)
            last_kept = time.monotonic()

    line = Line(plan.plate.read, works.finish, works.fail, state.finished.__contains__, keep, plan.threads)
    eta = Eta(total=len(plan.frames), done=len(state.finished))
    for record in line.run(plan.frames, start, cancel):
        if record.frame in state.finished:
            continue
        state.add(record)
        sink(_event(record))
        sink(Event("progress", eta.step()))


def _start(plan: Plan, state: RunState, models: Mapping[str, object]) -> Snapshot:
    """Where to go on: the last snapshot, or the first frame where files of finished frames are gone."""
    gone = [frame for frame, record in state.finished.items() if _is_to_be_remade(record, plan.out)]
    for frame in gone:
        del state.finished[frame]
    snapshot = None if gone else load_snapshot(state.snapshot_path, models)
    return snapshot or Snapshot(0, FaceTracker(plan.models, plan.crops, Gallery(plan.frames)))


def _is_to_be_remade(record: FrameRecord, out: Path) -> bool:
    """Whether a finished frame's files are gone, or it was tracked and then could not be painted or written."""
    return not record.outputs_stand(out) or (record.status == "failed" and record.crop is not None)


def _started(plan: Plan, state: RunState) -> Event:
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
        "done": len(state.finished),
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


def _event(record: FrameRecord) -> Event:
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


def _conclude(plan: Plan, state: RunState, sink: Sink, *, wall_s: float, n_new: int) -> Outcome:
    """Write what needs the whole shot: shapes, exchange files, pictures, run.json, report."""
    _give_memory_back()
    document = build_document(state.records(), plan)
    keys = {"before": n_keys(document)}
    if plan.job.key_tolerance_px:
        document = reduce_document(document, plan.job.key_tolerance_px)
    keys["written"] = n_keys(document)
    exports = write_exports(document, plan.job, plan.out)
    del document
    records = [state.finished[frame] for frame in sorted(state.finished)]
    worst = choose_worst(records)
    remove_others(plan.out, [*worst, *Gallery(plan.frames).spread])
    content = run_content(plan, state, records, exports, worst, keys, wall_s=wall_s, n_new=n_new)
    write_json(plan.out / "run.json", content)
    report = write_report(plan.out, content)
    outcome = Outcome(
        done=tuple(record.frame for record in records if record.status != "failed"),
        failed={record.frame: record.message or "" for record in records if record.status == "failed"},
        missing=plan.missing,
        lost=tuple(record.frame for record in records if record.status == "lost"),
        exports=tuple(exports),
        report=report,
    )
    if outcome.lost:
        where = f"face not found at {summarise(outcome.lost)}"
        sink(
            warning(
                f"{where}; mattes are empty there and the clean plate is the plate; add a box: --crop FRAME:X,Y,W,H"
            )
        )
    sink(_finished(outcome, content))
    return outcome


def _give_memory_back() -> None:
    """Return what the frames took to the system before the document needs its own; glibc keeps it otherwise."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def _finished(outcome: Outcome, content: Mapping[str, Any]) -> Event:
    facts = {
        "done": len(outcome.done),
        "failed": list(outcome.failed),
        "missing": list(outcome.missing),
        "lost": list(outcome.lost),
        "exports": [exported.path for exported in outcome.exports],
        "report": str(outcome.report),
        "wall_s": content["timing"]["wall_s"],
        "ms_per_frame": content["timing"]["ms_per_frame"],
        "device": content["device"]["note"],
    }
    return Event("finished", facts)
