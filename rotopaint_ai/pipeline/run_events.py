"""What a run tells while it goes on: events made of its plan and of records (`docs/events.md`)."""

from __future__ import annotations

from typing import Any

from rotopaint_ai.jobs import Event
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord


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


def tracked_event(record: FrameRecord) -> Event:
    """A frame whose face has been followed, or that could not be read."""
    if record.status == "failed":
        return _error_event(record)
    return Event("tracked", {**_roto_of(record), "ms": record.ms})


def frame_event(record: FrameRecord) -> Event:
    """A frame that has gone through, or failed."""
    if record.status == "failed":
        return _error_event(record)
    written = {
        "seam_before": record.seam_before,
        "seam_after": record.seam_after,
        "outputs": list(record.outputs),
        "ms": record.ms,
    }
    return Event("frame", {**_roto_of(record), **written, **_under_hand(record)})


def _error_event(record: FrameRecord) -> Event:
    return Event("error", {"message": record.message, "frame": record.frame})


def _under_hand(record: FrameRecord) -> dict[str, Any]:
    """What the models found where a person's work stands; nothing where none does."""
    found = {"predicted": record.predicted, "predicted_landmarks": record.predicted_landmarks}
    return {name: value for name, value in found.items() if value}


def _roto_of(record: FrameRecord) -> dict[str, Any]:
    return {
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
    }
