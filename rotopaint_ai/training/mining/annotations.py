"""Data sets of others: COCO keypoints, and the published puppet data set.

COCO: pictures with the landmarks of one face each. The puppet data set ("A Learning-Based Approach to Parametric
Rotoscoping of Multi-Shape Systems", 2021):

    shotN/image-shotN-frameNNN.png    raw_shapes-..., revec_shapes-...   artists' shapes; 43 points
    test/image-test-frameNNN.png      shapes-test-frameNNN.json          eyes and brows; 28 points in another order
    CG/image-CG-frameNNN.png (RGBA)   points-CG-frameNNN.json            45 points, (0, 0) where one is hidden

Points that stand at the same place have the same name in all three layouts, as the data set's own reader draws them.
Left and right are those of the picture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rotopaint_ai.errors import DocumentError, PlateError, UsageError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.plates.sequence import Listing, find
from rotopaint_ai.project import CorrectedFrame, Corrections, corrections
from rotopaint_ai.project.files import FileMatch, chosen, compare
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.manual_keys import SITS_PX
from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.shapes.roto import Landmark, RotoDocument, RotoShape
from rotopaint_ai.training.mining.takes import (
    FrameTruth,
    NothingToLearn,
    Provenance,
    RawShape,
    Take,
    is_curve,
    plate_of,
)

_KEYPOINTS: Final = "keypoints"
Json = Mapping[str, Any]
_SEAMS: list[str | None] = ["left_seam_middle", "nose_seam_middle", "right_seam_middle"]
_CG_FOLDER, _TEST_FOLDER, _POINTS = "CG", "test", "points"
_FILE = re.compile(r"^(raw_shapes|revec_shapes|shapes|points)-(.+)-frame(\d+)\.json$")
_WITH_SHAPES = ("raw_shapes", "shapes")  # the artist's own come first; what the authors made of them is not mined
_WITH_POINTS = ("revec_shapes", "shapes", "points")


def read_coco(path: Path) -> Take:
    """The landmarks of a COCO keypoint file, one frame per picture; faces of which nothing is marked are left out.

    Boxes, outlines and categories without keypoints, which such files hold as well, say nothing of landmarks. Raises:
    DocumentError.
    """
    try:
        return _coco_take(path, json.loads(file_bytes(path).decode("utf-8-sig")))
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise DocumentError(
            f"{path.name}: is no COCO keypoint file ({reason}); wanted images, annotations, categories"
        ) from error


def _coco_take(path: Path, content: Any) -> Take:
    names = _keypoint_names(path, content["categories"])
    pictures = {image["id"]: image for image in content["images"]}
    marked = [annotation for annotation in content["annotations"] if annotation.get(_KEYPOINTS)]
    frames: dict[int, FrameTruth] = {}
    seen: set[Any] = set()
    for row, annotation in enumerate(marked):
        image = pictures.get(annotation["image_id"])
        if image is None:
            raise ValueError(f"annotation {annotation.get('id', row)} is of image {annotation['image_id']}, not listed")
        landmarks = _read_marks(path, annotation, row, names)
        if not landmarks:
            continue
        if annotation["image_id"] in seen:
            raise DocumentError(
                f"{path.name}: {image['file_name']} is annotated twice; wanted one face a picture: keep one, or "
                "crop the faces apart"
            )
        seen.add(annotation["image_id"])
        frames[row] = FrameTruth(
            landmarks=landmarks,
            picture=path.parent / str(image["file_name"]),
            size=_stated_size(image),
            is_test=image.get("split") == "test",
        )
    empty = len(marked) - len(frames)
    notes = (f"{empty} faces without a single marked keypoint were left out",) if empty else ()
    return Take(path, frames, landmark_names=names, notes=notes)


def _keypoint_names(path: Path, categories: Any) -> tuple[str, ...]:
    """The landmarks' names. Raises: DocumentError where categories name other ones; KeyError where none does."""
    layouts = {tuple(str(name) for name in each[_KEYPOINTS]) for each in categories if each.get(_KEYPOINTS)}
    if len(layouts) > 1:
        raise DocumentError(f"{path.name}: holds several keypoint categories; wanted one face layout a file")
    if not layouts:
        raise KeyError(_KEYPOINTS)
    return layouts.pop()


def _read_marks(
    path: Path, annotation: Json, row: int, names: tuple[str, ...]
) -> dict[str, tuple[float, float, float]]:
    """What is marked of a face: x, y, and 1 seen (COCO's 2) or 0 hidden (COCO's 1)."""
    numbers = np.asarray(annotation[_KEYPOINTS], dtype=np.float64).reshape(-1, 3)
    if len(numbers) != len(names):
        raise DocumentError(
            f"{path.name}: annotation {annotation.get('id', row)} has {len(numbers)} keypoints; the category names "
            f"{len(names)}"
        )
    known = (numbers[:, 2] > 0) & np.isfinite(numbers).all(axis=1)
    return {
        name: (float(x), float(y), float(v >= 2))
        for name, (x, y, v), is_known in zip(names, numbers, known)
        if is_known
    }


def _stated_size(image: Json) -> tuple[int, int] | None:
    """Width and height that the file says a picture has."""
    return (int(image["width"]), int(image["height"])) if image.get("width") and image.get("height") else None


def _ring(name: str, order: Sequence[int]) -> list[str | None]:
    return [f"{name}_{at}" for at in order]


_EYES = [*_ring("left_eye", range(6)), *_ring("right_eye", range(6))]
_BROWS = [*_ring("left_eyebrow", range(8)), *_ring("right_eyebrow", range(8))]
_SIDEBURNS = [*_ring("left_sideburn", range(6)), *_ring("right_sideburn", range(6))]
SHOT: Final = (*_EYES, *_BROWS, *_SIDEBURNS, *_SEAMS)
# The right half runs the other way round in the test frames, from the outer corner.
TEST: Final = (
    *_ring("left_eye", range(6)),
    *_ring("left_eyebrow", range(8)),
    *_ring("right_eye", (3, 2, 1, 0, 5, 4)),
    *_ring("right_eyebrow", (4, 3, 2, 1, 0, 7, 6, 5)),
)
# Where the outer seams end stands on the sideburns; the twelve points round those have no like in the shots.
CG: Final = ("left_sideburn_3", *_SEAMS, "right_sideburn_0", *_EYES, *_BROWS, *[None] * 12)
LAYOUTS: Final[Mapping[int, tuple[str | None, ...]]] = {len(names): names for names in (SHOT, TEST, CG)}
NAMES: Final = tuple(name for name in SHOT if name is not None)


def read_published(folder: Path) -> Iterator[Take]:
    """The folder of a puppet, or of one of its shots. Test frames stay tests, computer graphics are only learnt from.

    Raises: UsageError where nothing of it lies there; DocumentError.
    """
    found = False
    inner = sorted(child for child in folder.iterdir() if child.is_dir())
    for shot in [folder, *inner]:
        if frames := _shot_frames(shot):
            found = True
            character = (shot.parent if shot != folder else folder.parent).name
            yield _published_take(shot, frames, character)
    if not found:
        raise UsageError(
            f"{folder}: holds no raw_shapes-SHOT-frameNNN.json; wanted the published puppet folder or a shot of it"
        )


def _published_take(shot: Path, frames: Mapping[int, FrameTruth], character: str) -> Take:
    is_cg = shot.name == _CG_FOLDER
    unlike = sum(name is None for name in CG)
    return Take(
        shot,
        frames,
        shot=shot.name,
        character=character,
        split="test" if shot.name == _TEST_FOLDER else "train" if is_cg else None,
        landmark_names=NAMES,
        notes=(f"{unlike} of the {len(CG)} CG points have no like in the shots and are left out",) if is_cg else (),
    )


def _shot_frames(shot: Path) -> dict[int, FrameTruth]:
    parts: dict[int, dict[str, Path]] = {}
    for path in sorted(shot.iterdir()):
        match = _FILE.match(path.name)
        if match:
            parts.setdefault(int(match[3]), {})[match[1]] = path
    return {number: _frame_truth(files, is_cut_out=shot.name == _CG_FOLDER) for number, files in sorted(parts.items())}


def _frame_truth(files: Mapping[str, Path], *, is_cut_out: bool) -> FrameTruth:
    first = next(iter(files.values()))
    picture = first.with_name("image-" + first.name.split("-", 1)[1]).with_suffix(".png")
    shapes = next((_frame_shapes(files[kind]) for kind in _WITH_SHAPES if kind in files), {})
    points = next((_frame_points(files[kind]) for kind in _WITH_POINTS if kind in files), {})
    return FrameTruth(shapes, points, picture, is_cut_out=is_cut_out)


def _frame_shapes(path: Path) -> dict[str, RawShape]:
    shapes = {}
    for name, cubics in _json_object(path).items():
        if name == _POINTS:
            continue
        points = from_relative_segments(cubics, where=f"{path.name}: {name}")
        closed = not name.endswith("seam")
        if is_curve(points, closed):
            shapes[name] = RawShape(points, closed, "matte" if closed else "seam")
    return shapes


def from_relative_segments(cubics: Any, *, where: str) -> Array:
    """Control points of `[[p0x, t0x, p3x, t3x], [p0y, t0y, p3y, t3y]]` segments, tangents relative to their own point.

    A run whose last point is its first is closed. Raises DocumentError.
    """
    try:
        table = np.asarray(cubics, dtype=np.float64).reshape(-1, 2, 4)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"{where}: is no list of cubic segments [[4 numbers], [4 numbers]]") from error
    if not len(table) or not np.isfinite(table).all():
        raise DocumentError(f"{where}: holds no segments, or numbers that are not finite")
    p0, t0, p3, t3 = (table[:, :, i] for i in range(4))
    closed = len(table) > 1 and bool(np.allclose(p3[-1], p0[0], atol=1e-3))
    return bezier.from_segments(np.stack((p0, p0 + t0, p3 + t3, p3), axis=1), closed)


def _frame_points(path: Path) -> dict[str, tuple[float, float, float]]:
    """Landmarks by name; what is hidden or has no like in the shots is left out."""
    points = _json_object(path).get(_POINTS, [])
    try:
        table = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"{path.name}: points are no list of [x, y]") from error
    names = LAYOUTS.get(len(table), SHOT[: len(table)])
    if len(names) != len(table):
        raise DocumentError(
            f"{path.name}: has {len(table)} points; wanted {len(SHOT)} (a shot), {len(TEST)} (test) or {len(CG)} (CG)"
        )
    known = np.isfinite(table).all(axis=1) & (table != 0).any(axis=1)
    return {name: (float(x), float(y), 1.0) for name, (x, y), is_known in zip(names, table, known) if name and is_known}


def _json_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(file_bytes(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DocumentError(f"{path.name}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise DocumentError(f"{path.name}: wanted named shapes, found {type(content).__name__}")
    return content


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
    frames = {each.frame: _corrected_truth(found, each, sits) for each in found.frames}
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


def _corrected_truth(found: Corrections, each: CorrectedFrame, sits: OnLandmarks) -> FrameTruth:
    shapes = {}
    for shape in found.document.shapes:
        points = bezier.as_array(each.shapes[shape.name]) if shape.name in each.shapes else None
        if points is not None and shape.is_visible(each.frame) and is_curve(points, shape.closed):
            provenance = Provenance.CORRECTED if shape.name in each.human_shapes else Provenance.ACCEPTED
            width = found.widths.get(shape.name)  # the document's is a matte's, widened by the model's doubt: no truth
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
