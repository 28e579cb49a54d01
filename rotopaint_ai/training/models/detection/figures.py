"""How good a detector is: recall, precision and average precision at half overlap, its masks and its keypoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.landmarks.faces import SURE, FaceFound, faces_of, letterboxed
from rotopaint_ai.training.models.detection.scenes import SEEN, DetectionScene, Face

Array = npt.NDArray[Any]
Detector = Callable[[Any], tuple[Any, ...]]

OVERLAP = 0.5
SMALLEST_SHARE = 0.03  # faces with a longer side below this share of the plate's are passed over


class ScoredMatch(NamedTuple):
    """A detection: its score, and the face it stands for (None: none; a face is found once)."""

    score: float
    face: Face | None
    found: FaceFound
    is_passed: bool


def figures(detector: Any, scenes: Sequence[DetectionScene], width: int, height: int) -> dict[str, Any]:
    """Figures on some scenes; `detector` takes and gives what `detector.onnx` does, as tensors or arrays."""
    matches: list[ScoredMatch] = []
    n_faces = 0
    for scene in scenes:
        wanted = [face for face in scene.faces if _counts(face, scene)]
        n_faces += len(wanted)
        matches += matched(found_in(detector, scene, width, height), scene)
    return summary(matches, n_faces)


def found_in(detector: Any, scene: DetectionScene, width: int, height: int) -> list[FaceFound]:
    """Faces found on a scene, in its own pixels."""
    picture, scale = letterboxed(scene.picture.astype(np.float32) / 255, width, height)
    with torch.no_grad():
        said = detector(torch.from_numpy(picture[None]))
    rows = [np.asarray(part)[0] for part in said]
    return faces_of(cast(Any, rows), scale, lowest=0.05)


def _counts(face: Face, scene: DetectionScene) -> bool:
    longest = float(np.ptp(face.outline, axis=0).max())
    return face.seen >= SEEN and longest >= SMALLEST_SHARE * max(scene.picture.shape[:2])


def matched(found: Sequence[FaceFound], scene: DetectionScene) -> list[ScoredMatch]:
    """Detections, best first, each with the face that it overlaps by half and that no better one has."""
    size = scene.picture.shape[1::-1]
    left = list(scene.faces)
    matches = []
    for item in sorted(found, key=lambda face: -face.score):
        overlaps = [box_iou(np.array(item.box), np.clip(face.box, 0, (*size, *size))) for face in left]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best >= 0 and overlaps[best] >= OVERLAP:
            face = left.pop(best)
            matches.append(ScoredMatch(item.score, face, item, not _counts(face, scene)))
        else:
            matches.append(ScoredMatch(item.score, None, item, False))
    return matches


def summary(matches: Sequence[ScoredMatch], n_faces: int) -> dict[str, Any]:
    """Figures of matches over `n_faces` that ought to be found; `SURE` is the score that counts as found."""
    counted = sorted((m for m in matches if not m.is_passed), key=lambda m: -m.score)
    hits = np.array([m.face is not None for m in counted], float)
    sure = [m for m in counted if m.score >= SURE]
    right = [m for m in sure if m.face is not None]
    return {
        "faces": n_faces,
        "recall": round(len(right) / max(n_faces, 1), 4),
        "precision": round(len(right) / max(len(sure), 1), 4),
        "average_precision": round(average_precision(hits, n_faces), 4),
        "box_iou": _mean([box_iou(np.array(m.found.box), cast(Face, m.face).box) for m in right]),
        "mask_iou": _mean([mask_iou(m.found, cast(Face, m.face)) for m in right]),
        "keypoint_percent": _mean([e for m in right for e in keypoint_errors(m.found, cast(Face, m.face))]),
    }


def _mean(values: Sequence[float]) -> float | None:
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
    """Overlap of two boxes x0, y0, x1, y1."""
    size = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)
    shared = float(size[0] * size[1])
    return shared / max(float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared, 1e-9)


def mask_iou(found: FaceFound, face: Face) -> float:
    """Overlap of a found mask with the face's outline, in the mask's own square at 112 x 112."""
    side = 112
    x0, y0, x1, y1 = found.room
    drawn = np.zeros((side, side), np.uint8)
    places = (face.outline - (x0, y0)) / (x1 - x0, y1 - y0) * side
    cv2.fillPoly(drawn, [np.round((places - 0.5) * 16).astype(np.int32)], 1, shift=4)
    said = cv2.resize(np.asarray(found.mask, np.float32), (side, side), interpolation=cv2.INTER_LINEAR) >= 0.5
    true = drawn > 0
    return float((said & true).sum() / max((said | true).sum(), 1))


def keypoint_errors(found: FaceFound, face: Face) -> list[float]:
    """Distances of seen keypoints in percent of the face's longest side."""
    seen = np.isfinite(face.points).all(1) & (face.points[:, 2] > 0.5)
    away = np.linalg.norm(np.array(found.points) - face.points[:, :2], axis=1)
    return [100 * float(v) for v in away[seen] / np.ptp(face.outline, axis=0).max()]
