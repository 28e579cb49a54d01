"""The position of the head at every frame of a shot, and the pose of its face, computed only from landmarks.

Convention: F frames, L landmarks, as complex numbers x + iy in plate space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.roto import LandmarkKeys, hold_starts
from rotopaint_ai.similarity import fit_similarity

Complex = NDArray[np.complex128]
Array = NDArray[np.float64]
Rows = NDArray[np.intp]

TOO_FEW = 3  # landmarks that a similarity needs
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FaceSpace:
    """Where the head is at every frame, and what its face looks like there.

    `factor_F`: size (root mean square radius of the mean face in pixels) and turn of the head as one complex number;
    `look_FL`: landmarks less the mean face, in units of the face's size; `time_F`: the frame, of a hold its first one;
    `points_FL`: the landmarks in plate space, NaN where hidden; `whole_FL`: hidden ones where the mean face has them.
    """

    frames: tuple[int, ...]
    factor_F: Complex
    look_FL: Complex
    time_F: Array
    points_FL: Complex
    whole_FL: Complex

    def rows(self, frames: Sequence[int]) -> Rows:
        """Rows of frames; of one without landmarks that of the nearest frame with some."""
        known = np.array(self.frames)
        after = np.clip(np.searchsorted(known, frames), 0, len(known) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(known[before] - frames) < np.abs(known[after] - frames)
        return np.asarray(np.where(nearer, before, after), dtype=np.intp)


def face_space(landmarks: LandmarkKeys) -> FaceSpace | None:
    """The face space of a shot; None where no frame has landmarks enough."""
    rows = {frame: row for frame, row in sorted(landmarks.keys.items()) if sum(p is not None for p in row) >= TOO_FEW}
    if not rows:
        return None
    points = np.array([[complex(p.x, p.y) if p else complex("nan") for p in row] for row in rows.values()])
    factor, look, whole = align_faces(points)
    time = np.array(list(hold_starts(rows).values()), dtype=np.float64)
    return FaceSpace(tuple(rows), factor, look / np.sqrt(look.shape[1]), time, points, whole)


def align_faces(points_FL: Complex) -> tuple[Complex, Complex, Complex]:
    """Similarity of the head at each frame (its factor), landmarks less the mean face, hidden ones 0, and landmarks in
    plate space, hidden ones by the mean face.

    The mean face has root mean square radius 1. Generalised Procrustes analysis by turns: faces to the mean, mean of
    the faces (Gower 1975).
    """
    seen = ~np.isnan(points_FL)
    first = points_FL[int(seen.sum(1).argmax())]
    mean = np.where(np.isnan(first), np.nanmean(first), first)
    for _ in range(_ROUNDS):
        mean = (mean - mean.mean()) / max(np.sqrt((abs(mean) ** 2).mean()), 1e-9)
        factor, shift, faces = _to_mean(points_FL, seen, mean)
        count = seen.sum(0)
        mean = np.where(count > 0, np.where(seen, faces, 0).sum(0) / np.maximum(count, 1), mean)
    whole = np.where(seen, points_FL, factor[:, None] * mean + shift[:, None])
    return factor, np.where(seen, faces - mean, 0), whole


def _to_mean(points_FL: Complex, seen: NDArray[np.bool_], mean_L: Complex) -> tuple[Complex, Complex, Complex]:
    """Each frame's similarity z = factor * mean + shift by least squares, and its landmarks undone of it."""
    z, mean = np.where(seen, points_FL, 0), np.broadcast_to(mean_L, points_FL.shape)
    factor, shift = fit_similarity(mean, z, seen)
    return factor, shift, (z - shift[:, None]) / factor[:, None]
