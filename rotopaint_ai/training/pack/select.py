"""From trained networks to the models of a pack: calibration, the face's prior, shapes, as held-out samples choose.

A prior is chosen on heads that know what the one that ships will know. What was chosen is made twice where held-out
samples are learned from at last: from the training samples alone, to be judged, and from all of them, to be shipped.

n and N held-out samples, L landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rotopaint_ai.inference.pack import SEAM
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.shapes.deformable_head import DeformableModel, fit_head, has_head
from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training.data.augment import nominal_crop
from rotopaint_ai.training.data.dataset import Dataset, Truth
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.face_prior import (
    ANISOTROPIES,
    ERROR_SCALES,
    EXTRAPOLATIONS,
    NOISE_FLOORS,
    OCCLUSION_FACTORS,
    OUTLYING,
    FacePrior,
)
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import HeldOutPredictions
from rotopaint_ai.training.models.seam.task import export, left_as_predicted, seam_net, tune
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS, ShapeTraining, add_warped_copies, choose_guards

Array64 = npt.NDArray[np.float64]

WORTH = 0.99  # a prior has to bring the held-out error below this share
_CHOICES = {
    "error_scale": ERROR_SCALES,
    "noise_floor": NOISE_FLOORS,
    "occlusion_factor": OCCLUSION_FACTORS,
    "anisotropy": ANISOTROPIES,
    "extrapolation": EXTRAPOLATIONS,
    "outlying": OUTLYING,
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
    read = points, error, seen, anisotropy
    best, least = None, WORTH * _mean_distance(points, truth, weight)
    for parts in filter(None, candidates):

        def distance(settings: dict[str, float], parts: Sequence[Fold] = parts) -> float:
            prior = FacePrior(parts[0].head, **settings)
            return _mean_distance(apply_in_parts(prior, parts, *read)[0], truth, weight)

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
    prior: FacePrior, parts: Sequence[Fold], points: npt.NDArray[np.floating], *rest: npt.NDArray[np.floating]
) -> tuple[Array64, Array64]:
    """As `apply`, each part of the samples on its own head."""
    found, left = np.empty(points.shape), np.empty(points.shape[:2])
    for part in parts:
        own = (each[part.rows] for each in (points, *rest))
        found[part.rows], left[part.rows] = apply(prior.on(part.head), *own)
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


POWER_LIMITS = (0.3, 2.0)
_FLOOR_PX = 0.02
_FEWEST = 50


def calibrate(distance: npt.NDArray[np.floating[Any]], log_scale: npt.NDArray[np.floating[Any]]) -> tuple[float, float]:
    """`a`, `b` such that exp(a + b log_scale) is the mean distance to expect, by maximum likelihood under an
    exponential law (Newton's steps on its two parameters). NaN distances are left out; with few left, (0, 1).

    The law has fat tails, so one wild miss moves the fit little.
    """
    known = np.isfinite(distance) & np.isfinite(log_scale)
    d, s = np.maximum(distance[known], _FLOOR_PX), log_scale[known]
    if len(d) < _FEWEST:
        return 0.0, 1.0
    design = np.stack((np.ones_like(s), s), 1)
    theta = np.array([np.log((d / np.exp(s)).mean()), 1.0])
    for _ in range(50):
        ratio = d * np.exp(-(design @ theta).clip(-20, 20))
        gradient = design.T @ (1 - ratio)
        curvature = (design * ratio[:, None]).T @ design + np.eye(2) * 1e-6
        step = np.linalg.solve(curvature, gradient).clip(-0.5, 0.5)
        theta = theta - step
        if np.abs(step).max() < 1e-8:
            break
    power = float(np.clip(theta[1], *POWER_LIMITS))
    return float(np.log((d * np.exp(-power * s)).mean())), power


Check = Callable[[], None]

_PRIOR = (
    "error_scale",
    "noise_floor",
    "occlusion_factor",
    "anisotropy",
    "extrapolation",
    "outlying",
    "mirrored",
)  # what of a prior was chosen


@dataclass(frozen=True, slots=True)
class SelectedModels:
    """What held-out samples said: the calibrations of expected errors, the prior if one is worth it, how far off each
    landmark is then (share of the face, [L]), and how much more careful than that each shape has to be ([K])."""

    calibration: tuple[float, float]
    prior: FacePrior | None
    left: tuple[float, float]
    noise_L: Array64
    guards_K: Array64
    places: Array64  # [N, L, 2] found in the pictures of the held-out samples
    mirror: tuple[int, ...] | None  # how they were read, and how a pack reads that keeps to this: see `net.Reader`

    def facts(self, sheet: Sheet) -> dict[str, Any]:
        """What was chosen, for the card."""
        prior = self.prior
        return {
            "prior": None if prior is None else {name: getattr(prior, name) for name in _PRIOR},
            "shape_guards": dict(zip(sheet.shape_names, self.guards_K.tolist())),
        }


def select_models(
    config: PackConfig, train: Dataset, held: HeldOutPredictions, held_memory: Memory, reads: tuple[int, ...] | None
) -> SelectedModels:
    """Choose on the held-out samples, which were read as `reads` says, what the training samples give."""
    calibration = calibrate(held.distance.ravel(), held.log_scale.ravel())
    error = np.exp(calibration[0] + calibration[1] * held.log_scale)
    kinds = (mirror_permutation(train.sheet), None) if config.prior else ()
    joins = config.learn_all > 0
    candidates = [folds(train.truth.landmarks, held.truth, mirror, joins=joins) for mirror in kinds]
    seen = 1 / (1 + np.exp(-held.visible_logit))
    best = choose_prior(candidates, held.points, error, seen, held.anisotropy, held.truth, held.visible)
    left, points, after = (0.0, 1.0), held.points, held
    if best is not None:
        points, remaining = apply_in_parts(*best, held.points, error, seen, held.anisotropy)
        after = held._replace(points=points, distance=np.linalg.norm(points - held.truth, axis=2))
        left = calibrate(after.distance.ravel(), np.log(remaining).ravel())
    noise = landmark_noise(after)
    if config.shape_noise is not None:
        noise = np.full(len(train.sheet.landmarks), config.shape_noise)
    places = _in_pictures(points, held_memory, config)
    guards = choose_guards(train.sheet, _more(config, train.truth), noise, places, held_memory.truth)
    return SelectedModels(calibration, best and best.prior, left, noise, guards, places, reads)


@dataclass(frozen=True, slots=True)
class SeamSelection:
    """The seam network of a pack (None: none), seams that it is not to move, and how it was taught, for the card."""

    path: Path | None
    still: tuple[str, ...]
    facts: dict[str, Any]


def has_seams_to_tune(config: PackConfig, data: Dataset, start: Path | None) -> bool:
    """Whether there is a seam network to start from, time for it, and open seams that it could learn."""
    has_seams = any(shape.role == "seam" and not shape.closed for shape in data.sheet.shapes)
    return start is not None and config.seam_minutes > 0 and has_seams


def tune_seams(
    config: PackConfig,
    data: Dataset,
    chosen: SelectedModels,
    memory: Memory,
    start: Path | None,
    folder: Path,
    seconds: float,
    check: Check,
) -> SeamSelection:
    """The seam network to start from, tuned to this character's seams in so many seconds where that helps on held-out
    samples."""
    if start is None or not has_seams_to_tune(config, data, start):
        return SeamSelection(start, (), {})
    first = seam_net(start)
    tuned = tune(data, first, minutes=seconds / 60, seed=config.seed, check=check)
    net, path = first, start
    if tuned is not None and tuned.is_better:
        net, path = tuned.net, folder / SEAM
        export(net, path)
    model = shape_model(config, chosen, data.subset(data.rows_of("train")))
    assert model is not None  # there are seams
    with torch.no_grad():
        points = model(torch.tensor(chosen.places, dtype=torch.float32))[0].double().numpy()
    held = data.subset(data.rows_of("val"))
    held = replace(held, truth=memory.truth)
    still = left_as_predicted(held, memory.pictures, chosen.places, points, chosen.noise_L, net)
    facts = {} if tuned is None else {"steps": tuned.steps, "miss_before": tuned.before, "miss_after": tuned.after}
    return SeamSelection(path, still, facts)


def crop_model(net: LandmarkNet, chosen: SelectedModels, data: Dataset) -> CropModel:
    """The landmark model of a pack, its prior from the samples of `data`."""
    if chosen.prior is None:
        return CropModel(net, chosen.calibration, mirror=chosen.mirror)
    head = fit_head(data.truth.landmarks, mirror_permutation(data.sheet) if chosen.prior.mirrored else None)
    assert head is not None  # there was one with fewer samples
    return CropModel(net, chosen.calibration, chosen.prior.on(head), chosen.left, chosen.mirror)


def shape_model(config: PackConfig, chosen: SelectedModels, data: Dataset) -> nn.Module | None:
    """The shape model of a pack, from the samples of `data`; None for a sheet without shapes."""
    if not data.sheet.shapes:
        return None
    truth = _more(config, data.truth)
    return SHAPE_MODELS[config.shape_model](
        ShapeTraining(data.sheet, truth, chosen.noise_L, chosen.guards_K, config.seed)
    ).eval()


def _more(config: PackConfig, truth: Truth) -> Truth:
    rng = np.random.default_rng(config.seed)
    return add_warped_copies(truth, copies=config.shape_copies, rng=rng)


def landmark_noise(held: HeldOutPredictions) -> Array64:
    """Each landmark's error per axis as a share of the face, from held-out samples; wild misses are capped, and few
    samples are drawn towards the mean of all landmarks."""
    share = held.distance / held.face[:, None]
    cap = 4 * np.nanmedian(share)
    squares = np.minimum(share, cap) ** 2 / 2
    overall = float(np.nanmean(squares))
    known = np.isfinite(squares)
    sums, counts = np.where(known, squares, 0).sum(axis=0), known.sum(axis=0)
    return cast(Array64, np.sqrt((sums + 20 * overall) / (counts + 20)))


def _in_pictures(points: Array64, memory: Memory, config: PackConfig) -> Array64:
    """Landmarks of straight crops in the pixels of their pictures."""
    crops = np.array([nominal_crop(landmarks, config.crop_margin) for landmarks in memory.truth.landmarks])
    corner = crops[:, :2] - crops[:, 2:] / 2
    return points * (crops[:, 2:] / config.input_size)[:, None] + corner[:, None]
