"""From trained networks to the models of a pack: calibration, the face's prior, shapes, as held-out samples choose.

What was chosen is made twice where held-out samples are learned from at last: from the training samples alone, to be
judged, and from all of them, to be shipped.

N held-out samples, L landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training import faceprior
from rotopaint_ai.training.augment import nominal_crop
from rotopaint_ai.training.calibrate import calibrate
from rotopaint_ai.training.dataset import Dataset, Memory, Truth
from rotopaint_ai.training.held_out import Held
from rotopaint_ai.training.nets import CropModel, LandmarkNet
from rotopaint_ai.training.recipe import Recipe
from rotopaint_ai.training.shapefit import ShapeModel, choose_guards, fit_shapes, warped

Array64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What held-out samples said: the calibrations of expected errors, the prior if one is worth it, how far off each
    landmark is then (share of the face, [L]), and how much more careful than that each shape has to be ([K])."""

    calibration: tuple[float, float]
    prior: faceprior.FacePrior | None
    left: tuple[float, float]
    noise_L: Array64
    guards_K: Array64
    points: Array64  # [N, L, 2] of the held-out samples, crop pixels

    def facts(self, sheet: Sheet) -> dict[str, Any]:
        """What was chosen, for the card."""
        prior = self.prior
        return {
            "prior": None if prior is None else {"belief": prior.belief, "residual": prior.residual},
            "shape_guards": dict(zip(sheet.shape_names, self.guards_K.tolist())),
        }


def choose(recipe: Recipe, learn: Dataset, held: Held, held_memory: Memory) -> Chosen:
    """Choose on the held-out samples what the training samples give."""
    calibration = calibrate(held.distance.ravel(), held.log_scale.ravel())
    error = np.exp(calibration[0] + calibration[1] * held.log_scale)
    basis = faceprior.fit_basis(learn.truth.landmarks, mirror_permutation(learn.sheet)) if recipe.prior else None
    prior = faceprior.choose_prior(basis, held.points, error, held.truth, held.visible)
    left, points, after = (0.0, 1.0), held.points, held
    if prior is not None:
        points, remaining = faceprior.apply(prior, held.points, error)
        after = held._replace(points=points, distance=np.linalg.norm(points - held.truth, axis=2))
        left = calibrate(after.distance.ravel(), np.log(remaining).ravel())
    noise = landmark_noise(after)
    if recipe.shape_noise is not None:
        noise = np.full(len(learn.sheet.landmarks), recipe.shape_noise)
    places = _in_pictures(points, held_memory, recipe)
    guards = choose_guards(learn.sheet, _more(recipe, learn.truth), noise, places, held_memory.truth)
    return Chosen(calibration, prior, left, noise, guards, points)


def crop_model(net: LandmarkNet, chosen: Chosen, data: Dataset) -> CropModel:
    """The landmark model of a pack, its prior from the samples of `data`."""
    if chosen.prior is None:
        return CropModel(net, chosen.calibration)
    basis = faceprior.fit_basis(data.truth.landmarks, mirror_permutation(data.sheet))
    assert basis is not None  # there was one with fewer samples
    return CropModel(net, chosen.calibration, chosen.prior.on(basis), chosen.left)


def shape_model(recipe: Recipe, chosen: Chosen, data: Dataset) -> ShapeModel | None:
    """The shape model of a pack, from the samples of `data`; None for a sheet without shapes."""
    if not data.sheet.shapes:
        return None
    fits = fit_shapes(data.sheet, _more(recipe, data.truth), noise_L=chosen.noise_L, guards_K=chosen.guards_K)
    return ShapeModel(data.sheet, fits)


def _more(recipe: Recipe, truth: Truth) -> Truth:
    rng = np.random.default_rng(recipe.seed)
    return warped(truth, copies=recipe.shape_copies, amount=recipe.shape_warp, rng=rng)


def landmark_noise(held: Held) -> Array64:
    """Each landmark's error per axis as a share of the face, from held-out samples; wild misses are capped, and few
    samples are drawn towards the mean of all landmarks."""
    share = held.distance / held.face[:, None]
    cap = 4 * np.nanmedian(share)
    squares = np.minimum(share, cap) ** 2 / 2
    overall = float(np.nanmean(squares))
    known = np.isfinite(squares)
    sums, counts = np.where(known, squares, 0).sum(axis=0), known.sum(axis=0)
    return cast(Array64, np.sqrt((sums + 20 * overall) / (counts + 20)))


def _in_pictures(points: Array64, memory: Memory, recipe: Recipe) -> Array64:
    """Landmarks of straight crops in the pixels of their pictures."""
    crops = np.array([nominal_crop(landmarks, recipe.crop_margin) for landmarks in memory.truth.landmarks])
    corner = crops[:, :2] - crops[:, 2:] / 2
    return points * (crops[:, 2:] / recipe.input_size)[:, None] + corner[:, None]
