"""Finished roto as it comes: Nuke scripts, `*.roto.json`, project files, COCO keypoints, the published puppet folder.

A source gives takes: frames of one plate with the shapes and landmarks somebody fixed there, in plate space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document, nuke
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.sheet import Role
from rotopaint_ai.training.mining.outline import Array

NUKE_SUFFIXES: Final = (".nk", ".gizmo")
NUKE_DEFAULT_WIDTH_PX: Final = 10.0  # what Nuke gives every new open spline
_WANTED: Final = f"a Nuke script, *.roto.json, a project (*{PROJECT_SUFFIX}), COCO *.json or a puppet folder"
_PLACEHOLDER: Final = re.compile(r"\{\w*\}")
SHORTEST_PX = 2.0  # a curve shorter than this is a dot, no shape


class NothingToLearn(UsageError):
    """A source that is sound and holds nothing yet: one of many may be left out."""


class Word(IntEnum):
    """How much what a source says of a frame counts, where another says otherwise: what a person let stand of a
    model's, finished roto, what a person corrected by hand."""

    LET_STAND = 0
    FINISHED = 1
    CORRECTED = 2


@dataclass(frozen=True, slots=True)
class RawShape:
    """A shape at one frame as the artist left it: control points (P, 6) in plate space.

    `is_on_sheet`: its control points are those of the pack that drew it.
    """

    points: Array
    closed: bool
    role: Role = "matte"
    width_px: float | None = None
    feather_px: float = 0.0
    word: Word = Word.FINISHED
    is_on_sheet: bool = False


@dataclass(frozen=True, slots=True)
class FrameTruth:
    """What a source knows of one frame. Landmarks: x, y, and 1 seen or 0 hidden; `words` of those that are not finished
    roto's.

    `picture`: its own file, if any; `size`: the width and height that the source says it has. `is_cut_out`: its alpha
    says what is face; the rest wants a background. `is_test`: the source keeps it for tests.
    """

    shapes: Mapping[str, RawShape] = field(default_factory=dict)
    landmarks: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    picture: Path | None = None
    size: tuple[int, int] | None = None
    is_cut_out: bool = False
    is_test: bool = False
    words: Mapping[str, Word] = field(default_factory=dict)

    def word(self, landmark: str) -> Word:
        """How much is to be given on a landmark."""
        return self.words.get(landmark, Word.FINISHED)


@dataclass(frozen=True, slots=True)
class Take:
    """Frames of one plate from one source.

    `plate`: what `open_plate` takes; None where each frame names its own picture. `shot` and `character`: as far as the
    source tells. `split`: where the source itself keeps the frames for tests or gives them for training alone.
    `size`: width and height of the plate that it was drawn on, where the source says so for all frames. `colourspace`:
    the one that its plate was worked on in, where a person may have chosen it. `notes`: what was left out.
    """

    source: Path
    frames: Mapping[int, FrameTruth]
    plate: str | None = None
    size: tuple[int, int] | None = None
    colourspace: str | None = None
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
        from rotopaint_ai.training.mining.corrected import read_project

        return [read_project(path, plates)]
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
