"""The head's pose and the landmarks relative to it at every frame of a shot, computed only from landmarks.

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

TOO_FEW = 3  # fewest landmarks for a similarity
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FaceSpace:
    """Pose of the head and appearance of the face at every frame.

    `factor_F`: size (root mean square radius of the mean face in pixels) and rotation as one complex number. `look_FL`:
    landmarks minus the mean face, in units of the face's size. `time_F`: the frame; in a hold its first one.
    `points_FL`: landmarks in plate space, NaN where hidden. `whole_FL`: the same with hidden ones from the mean face.
    """

    frames: tuple[int, ...]
    factor_F: Complex
    look_FL: Complex
    time_F: Array
    points_FL: Complex
    whole_FL: Complex

    def rows(self, frames: Sequence[int]) -> Rows:
        """Rows of frames; a frame without landmarks gets the row of the nearest frame with some."""
        known = np.array(self.frames)
        after = np.clip(np.searchsorted(known, frames), 0, len(known) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(known[before] - frames) < np.abs(known[after] - frames)
        return np.asarray(np.where(nearer, before, after), dtype=np.intp)


def face_space(landmarks: LandmarkKeys) -> FaceSpace | None:
    """The face space of a shot; None if no frame has enough landmarks."""
    rows = {frame: row for frame, row in sorted(landmarks.keys.items()) if sum(p is not None for p in row) >= TOO_FEW}
    if not rows:
        return None
    points = np.array([[complex(p.x, p.y) if p else complex("nan") for p in row] for row in rows.values()])
    factor, look, whole = align_faces(points)
    time = np.array(list(hold_starts(rows).values()), dtype=np.float64)
    return FaceSpace(tuple(rows), factor, look / np.sqrt(look.shape[1]), time, points, whole)


def align_faces(points_FL: Complex) -> tuple[Complex, Complex, Complex]:
    """Align landmarks to their mean face.

    Returns the similarity factor at each frame; landmarks minus the mean face, 0 where hidden; and landmarks in plate
    space, hidden ones from the mean face. The mean face has root mean square radius 1. Generalised Procrustes analysis,
    alternating between alignment and mean (Gower 1975).
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
    """Each frame's least-squares similarity z = factor * mean + shift, and its landmarks with it removed."""
    z, mean = np.where(seen, points_FL, 0), np.broadcast_to(mean_L, points_FL.shape)
    factor, shift = fit_similarity(mean, z, seen)
    return factor, shift, (z - shift[:, None]) / factor[:, None]
