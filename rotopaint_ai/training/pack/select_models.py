"""Selects calibration, prior, shape guards and seam options of a pack on validation samples.

The prior is selected with models that know as many poses as the shipped one. If training ends on validation samples
too, everything is built twice: from training samples alone, for evaluation, and from all samples, for the shipped pack.
n and N validation samples, L landmarks.
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

from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference.pack import SEAM, SEAM_FEATURES
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.pipeline.head_solve import open_seams
from rotopaint_ai.pipeline.known_head import KnownHead, fit_known_head
from rotopaint_ai.pipeline.shot_seams import STRETCH
from rotopaint_ai.shapes.deformable_head import DeformableModel, fit_head, has_head
from rotopaint_ai.shapes.samples import spline_points
from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training.data.augment import nominal_crop
from rotopaint_ai.training.data.dataset import Dataset, Truth
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.models.backbone import find_part
from rotopaint_ai.training.models.face_prior import FacePrior, PriorSettings
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.net import CropModel, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import HeldOutPredictions
from rotopaint_ai.training.models.seam.task import export_seam, find_seams_to_leave, load_seam_nets, tune_seam_net
from rotopaint_ai.training.models.shape_fit import SHAPE_MODELS, ShapeTraining, add_warped_copies, choose_guards

Array64 = npt.NDArray[np.float64]

WORTH = 0.99  # a prior must reduce the validation error below this share
_CHOICES = {  # values of `PriorSettings` to select from
    "error_scale": (0.3, 0.4, 0.6),
    "noise_floor": (0.001, 0.003, 0.008),
    "occlusion_factor": (3.0, 8.0, 20.0),
    "anisotropy": (0.0, 1.0, 1.5, 2.2),
    "extrapolation": (0.0, 0.01),
    "outlying": (3.0, 30.0),
}
_HIDDEN_WEIGHT = 0.5  # weight of hidden landmarks in that error: shapes depend on them too
_CLEARLY = 0.9  # a later candidate must reduce the error below this share; two trainings differ by a tenth
_FOLDS = 3


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of validation samples, and a deformable model fitted without them."""

    rows: npt.NDArray[np.intp]
    head: DeformableModel


def split_folds(
    train_NLC: npt.NDArray[np.floating],
    val_NLC: npt.NDArray[np.floating],
    mirror: Sequence[int] | None,
    *,
    joins: bool,
) -> tuple[Fold, ...]:
    """Split the validation samples [n, L, 2] into folds, each with a deformable model fitted to the other samples.

    A fold's model is fitted to the training samples [N, L, 2] and, if `joins`, to the other folds. The shipped model
    also knows the validation poses; a prior selected with a model that lacks them would be too weak. Empty if the
    training samples alone are too few, because the evaluated pack is built from them. `mirror` as in `fit_head`.
    """
    if not has_head(train_NLC, mirror):
        return ()
    whole = np.arange(len(val_NLC))
    runs = np.array_split(whole, min(_FOLDS, len(val_NLC))) if joins else [whole]

    def head_without(rows: npt.NDArray[np.intp]) -> DeformableModel | None:
        return fit_head(np.concatenate([train_NLC, np.delete(val_NLC, rows, axis=0)]), mirror)

    with ThreadPoolExecutor(n_cores()) as pool:  # numpy releases the GIL
        heads = list(pool.map(head_without, runs))
    found = tuple(Fold(rows, head) for rows, head in zip(runs, heads) if head is not None)
    return found if len(found) == len(runs) else ()


class Choice(NamedTuple):
    """A prior, and the folds that it was selected on."""

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
    """The prior that brings validation landmarks [n, L, 2] closest to the truth; hidden ones count half.

    `candidates`: folds with and without mirrored faces (mirroring doubles the poses, but misleads for very lopsided
    heads). The first candidate wins unless a later one is clearly better. `error` [n, L]: expected errors. `seen` [n,
    L]: probabilities. `anisotropy` [n, L, 2]: of the errors. `visible` [n, L]: ground truth. Returns None if no prior
    reduces the error enough.
    """
    weight = np.isfinite(truth).all(axis=2) * np.where(visible > 0.5, 1.0, _HIDDEN_WEIGHT)
    if not weight.any():
        return None
    read = points, error, seen, anisotropy
    best, least = None, WORTH * _mean_distance(points, truth, weight)
    for parts in filter(None, candidates):

        def distance(settings: PriorSettings, parts: Sequence[Fold] = parts) -> float:
            prior = FacePrior(parts[0].head, settings)
            return _mean_distance(apply_prior_by_fold(prior, parts, *read)[0], truth, weight)

        start = PriorSettings(**{name: values[len(values) // 2] for name, values in _CHOICES.items()})
        settings, found = _coordinate_descent(start, distance)
        if found < least * (1.0 if best is None else _CLEARLY):
            best, least = Choice(FacePrior(parts[0].head, settings), parts), found
    return best


def _coordinate_descent(
    start: PriorSettings, distance: Callable[[PriorSettings], float]
) -> tuple[PriorSettings, float]:
    """Coordinate descent over _CHOICES: settings that no single change improves, and their distance."""
    best, least = start, distance(start)
    is_better = True
    while is_better:
        is_better = False
        for name, value in ((name, value) for name, values in _CHOICES.items() for value in values):
            other = best._replace(**{name: value})
            if other != best and (found := distance(other)) < least:
                best, least, is_better = other, found, True
    return best, least


def apply_prior_by_fold(
    prior: FacePrior, parts: Sequence[Fold], points: npt.NDArray[np.floating], *rest: npt.NDArray[np.floating]
) -> tuple[Array64, Array64]:
    """As `apply_prior`, each fold with its own model."""
    found, left = np.empty(points.shape), np.empty(points.shape[:2])
    for part in parts:
        own = (each[part.rows] for each in (points, *rest))
        found[part.rows], left[part.rows] = apply_prior(prior.on(part.head), *own)
    return found, left


def apply_prior(
    prior: FacePrior,
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    anisotropy: npt.NDArray[np.floating],
) -> tuple[Array64, Array64]:
    """Landmarks [n, L, 2] and errors [n, L] after a prior."""
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
    """`a`, `b` such that exp(a + b log_scale) is the expected distance, by maximum likelihood.

    The distances are exponentially distributed given `log_scale`; Newton's method on two parameters. The distribution's
    heavy tail limits the effect of outliers. NaN distances are left out; (0, 1) if few are left.
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


@dataclass(frozen=True, slots=True)
class SelectedModels:
    """The selection on validation samples.

    `calibration`, `left`: of expected errors without and with the prior. `prior`: None if none is worth it. `noise_L`:
    each landmark's error after the prior, as a share of the face. `guards_K`: each shape's factor on that error.
    """

    calibration: tuple[float, float]
    prior: FacePrior | None
    left: tuple[float, float]
    noise_L: Array64
    guards_K: Array64
    places: Array64  # [N, L, 2] detected in the pictures of the validation samples
    # mirrored landmark order if predictions average a mirrored pass (`net.Reader`), as the pack will do
    mirror: tuple[int, ...] | None

    def facts(self, sheet: Sheet) -> dict[str, Any]:
        """The selection, for the card."""
        prior = self.prior
        return {
            "prior": None if prior is None else {**prior.settings._asdict(), "mirrored": prior.mirrored},
            "shape_guards": dict(zip(sheet.shape_names, self.guards_K.tolist())),
        }


def select_models(
    config: PackConfig,
    train: Dataset,
    whole_faces: Dataset,
    held: HeldOutPredictions,
    held_memory: Memory,
    reads: tuple[int, ...] | None,
) -> SelectedModels:
    """Select on validation samples, which were predicted as `reads` says, for models of the training samples.

    `whole_faces`: those samples for the fit of shapes.
    """
    calibration = calibrate(held.distance.ravel(), held.log_scale.ravel())
    error = np.exp(calibration[0] + calibration[1] * held.log_scale)
    kinds = (mirror_permutation(train.sheet), None) if config.prior else ()
    joins = config.learn_all > 0
    candidates = [split_folds(train.truth.landmarks, held.truth, mirror, joins=joins) for mirror in kinds]
    seen = 1 / (1 + np.exp(-held.visible_logit))
    best = choose_prior(candidates, held.points, error, seen, held.anisotropy, held.truth, held.visible)
    left, points, after = (0.0, 1.0), held.points, held
    if best is not None:
        points, remaining = apply_prior_by_fold(*best, held.points, error, seen, held.anisotropy)
        after = held._replace(points=points, distance=np.linalg.norm(points - held.truth, axis=2))
        left = calibrate(after.distance.ravel(), np.log(remaining).ravel())
    noise = landmark_noise(after)
    if config.shape_noise is not None:
        noise = np.full(len(train.sheet.landmarks), config.shape_noise)
    places = _to_pictures(points, held_memory, config)
    guards = choose_guards(train.sheet, _add_recipe_copies(config, whole_faces.truth), noise, places, held_memory.truth)
    return SelectedModels(calibration, best and best.prior, left, noise, guards, places, reads)


@dataclass(frozen=True, slots=True)
class SeamSelection:
    """The files of a pack's seam networks, the seams that they must not move, and tuning facts for the card."""

    files: tuple[Path, ...]
    still: tuple[str, ...]
    facts: dict[str, Any]


def find_seam_files(init: str | Path | None) -> tuple[Path, ...]:
    """The files of the initial pack's seam networks, `seam.onnx` first; none without that."""
    found = [find_part(init, name) for name in (SEAM, SEAM_FEATURES)]
    return tuple(filter(None, found)) if found[0] else ()


def has_seams_to_tune(config: PackConfig, data: Dataset, start: Sequence[Path]) -> bool:
    """Whether there are seam networks to start from, time for tuning, and open seams to tune them on."""
    has_seams = any(shape.role == "seam" and not shape.closed for shape in data.sheet.shapes)
    return bool(start) and config.seam_minutes > 0 and has_seams


def tune_seams(
    config: PackConfig,
    data: Dataset,
    whole_faces: Dataset,
    chosen: SelectedModels,
    memory: Memory,
    start: tuple[Path, ...],
    folder: Path,
    seconds: float,
    check: Check,
) -> SeamSelection:
    """Tune the initial seam networks to this character for `seconds`; keep the result if it helps on validation
    samples.

    `whole_faces`: the training samples for the fit of shapes. `start`: the files of the networks.
    """
    if not has_seams_to_tune(config, data, start):
        return SeamSelection(start, (), {})
    first = load_seam_nets(start[0])
    tuned = tune_seam_net(data, first, minutes=seconds / 60, seed=config.seed, check=check)
    net, files = first, start
    if tuned is not None and tuned.is_better:
        net, files = tuned.net, tuple(folder / path.name for path in start)
        export_seam(net, files[0])
    model = build_shape_model(config, chosen, whole_faces)
    assert model is not None  # there are seams, so there are shapes
    with torch.no_grad():
        points = model(torch.tensor(chosen.places, dtype=torch.float32))[0].double().numpy()
    held = data.subset(data.rows_of("val"))
    held = replace(held, truth=memory.truth)
    still = find_seams_to_leave(held, memory.pictures, chosen.places, points, chosen.noise_L, net)
    facts = {} if tuned is None else {"steps": tuned.steps, "miss_before": tuned.before, "miss_after": tuned.after}
    return SeamSelection(files, still, facts)


def build_crop_model(net: LandmarkNet, chosen: SelectedModels, data: Dataset) -> CropModel:
    """The landmark model of a pack, with the prior's deformable model fitted to `data`."""
    if chosen.prior is None:
        return CropModel(net, chosen.calibration, mirror=chosen.mirror)
    head = fit_head(data.truth.landmarks, mirror_permutation(data.sheet) if chosen.prior.mirrored else None)
    assert head is not None  # fewer samples were enough for one
    return CropModel(net, chosen.calibration, chosen.prior.on(head), chosen.left, chosen.mirror)


def build_shape_model(config: PackConfig, chosen: SelectedModels, data: Dataset) -> nn.Module | None:
    """The shape model of a pack, fitted to `data` (whole faces); None for a sheet without shapes."""
    if not data.sheet.shapes:
        return None
    truth = _add_recipe_copies(config, data.truth)
    return SHAPE_MODELS[config.shape_model](
        ShapeTraining(data.sheet, truth, chosen.noise_L, chosen.guards_K, config.seed)
    ).eval()


def find_known_head(data: Dataset, whole_faces: Dataset) -> KnownHead | None:
    """The rigid head of a data set's character; None for several, and where `fit_known_head` finds none. Samples
    without a character's name count as one.

    `whole_faces`: the same samples with inferred landmarks.
    """
    sheet, truth, slots = data.sheet, data.truth, data.sheet.point_rows()
    seams = [slots[spec.name] for spec in open_seams(sheet)]
    if len({sample.character for sample in data.samples}) != 1 or not seams:
        return None
    usable = np.isfinite(whole_faces.truth.landmarks).all(axis=(1, 2))
    usable &= np.isfinite(truth.points[:, np.r_[*seams]]).all(axis=(1, 2))
    if not usable.any():
        return None
    poses = np.unique(np.nan_to_num(truth.landmarks[usable]), axis=0, return_index=True)[1]
    rows = np.array(evenly_spread(np.flatnonzero(usable)[np.sort(poses)].tolist(), STRETCH), np.intp)
    marks = whole_faces.truth.landmarks[rows].astype(np.float64) @ np.array([1, 1j])
    points = truth.points[rows].astype(np.float64)
    splines = {s.name: np.array([spline_points(each) for each in points[:, slots[s.name]]]) for s in open_seams(sheet)}
    is_keyed = np.asarray(np.isfinite(truth.landmarks[rows]).all(axis=2))
    return fit_known_head(sheet, marks, is_keyed, splines)


def _add_recipe_copies(config: PackConfig, truth: Truth) -> Truth:
    rng = np.random.default_rng(config.seed)
    return add_warped_copies(truth, copies=config.shape_copies, rng=rng)


def landmark_noise(held: HeldOutPredictions) -> Array64:
    """Each landmark's error per axis as a share of the face, from validation samples.

    Outliers are capped, and landmarks with few samples are shrunk towards the mean of all landmarks.
    """
    share = held.distance / held.face[:, None]
    cap = 4 * np.nanmedian(share)
    squares = np.minimum(share, cap) ** 2 / 2
    overall = float(np.nanmean(squares))
    known = np.isfinite(squares)
    sums, counts = np.where(known, squares, 0).sum(axis=0), known.sum(axis=0)
    return cast(Array64, np.sqrt((sums + 20 * overall) / (counts + 20)))


def _to_pictures(points: Array64, memory: Memory, config: PackConfig) -> Array64:
    """Landmarks of nominal crops in the pixels of their pictures."""
    crops = np.array([nominal_crop(landmarks, config.crop_margin) for landmarks in memory.truth.landmarks])
    corner = crops[:, :2] - crops[:, 2:] / 2
    return points * (crops[:, 2:] / config.input_size)[:, None] + corner[:, None]
