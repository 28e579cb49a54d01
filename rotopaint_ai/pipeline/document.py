"""The roto document of a run, made from its records one at a time."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from rotopaint_ai.pipeline.frame import key_of
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.records import FrameRecord
from rotopaint_ai.shapes.roto import Key, Landmark, LandmarkKeys, RotoDocument, RotoShape


def build_document(records: Iterable[FrameRecord], plan: Plan) -> RotoDocument:
    """Landmarks and shapes of all frames whose face was found, reduced where the job asks for it.

    A shape's width is the median of its frames; it is hidden in frames where the face was lost.
    """
    names = [spec.name for spec in plan.pack.sheet.shapes]
    landmarks: dict[int, tuple[Landmark | None, ...]] = {}
    keys: dict[str, dict[int, Key]] = {name: {} for name in names}
    widths: dict[str, list[float]] = {name: [] for name in names}
    hidden: dict[int, bool] = {}
    for record in records:
        if record.status == "lost":
            hidden[record.frame] = False
        if not record.shapes:
            continue
        landmarks[record.frame] = tuple(Landmark(*row) if row else None for row in record.landmarks or ())
        for name, rows in record.shapes.items():
            keys[name][record.frame] = key_of(rows)
        for name, width in record.widths.items():
            widths[name].append(width)
    return RotoDocument(
        width=plan.plate.width,
        height=plan.plate.height,
        first_frame=min([*plan.frames, *plan.missing]),
        last_frame=max([*plan.frames, *plan.missing]),
        pixel_aspect=plan.plate.pixel_aspect,
        fps=plan.plate.fps,
        landmarks=LandmarkKeys(plan.pack.sheet.landmark_names, dict(sorted(landmarks.items()))),
        shapes=tuple(
            RotoShape(
                name=spec.name,
                closed=spec.closed,
                role=spec.role,
                keys=dict(sorted(keys[spec.name].items())),
                width_px=round(median(widths[spec.name]), 3) if widths[spec.name] else None,
                feather_px=spec.feather_px,
                taper=spec.taper,
                visible=dict(sorted(hidden.items())),
            )
            for spec in plan.pack.sheet.shapes
        ),
    )


def n_keys(document: RotoDocument) -> int:
    """Keys of all shapes together."""
    return sum(len(shape.keys) for shape in document.shapes)
