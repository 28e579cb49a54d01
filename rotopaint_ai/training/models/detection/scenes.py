"""Pictures with known faces: rendered plates (`rotopaint_ai.stage`), face crops of a data set, shots with their roto.

A face's outline is the shape `face_outline` where there is one, else the convex hull of its landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

import cv2
import numpy as np
import numpy.typing as npt
import torch
from msgspec import Struct

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.landmarks.faces import SURE, DetectedFace, faces_of, letterbox
from rotopaint_ai.shapes.bezier import flatten
from rotopaint_ai.stage.crowd_plates import POINTS
from rotopaint_ai.stage.shot_folder import OUTLINE, TOLERANCE_PX, TRUTH, filmed_faces
from rotopaint_ai.training.data.dataset import read_dataset, read_picture
from rotopaint_ai.training.data.dataset_checks import MarkedPicture, split_of_shot
from rotopaint_ai.value_checks import check_json

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]
T = TypeVar("T")

SEEN = 0.35  # share of a face that must be visible for it to count
_LONGEST = 640  # longer pictures are shrunk to this side


@dataclass(frozen=True, slots=True)
class Face:
    """Outline (P, 2), keypoints (5, 3) as x, y, visible (NaN unknown), and the visible share of the face."""

    outline: Array
    points: Array
    seen: float

    @property
    def box(self) -> Array:
        """x0, y0, x1, y1 of the outline."""
        return np.concatenate((self.outline.min(0), self.outline.max(0)))

    def scaled(self, factor: float) -> Face:
        """The face after its picture is scaled by `factor`."""
        points = self.points * np.array([factor, factor, 1.0])
        return Face(self.outline * factor, points, self.seen)


@dataclass(frozen=True, slots=True)
class DetectionScene(MarkedPicture):
    """A picture and its faces."""

    faces: tuple[Face, ...]

    def arrays(self) -> Iterator[Array]:
        """All arrays, for a fingerprint."""
        yield self.picture
        for face in self.faces:
            yield from (face.outline, face.points, np.array([face.seen]))


def read_scenes(sources: Sequence[str | Path], *, check: Callable[[], None] = lambda: None) -> list[DetectionScene]:
    """Scenes of folders: rendered plates, data sets, shots with a `truth.roto.json`.

    Raises: TrainingError for other folders, or if there are no pictures.
    """
    found: list[DetectionScene] = []
    for source in sources:
        for scene in _scenes(Path(source)):
            found.append(_limit_size(scene))
            check()
    if not found:
        raise TrainingError(f"{', '.join(map(str, sources))}: no pictures of faces; wanted plates, a data set or shots")
    return found


def _scenes(folder: Path) -> Iterator[DetectionScene]:
    if (folder / "plates.jsonl").is_file():
        return _plates(folder)
    if (folder / TRUTH).is_file():
        return _shot(folder)
    return _crops(folder)


class _Head(Struct):
    """The content of the `dataset.json` of plates."""

    format: Literal["rotopaint-plates"]


class _FaceInLine(Struct):
    outline: list[tuple[float, float]]
    points: list[tuple[float, float, float]]
    seen: float

    def face(self) -> Face:
        return Face(np.array(self.outline), np.array(self.points), self.seen)


class _Line(Struct):
    """A line of `plates.jsonl`: a plate and its faces."""

    image: str
    split: str
    faces: list[_FaceInLine]


def _plates(folder: Path) -> Iterator[DetectionScene]:
    _read_json(folder / "dataset.json", file_bytes(folder / "dataset.json"), _Head)
    lines = folder / "plates.jsonl"
    for number, text in enumerate(file_bytes(lines).splitlines(), 1):
        line = _read_json(f"{lines}: line {number}", text, _Line)
        faces = tuple(face.face() for face in line.faces)
        yield DetectionScene(read_picture(folder / line.image), line.split, line.image, faces)


def _read_json(where: object, text: bytes, kind: type[T]) -> T:
    try:
        return check_json(text, kind, error=TrainingError)
    except TrainingError as error:
        raise TrainingError(f"{where}: {error}; make the plates again") from error


def _crops(folder: Path) -> Iterator[DetectionScene]:
    data = read_dataset(folder)
    rows = data.sheet.point_rows().get(OUTLINE)
    marks = [data.sheet.landmark_names.index(n) if n in data.sheet.landmark_names else None for n in POINTS]
    for k, sample in enumerate(data.samples):
        landmarks, visible = data.truth.landmarks[k], data.truth.visible[k]
        control = None if rows is None else data.truth.points[k, rows]
        outline = _outline(control, landmarks)
        if outline is not None:
            points = np.array([_landmark_numbers(landmarks, visible, row) for row in marks])
            yield DetectionScene(data.picture(k), sample.split, sample.image, (Face(outline, points, 1.0),))


def _outline(control: Array | None, landmarks: Array) -> Array | None:
    if control is not None and np.isfinite(control).all():
        return flatten(control.astype(float), True, TOLERANCE_PX)
    known = landmarks[np.isfinite(landmarks).all(axis=1)]
    return None if len(known) < 5 else np.asarray(cv2.convexHull(known.astype(np.float32))[:, 0], float)


def _landmark_numbers(landmarks: Array, visible: Array, row: int | None) -> tuple[float, float, float]:
    return (np.nan,) * 3 if row is None else (*map(float, landmarks[row]), float(visible[row]))  # type: ignore[return-value]


def _shot(folder: Path) -> Iterator[DetectionScene]:
    for one in filmed_faces(folder):
        points = [(*one.landmarks[name], 1.0) if name in one.landmarks else (np.nan,) * 3 for name in POINTS]
        face = Face(one.outline, np.array(points, float), 1.0)
        yield DetectionScene(one.picture, split_of_shot(folder), one.name, (face,))


def _limit_size(scene: DetectionScene) -> DetectionScene:
    factor = min(1.0, _LONGEST / max(scene.picture.shape[:2]))
    if factor == 1.0:
        return scene
    size = (round(scene.picture.shape[1] * factor), round(scene.picture.shape[0] * factor))
    picture = np.asarray(cv2.resize(scene.picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    return replace(scene, picture=picture, faces=tuple(face.scaled(factor) for face in scene.faces))


OVERLAP = 0.5
SMALLEST_SHARE = 0.03  # faces with a smaller longest side, as a share of the plate's, are ignored


class ScoredMatch(NamedTuple):
    """A detection: its score, and the face that it matches (None: no face; each face is matched once)."""

    score: float
    face: Face | None
    found: DetectedFace
    is_passed: bool


def detection_figures(detector: Any, scenes: Sequence[DetectionScene], width: int, height: int) -> dict[str, Any]:
    """Metrics on scenes; `detector` has the inputs and outputs of `detector.onnx`, as tensors or arrays."""
    matches: list[ScoredMatch] = []
    n_faces = 0
    for scene in scenes:
        wanted = [face for face in scene.faces if _is_counted(face, scene)]
        n_faces += len(wanted)
        matches += match_detections(detect_in_scene(detector, scene, width, height), scene)
    return summarise_matches(matches, n_faces)


def detect_in_scene(detector: Any, scene: DetectionScene, width: int, height: int) -> list[DetectedFace]:
    """Faces detected in a scene, in its own pixels."""
    picture, scale = letterbox(scene.picture.astype(np.float32) / 255, width, height)
    with torch.no_grad():
        outputs = detector(torch.from_numpy(picture[None]))
    rows = [np.asarray(part)[0] for part in outputs]
    return faces_of(cast(Any, rows), scale, lowest=0.05)


def _is_counted(face: Face, scene: DetectionScene) -> bool:
    longest = float(np.ptp(face.outline, axis=0).max())
    return face.seen >= SEEN and longest >= SMALLEST_SHARE * max(scene.picture.shape[:2])


def match_detections(found: Sequence[DetectedFace], scene: DetectionScene) -> list[ScoredMatch]:
    """Detections, best first, each with the face that it overlaps by half and that no better one matched."""
    size = scene.picture.shape[1::-1]
    left = list(scene.faces)
    matches = []
    for item in sorted(found, key=lambda face: -face.score):
        overlaps = [box_iou(np.array(item.box), np.clip(face.box, 0, (*size, *size))) for face in left]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best >= 0 and overlaps[best] >= OVERLAP:
            face = left.pop(best)
            matches.append(ScoredMatch(item.score, face, item, not _is_counted(face, scene)))
        else:
            matches.append(ScoredMatch(item.score, None, item, False))
    return matches


def summarise_matches(matches: Sequence[ScoredMatch], n_faces: int) -> dict[str, Any]:
    """Metrics of matches, given the number of faces to find; a detection counts from score `SURE`."""
    counted = sorted((m for m in matches if not m.is_passed), key=lambda m: -m.score)
    hits = np.array([m.face is not None for m in counted], float)
    sure = [m for m in counted if m.score >= SURE]
    right = [m for m in sure if m.face is not None]
    return {
        "faces": n_faces,
        "recall": round(len(right) / max(n_faces, 1), 4),
        "precision": round(len(right) / max(len(sure), 1), 4),
        "average_precision": round(average_precision(hits, n_faces), 4),
        "box_iou": _rounded_mean([box_iou(np.array(m.found.box), cast(Face, m.face).box) for m in right]),
        "mask_iou": _rounded_mean([mask_iou(m.found, cast(Face, m.face)) for m in right]),
        "keypoint_percent": _rounded_mean([e for m in right for e in keypoint_errors(m.found, cast(Face, m.face))]),
    }


def _rounded_mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 4) if len(values) else None


def average_precision(hits: Array, n_faces: int) -> float:
    """Area under the precision envelope over recall (Everingham et al., 2010, as of VOC 2010); hits best first."""
    if not n_faces or not len(hits):
        return 0.0
    recall = np.concatenate(([0.0], np.cumsum(hits) / n_faces))
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall) * envelope))


def box_iou(a: Array, b: Array) -> float:
    """Intersection over union of two boxes x0, y0, x1, y1."""
    size = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)
    shared = float(size[0] * size[1])
    return shared / max(float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared, 1e-9)


def mask_iou(found: DetectedFace, face: Face) -> float:
    """Intersection over union of a predicted mask and the face's outline, in the mask's square at 112 x 112."""
    side = 112
    x0, y0, x1, y1 = found.room
    drawn = np.zeros((side, side), np.uint8)
    places = (face.outline - (x0, y0)) / (x1 - x0, y1 - y0) * side
    cv2.fillPoly(drawn, [np.round((places - 0.5) * 16).astype(np.int32)], 1, shift=4)
    found_here = cv2.resize(np.asarray(found.mask, np.float32), (side, side), interpolation=cv2.INTER_LINEAR) >= 0.5
    true = drawn > 0
    return float((found_here & true).sum() / max((found_here | true).sum(), 1))


def keypoint_errors(found: DetectedFace, face: Face) -> list[float]:
    """Distances of visible keypoints in percent of the face's longest side."""
    seen = np.isfinite(face.points).all(1) & (face.points[:, 2] > 0.5)
    away = np.linalg.norm(np.array(found.points) - face.points[:, :2], axis=1)
    return [100 * float(v) for v in away[seen] / np.ptp(face.outline, axis=0).max()]
