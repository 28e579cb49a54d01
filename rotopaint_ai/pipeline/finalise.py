"""The steps after the last frame, all from the journal: shapes, exchange files, pictures, run.json, report."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.files import write_json
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Event, Sink, warning
from rotopaint_ai.landmarks.detect import DOUBT
from rotopaint_ai.pipeline.executor import give_back
from rotopaint_ai.pipeline.export import (
    ExportedFile,
    export_files,
    keep_changed_exports,
    record_exports,
    write_exports,
)
from rotopaint_ai.pipeline.manifest import choose_worst, ordinary_frames, run_manifest
from rotopaint_ai.pipeline.out_folder import facts_in, other_frames
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import changed_plates
from rotopaint_ai.pipeline.record_store import CountedRecords, FrameRecord, RunState
from rotopaint_ai.pipeline.render_frame import remove_others
from rotopaint_ai.pipeline.run_document import build_document, n_keys
from rotopaint_ai.report.page import write_report
from rotopaint_ai.report.tables import unseen_places
from rotopaint_ai.shapes.reduce import reduce_document


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: frames by status, the frames to check first, and the files to open.

    worst: the shape with the largest expected error (None without any) by frame, worst frame first. unseen: the least
    visible thirds of seams, each with its frames.
    """

    done: tuple[int, ...]
    failed: Mapping[int, str]
    missing: tuple[int, ...]
    lost: tuple[int, ...]
    worst: Mapping[int, str | None]
    unseen: Mapping[str, str]
    report: Path
    exports: tuple[ExportedFile, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every requested frame was finished and shows a face, and every export was written."""
        return not (self.failed or self.missing or self.lost or any(each.error for each in self.exports))


def finalise(plan: Plan, state: RunState, sink: Sink, *, wall_s: float, n_new: int) -> Outcome:
    """Write what needs the whole shot: shapes, exchange files, pictures, run.json, report."""
    plan.models.close()
    give_back()  # the document needs its own now
    counted = CountedRecords(state)
    document = plan.work.restore_provenance(build_document(counted, plan))
    counted.check(plan.out)
    keys = {"before": n_keys(document)}
    if plan.job.key_tolerance_px:
        document = reduce_document(document, plan.job.key_tolerance_px)
    keys["written"] = n_keys(document)
    names = [each.stem for each in export_files(plan.job.exports)]
    # a project has what was changed in the document, which the panel writes as well
    keep_changed_exports(plan.out, names if plan.job.project is None else names[1:], sink)
    exports = write_exports(document, plan.job, plan.out, given=plan.work.names, sink=sink, threads=plan.threads)
    record_exports(plan.out, exports)
    del document
    records = check_records(plan, state)
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
        unseen=unseen_places(content["errors"]["unseen"]),
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
    """The commonest reason why frames have no face."""
    reasons = [record.message or "" for record in records if record.status == "lost"]
    return max(sorted(set(reasons)), key=reasons.count)


def check_records(plan: Plan, state: RunState) -> list[FrameRecord]:
    """Light records in the order of frames; those whose files are gone, or whose plate has changed, are marked
    failed."""
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
