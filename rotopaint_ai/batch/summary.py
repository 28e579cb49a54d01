"""The summary page of a show: every shot with its state and its worst frames; and `show.json` beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal
from urllib.parse import quote

from markupsafe import Markup

from rotopaint_ai.batch.jobs_file import JobShot, Show
from rotopaint_ai.batch.show_plan import ShowPlan
from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.frames import summarise
from rotopaint_ai.report.templates import fill_template
from rotopaint_ai.report.tiles import errors_of_frames

ShotState = Literal["done", "frames failed", "failed", "waiting"]
N_WORST = 5
FORMAT, PAGE_DATA = "rotopaint-show", "show.json"
_STYLE = Path(__file__).with_name("summary.css")
_SIGN = {
    "done": "\u2713 done",
    "frames failed": "! frames failed",
    "failed": "\u2717 failed",
    "waiting": "\u2026 waiting",
}


@dataclass(frozen=True, slots=True)
class ShotSummary:
    """A shot's row. Errors in pixels; `seam` is the visibility before and after; `picture` is beside the page."""

    name: str
    state: ShotState
    frames: int = 0
    failed: Mapping[str, str] | None = None
    lost: str = ""
    missing: str = ""
    worst: tuple[tuple[int, float], ...] = ()
    median_error_px: float | None = None
    seam: tuple[float, float] | None = None
    seconds: float = 0.0
    message: str = ""
    report: str | None = None
    picture: str | None = None

    @property
    def trouble(self) -> str:
        """The problem of an unfinished shot, in one line; empty for a finished shot."""
        failed = [f"{frame}: {text}" for frame, text in (self.failed or {}).items()]
        parts = [self.message] if self.message else []
        parts += [f"{len(failed)} frame{'s' if len(failed) > 1 else ''} failed, first {failed[0]}"] if failed else []
        parts += [f"not on disk: frames {self.missing}"] if self.missing else []
        parts += [f"no face at frames {self.lost}"] if self.lost else []
        return "; ".join(parts) if self.state != "done" else ""


def summarise_show(show: Show, plan: ShowPlan) -> tuple[ShotSummary, ...]:
    """The current summaries of all shots."""
    return tuple(_show_summary(name, show, plan) for name in show.names)


def claim_show_folder(show: Show) -> None:
    """Claim the show's folder. Raises UsageError where it belongs to another jobs file, whose shots would be mixed."""
    if show.out.is_file():
        raise UsageError(f"{show.path.name}: out {show.out}: is a file; wanted a folder for the shots")
    try:
        owner = json.loads((show.out / PAGE_DATA).read_text(encoding="utf-8"))["jobs"]
    except (OSError, ValueError, KeyError, TypeError):
        _write_data(show, ())
        return
    if owner != _jobs_file_place(show):
        raise UsageError(
            f"{show.path.name}: {show.out} holds the show of {owner}; choose another 'out', or delete "
            f"{show.out / PAGE_DATA} to hand the folder over"
        )


def _write_data(show: Show, shots: Sequence[ShotSummary]) -> None:
    content = {"format": FORMAT, "version": 1, "jobs": _jobs_file_place(show), "shots": [asdict(s) for s in shots]}
    write_json(show.out / PAGE_DATA, content)


def _jobs_file_place(show: Show) -> str:
    """The path of the jobs file relative to the folder, so that it is the same on every machine."""
    try:
        return Path(os.path.relpath(show.path.resolve(), show.out.resolve())).as_posix()
    except ValueError:  # on another drive
        return show.path.name


def write_summary(show: Show, plan: ShowPlan) -> Path:
    """Write `show.json` and `index.html` into the show's folder; returns the page."""
    shots = summarise_show(show, plan)
    _write_data(show, shots)
    page = show.out / "index.html"
    write_text(page, _page(show, shots))
    return page


def _show_summary(name: str, show: Show, plan: ShowPlan) -> ShotSummary:
    if name in plan.refused:
        return ShotSummary(name, "failed", message=plan.refused[name])
    return _shot_summary(show.shot(name), show, plan)


def _shot_summary(shot: JobShot, show: Show, plan: ShowPlan) -> ShotSummary:
    notes, tasks = plan.notes, plan.of_shot(shot.name)
    seconds = sum(float(notes.facts(task).get("seconds", 0.0)) for task in tasks)
    if not notes.is_done(tasks[-1]):
        failures = [reasons for task in tasks if (reasons := notes.failures(task))]
        if failures:
            return ShotSummary(shot.name, "failed", seconds=seconds, message=failures[0][-1])
        n_done = sum(map(notes.is_done, tasks))
        return ShotSummary(shot.name, "waiting", seconds=seconds, message=f"{n_done} of {len(tasks)} tasks done")
    return _finished_summary(shot.name, show.out, seconds)


def _finished_summary(name: str, out: Path, seconds: float) -> ShotSummary:
    path = out / name / "run.json"
    try:
        return _summary_of(name, json.loads(path.read_text(encoding="utf-8")), seconds)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ShotSummary(name, "failed", message=f"{path}: is damaged; delete it, then the shot is gathered again")


def _summary_of(name: str, content: Any, seconds: float) -> ShotSummary:
    """The summary of a shot from its `run.json`."""
    frames, (_, errors) = content["frames"], errors_of_frames(content)
    worst = sorted(errors.items(), key=lambda item: -item[1])[:N_WORST]
    seams = [pair for pair in content["seam"]["by_frame"].values() if None not in pair]
    pictures = [picture["face"] for picture in content["pictures"]]
    whole = not frames["failed"] and not frames["missing"] and not frames["lost"]
    return ShotSummary(
        name=name,
        state="done" if whole else "frames failed",
        frames=frames["done"],
        failed=frames["failed"],
        lost=summarise(frames["lost"]) if frames["lost"] else "",
        missing=summarise(frames["missing"]) if frames["missing"] else "",
        worst=tuple(worst),
        median_error_px=round(median(errors.values()), 2) if errors else None,
        seam=(round(mean(a for a, _ in seams), 2), round(mean(b for _, b in seams), 2)) if seams else None,
        seconds=round(seconds, 1),
        report=f"{name}/report/index.html",
        picture=f"{name}/report/{pictures[0]}" if pictures else None,
    )


def _page(show: Show, shots: Sequence[ShotSummary]) -> str:
    counts = {state: sum(shot.state == state for shot in shots) for state in _SIGN}
    return fill_template(
        "rotopaint_ai.batch",
        "show.html",
        name=show.path.stem,
        style=Markup(_STYLE.read_text(encoding="utf-8")),
        n_shots=len(shots),
        states=", ".join(f"{n} {state}" for state, n in counts.items() if n),
        n_frames=f"{sum(shot.frames for shot in shots):,}",
        shots=[_summary_row(shot) for shot in shots],
    )


def _summary_row(shot: ShotSummary) -> dict[str, Any]:
    return {
        "name": shot.name,
        "report": quote(shot.report) if shot.report else "",
        "picture": quote(shot.picture) if shot.picture else "",
        "kind": shot.state.replace(" ", "-"),
        "sign": _SIGN[shot.state],
        "details": _details(shot),
        "frames": shot.frames or "",
        "errors": f"{shot.median_error_px:g} / {shot.worst[0][1]:.2f}" if shot.worst else "",
        "worst": ", ".join(str(frame) for frame, _ in shot.worst),
        "seam": f"{shot.seam[0]:g} \u2192 {shot.seam[1]:g}" if shot.seam else "",
        "work": f"{shot.seconds:g} s" if shot.seconds else "",
    }


def _details(shot: ShotSummary) -> list[str]:
    lines = [shot.message] if shot.message else []
    lines += [f"{frame}: {text}" for frame, text in (shot.failed or {}).items()][:4]
    lines += [f"not on disk: {shot.missing}"] if shot.missing else []
    lines += [f"face not found: {shot.lost}"] if shot.lost else []
    return lines
