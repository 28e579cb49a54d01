"""Reads finished roto as it comes: documents of every format, project files, COCO keypoints, the puppet folder.

What a document says of a frame is truth only where somebody fixed it: at a key, and between keys where it stands still
(a hold, or two equal keys). Between two different keys it is interpolation, and before the first and after the last one
nobody has said anything. Where a document tells keys by hand from a model's, only those by hand count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import formats, parsing
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.frames import summarise
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.training.mining.annotations import read_coco, read_project, read_published
from rotopaint_ai.training.mining.takes import FrameTruth, RawShape, Take, is_curve, plate_of

NUKE_SUFFIXES: Final = (".nk", ".gizmo")
NUKE_DEFAULT_WIDTH_PX: Final = 10.0  # what Nuke gives every new open spline
_KEYPOINTS: Final = ("COCO", "JSON")  # formats whose files may hold landmarks of pictures
_WANTED: Final = (
    f"shapes that 'convert' reads (.nk, .roto.json, .fxs, .ssf, .setting, ...), a project (*{PROJECT_SUFFIX}), "
    "COCO *.json or a puppet folder"
)

IsTruth = Callable[[RotoShape, int], bool]


def read_source(
    path: Path, plates: str | None, *, size: tuple[int, int] | None = None, interpolated: bool = False
) -> list[Take]:
    """Read one source. `plates` may hold `{dir}` and `{stem}`; `size` is the plate's, for files that do not tell.

    `interpolated`: what lies between keys is truth too. Raises: UsageError where the path is nothing that can be mined
    or its plates are not named; DocumentError.
    """
    if path.is_dir():
        return list(read_published(path))
    if not path.is_file():
        raise UsageError(f"{path}: is not there; wanted {_WANTED}")
    if path.suffix.lower() == PROJECT_SUFFIX:
        return [read_project(path, plates)]
    form = _format_of(path)
    if form.name in _KEYPOINTS and _holds_keypoints(path):
        return [read_coco(path)]
    width, height = size or (None, None)
    roto, losses = formats.read(path, width=width, height=height)
    roto = _without_default_widths(roto) if path.suffix.lower() in NUKE_SUFFIXES else roto
    take = _document_take(
        path, roto, plates, losses, (lambda shape, frame: True) if interpolated else _truth_rule(roto)
    )
    return [replace(take, counts_from_first=form.counts_from_first)]


def _format_of(path: Path) -> FormatSpec:
    """The format of a file that holds shapes. Raises UsageError where its suffix is none that is read."""
    try:
        form = formats.format_of(path)
    except UsageError as error:
        raise UsageError(f"{path.name}: cannot be mined; wanted {_WANTED}") from error
    if form.read is None:
        raise UsageError(f"{path.name}: {form.name} is written only, not read; wanted {_WANTED}")
    return form


def _holds_keypoints(path: Path) -> bool:
    """Whether a JSON file is COCO, or nothing that `convert` reads: the reader of keypoints says what is wrong then."""
    try:
        data = parsing.json_of(parsing.text_of(path), path.name, wanted="COCO keypoints")
    except DocumentError:
        return True
    known = isinstance(data, dict) and ("format" in data or isinstance(data.get("shapes"), list))
    return not known or "annotations" in data


def _without_default_widths(roto: RotoDocument) -> RotoDocument:
    """A Nuke document whose open strokes at the node's default width are of unknown width: nobody chose it."""
    shapes = (replace(s, width_px=None) if s.width_px == NUKE_DEFAULT_WIDTH_PX else s for s in roto.shapes)
    return replace(roto, shapes=tuple(shapes))


def _document_take(
    path: Path, roto: RotoDocument, plates: str | None, losses: Sequence[str], is_truth: IsTruth
) -> Take:
    frames = {frame: _truth_of_roto(roto, frame, is_truth) for frame in range(roto.first_frame, roto.last_frame + 1)}
    left_out = [frame for frame, truth in frames.items() if truth.context and not truth.shapes and not truth.landmarks]
    note = f"frames {summarise(left_out)} have no key: interpolation is no truth; --interpolated takes them too"
    return Take(
        path,
        {frame: truth for frame, truth in frames.items() if truth.shapes or truth.landmarks},
        plate=plate_of(path, plates),
        size=(roto.width, roto.height),
        landmark_names=roto.landmarks.names,
        notes=(*losses, *((note,) if left_out else ())),
    )


def _truth_rule(roto: RotoDocument) -> IsTruth:
    """Which frames of a shape are truth in a document: see the top of this file."""
    by_hand = any(key.source == "human" for shape in roto.shapes for key in shape.keys.values())
    sources = ("human",) if by_hand else ("human", "model")

    def is_truth(shape: RotoShape, frame: int) -> bool:
        if frame in shape.keys:
            return shape.keys[frame].source in sources
        after = bisect_right(shape.frames, frame)
        if after == 0 or after == len(shape.frames):
            return False
        left, right = shape.keys[shape.frames[after - 1]], shape.keys[shape.frames[after]]
        stands_still = left.interpolation == "hold" or left.points == right.points
        return stands_still and left.source in sources

    return is_truth


def _truth_of_roto(roto: RotoDocument, frame: int, is_truth: IsTruth) -> FrameTruth:
    shapes: dict[str, RawShape] = {}
    context: dict[str, RawShape] = {}
    for shape in roto.shapes:
        points = bezier.as_array(shape.at(frame))
        if shape.is_visible(frame) and is_curve(points, shape.closed):
            drawn = RawShape(points, shape.closed, shape.role, shape.width_px, shape.feather_px)
            (shapes if is_truth(shape, frame) else context)[shape.name] = drawn
    by_hand = roto.landmarks.hand.get(frame, frozenset())
    marks = zip(roto.landmarks.names, roto.landmarks.keys.get(frame, ()))
    landmarks = {
        name: (mark.x, mark.y, 1.0)
        for name, mark in marks
        if mark is not None and (shapes or not roto.shapes or name in by_hand)
    }
    return FrameTruth(shapes, landmarks, context=context)
