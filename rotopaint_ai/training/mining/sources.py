"""Finished roto as it comes: Nuke scripts, `*.roto.json`, project files, COCO keypoints, the published puppet folder.

A source gives takes: frames of one plate with the shapes and landmarks somebody fixed there, in plate space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document, nuke
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.project import CorrectedFrame, Corrections, corrections
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.sheet import Role
from rotopaint_ai.training.mining.outline import Array

NUKE_SUFFIXES: Final = (".nk", ".gizmo")
NUKE_DEFAULT_WIDTH_PX: Final = 10.0  # what Nuke gives every new open spline
_WANTED: Final = f"a Nuke script, *.roto.json, a project (*{PROJECT_SUFFIX}), COCO *.json or a puppet folder"
_PLACEHOLDER: Final = re.compile(r"\{\w*\}")
SHORTEST_PX = 2.0  # a curve shorter than this is a dot, no shape


@dataclass(frozen=True, slots=True)
class RawShape:
    """A shape at one frame as the artist left it: control points (P, 6) in plate space."""

    points: Array
    closed: bool
    role: Role = "matte"
    width_px: float | None = None
    feather_px: float = 0.0


@dataclass(frozen=True, slots=True)
class FrameTruth:
    """What a source knows of one frame. Landmarks: x, y, and 1 seen or 0 hidden.

    `picture`: its own file, if any; `size`: the width and height that the source says it has. `is_cut_out`: its alpha
    says what is face; the rest wants a background. `is_test`: the source keeps it for tests. `is_on_sheet`: its
    control points are those of the pack that drew it.
    """

    shapes: Mapping[str, RawShape] = field(default_factory=dict)
    landmarks: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    picture: Path | None = None
    size: tuple[int, int] | None = None
    is_cut_out: bool = False
    is_test: bool = False
    is_on_sheet: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Frames of one plate from one source.

    `plate`: what `open_plate` takes; None where each frame names its own picture. `shot` and `character`: as far as the
    source tells. `split`: where the source itself keeps the frames for tests or gives them for training alone.
    `size`: width and height of the plate that it was drawn on, where the source says so for all frames. `notes`: what
    was left out.
    """

    source: Path
    frames: Mapping[int, FrameTruth]
    plate: str | None = None
    size: tuple[int, int] | None = None
    shot: str | None = None
    character: str | None = None
    split: str | None = None
    landmark_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_source(path: Path, plates: str | None, *, size: tuple[int, int] | None = None) -> list[Take]:
    """Read one source. `plates` may hold `{dir}` and `{stem}`; `size` is the plate's, for scripts that do not tell.

    Raises: UsageError where the path is nothing that can be mined or its plates are not named; DocumentError.
    """
    if path.is_dir():
        from rotopaint_ai.training.mining.published import read_published

        return list(read_published(path))
    if not path.is_file():
        raise UsageError(f"{path}: is not there; wanted {_WANTED}")
    if path.suffix.lower() in NUKE_SUFFIXES:
        reading = nuke.read_report(path, width=size[0] if size else None, height=size[1] if size else None)
        return [_document_take(path, _without_default_widths(reading.document), plates, reading.losses)]
    if path.name.lower().endswith(document.SUFFIX):
        return [_document_take(path, document.read(path), plates, ())]
    if path.suffix.lower() == PROJECT_SUFFIX:
        return [_read_project(path, plates)]
    if path.suffix.lower() == ".json":
        from rotopaint_ai.training.mining.coco import read_coco

        return [read_coco(path)]
    raise UsageError(f"{path.name}: cannot be mined; wanted {_WANTED}")


def _without_default_widths(roto: RotoDocument) -> RotoDocument:
    """A Nuke document whose open strokes at the node's default width are of unknown width: nobody chose it."""
    shapes = (replace(s, width_px=None) if s.width_px == NUKE_DEFAULT_WIDTH_PX else s for s in roto.shapes)
    return replace(roto, shapes=tuple(shapes))


def plate_of(path: Path, plates: str | None) -> str:
    """The plate of a source: `{dir}` stands for its folder, `{stem}` for its name without suffixes."""
    if plates is None:
        raise UsageError(f"{path.name}: its plates are not known; give --plates, e.g. '{{dir}}/plate.####.exr'")
    unknown = [name for name in _PLACEHOLDER.findall(plates) if name not in ("{dir}", "{stem}")]
    if unknown and not Path(plates).parent.is_dir():
        raise UsageError(f"--plates {plates}: {unknown[0]} is not known; wanted {{dir}} or {{stem}}")
    stem = path.name[: -len(document.SUFFIX)] if path.name.lower().endswith(document.SUFFIX) else path.stem
    return plates.replace("{dir}", str(path.parent)).replace("{stem}", stem)


def _document_take(path: Path, roto: RotoDocument, plates: str | None, losses: Sequence[str]) -> Take:
    frames = {frame: _at_frame(roto, frame) for frame in range(roto.first_frame, roto.last_frame + 1)}
    return Take(
        path,
        {frame: truth for frame, truth in frames.items() if truth.shapes or truth.landmarks},
        plate=plate_of(path, plates),
        size=(roto.width, roto.height),
        landmark_names=roto.landmarks.names,
        notes=tuple(losses),
    )


def _at_frame(roto: RotoDocument, frame: int) -> FrameTruth:
    shapes = {}
    for shape in roto.shapes:
        points = bezier.as_array(shape.at(frame))
        if shape.is_visible(frame) and is_curve(points, shape.closed):
            shapes[shape.name] = _raw(shape, points)
    marks = zip(roto.landmarks.names, roto.landmarks.keys.get(frame, ()))
    return FrameTruth(shapes, {name: (mark.x, mark.y, 1.0) for name, mark in marks if mark is not None})


def _raw(shape: RotoShape, points: Array) -> RawShape:
    return RawShape(points, shape.closed, shape.role, shape.width_px, shape.feather_px)


def is_curve(points: Array, closed: bool) -> bool:
    """Whether control points make a curve, and no dot."""
    return len(points) >= 2 and bool(np.isfinite(points).all()) and bezier.length(points, closed) > SHORTEST_PX


# --- project files ----------------------------------------------------------------------------------------------------


def _read_project(path: Path, plates: str | None) -> Take:
    """What artists corrected or accepted in a shot: those frames whole, as they stand; no other frame.

    In a frame that a person's hand was on, what was left standing was seen and found right; frames marked "needs work"
    are never taken. Raises: ProjectError; DocumentError where nothing was run yet.
    """
    found = corrections(path)
    source = found.plate if plates is None else plate_of(path, plates)
    if source is None:
        raise UsageError(f"{path.name}: has not seen its plates yet; give --plates, e.g. '{{dir}}/plate.####.exr'")
    frames = {each.frame: _corrected(found, each) for each in found.frames}
    if not frames:
        raise UsageError(f"{path.name}: no frame was corrected or accepted; there is nothing to learn from it")
    n_keys = sum(len(each.human_shapes) for each in found.frames)
    n_points = sum(len(each.hand_landmarks) for each in found.frames)
    note = (
        f"{len(frames)} corrected frames taken: {n_keys} shapes and {n_points} landmarks by hand, the rest as accepted"
    )
    return Take(path, frames, plate=source, landmark_names=found.document.landmarks.names, notes=(note,))


def _corrected(found: Corrections, each: CorrectedFrame) -> FrameTruth:
    shapes = {}
    for shape in found.document.shapes:
        points = bezier.as_array(each.shapes[shape.name]) if shape.name in each.shapes else None
        if points is not None and shape.is_visible(each.frame) and is_curve(points, shape.closed):
            shapes[shape.name] = _raw(shape, points)
    marks = zip(found.document.landmarks.names, each.landmarks)
    places = {name: (mark.x, mark.y, 1.0) for name, mark in marks if mark is not None}
    return FrameTruth(shapes, places, is_on_sheet=True)
