"""From trained networks to the models of a pack: calibration, the face's prior, shapes, as held-out samples choose.

What was chosen is made twice where held-out samples are learned from at last: from the training samples alone, to be
judged, and from all of them, to be shipped.

N held-out samples, L landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rotopaint_ai.inference.pack import SEAM
from rotopaint_ai.landmarks import metrics
from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training.data.augment import nominal_crop
from rotopaint_ai.training.data.dataset import Dataset, Truth
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet
from rotopaint_ai.training.models.landmarks.validation import HeldOutPredictions
from rotopaint_ai.training.models.prior import selection
from rotopaint_ai.training.models.prior.deformable import fit_head
from rotopaint_ai.training.models.prior.face_prior import FacePrior
from rotopaint_ai.training.models.seam import task as seam_nets
from rotopaint_ai.training.models.seam.task import left_as_predicted, tune
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS, ShapeTraining, choose_guards, warped

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


def rank_correlation(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> float:
    """Spearman's rank correlation of two runs of numbers, pairs with NaN left out; 0 where one does not vary."""
    known = np.isfinite(a) & np.isfinite(b)
    rho = metrics.rank_correlation(a[known], b[known])
    return rho if np.isfinite(rho) else 0.0


Array64 = npt.NDArray[np.float64]
Check = Callable[[], None]

_PRIOR = (
    "error_scale",
    "noise_floor",
    "occlusion_factor",
    "anisotropy",
    "extrapolation",
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
    mirror: tuple[int, ...] | None  # how they were read, and how a pack reads that keeps to this: see `nets.Reader`

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
    candidates = [selection.folds(train.truth.landmarks, held.truth, mirror, joins=joins) for mirror in kinds]
    seen = 1 / (1 + np.exp(-held.visible_logit))
    best = selection.choose_prior(candidates, held.points, error, seen, held.anisotropy, held.truth, held.visible)
    left, points, after = (0.0, 1.0), held.points, held
    if best is not None:
        points, remaining = selection.apply_in_parts(*best, held.points, error, seen, held.anisotropy)
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
    first = seam_nets.seam_net(start)
    tuned = tune(data, first, minutes=seconds / 60, seed=config.seed, check=check)
    net, path = first, start
    if tuned is not None and tuned.is_better:
        net, path = tuned.net, folder / SEAM
        seam_nets.export(net, path)
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
    return warped(truth, copies=config.shape_copies, amount=config.shape_warp, rng=rng)


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
