"""Reads finished roto: documents of every format, project files, COCO keypoints, the published puppet folder.

A document's shape is ground truth only where an artist fixed it: at a key, and between keys where it does not move (a
hold, or two equal keys). Between two different keys it is interpolated; before the first and after the last key there
is no label. If a document records who set its keys, only keys by hand count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import DocumentError, PlateError, UsageError
from rotopaint_ai.exchange import formats, parsing
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.keypoints import read_keypoints
from rotopaint_ai.exchange.puppet_folder import CG, CG_FOLDER, NAMES, TEST_FOLDER, PuppetFrame, puppet_frames
from rotopaint_ai.frames import evenly_spread, summarise
from rotopaint_ai.plates.sequence import Listing, find
from rotopaint_ai.project import SUFFIX as PROJECT_SUFFIX
from rotopaint_ai.project import CorrectedFrame, Corrections, corrections
from rotopaint_ai.project.plate_files import FileMatch, compare, compared_facts
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.manual_keys import SITS_PX
from rotopaint_ai.shapes.roto import Landmark, RotoDocument, RotoShape
from rotopaint_ai.training.mining.takes import (
    FrameTruth,
    NoLabelsError,
    Provenance,
    RawShape,
    Take,
    is_curve,
    plate_of,
)

NUKE_SUFFIXES: Final = (".nk", ".gizmo")
NUKE_DEFAULT_WIDTH_PX: Final = 10.0  # Nuke's default for a new open spline
_KEYPOINTS: Final = ("COCO", "JSON")  # formats whose files may contain landmarks
_WANTED: Final = (
    f"a format that 'convert' reads (.nk, .roto.json, .fxs, .ssf, .setting, ...), a project (*{PROJECT_SUFFIX}), COCO "
    "*.json or a puppet folder"
)

IsTruth = Callable[[RotoShape, int], bool]


def read_source(
    path: Path, plates: str | None, *, size: tuple[int, int] | None = None, interpolated: bool = False
) -> list[Take]:
    """Read one source.

    `plates` may contain `{dir}` and `{stem}`. `size`: the plate's, for files that do not state one. `interpolated`:
    frames between keys count as ground truth too. Raises: UsageError if the path cannot be mined or its plates are
    unknown; DocumentError.
    """
    if path.is_dir():
        return list(read_published(path))
    if not path.is_file():
        raise UsageError(f"{path}: not found; wanted {_WANTED}")
    if path.suffix.lower() == PROJECT_SUFFIX:
        return [read_project(path, plates)]
    form = _format_of(path)
    if form.name in _KEYPOINTS and _holds_keypoints(path):
        return [read_coco(path)]
    width, height = size or (None, None)
    roto, losses = formats.read(path, width=width, height=height)
    roto = _of_keyed_range(roto) if path.suffix.lower() in NUKE_SUFFIXES else roto
    take = _document_take(
        path, roto, plates, losses, (lambda shape, frame: True) if interpolated else _truth_rule(roto)
    )
    return [replace(take, counts_from_first=form.counts_from_first)]


def _format_of(path: Path) -> FormatSpec:
    """The shape format of a file. Raises UsageError if its suffix cannot be read."""
    try:
        form = formats.format_of(path)
    except UsageError as error:
        raise UsageError(f"{path.name}: cannot be mined; wanted {_WANTED}") from error
    if form.read is None:
        raise UsageError(f"{path.name}: {form.name} can only be written, not read; wanted {_WANTED}")
    return form


def _holds_keypoints(path: Path) -> bool:
    """Whether a JSON file is COCO, or no shape format: then the keypoint reader reports the fault."""
    try:
        data = parsing.json_of(parsing.text_of(path), path.name, wanted="COCO keypoints")
    except DocumentError:
        return True
    known = isinstance(data, dict) and ("format" in data or isinstance(data.get("shapes"), list))
    return not known or "annotations" in data


def _of_keyed_range(roto: RotoDocument) -> RotoDocument:
    """A Nuke document of its keys' range, as a script may be longer than its shot, with unknown widths for open strokes
    that have the default width."""
    shapes = tuple(replace(s, width_px=None) if s.width_px == NUKE_DEFAULT_WIDTH_PX else s for s in roto.shapes)
    keyed = [frame for shape in shapes for frame in shape.keys] or [roto.first_frame, roto.last_frame]
    return replace(roto, first_frame=min(keyed), last_frame=max(keyed), shapes=shapes)


def _document_take(
    path: Path, roto: RotoDocument, plates: str | None, losses: Sequence[str], is_truth: IsTruth
) -> Take:
    frames = {frame: _truth_of_roto(roto, frame, is_truth) for frame in range(roto.first_frame, roto.last_frame + 1)}
    left_out = [frame for frame, truth in frames.items() if truth.context and not truth.shapes and not truth.landmarks]
    note = (
        f"frames {summarise(left_out)} have no key: interpolated shapes are no ground truth; --interpolated includes "
        "them"
    )
    sources = {key.source for shape in roto.shapes for key in shape.keys.values()}
    unseen = "no key is by hand: shapes as a model drew them count as ground truth" if sources == {"model"} else ""
    return Take(
        path,
        {frame: truth for frame, truth in frames.items() if truth.shapes or truth.landmarks},
        plate=plate_of(path, plates),
        size=(roto.width, roto.height),
        landmark_names=roto.landmarks.names,
        notes=(*losses, *((note,) if left_out else ()), *filter(None, (unseen,))),
    )


def _truth_rule(roto: RotoDocument) -> IsTruth:
    """The rule which frames of a shape are ground truth: see the top of this file."""
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


OnLandmarks = Mapping[str, Mapping[int, str]]  # by shape: the landmark that each control point lies on
_ON_POINT_SHARE: Final = 0.9  # smallest share of frames in which a landmark must lie on its control point
_MOST: Final = 48  # most frames to test


def read_coco(path: Path) -> Take:
    """The landmarks of a COCO keypoint file, one frame per picture; faces without any keypoint are left out.

    Raises: DocumentError.
    """
    found = read_keypoints(path)
    frames = {
        row: FrameTruth(
            landmarks=each.landmarks, picture=path.parent / each.file_name, size=each.size, is_test=each.is_test
        )
        for row, each in found.faces.items()
    }
    empty = f"{found.n_empty} faces without a single marked keypoint were left out"
    return Take(path, frames, landmark_names=found.names, notes=(empty,) if found.n_empty else ())


def read_published(folder: Path) -> Iterator[Take]:
    """The folder of a puppet or of one of its shots. Test frames stay test; computer graphics is only for training.

    Raises: UsageError if the folder has no frames; DocumentError.
    """
    found = False
    inner = sorted(child for child in folder.iterdir() if child.is_dir())
    for shot in [folder, *inner]:
        if frames := {number: _frame_truth(each) for number, each in puppet_frames(shot).items()}:
            found = True
            character = (shot.parent if shot != folder else folder.parent).name
            yield _published_take(shot, frames, character)
    if not found:
        raise UsageError(
            f"{folder}: contains no raw_shapes-SHOT-frameNNN.json; wanted the published puppet folder or a shot of it"
        )


def _frame_truth(frame: PuppetFrame) -> FrameTruth:
    shapes = {
        name: RawShape(points, closed, "matte" if closed else "seam")
        for name, (points, closed) in frame.shapes.items()
        if is_curve(points, closed)
    }
    return FrameTruth(shapes, frame.landmarks, frame.picture, is_cut_out=frame.is_cut_out)


def _published_take(shot: Path, frames: Mapping[int, FrameTruth], character: str) -> Take:
    is_cg = shot.name == CG_FOLDER
    unlike = sum(name is None for name in CG)
    return Take(
        shot,
        frames,
        shot=shot.name,
        character=character,
        split="test" if shot.name == TEST_FOLDER else "train" if is_cg else None,
        landmark_names=NAMES,
        notes=(f"{unlike} of the {len(CG)} CG points have no counterpart in the shots and are left out",)
        if is_cg
        else (),
    )


def read_project(path: Path, plates: str | None) -> Take:
    """The frames of a shot that an artist corrected or accepted, with all labels; no other frames.

    In a corrected frame, the labels that the artist did not change count as accepted. Frames marked "needs work" are
    left out. If a person moved a control point that lies on a landmark, the landmark moves along. A seam's width counts
    only if a person set it.
    Raises: ProjectError; UsageError; NoLabelsError if nothing was run or corrected.
    """
    try:
        found = corrections(path)
    except DocumentError as error:
        raise NoLabelsError(str(error)) from error
    sits = points_on_landmarks(found.predicted)
    frames = {each.frame: _project_truth(found, each, sits) for each in found.frames}
    if not frames:
        raise NoLabelsError(f"{path.name}: no frame was corrected or accepted; there is nothing to train on")
    plate, is_own, notes = _plate_of_project(path, found, plates)
    return Take(
        path,
        frames,
        plate=plate,
        size=(found.document.width, found.document.height),
        colourspace=found.colourspace if is_own else None,
        landmark_names=found.document.landmarks.names,
        notes=(_count_note(found.frames), *notes),
    )


def _count_note(frames: Sequence[CorrectedFrame]) -> str:
    n_keys = sum(len(each.human_shapes) for each in frames)
    n_points = sum(len(each.hand_landmarks) for each in frames)
    return (
        f"{len(frames)} corrected frames used: {n_keys} shapes and {n_points} landmarks by hand, the rest as accepted"
    )


def _project_truth(found: Corrections, each: CorrectedFrame, sits: OnLandmarks) -> FrameTruth:
    shapes = {}
    for shape in found.document.shapes:
        points = bezier.as_array(each.shapes[shape.name]) if shape.name in each.shapes else None
        if points is not None and shape.is_visible(each.frame) and is_curve(points, shape.closed):
            provenance = Provenance.CORRECTED if shape.name in each.human_shapes else Provenance.ACCEPTED
            # not the document's: a matte width includes the model's expected error
            width = found.widths.get(shape.name)
            shapes[shape.name] = RawShape(
                points, shape.closed, shape.role, width, shape.feather_px, provenance, is_on_sheet=True
            )
    marks = zip(found.document.landmarks.names, each.landmarks)
    places = {name: (mark.x, mark.y, 1.0) for name, mark in marks if mark is not None}
    moved = {
        name: at
        for name, at in _moved_landmarks(each, sits).items()
        if name in places and name not in each.hand_landmarks
    }
    by_hand = each.hand_landmarks | moved.keys()
    provenances = {name: Provenance.CORRECTED if name in by_hand else Provenance.ACCEPTED for name in places}
    return FrameTruth(shapes, {**places, **moved}, provenances=provenances)


def _moved_landmarks(each: CorrectedFrame, sits: OnLandmarks) -> dict[str, tuple[float, float, float]]:
    """New positions of landmarks from the control points of human keys that lie on them."""
    found: dict[str, tuple[float, float, float]] = {}
    for name in sorted(each.human_shapes & each.shapes.keys()):
        now, predicted = each.shapes[name], each.model_shapes.get(name, ())
        for point, landmark in sits.get(name, {}).items() if len(now) == len(predicted) else ():
            found.setdefault(landmark, (now[point].x, now[point].y, 1.0))
    return found


def points_on_landmarks(predicted: RotoDocument | None) -> OnLandmarks:
    """The control points of a run's shapes that lie on a landmark in nearly all frames."""
    if predicted is None or not predicted.landmarks.keys:
        return {}
    names, rows = predicted.landmarks.names, predicted.landmarks.keys
    return {shape.name: _points_on(shape, names, rows) for shape in predicted.shapes if shape.keys}


def _points_on(shape: RotoShape, names: Sequence[str], rows: Mapping[int, Sequence[Landmark | None]]) -> dict[int, str]:
    frames = evenly_spread([frame for frame in shape.frames if frame in rows], _MOST)
    if not frames or not names:
        return {}
    points_FP2 = np.array([[point[:2] for point in shape.keys[frame].points] for frame in frames], np.float64)
    marks_FL2 = np.array(
        [[(np.nan, np.nan) if m is None else m[:2] for m in rows[frame]] for frame in frames], np.float64
    )
    away = np.linalg.norm(points_FP2[:, :, None] - marks_FL2[:, None], axis=3)
    known = np.isfinite(away).sum(axis=0)
    share_PL = (away <= SITS_PX).sum(axis=0) / np.maximum(known, 1)
    return {
        point: names[int(share_P.argmax())]
        for point, share_P in enumerate(share_PL)
        if share_P.max() >= _ON_POINT_SHARE
    }


def _plate_of_project(path: Path, found: Corrections, plates: str | None) -> tuple[str, bool, tuple[str, ...]]:
    """The plate of a project, whether it is surely the one that was worked on, and notes for the user.

    `plates` wins if it shows the same pictures or is the only one found; else the project's own path wins.
    """
    if plates is None and found.plate is None:
        raise UsageError(f"{path.name}: its plates were never opened; give --plates, e.g. '{{dir}}/plate.####.exr'")
    asked = None if plates is None else plate_of(path, plates)
    matches = {place: _compare_plate(found, place) for place in (asked, found.plate) if place is not None}
    there = {place: match for place, match in matches.items() if match is not None}
    if not there:
        raise UsageError(
            f"{path.name}: its plates are no longer at {found.plate or asked}; give --plates with where they are now, "
            "or open the project in the panel once and choose them"
        )
    place = next((place for place, match in there.items() if not match.is_other_plate), next(iter(there)))
    notes = []
    if there[place].is_other_plate:
        notes.append(f"{place} has other pictures than the project was made on; check that its shapes fit them")
    if asked not in (None, place):
        notes.append(f"uses the project's own plates, {place}: {asked} shows other pictures")
    return place, place == found.plate or there[place].is_same_plate, tuple(notes)


def _compare_plate(found: Corrections, place: str) -> FileMatch | None:
    """How the pictures at `place` compare with those of a project; None if there are none."""
    try:
        listing: Listing = find(place)
    except (UsageError, PlateError):
        return None
    return compare(compared_facts(found.files, listing.paths), listing.paths)
