"""Shapes from landmarks in closed form: the shape model `ridge`; a recipe may name another of `SHAPE_MODELS`.

Each shape uses only its own landmarks (the sheet names them); `shapes.landmark_regression` fits it. Everything between
the two similarity transforms is linear, so all shapes of a sheet become one batched product.
Letters: n samples, L landmarks of the sheet, K shapes, P control points of one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.shapes.landmark_regression import ShapeFit, fit_shape
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.augment import move_points, move_spline
from rotopaint_ai.training.data.dataset import Truth
from rotopaint_ai.training.data.dataset_checks import landmark_rows
from rotopaint_ai.training.data.memory import face_side
from rotopaint_ai.training.registry import Registry

Array64 = npt.NDArray[np.float64]

GUARDS = (1.0, 2.0, 4.0)  # factors on the measured landmark error that a shape may be regularised for
_SPACING_PX = 3.0  # spacing of the curve samples that are compared to choose a guard
GUARD_WORTH = 0.98  # a larger guard must reduce the curve distance to this share


@dataclass(frozen=True, slots=True, eq=False)
class ShapeTraining:
    """The data of a shape model.

    `noise_L`: standard deviation per axis of each landmark's error, as a share of the face (longest side of its box).
    `guards_K`: factor on that error for each shape (None: 1).
    """

    sheet: Sheet
    truth: Truth
    noise_L: Array64
    guards_K: Array64 | None = None
    seed: int = 0


BuildShapes = Callable[[ShapeTraining], nn.Module]  # builds a module with the inputs and outputs of `ShapeGraph`
SHAPE_MODELS: Registry[BuildShapes] = Registry("shape model")


def fit_shapes(
    sheet: Sheet, truth: Truth, *, noise_L: Array64, guards_K: Array64 | None = None
) -> tuple[ShapeFit, ...]:
    """Fit every shape of a sheet on N samples; `noise_L` and `guards_K` as in `ShapeTraining`.

    Raises: TrainingError if a shape is known, together with its landmarks, in fewer than two samples.
    """
    slots = sheet.point_rows()
    sides = face_side(truth.landmarks)
    fits = []
    for index, shape in enumerate(sheet.shapes):
        rows = landmark_rows(sheet, shape)
        landmarks = truth.landmarks[:, rows].astype(np.float64)
        points = truth.points[:, slots[shape.name]].astype(np.float64)
        known = np.isfinite(landmarks).all(axis=(1, 2)) & np.isfinite(points).all(axis=(1, 2))
        if known.sum() < 2:
            raise TrainingError(
                f"shape '{shape.name}': known in {int(known.sum())} training samples together with its landmarks; "
                "wanted 2 or more; key it in more frames or take it out of the sheet"
            )
        width = truth.width[known, index].astype(np.float64)
        width = np.where(np.isfinite(width), width, (shape.width_share or np.nan) * sides[known])
        noise = noise_L[list(rows)] * (1.0 if guards_K is None else guards_K[index])
        fits.append(fit_shape(rows, landmarks[known], points[known], width, noise, sides[known]))
    return tuple(fits)


@SHAPE_MODELS.register("ridge")
def build_ridge(known: ShapeTraining) -> ShapeGraph:
    """The shape model of shipped packs."""
    return ShapeGraph(known.sheet, fit_shapes(known.sheet, known.truth, noise_L=known.noise_L, guards_K=known.guards_K))


def choose_guards(sheet: Sheet, truth: Truth, noise_L: Array64, found_NLC: Array64, held: Truth) -> Array64:
    """The guard [K] of each shape, out of GUARDS, that brings its curves closest to the truth on validation samples.

    `found_NLC`: landmarks detected in validation samples, in the frame of their ground truth. Poses that training did
    not include need more regularisation than noise alone.
    """
    best, least = np.ones(len(sheet.shapes)), np.full(len(sheet.shapes), np.inf)
    if not sheet.shapes or not len(found_NLC):
        return best
    for guard in GUARDS:
        model = build_ridge(ShapeTraining(sheet, truth, noise_L, np.full(len(best), guard)))
        with torch.no_grad():
            points = model(torch.tensor(found_NLC, dtype=torch.float32))[0].double().numpy()
        distance = curve_distances(sheet, points, held)
        closer = distance < least * GUARD_WORTH
        best, least = np.where(closer, guard, best), np.where(closer, distance, least)
    return best


def curve_distances(sheet: Sheet, points: Array64, held: Truth) -> Array64:
    """Mean distance [K] from predicted curves [N, P, 6] to the true ones; infinite if no sample has the shape."""
    slots, means = sheet.point_rows(), []
    for shape in sheet.shapes:
        own, true = points[:, slots[shape.name]], held.points[:, slots[shape.name]].astype(np.float64)
        known = np.isfinite(true).all(axis=(1, 2))
        distances = [
            curve_distance(a, b, shape.closed, spacing=_SPACING_PX)[0] for a, b in zip(own[known], true[known])
        ]
        means.append(float(np.mean(distances)) if distances else np.inf)
    return np.array(means)


def add_warped_copies(truth: Truth, *, copies: int, rng: np.random.Generator, amount: float = 0.06) -> Truth:
    """The samples and `copies` of each, stretched and sheared by up to `amount`: faces of other proportions.

    Source: the augmentation of shapes by warping in "A Learning-Based Approach to Parametric Rotoscoping of Multi-Shape
    Systems" (WACV 2021).
    """
    parts = [truth]
    for _ in range(copies):
        landmarks, points = truth.landmarks.copy(), truth.points.copy()
        for at in range(len(landmarks)):
            matrix = np.eye(3)
            matrix[:2, :2] += rng.uniform(-amount, amount, (2, 2))
            landmarks[at], points[at] = move_points(landmarks[at], matrix), move_spline(points[at], matrix)
        parts.append(Truth(landmarks, truth.visible, points, truth.width))
    return Truth.concatenate(parts)


class ShapeGraph(nn.Module):
    """The exported graph: `landmarks` [N, L, 2] in any similarity frame to `points` [N, P, 6] and `width` [N, K] in it.

    Shapes without a width get 0.
    """

    share: Tensor  # [K, L] weights of the landmarks in each shape's alignment
    mean: Tensor  # [K, L, 2]
    slope: Tensor  # [K, 2 L, 6 most + 1]
    offset: Tensor  # [K, 6 most + 1]
    has_width: Tensor  # [K]
    taken: Tensor  # [P] indices of real points among K times `most`

    def __init__(self, sheet: Sheet, fits: Sequence[ShapeFit]) -> None:
        super().__init__()
        n_landmarks, n_shapes = len(sheet.landmarks), len(fits)
        most = max(shape.n_points for shape in sheet.shapes)
        share = np.zeros((n_shapes, n_landmarks))
        mean = np.zeros((n_shapes, n_landmarks, 2))
        slope = np.zeros((n_shapes, n_landmarks, 2, most * 6 + 1))
        offset = np.zeros((n_shapes, most * 6 + 1))
        for k, fit in enumerate(fits):
            rows, size = list(fit.rows), len(fit.offset)
            share[k, rows], mean[k, rows] = 1 / len(rows), fit.mean
            slope[k, rows, :, :size] = fit.slope.reshape(len(rows), 2, size)
            offset[k, :size] = fit.offset
            slope[k, rows, :, -1] = fit.width_slope.reshape(len(rows), 2)
            offset[k, -1] = max(fit.width_offset, -60.0)  # exp(-60) is no visible width; -inf would give NaN
        self.n_shapes, self.most = n_shapes, most
        self.register_buffer("share", _to_float(share))
        self.register_buffer("mean", _to_float(mean))
        self.register_buffer("slope", _to_float(slope.reshape(n_shapes, n_landmarks * 2, -1)))
        self.register_buffer("offset", _to_float(offset))
        self.register_buffer("has_width", _to_float(np.array([np.isfinite(fit.width_offset) for fit in fits])))
        taken = [k * most + i for k, shape in enumerate(sheet.shapes) for i in range(shape.n_points)]
        self.register_buffer("taken", torch.tensor(taken, dtype=torch.int64))

    def forward(self, landmarks: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2] -> [N, P, 6], [N, K]."""
        centre = torch.matmul(self.share, landmarks)  # [N, K, 2]
        z = landmarks[:, None] - centre[:, :, None]  # [N, K, L, 2]
        x, y, mx, my = z[..., 0], z[..., 1], self.mean[..., 0], self.mean[..., 1]
        size = (self.share * (x * x + y * y)).sum(2).clamp_min(1e-12)
        real = (self.share * (mx * x + my * y)).sum(2) / size
        imag = (self.share * (my * x - mx * y)).sum(2) / size
        r, i = real[..., None], imag[..., None]
        offsets = torch.stack((r * x - i * y, r * y + i * x), 3) - self.mean
        flat = offsets.flatten(2).transpose(0, 1)  # [K, N, 2 L]
        found = self.regress(flat)
        vectors = found[..., :-1].reshape(-1, self.n_shapes, self.most * 3, 2)
        scale = (real * real + imag * imag).clamp_min(1e-12)
        vx, vy, square = vectors[..., 0], vectors[..., 1], scale[..., None]
        back = torch.stack(((r * vx + i * vy) / square, (r * vy - i * vx) / square), 3)
        back = back.reshape(-1, self.n_shapes, self.most, 6)
        place = back[..., :2] + centre[:, :, None]
        points = torch.cat((place, back[..., 2:]), 3).reshape(-1, self.n_shapes * self.most, 6)
        width = torch.exp(found[..., -1].clamp(-60, 20)) / torch.sqrt(scale) * self.has_width
        return points.index_select(1, self.taken), width

    def regress(self, flat: Tensor) -> Tensor:
        """Control points and width [N, K, 6 most + 1] from offsets [K, N, 2 L] of aligned landmarks."""
        return torch.matmul(flat, self.slope).transpose(0, 1) + self.offset


def _to_float(values: npt.NDArray[np.generic]) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float32))
