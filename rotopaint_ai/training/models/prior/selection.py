"""Which prior a character gets: chosen on held-out samples, on heads that know what the one that ships will know.

Letters: n samples, L landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.jobs import n_cores
from rotopaint_ai.training.models.prior.deformable import DeformableModel, fit_head, has_head
from rotopaint_ai.training.models.prior.face_prior import (
    ANISOTROPIES,
    ERROR_SCALES,
    EXTRAPOLATIONS,
    NOISE_FLOORS,
    OCCLUSION_FACTORS,
    FacePrior,
)

Array64 = npt.NDArray[np.float64]

WORTH = 0.99  # a prior has to bring the held-out error below this share
_CHOICES = {
    "error_scale": ERROR_SCALES,
    "noise_floor": NOISE_FLOORS,
    "occlusion_factor": OCCLUSION_FACTORS,
    "anisotropy": ANISOTROPIES,
    "extrapolation": EXTRAPOLATIONS,
}
_HIDDEN_WEIGHT = 0.5  # of hidden landmarks in the error that a prior is chosen by: shapes hang on them too
_CLEARLY = 0.9  # of the error: by so much later candidates have to be better; two trainings differ by a tenth
_FOLDS = 3


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of held-out samples, and a head from samples among which they are not."""

    rows: npt.NDArray[np.intp]
    head: DeformableModel


def folds(
    learn_NLC: npt.NDArray[np.floating],
    held_NLC: npt.NDArray[np.floating],
    mirror: Sequence[int] | None,
    *,
    joins: bool,
) -> tuple[Fold, ...]:
    """The held-out samples [n, L, 2] in runs, each with a head from the keyed frames [N, L, 2] and, where held-out
    samples join those in the end, from the other runs; none where the keyed frames alone are too few: the pack that is
    judged is made of no others.

    What ships knows the held-out poses too. A prior that is chosen by a head without them believes too little in it.
    `mirror` as in `fit_head`.
    """
    if not has_head(learn_NLC, mirror):
        return ()
    whole = np.arange(len(held_NLC))
    runs = np.array_split(whole, min(_FOLDS, len(held_NLC))) if joins else [whole]

    def head_without(rows: npt.NDArray[np.intp]) -> DeformableModel | None:
        return fit_head(np.concatenate([learn_NLC, np.delete(held_NLC, rows, axis=0)]), mirror)

    with ThreadPoolExecutor(n_cores()) as pool:  # arrays are worked on outside Python's lock
        heads = list(pool.map(head_without, runs))
    found = tuple(Fold(rows, head) for rows, head in zip(runs, heads) if head is not None)
    return found if len(found) == len(runs) else ()


class Choice(NamedTuple):
    """A prior, and the parts on whose heads it was chosen."""

    prior: FacePrior
    parts: Sequence[Fold]


def choose_prior(
    candidates: Iterable[Sequence[Fold]],
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    anisotropy: npt.NDArray[np.floating],
    truth: npt.NDArray[np.floating],
    visible: npt.NDArray[np.floating],
) -> Choice | None:
    """The prior that brings held-out landmarks [n, L, 2] closest to the truth, hidden ones counting half.

    `candidates`: the parts on one kind of heads, and on another (with mirrored faces, which show twice as many turns,
    and without: those of a very lopsided head mislead); the first, unless another is clearly better. `error` [n, L]:
    expected errors; `seen` [n, L]: probabilities; `anisotropy` [n, L, 2]: of the errors; `visible` [n, L]: the
    truth about it. None where none does so by a worthwhile share.
    """
    weight = np.isfinite(truth).all(axis=2) * np.where(visible > 0.5, 1.0, _HIDDEN_WEIGHT)
    if not weight.any():
        return None
    best, least = None, WORTH * _mean_distance(points, truth, weight)
    for parts in filter(None, candidates):

        def distance(settings: dict[str, float], parts: Sequence[Fold] = parts) -> float:
            prior = FacePrior(parts[0].head, **settings)
            return _mean_distance(apply_in_parts(prior, parts, points, error, seen, anisotropy)[0], truth, weight)

        settings, found = _descended({name: values[len(values) // 2] for name, values in _CHOICES.items()}, distance)
        if found < least * (1.0 if best is None else _CLEARLY):
            best, least = Choice(FacePrior(parts[0].head, **settings), parts), found
    return best


def _descended(
    start: dict[str, float], distance: Callable[[dict[str, float]], float]
) -> tuple[dict[str, float], float]:
    """The settings, of all _CHOICES, from which no single change brings the distance down, and that distance."""
    best, least = start, distance(start)
    is_better = True
    while is_better:
        is_better = False
        for name, value in ((name, value) for name, values in _CHOICES.items() for value in values):
            other = {**best, name: value}
            if other != best and (found := distance(other)) < least:
                best, least, is_better = other, found, True
    return best, least


def apply_in_parts(
    prior: FacePrior,
    parts: Sequence[Fold],
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    anisotropy: npt.NDArray[np.floating],
) -> tuple[Array64, Array64]:
    """As `apply`, each part of the samples on its own head."""
    found, left = np.empty(points.shape), np.empty(error.shape)
    for part in parts:
        rows = part.rows
        found[rows], left[rows] = apply(prior.on(part.head), points[rows], error[rows], seen[rows], anisotropy[rows])
    return found, left


def apply(
    prior: FacePrior,
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    anisotropy: npt.NDArray[np.floating],
) -> tuple[Array64, Array64]:
    """Landmarks [n, L, 2] and errors [n, L] through a prior."""
    given = (torch.tensor(np.asarray(part, np.float32)) for part in (points, error, seen, anisotropy))
    with torch.no_grad():
        found, left = prior(*given)
    return cast(Array64, found.double().numpy()), cast(Array64, left.double().numpy())


def _mean_distance(points: npt.NDArray[np.floating], truth: npt.NDArray[np.floating], weight: Array64) -> float:
    distance = np.where(weight > 0, np.linalg.norm(points - truth, axis=2), 0.0)
    return float((distance * weight).sum() / weight.sum())
