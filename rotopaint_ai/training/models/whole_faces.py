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
_AT_ONCE = 1024  # samples
_SETTINGS = PriorSettings(error_scale=1.0, noise_floor=1e-3, occlusion_factor=0.0, outlying=30.0)


def with_whole_faces(data: Dataset) -> Dataset:
    """A data set whose unknown landmarks are inferred, where enough of a face is known and its character has a head.

    Without shapes it stays as it is.
    """
    if not data.sheet.shapes:
        return data
    marks, order = data.truth.landmarks.copy(), mirror_permutation(data.sheet)
    characters = np.array([sample.character for sample in data.samples])
    for name in np.unique(characters):
        rows = characters == name
        marks[rows] = complete_faces(marks[rows], order)
    return replace(data, truth=replace(data.truth, landmarks=marks))


def complete_faces(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> npt.NDArray[np.floating]:
    """Landmarks [N, L, 2] with the unknown ones (NaN) where the head of the known ones has them; `mirror` as in
    `fit_head`."""
    known = np.isfinite(landmarks_NLC).all(axis=2)
    short = np.flatnonzero((known.mean(axis=1) >= ENOUGH) & ~known.all(axis=1))
    try:
        head = fit_head(landmarks_NLC, mirror) if len(short) else None
    except np.linalg.LinAlgError:
        head = None
    if head is None:
        return landmarks_NLC
    whole, prior = landmarks_NLC.copy(), FacePrior(head, _SETTINGS)
    for rows in np.array_split(short, -(-len(short) // _AT_ONCE)):
        whole[rows] = _complete(landmarks_NLC[rows], known[rows], prior)
    return whole


def _complete(
    marks: npt.NDArray[np.floating], seen: npt.NDArray[np.bool_], prior: FacePrior
) -> npt.NDArray[np.floating]:
    """As `complete_faces`, about each face's middle: the prior takes the size of a face from all its points."""
    middle = np.nanmean(marks, axis=1, keepdims=True)
    points = np.where(seen[..., None], marks - middle, 0.0)
    error = face_side(marks)[:, None] * np.where(seen, _KNOWN, _UNKNOWN)
    given = (torch.tensor(np.asarray(part, np.float32)) for part in (points, error, seen, np.zeros_like(points)))
    with torch.no_grad():
        found = prior(*given)[0].numpy()
    return np.where(seen[..., None], marks, found + middle)
