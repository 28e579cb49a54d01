"""What comes after the last frame, all made from the journal: shapes, exchange files, pictures, run.json, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.files import write_json
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Event, Sink, warning
from rotopaint_ai.pipeline import memory
from rotopaint_ai.pipeline.content import run_content
from rotopaint_ai.pipeline.document import build_document, n_keys
from rotopaint_ai.pipeline.export import Exported, write_exports
from rotopaint_ai.pipeline.pictures import Gallery, choose_worst, remove_others
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.second import told
from rotopaint_ai.pipeline.state import RunState
from rotopaint_ai.report.page import write_report
from rotopaint_ai.shapes.reduce import reduce_document


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


def conclude(plan: Plan, state: RunState, sink: Sink, *, wall_s: float, n_new: int) -> Outcome:
    """Write what needs the whole shot: shapes, exchange files, pictures, run.json, report."""
    plan.models.close()
    memory.give_back()  # the document needs its own now
    document = plan.work.put_back(build_document(state.records(), plan))
    keys = {"before": n_keys(document)}
    if plan.job.key_tolerance_px:
        document = reduce_document(document, plan.job.key_tolerance_px)
    keys["written"] = n_keys(document)
    exports = write_exports(document, plan.job, plan.out, given=plan.work.names)
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
    if (doubt := told(content["second_opinion"])) is not None:
        sink(warning(doubt))
    sink(_finished(outcome, content))
    return outcome


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
