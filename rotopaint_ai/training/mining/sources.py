"""Reads finished roto as it comes: documents of every format, project files, COCO keypoints, the puppet folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document, nuke
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.training.mining.annotations import read_coco, read_published
from rotopaint_ai.training.mining.corrections import read_project
from rotopaint_ai.training.mining.curves import Array
from rotopaint_ai.training.mining.takes import FrameTruth, RawShape, Take, is_curve, plate_of

NUKE_SUFFIXES: Final = (".nk", ".gizmo")
NUKE_DEFAULT_WIDTH_PX: Final = 10.0  # what Nuke gives every new open spline
_WANTED: Final = f"a Nuke script, *.roto.json, a project (*{PROJECT_SUFFIX}), COCO *.json or a puppet folder"


def read_source(path: Path, plates: str | None, *, size: tuple[int, int] | None = None) -> list[Take]:
    """Read one source. `plates` may hold `{dir}` and `{stem}`; `size` is the plate's, for scripts that do not tell.

    Raises: UsageError where the path is nothing that can be mined or its plates are not named; DocumentError.
    """
    if path.is_dir():
        return list(read_published(path))
    if not path.is_file():
        raise UsageError(f"{path}: is not there; wanted {_WANTED}")
    if path.suffix.lower() in NUKE_SUFFIXES:
        reading = nuke.read_report(path, width=size[0] if size else None, height=size[1] if size else None)
        return [_document_take(path, _without_default_widths(reading.document), plates, reading.losses)]
    if path.name.lower().endswith(document.SUFFIX):
        return [_document_take(path, document.read(path), plates, ())]
    if path.suffix.lower() == PROJECT_SUFFIX:
        return [read_project(path, plates)]
    if path.suffix.lower() == ".json":
        return [read_coco(path)]
    raise UsageError(f"{path.name}: cannot be mined; wanted {_WANTED}")


def _without_default_widths(roto: RotoDocument) -> RotoDocument:
    """A Nuke document whose open strokes at the node's default width are of unknown width: nobody chose it."""
    shapes = (replace(s, width_px=None) if s.width_px == NUKE_DEFAULT_WIDTH_PX else s for s in roto.shapes)
    return replace(roto, shapes=tuple(shapes))


def _document_take(path: Path, roto: RotoDocument, plates: str | None, losses: Sequence[str]) -> Take:
    frames = {frame: _frame_truth(roto, frame) for frame in range(roto.first_frame, roto.last_frame + 1)}
    return Take(
        path,
        {frame: truth for frame, truth in frames.items() if truth.shapes or truth.landmarks},
        plate=plate_of(path, plates),
        size=(roto.width, roto.height),
        landmark_names=roto.landmarks.names,
        notes=tuple(losses),
    )


def _frame_truth(roto: RotoDocument, frame: int) -> FrameTruth:
    shapes = {}
    for shape in roto.shapes:
        points = bezier.as_array(shape.at(frame))
        if shape.is_visible(frame) and is_curve(points, shape.closed):
            shapes[shape.name] = _raw_shape(shape, points)
    marks = zip(roto.landmarks.names, roto.landmarks.keys.get(frame, ()))
    return FrameTruth(shapes, {name: (mark.x, mark.y, 1.0) for name, mark in marks if mark is not None})


def _raw_shape(shape: RotoShape, points: Array) -> RawShape:
    return RawShape(points, shape.closed, shape.role, shape.width_px, shape.feather_px)
