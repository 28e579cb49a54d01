"""Project files as a source: what artists corrected or accepted in a shot.

F frames, P control points, L landmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import DocumentError, PlateError, UsageError
from rotopaint_ai.plates.sequence import Listing, find
from rotopaint_ai.project import CorrectedFrame, Corrections, corrections
from rotopaint_ai.project.files import FileMatch, chosen, compare
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.manual_keys import SITS_PX
from rotopaint_ai.shapes.roto import Landmark, RotoDocument, RotoShape
from rotopaint_ai.training.mining.curves import Array
from rotopaint_ai.training.mining.takes import (
    FrameTruth,
    NothingToLearn,
    Provenance,
    RawShape,
    Take,
    is_curve,
    plate_of,
)

_SITS_SHARE: Final = 0.9  # of the frames in which a landmark lies on a control point that it sits on, at least
_MOST: Final = 48  # frames that are asked
OnLandmarks = Mapping[str, Mapping[int, str]]  # by shape: which control points sit on which landmarks


def read_project(path: Path, plates: str | None) -> Take:
    """What artists corrected or accepted in a shot: those frames whole, as they stand; no other frame.

    In a frame that a person's hand was on, what was left standing was seen and found right; frames marked "needs work"
    are never taken. Landmarks go with the control points that sit on them, where a person moved these; a seam's width
    is taken where a person set it. Raises: ProjectError; UsageError; NothingToLearn where nothing was run or corrected.
    """
    try:
        found = corrections(path)
    except DocumentError as error:
        raise NothingToLearn(str(error)) from error
    sits = points_on_landmarks(found.predicted)
    frames = {each.frame: _frame_truth(found, each, sits) for each in found.frames}
    if not frames:
        raise NothingToLearn(f"{path.name}: no frame was corrected or accepted; there is nothing to learn from it")
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
        f"{len(frames)} corrected frames taken: {n_keys} shapes and {n_points} landmarks by hand, the rest as accepted"
    )


def _frame_truth(found: Corrections, each: CorrectedFrame, sits: OnLandmarks) -> FrameTruth:
    shapes = {}
    for shape in found.document.shapes:
        points = bezier.as_array(each.shapes[shape.name]) if shape.name in each.shapes else None
        if points is not None and shape.is_visible(each.frame) and is_curve(points, shape.closed):
            provenance = Provenance.CORRECTED if shape.name in each.human_shapes else Provenance.ACCEPTED
            shapes[shape.name] = _raw_shape(shape, points, found.widths.get(shape.name), provenance)
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


def _raw_shape(shape: RotoShape, points: Array, width_px: float | None, provenance: Provenance) -> RawShape:
    """A shape as it stands. The document's own width is that of a matte, widened by the model's doubt: no truth."""
    return RawShape(points, shape.closed, shape.role, width_px, shape.feather_px, provenance, is_on_sheet=True)


def _moved_landmarks(each: CorrectedFrame, sits: OnLandmarks) -> dict[str, tuple[float, float, float]]:
    """Where the landmarks are that control points of a frame's human keys sit on."""
    found: dict[str, tuple[float, float, float]] = {}
    for name in sorted(each.human_shapes & each.shapes.keys()):
        now, predicted = each.shapes[name], each.model_shapes.get(name, ())
        for point, landmark in sits.get(name, {}).items() if len(now) == len(predicted) else ():
            found.setdefault(landmark, (now[point].x, now[point].y, 1.0))
    return found


def points_on_landmarks(predicted: RotoDocument | None) -> OnLandmarks:
    """Which control points of a run's shapes lie on a landmark all the time."""
    if predicted is None or not predicted.landmarks.keys:
        return {}
    names, rows = predicted.landmarks.names, predicted.landmarks.keys
    return {shape.name: _points_on(shape, names, rows) for shape in predicted.shapes if shape.keys}


def _points_on(shape: RotoShape, names: Sequence[str], rows: Mapping[int, Sequence[Landmark | None]]) -> dict[int, str]:
    frames = [frame for frame in shape.frames if frame in rows]
    frames = (
        [frames[at] for at in np.unique(np.linspace(0, len(frames) - 1, _MOST).round().astype(int))] if frames else []
    )
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
        point: names[int(share_P.argmax())] for point, share_P in enumerate(share_PL) if share_P.max() >= _SITS_SHARE
    }


def _plate_of_project(path: Path, found: Corrections, plates: str | None) -> tuple[str, bool, tuple[str, ...]]:
    """The plate of a project, whether it is surely the one that was worked on, and what is to be said of it.

    Where `plates` leads to the same pictures, or to the only ones, they are taken; else the project knows better.
    """
    if plates is None and found.plate is None:
        raise UsageError(f"{path.name}: has not seen its plates yet; give --plates, e.g. '{{dir}}/plate.####.exr'")
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
        notes.append(f"{place} holds other pictures than the project was made on; look whether its shapes fit them")
    if asked not in (None, place):
        notes.append(f"its own plates are taken, {place}: {asked} is none of them")
    return place, place == found.plate or there[place].is_same_plate, tuple(notes)


def _compare_plate(found: Corrections, place: str) -> FileMatch | None:
    """How the pictures somewhere compare with those that a project was made on; None where there are none."""
    try:
        listing: Listing = find(place)
    except (UsageError, PlateError):
        return None
    return compare(chosen(found.files, listing.paths), listing.paths)
