"""Batches for the detector: scenes randomly transformed, tiled, and degraded.

The canvas is a square as wide as the network's picture; the network sees its middle band. Thus the photometric parts of
`augment`, which expect squares, apply here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.distractors import add_distractors
from rotopaint_ai.training.data.augment import apply_parts, rasterise_outline
from rotopaint_ai.training.models.detection.net import MASK_SCALE
from rotopaint_ai.training.models.detection.scenes import SEEN, DetectionScene, Face, Picture

Array = npt.NDArray[Any]
Random = np.random.Generator

MOST_FACES = 4
ZOOM = 0.45, 1.6  # smallest and largest random scale of a scene, relative to one that fits
GREY = 115  # grey outside the plate, as at run time
MIRRORED = [1, 0, 2, 4, 3]  # keypoints of a mirrored face
_SMALLEST_PX = 7.0  # faces with a shorter side are ignored


class DetectorBatch(NamedTuple):
    """Pictures [N, H, W, 3] uint8 and the fields of `DetectionTarget` as arrays."""

    pictures: Picture
    boxes: Array
    counts: Array
    passed: Array
    points: Array
    masks: Array


class _PlacedFace(NamedTuple):
    outline: Array
    points: Array
    seen: float


@dataclass(frozen=True, slots=True)
class CanvasMaker:
    """Makes batches.

    `parts`: photometric parts and their probabilities. `together`: probability of several scenes on a canvas. `things`:
    probability of distractors on a canvas.
    """

    scenes: Sequence[DetectionScene]
    width: int
    height: int
    parts: Mapping[str, float]
    together: float = 0.4
    rotation_deg: float = 15.0
    things: float = 0.0

    def batch(self, rows: Sequence[int], draw: Random | Sequence[Random]) -> DetectorBatch:
        """A batch whose canvases start with the scenes `rows`, from one generator for all or one for each."""
        draws = [draw] * len(rows) if isinstance(draw, Random) else draw
        return _stack_canvases([self.one(row, rng) for row, rng in zip(rows, draws)], self.height, self.width)

    def one(self, row: int, rng: Random) -> tuple[Picture, list[_PlacedFace]]:
        """A canvas (H, W, 3) and the faces on it."""
        square = np.full((self.width, self.width, 3), GREY, np.uint8)
        band = ((self.width - self.height) // 2, (self.width + self.height) // 2)
        placed: list[_PlacedFace] = []
        for k, (x0, y0, x1, y1) in enumerate(self._grid_cells(rng)):
            scene = self.scenes[row if k == 0 else int(rng.integers(len(self.scenes)))]
            picture, faces = self._place_scene(scene, x1 - x0, y1 - y0, rng)
            square[y0:y1, x0:x1] = picture
            placed += [_shift_face(face, x0, y0 - band[0], x1 - x0, y1 - y0) for face in faces]
        if rng.random() < self.things:
            other = self.scenes[int(rng.integers(len(self.scenes)))].picture
            boxes = [np.concatenate((face.outline.min(0), face.outline.max(0))) for face in placed]
            square[band[0] : band[1]] = add_distractors(square[band[0] : band[1]], boxes, other, rng)
        square, _ = apply_parts(square, self.parts, rng)
        return square[band[0] : band[1]], placed

    def _grid_cells(self, rng: Random) -> list[tuple[int, int, int, int]]:
        """Rectangles of the band (in canvas pixels), one per scene."""
        top, bottom = (self.width - self.height) // 2, (self.width + self.height) // 2
        if rng.random() >= self.together:
            return [(0, top, self.width, bottom)]
        x = int(self.width * rng.uniform(0.3, 0.7))
        columns = [(0, x), (x, self.width)]
        if rng.random() < 0.5:
            return [(a, top, b, bottom) for a, b in columns]
        y = int(top + self.height * rng.uniform(0.35, 0.65))
        return [(a, t, b, u) for a, b in columns for t, u in ((top, y), (y, bottom))]

    def _place_scene(
        self, scene: DetectionScene, width: int, height: int, rng: Random
    ) -> tuple[Picture, list[_PlacedFace]]:
        matrix, is_mirrored = self._matrix(scene, width, height, rng)
        border = (cv2.BORDER_CONSTANT, (GREY,) * 3) if rng.random() < 0.5 else (cv2.BORDER_REPLICATE, (0,) * 3)
        picture = _shrunk_warp(scene.picture, matrix, width, height, *border)
        return picture, [_place_face(face, matrix, is_mirrored) for face in scene.faces]

    def _matrix(self, scene: DetectionScene, width: int, height: int, rng: Random) -> tuple[Array, bool]:
        """A random 2 x 3 matrix from a scene to a cell, corner origin, and whether it mirrors."""
        h, w = scene.picture.shape[:2]
        fit = min(width / w, height / h)
        scale = fit * math.exp(rng.uniform(*np.log(ZOOM)))
        angle = math.radians(rng.uniform(-self.rotation_deg, self.rotation_deg)) if rng.random() < 0.5 else 0.0
        is_mirrored = bool(rng.random() < 0.5)
        stretch = math.exp(rng.uniform(-0.08, 0.08))
        across = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) * scale
        across = across @ np.diag([(-1.0 if is_mirrored else 1.0) * stretch, 1 / stretch])
        middle = np.array([w / 2, h / 2])
        if scene.faces and rng.random() < 0.7:  # keep a face on the canvas
            middle = scene.faces[int(rng.integers(len(scene.faces)))].outline.mean(0)
        spot = np.array([width, height]) * rng.uniform(0.15, 0.85, 2)
        if rng.random() < 0.3 and scale <= fit:
            middle, spot = np.array([w / 2, h / 2]), np.array([width, height]) / 2
        return np.concatenate((across, (spot - across @ middle)[:, None]), 1), is_mirrored


def _shrunk_warp(
    picture: Picture, matrix: Array, width: int, height: int, mode: int, colour: tuple[int, ...]
) -> Picture:
    """Warp; halve the picture by area averaging first while it shrinks by more."""
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    while scale < 0.6:
        picture = np.asarray(cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
        matrix, scale = matrix @ np.diag([2.0, 2.0, 1.0]), scale * 2
    half = matrix.copy()
    half[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5  # OpenCV's origin is the centre of the first pixel
    warped = cv2.warpAffine(picture, half, (width, height), flags=cv2.INTER_LINEAR, borderMode=mode, borderValue=colour)
    return np.asarray(warped, np.uint8)


def _place_face(face: Face, matrix: Array, is_mirrored: bool) -> _PlacedFace:
    points = face.points.copy()
    points[:, :2] = face.points[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    return _PlacedFace(
        face.outline @ matrix[:, :2].T + matrix[:, 2], points[MIRRORED] if is_mirrored else points, face.seen
    )


def _shift_face(face: _PlacedFace, x: float, y: float, width: float, height: float) -> _PlacedFace:
    """A cell's face in picture coordinates; parts outside the cell count as hidden."""
    box = np.concatenate((face.outline.min(0), face.outline.max(0)))
    cut = np.clip(box, 0, [width, height, width, height])
    share = float(np.prod(cut[2:] - cut[:2]) / max(np.prod(box[2:] - box[:2]), 1e-6))
    outline = np.clip(face.outline, 0, (width, height)) + (x, y)
    points = face.points.copy()
    inside = ((points[:, :2] > 0) & (points[:, :2] < (width, height))).all(1)
    points[:, :2] += (x, y)
    points[~inside] = np.nan
    return _PlacedFace(outline, points, min(face.seen, share))


def _stack_canvases(made: Sequence[tuple[Picture, list[_PlacedFace]]], height: int, width: int) -> DetectorBatch:
    n = len(made)
    batch = DetectorBatch(
        np.stack([picture for picture, _ in made]),
        np.zeros((n, MOST_FACES, 4), np.float32),
        np.zeros((n, MOST_FACES), bool),
        np.zeros((n, MOST_FACES), bool),
        np.full((n, MOST_FACES, 5, 3), -1e4, np.float32),
        np.zeros((n, MOST_FACES, round(height * MASK_SCALE), round(width * MASK_SCALE)), np.float32),
    )
    for row, (_, faces) in enumerate(made):
        shown = sorted(faces, key=lambda face: -float(np.ptp(face.outline, axis=0).max()))
        for k, face in enumerate(shown[:MOST_FACES]):
            _write_face(batch, row, k, face)
    return batch


def _write_face(batch: DetectorBatch, row: int, k: int, face: _PlacedFace) -> None:
    box = np.concatenate((face.outline.min(0), face.outline.max(0)))
    batch.boxes[row, k] = box
    counts = face.seen >= SEEN and float((box[2:] - box[:2]).min()) >= _SMALLEST_PX
    batch.counts[row, k], batch.passed[row, k] = counts, not counts and float(np.ptp(face.outline, axis=0).min()) > 1
    known = np.isfinite(face.points).all(1)
    batch.points[row, k, known] = face.points[known]
    batch.masks[row, k] = rasterise_outline(face.outline * MASK_SCALE, batch.masks.shape[2:])
