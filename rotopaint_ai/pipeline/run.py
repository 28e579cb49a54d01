"""The main job: one plate through the whole line, into a folder.

    run(job, sink, cancel) -> Outcome

The face is followed through the whole shot, the shot is settled, and then each frame is painted once. What has been
finished is on disk at every moment; killed at any time, the same job with `resume` ends with the same files.
Everything that comes after the last frame is made from the journal.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

from rotopaint_ai.errors import CancelledError
from rotopaint_ai.frames import n_frames, summarise
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink, warning
from rotopaint_ai.pipeline.export import expected_s
from rotopaint_ai.pipeline.finalise import Outcome, finalise
from rotopaint_ai.pipeline.out_folder import claimed, facts_in
from rotopaint_ai.pipeline.overrides import OverridingProcessor
from rotopaint_ai.pipeline.passes import open_tracking, paint_frames, track_shot
from rotopaint_ai.pipeline.plan import Plan, make_plan, started
from rotopaint_ai.pipeline.process_frame import FrameProcessor
from rotopaint_ai.pipeline.record_store import RunState, open_state
from rotopaint_ai.pipeline.render_frame import Format
from rotopaint_ai.pipeline.save_to_project import compare_plate, opened, save_results


def run(job: RunJob, sink: Sink, cancel: Cancel) -> Outcome:
    """Do the main job, telling `sink` what happens.

    Raises: whatever `make_plan` refuses; CancelledError when asked to stop; OSError where the disk refuses.
    """
    start = time.monotonic()
    plan = make_plan(job)
    with plan.plate, opened(job) as project, claimed(plan.claim()):
        if (other := compare_plate(plan.inputs, job.project, plan.plate)) is not None:
            sink(warning(other))
        tell = sink if project is None else project.sink(sink)
        tracking, note = open_tracking(plan, tell)
        with closing(tracking):
            if note is not None:
                tell(warning(f"--resume: {note}; starting from the first frame"))
            state, _ = open_state(plan.out, plan.fingerprint(), resume=True)
            with closing(state):
                n_before = len(state.finished)
                _run_passes(plan, tracking, state, tell, cancel)
                n_new, wall_s = len(state.finished) - n_before, time.monotonic() - start
                outcome = finalise(plan, state, tell, wall_s=wall_s, n_new=n_new)
                if project is not None:
                    save_results(project, plan, state, sink)
                return outcome


def _run_passes(plan: Plan, tracking: RunState, state: RunState, sink: Sink, cancel: Cancel) -> None:
    """Every frame tracked, then every frame painted; `tracking` and `state` take their records."""
    sink(started(plan, n_done=len(state.finished)))
    _tell_beforehand(plan, sink)
    processor = FrameProcessor.of(plan.job, plan.plate, plan.pack.sheet, plan.models.fill)
    processor = replace(processor, paints=plan.work.paints, strokes=plan.work.strokes, kept=plan.kept)
    painter = OverridingProcessor(processor, plan.work)
    exports_s = expected_s(plan.job.exports, len(plan.frames), len(plan.pack.sheet.shape_names), plan.threads)
    n_later = len(plan.frames) - len(state.finished)
    try:
        shot = track_shot(plan, tracking, sink, cancel, after_s=exports_s, n_later=n_later)
        paint_frames(shot, painter, state, plan.frames, plan.threads, sink, cancel, after_s=exports_s)
    except CancelledError:
        sink(Event("cancelled", {"done": len(state.finished), "total": len(plan.frames)}))
        raise


def _older_cleans(plan: Plan) -> int:
    """How many clean plates of this run's frames lie in its folder already."""
    there, format = facts_in(plan.out, ["clean"]), Format.of(plan.plate)
    return sum(format.clean_name(frame) in there for frame in plan.frames)


def _tell_beforehand(plan: Plan, sink: Sink) -> None:
    """What a person ought to know before the first frame."""
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
