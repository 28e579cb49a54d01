"""`run.json`: all results of a run, machine-readable; the report is made from it.

The worst frames are known once the shot is tracked. They get pictures, and so do a few ordinary frames.
"""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from rotopaint_ai import __version__, fills
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference import call_limits
from rotopaint_ai.inference.process import usage
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.pipeline.executor import STAGES
from rotopaint_ai.pipeline.export import ExportedFile
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord, RunState, hold_spans
from rotopaint_ai.pipeline.render_frame import PictureNames
from rotopaint_ai.project.run_record import FORMAT
from rotopaint_ai.seams.visibility import STATIONS, flicker

VERSION = 1
PACKAGES = ("numpy", "onnxruntime", "opencv-python-headless", "OpenImageIO", "opencolorio", "av")
VISIBILITY_MEANING = (
    "How much the seams bend the light across them, over the texture beside them: 1 is no more than texture, larger "
    "shows more. Exposure drops out."
)
N_WORST = 12
N_LOST = 3
N_SPREAD = 5


def ordinary_frames(frames: Sequence[int]) -> frozenset[int]:
    """A few evenly spaced frames, so that the report also shows ordinary ones."""
    chosen = evenly_spread(frames, N_SPREAD + 2)
    return frozenset(chosen[1:-1] if len(chosen) > 2 else chosen)


def choose_worst(records: Iterable[FrameRecord], seams: Container[str]) -> list[int]:
    """Frames for the contact sheet: a few where the face was lost, then those with the largest expected errors of
    seams.

    The latter are sorted by expected error times visibility of the painted seams, where visibility 1 is plain texture.
    """
    records = [record for record in records if record.hold is None]
    lost = sorted(record.frame for record in records if record.status == "lost")[:N_LOST]
    found = [(_error_px(record, seams), record) for record in records if record.status == "done"]
    found.sort(key=lambda item: (-item[0], item[1].frame))
    seen = sorted(
        (-px * max(1.0, record.seam_after or 1.0), record.frame) for px, record in found[: N_WORST - len(lost)]
    )
    return [*lost, *(frame for _, frame in seen)]


def choose_pictured(records: Iterable[FrameRecord], frames: Sequence[int], seams: Container[str]) -> frozenset[int]:
    """Frames that get pictures: the worst of the settled records, and a few ordinary ones of all frames."""
    return ordinary_frames(frames) | frozenset(choose_worst(records, seams))


def _error_px(record: FrameRecord, seams: Container[str]) -> float:
    worst = record.worst_shape(seams)
    return worst[1] if worst else 0.0


def run_manifest(
    plan: Plan,
    state: RunState,
    records: Sequence[FrameRecord],
    exports: Sequence[ExportedFile],
    worst: Sequence[int],
    keys: Mapping[str, int],
    *,
    wall_s: float,
    n_new: int,
) -> dict[str, Any]:
    """The content of `run.json` as JSON values; `records` are light and in the order of their frames."""
    found = [record for record in records if record.status == "done"]
    pictured = [*worst, *sorted(ordinary_frames(plan.frames) - set(worst))]
    pictures = _picture_entries(plan, state, pictured, worst)
    return {
        "format": FORMAT,
        "version": VERSION,
        "command": run_command(plan.job),
        "finished": datetime.now(UTC).astimezone().strftime("%Y-%m-%d %H:%M"),
        "versions": _versions(),
        "job": plan.job.to_json(),
        "plate": _plate(plan, records),
        "pack": {"name": plan.pack.name, "folder": str(plan.pack.folder), "files": dict(plan.pack.files)},
        "device": _device(plan),
        "frames": _frame_content(plan, records),
        "shapes": {spec.name: {"role": spec.role, "closed": spec.closed} for spec in plan.pack.sheet.shapes},
        "review": {
            "marks": {str(frame): mark for frame, mark in plan.inputs.marks.items()},
            "notes": {str(frame): note for frame, note in plan.inputs.notes.items()},
        },
        "errors": _error_content(plan, found),
        "seam": {
            "meaning": VISIBILITY_MEANING,
            "by_frame": {str(r.frame): [r.seam_before, r.seam_after] for r in found},
            "by_seam": _by_seam(found),
            "flicker": _flicker(found),
            "filled_by": _filled_by(found),
        },
        "matte_px": {str(record.frame): record.matte_px for record in found},
        "timing": _timing(plan, records, wall_s=wall_s, n_new=n_new),
        "pictures": pictures,
        "compare_frame": _compare_frame(found, pictures, plan.pack.sheet.seam_names),
        "keys": dict(keys),
        "exports": [asdict(exported) for exported in exports],
    }


def run_command(job: RunJob) -> str:
    """The command line of a job."""
    words = ["rotopaint", "run", job.plates]
    words += [word for crop in job.crops for word in ("--crop", crop)]
    words += ["--out", job.out]
    for option, value in (
        ("--model", job.model),
        ("--frames", job.frames),
        ("--export", ",".join(job.exports)),
        ("--method", job.method if job.method != fills.DEFAULT else None),
        ("--device", job.device if job.device != "auto" else None),
        ("--threads", str(job.threads) if job.threads else None),
        ("--colourspace", job.colourspace),
        ("--reduce-keys", f"{job.key_tolerance_px:.12g}" if job.key_tolerance_px else None),
        ("--project", job.project),
        ("--face", job.face),
    ):
        words += [option, value] if value is not None else []
    for option, is_given in (
        ("--no-clean", not job.clean),
        ("--patch", job.patch),
        ("--force", job.force),
        ("--leave-project", job.leave_project),
        ("--resume", job.resume),
        ("--overwrite", job.overwrite),
    ):
        words += [option] if is_given else []
    return shlex.join(words)


def _versions() -> dict[str, str]:
    found = {"rotopaint": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _plate(plan: Plan, records: Iterable[FrameRecord]) -> dict[str, Any]:
    plate, digest = plan.plate, hashlib.sha256()
    for record in records:
        digest.update(f"{record.frame}:{record.source.fingerprint if record.source else ''};".encode())
    return {
        "name": plate.name,
        "suffix": plate.suffix,
        "width": plate.width,
        "height": plate.height,
        "pixel_aspect": plate.pixel_aspect,
        "fps": plate.fps,
        "colourspace": plate.colourspace,
        "first_frame": plan.frames[0],
        "last_frame": plan.frames[-1],
        "fingerprint": digest.hexdigest(),
    }


def _device(plan: Plan) -> dict[str, Any]:
    session = plan.models.detect.session
    return {
        "asked": plan.job.device,
        "used": session.device,
        "provider": session.provider,
        "note": session.note,
        "threads": plan.threads,
        "model_ms_per_call": session.ms_per_call,
    }


def _frame_content(plan: Plan, records: Sequence[FrameRecord]) -> dict[str, Any]:
    return {
        "total": len(plan.frames) + len(plan.missing),
        "done": sum(record.status == "done" for record in records),
        "failed": {str(record.frame): record.message for record in records if record.status == "failed"},
        "missing": list(plan.missing),
        "lost": [record.frame for record in records if record.status == "lost"],
        "held": [list(span) for span in hold_spans(records)],
    }


def _error_content(plan: Plan, found: Sequence[FrameRecord]) -> dict[str, Any]:
    names = list(plan.pack.sheet.shape_names)
    rows = {str(record.frame): [record.errors.get(name) for name in names] for record in found}
    unseen = {str(record.frame): dict(record.unseen) for record in found if record.unseen}
    return {"shapes": names, "by_frame": rows, "unseen": unseen}


def _timing(plan: Plan, records: Sequence[FrameRecord], *, wall_s: float, n_new: int) -> dict[str, Any]:
    stages = {}
    for stage in STAGES:
        times = [record.ms[stage] for record in records if stage in record.ms]
        if times:
            stages[stage] = {
                "mean_ms": round(sum(times) / max(1, sum(bool(record.ms) for record in records)), 3),
                "median_ms": round(median(times), 3),
            }
    total = sum(stage["mean_ms"] for stage in stages.values())
    plain = sum(stages[name]["mean_ms"] for name in ("decode", "encode") if name in stages)
    return {
        "wall_s": round(wall_s, 3),
        "frames_in_this_process": n_new,
        "ms_per_frame": round(wall_s * 1000 / (n_new or len(plan.frames)), 2),
        "threads": plan.threads,
        "stages": stages,
        "work_ratio": round(total / plain, 3) if plain else None,
        "peak_memory_mb": peak_memory_mb(),
    }


def peak_memory_mb() -> float:
    """The largest resident memory of this process so far plus that of its model process; megabytes."""
    return round(call_limits.own_peak_memory_mb() + usage()["peak_memory_mb"], 1)


def _picture_entries(plan: Plan, state: RunState, frames: Sequence[int], worst: Sequence[int]) -> list[dict[str, Any]]:
    """The report's facts about the frames that have pictures, in the order of `frames`."""
    wanted = set(frames)
    full = {record.frame: record for record in state.records() if record.frame in wanted}
    seams = plan.pack.sheet.seam_names
    pictures = [_frame_picture(plan.out, full[frame], frame in worst, seams) for frame in frames if frame in full]
    return [picture for picture in pictures if picture is not None]


def _frame_picture(out: Path, record: FrameRecord, is_worst: bool, seams: Container[str]) -> dict[str, Any] | None:
    names = PictureNames.of(record.frame)
    if record.crop is None or not (out / names.face).exists():
        return None
    x, y, side = record.crop
    shape, error = record.worst_shape(seams) or (None, None)
    has_both = (out / names.before).exists() and (out / names.after).exists()
    return {
        "frame": record.frame,
        "worst": is_worst,
        "error_px": error,
        "worst_shape": shape,
        "unseen": record.unseen.get(shape, "") if shape else "",
        "seam": [record.seam_before, record.seam_after],
        "window": [x - side / 2, y - side / 2, side, side],
        "shapes": dict(record.shapes),
        "face": _beside_report(names.face),
        "before": _beside_report(names.before) if has_both else None,
        "after": _beside_report(names.after) if has_both else None,
        "compare_size": _jpeg_size(out / names.before) if has_both else None,
    }


def _by_seam(found: Sequence[FrameRecord]) -> dict[str, dict[str, Sequence[float]]]:
    """The visibility of each seam by frame, before painting and, where it was painted, after."""
    names = sorted({name for record in found for name in record.seam_scores})
    return {name: {str(r.frame): r.seam_scores[name] for r in found if name in r.seam_scores} for name in names}


def _flicker(found: Sequence[FrameRecord]) -> dict[str, float | None]:
    """The flicker of the seams' contrast from one exposure to the next, before and after painting."""
    exposures = [record for record in sorted(found, key=lambda record: record.frame) if record.hold is None]
    names = sorted({name for record in exposures for name in record.seam_contrast})
    nothing = (None,) * STATIONS

    def rows(side: int) -> list[list[Sequence[float | None]]]:
        kept = [record.seam_contrast for record in exposures]
        return [[row[side] if len(row := each.get(name, ())) > side else nothing for name in names] for each in kept]

    values = {"before": flicker(rows(0)), "after": flicker(rows(1))}
    return {name: round(value, 4) if value is not None else None for name, value in values.items()}


def _filled_by(found: Sequence[FrameRecord]) -> dict[str, float]:
    """Each method's share of the seams' painted length, over all frames."""
    shares = [record.seam_fill for record in found if record.seam_fill]
    names = sorted({name for share in shares for name in share})
    return {name: round(sum(share.get(name, 0.0) for share in shares) / len(shares), 4) for name in names}


def _beside_report(name: str) -> str:
    return name.removeprefix("report/")


def _jpeg_size(path: Path) -> list[int]:
    import cv2

    picture = cv2.imread(str(path), cv2.IMREAD_REDUCED_GRAYSCALE_8)
    return [int(picture.shape[1]), int(picture.shape[0])] if picture is not None else [16, 9]


def _compare_frame(
    found: Sequence[FrameRecord], pictures: Sequence[Mapping[str, Any]], seams: Container[str]
) -> int | None:
    """The frame with a picture whose expected error is nearest to the shot's median."""
    shown: set[int] = {picture["frame"] for picture in pictures if picture["after"]}
    errors = {record.frame: worst[1] for record in found if (worst := record.worst_shape(seams))}
    candidates = [frame for frame in sorted(shown) if frame in errors]
    if not candidates:
        return min(shown, default=None)
    middle = median(errors.values())
    return min(candidates, key=lambda frame: abs(errors[frame] - middle))
