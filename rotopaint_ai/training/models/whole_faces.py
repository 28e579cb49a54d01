"""Completes keyed faces: landmarks that nobody keyed, where the character's deformable head has them.

Nobody keys what the far side of a turned head hides. A shape that is predicted from such landmarks would never see a
turned head in its fit. N samples, L landmarks, in pixels of their pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.shapes.deformable_head import fit_head
from rotopaint_ai.sheet import mirror_permutation
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.data.memory import face_side
from rotopaint_ai.training.models.face_prior import FacePrior, PriorSettings

ENOUGH = 0.5  # least share of a face's landmarks that is known, for the others to be inferred
_KNOWN, _UNKNOWN = 1e-3, 10.0  # expected errors of known and unknown landmarks, as shares of the face
_SETTINGS = PriorSettings(error_scale=1.0, noise_floor=1e-3, occlusion_factor=0.0, outlying=30.0)


def with_whole_faces(data: Dataset) -> Dataset:
    """A data set whose unknown landmarks are inferred, if enough of their face are known and a head can be fitted."""
    marks = complete_faces(data.truth.landmarks, mirror_permutation(data.sheet))
    return replace(data, truth=replace(data.truth, landmarks=marks.astype(data.truth.landmarks.dtype)))


def complete_faces(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> npt.NDArray[np.floating]:
    """Landmarks [N, L, 2] with the unknown ones (NaN) where the head of the known ones has them; `mirror` as in
    `fit_head`."""
    known = np.isfinite(landmarks_NLC).all(axis=2)
    short = np.flatnonzero((known.mean(axis=1) >= ENOUGH) & ~known.all(axis=1))
    head = fit_head(landmarks_NLC, mirror) if len(short) else None
    if head is None:
        return landmarks_NLC
    seen, side = known[short], face_side(landmarks_NLC[short])[:, None]
    points = np.where(seen[..., None], landmarks_NLC[short], 0.0)
    error = side * np.where(seen, _KNOWN, _UNKNOWN)
    given = (torch.tensor(np.asarray(part, np.float32)) for part in (points, error, seen, np.zeros_like(points)))
    with torch.no_grad():
        found = FacePrior(head, _SETTINGS)(*given)[0].numpy()
    whole = landmarks_NLC.copy()
    whole[short] = np.where(seen[..., None], landmarks_NLC[short], found)
    return whole
