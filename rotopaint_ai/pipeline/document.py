"""The roto document of a run, made from its records one at a time."""

from __future__ import annotations

from collections.abc import Iterable

from rotopaint_ai.pipeline.packed import PackedKeys, PackedLandmarks
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.records import FrameRecord
from rotopaint_ai.shapes.roto import LandmarkKeys, RotoDocument, RotoShape

WIDTH_SHARE = 0.9


def build_document(records: Iterable[FrameRecord], plan: Plan) -> RotoDocument:
    """Landmarks and shapes of all frames whose face was found, reduced where the job asks for it.

    One width serves the whole shot, so it covers 9 of 10 frames; a shape is hidden in frames where the face was lost.
    """
    names = [spec.name for spec in plan.pack.sheet.shapes]
    landmarks, keys = PackedLandmarks(), {name: PackedKeys() for name in names}
    widths: dict[str, list[float]] = {name: [] for name in names}
    hidden: dict[str, set[int]] = {name: set() for name in names}
    for record in records:
        for name in names if record.status == "lost" else record.hidden:
            hidden[name].add(record.frame)
        if not record.shapes:
            continue
        landmarks.put(record.frame, record.landmarks or ())
        for name, rows in record.shapes.items():
            keys[name].put(record.frame, rows)
        for name, width in record.widths.items():
            widths[name].append(width)
    return RotoDocument(
        width=plan.plate.width,
        height=plan.plate.height,
        first_frame=min([*plan.frames, *plan.missing]),
        last_frame=max([*plan.frames, *plan.missing]),
        pixel_aspect=plan.plate.pixel_aspect,
        fps=plan.plate.fps,
        landmarks=LandmarkKeys(plan.pack.sheet.landmark_names, landmarks),
        shapes=tuple(
            RotoShape(
                name=spec.name,
                closed=spec.closed,
                role=spec.role,
                keys=keys[spec.name],
                width_px=_width(widths[spec.name]) if not spec.closed else None,
                feather_px=spec.feather_px,
                taper=spec.taper,
                visible=dict.fromkeys(sorted(hidden[spec.name]), False),
            )
            for spec in plan.pack.sheet.shapes
        ),
    )


def _width(widths: list[float]) -> float | None:
    return round(sorted(widths)[min(len(widths) - 1, int(WIDTH_SHARE * len(widths)))], 3) if widths else None


def n_keys(document: RotoDocument) -> int:
    """Keys of all shapes together."""
    return sum(len(shape.keys) for shape in document.shapes)
