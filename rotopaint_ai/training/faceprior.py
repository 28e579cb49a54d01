"""What a character's landmarks can do together: found landmarks drawn towards it, by how sure each of them is.

Each row of a face, its landmarks' x or their y, is a mixture of few basis rows: a turning, tilting head moves every
landmark that is fixed on it in step, and expressions add a handful more (non-rigid factorisation). The basis comes from
the keyed frames alone. A chin that nothing on smooth skin marks is so told by eyes and mouth, which are seen to within
a pixel; one that is sure of itself stays where it is. A landmark that contradicts all others counts less, and so does
a hidden one: the far side of a turned head is told by the near one.

Source: Bregler, Hertzmann & Biermann, "Recovering non-rigid 3D shape from image streams" (2000), as a Gaussian prior
whose posterior is taken (Tipping & Bishop 1999); matrices are inverted by sweeps (Goodnight 1979), which need no more
than a graph of sums and products.

Letters: n samples, N batch, L landmarks, K basis rows. Rows are in units of the face: the root mean square distance of
its landmarks from their mean is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Array64 = npt.NDArray[np.float64]

MOST_MODES = 32
MOST_SAMPLES = 1500  # evenly spread; more say nothing new of what faces can do
FEWEST_SAMPLES = 12  # below, nobody knows what a face can do
BELIEFS = (0.2, 0.35, 0.5, 0.7)  # how much of its expected error is a landmark's own, which the others can mend
RESIDUALS = (0.003, 0.006, 0.012)  # what the basis leaves unexplained, in units of the face
SLANTS = (0.0, 1.0, 1.5, 2.2)  # how much of the slant that errors were seen to have is believed
WORTH = 0.99  # a prior has to bring the held-out error below this share
HIDDEN = (3.0, 8.0, 20.0)  # how much more than its expected error a landmark that is surely hidden may be off
_CHOICES = {"belief": BELIEFS, "residual": RESIDUALS, "hidden": HIDDEN, "slant": SLANTS}
_HIDDEN_WEIGHT = 0.5  # of hidden landmarks in the error that a prior is chosen by: shapes hang on them too
_DOUBTED = 2.0  # deviations from the others at which a landmark counts half
_MOST_SLANT = 3.5  # logarithm of the ratio of the longer to the shorter deviation
_FOLDS = 3
_FILLING_ROUNDS = 8
_LEAST_NOISE = 1e-3


@dataclass(frozen=True, slots=True)
class Basis:
    """Rows that mix to a face: `modes` [K, L] scaled by their deviations, the last one moving the whole face.

    `mirrored`: mirrored faces are among those that they are from."""

    modes: Array64
    mirrored: bool

    @property
    def n_landmarks(self) -> int:
        """L."""
        return int(self.modes.shape[1])


def fit_basis(landmarks_NLC: npt.NDArray[np.floating], mirror: Sequence[int] | None) -> Basis | None:
    """The basis of a character from its keyed frames [n, L, 2], and from mirrored ones where `mirror` says how; NaN
    where unknown.

    None with too few frames, and without mirrored ones where a landmark is never keyed: its twin alone tells of it.
    """
    known = np.isfinite(landmarks_NLC).all(axis=2)
    usable = known.mean(axis=1) > 0.5
    if mirror is None and not known[usable].any(axis=0).all():
        return None
    faces = landmarks_NLC[usable][:: max(1, -(-int(usable.sum()) // MOST_SAMPLES))].astype(np.float64)
    if len(faces) < FEWEST_SAMPLES or faces.shape[1] < 6:
        return None
    faces = faces - np.nanmean(faces, axis=1, keepdims=True)
    faces = faces / np.sqrt(np.nanmean((faces**2).sum(axis=2), axis=1))[:, None, None]
    shown = faces if mirror is None else np.concatenate([faces, faces[:, list(mirror)] * np.array([-1.0, 1.0])])
    rows = _filled(shown.transpose(0, 2, 1).reshape(-1, faces.shape[1]))
    rows = rows - rows.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    n_modes = min(MOST_MODES, len(values) - 2, max(2, len(faces) // 2))
    modes = (vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0)))[:, :n_modes].T
    return Basis(np.concatenate([modes, np.ones((1, modes.shape[1]))]), mirror is not None)


def _filled(rows: Array64) -> Array64:
    """Rows whose unknown places are told by their known ones, from the rows' own covariance."""
    known = np.isfinite(rows)
    if known.all():
        return rows
    means = np.where(known.any(axis=0), np.nanmean(np.where(known.any(axis=0), rows, 0.0), axis=0), 0.0)
    filled = np.where(known, rows, means)
    for _ in range(_FILLING_ROUNDS):
        covariance = filled.T @ filled / len(filled) + np.eye(rows.shape[1]) * 1e-5
        for at in np.flatnonzero(~known.all(axis=1)):
            have, lack = known[at], ~known[at]
            solved = np.linalg.solve(covariance[np.ix_(have, have)], rows[at, have])
            filled[at, lack] = covariance[np.ix_(lack, have)] @ solved
    return filled


class FacePrior(nn.Module):
    """Draws landmarks [N, L, 2] with their expected errors [N, L], both in one unit, the probability [N, L] that each
    is seen, and the slants [N, L, 2] of those errors (`nets.slant_of`) towards the basis.

    Gives the landmarks, and the errors that are left [N, L] as deviations per axis of the posterior. A point on an edge
    errs along it more than across it, so it is drawn along the edge, which no picture tells, more than off it.
    """

    modes: Tensor  # [K, L]
    usual: Tensor  # [L, L] what all others say of each landmark when all are as sure as they usually are
    noise: Tensor  # [L] those usual deviations

    def __init__(
        self,
        basis: Basis,
        noise_L: Array64,
        *,
        belief: float,
        residual: float,
        hidden: float = HIDDEN[0],
        slant: float = SLANTS[0],
    ) -> None:
        """`noise_L`: usual expected errors in units of the face; `belief`, `residual`, `hidden`, `slant`: one each of
        BELIEFS, RESIDUALS, HIDDEN and SLANTS."""
        super().__init__()
        self.noise_L, self.belief, self.residual, self.hidden = noise_L, belief, residual, hidden
        self.slant, self.mirrored = slant, basis.mirrored
        spread = np.maximum(belief * noise_L, _LEAST_NOISE)
        covariance = basis.modes.T @ basis.modes + residual**2 * np.eye(basis.n_landmarks)
        usual = covariance @ np.linalg.inv(covariance + np.diag(spread**2))
        for name, value in (("modes", basis.modes), ("usual", usual), ("noise", spread)):
            self.register_buffer(name, torch.tensor(np.asarray(value, np.float64)))

    def on(self, basis: Basis) -> FacePrior:
        """The same beliefs on another basis."""
        return FacePrior(
            basis, self.noise_L, belief=self.belief, residual=self.residual, hidden=self.hidden, slant=self.slant
        )

    def forward(self, points: Tensor, error: Tensor, seen: Tensor, slant: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2], [N, L], [N, L], [N, L, 2] -> [N, L, 2], [N, L]."""
        points, error, seen = points.double(), error.double(), seen.double()  # two machines' floats would drift apart
        error = error * (1 + self.hidden * (1 - seen))
        weight = 1 / (error * error)
        centre = (points * weight[..., None]).sum(1, keepdim=True) / weight.sum(1)[:, None, None]
        away = points - centre
        size = torch.sqrt((away * away).sum(2).mean(1)).clamp_min(1e-6)[:, None]
        rows = away / size[..., None]
        doubt = (rows - torch.matmul(self.usual, rows)).square().sum(2) / (_DOUBTED * self.noise) ** 2
        noise = (self.belief * error / size).clamp_min(_LEAST_NOISE) ** 2 * (1 + doubt)
        spread = _spread(noise, self.slant * slant.double()) if self.slant else _even(noise)
        drawn, left = self._drawn(rows, spread)
        return (drawn * size[..., None] + centre).float(), (left * size).float()

    def _drawn(self, rows: Tensor, noise: _Symmetric) -> tuple[Tensor, Tensor]:
        """Posterior mean [N, L, 2] and deviation per axis [N, L] of rows [N, L, 2] that have some noise."""
        base = self.residual**2
        sure = noise.plus(base).inverse()  # of what the basis does not explain
        n_modes, eye = len(self.modes), torch.eye(2 * len(self.modes), dtype=torch.float64)
        xx, xy, yy = (torch.matmul(self.modes * part[:, None], self.modes.T) for part in sure)
        inside = torch.cat((torch.cat((xx, xy), 2), torch.cat((xy, yy), 2)), 1) + eye
        inverse = swept(inside, 2 * n_modes)
        asked = torch.matmul(self.modes, sure.times(rows)).transpose(1, 2).flatten(1)  # [N, 2 K]
        mixed = torch.matmul(inverse, asked[..., None]).view(-1, 2, n_modes)
        modelled = torch.matmul(mixed, self.modes).transpose(1, 2)
        drawn = modelled + base * sure.times(rows - modelled)
        corner = slice(None, n_modes), slice(n_modes, None)
        told = _Symmetric(*(self._diagonal(inverse[:, i, j]) for i, j in (corner[:1] * 2, corner, corner[1:] * 2)))
        left = (base - base**2 * sure.trace / 2) + noise.within(sure, told) / 2
        return drawn, torch.sqrt(left.clamp_min(0))

    def _diagonal(self, block: Tensor) -> Tensor:
        """Diagonal [N, L] of a block [N, K, K] of the modes' covariance, seen at the landmarks."""
        return (torch.matmul(block, self.modes) * self.modes).sum(1)


class _Symmetric(NamedTuple):
    """Symmetric 2 x 2 matrices, each entry [N, L]."""

    xx: Tensor
    xy: Tensor
    yy: Tensor

    @property
    def trace(self) -> Tensor:
        return self.xx + self.yy

    def plus(self, variance: float) -> _Symmetric:
        """With a variance added to both axes."""
        return _Symmetric(self.xx + variance, self.xy, self.yy + variance)

    def inverse(self) -> _Symmetric:
        over = 1 / (self.xx * self.yy - self.xy * self.xy)
        return _Symmetric(self.yy * over, -self.xy * over, self.xx * over)

    def times(self, rows: Tensor) -> Tensor:
        """Products with vectors [N, L, 2]."""
        x, y = rows[..., 0], rows[..., 1]
        return torch.stack((self.xx * x + self.xy * y, self.xy * x + self.yy * y), 2)

    def within(self, sure: _Symmetric, told: _Symmetric) -> Tensor:
        """Trace [N, L] of (N S) T (N S)^T, N being this, S `sure` and T `told`."""
        a, b = self.xx * sure.xx + self.xy * sure.xy, self.xx * sure.xy + self.xy * sure.yy
        c, d = self.xy * sure.xx + self.yy * sure.xy, self.xy * sure.xy + self.yy * sure.yy
        first = a * a * told.xx + 2 * a * b * told.xy + b * b * told.yy
        return first + c * c * told.xx + 2 * c * d * told.xy + d * d * told.yy


def _even(variance: Tensor) -> _Symmetric:
    """Variances [N, L] that lean nowhere; onnxruntime makes no number of a slant that is nought."""
    return _Symmetric(variance, torch.zeros_like(variance), variance)


def _spread(variance: Tensor, slant: Tensor) -> _Symmetric:
    """Variances [N, L] made to lean as slants [N, L, 2] say: variance times the exponential of [[a, b], [b, -a]]."""
    length = torch.sqrt((slant * slant).sum(2) + 1e-9)
    capped = length.clamp(max=_MOST_SLANT)
    even = (torch.exp(capped) + torch.exp(-capped)) / 2
    along = (torch.exp(capped) - torch.exp(-capped)) / 2 / length
    a, b = slant[..., 0] * along, slant[..., 1] * along
    return _Symmetric(variance * (even + a), variance * b, variance * (even - a))


def swept(matrix: Tensor, n: int) -> Tensor:
    """Inverse of symmetric positive definite matrices [N, n, n], pivot by pivot, all pivots brought to 1 before."""
    eye = torch.eye(n, dtype=matrix.dtype)
    scale = torch.rsqrt((matrix * eye).sum(2))
    scale = scale[:, :, None] * scale[:, None]
    matrix = matrix * scale
    for at in range(n):
        unit = eye[at]
        column = matrix[:, :, at]
        away = column - unit
        scaled = away / column[:, at : at + 1]
        matrix = matrix - away[:, :, None] * scaled[:, None, :] - 2 * unit[:, None] * unit
    return -matrix * scale


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of held-out samples, and a basis from samples among which they are not."""

    rows: npt.NDArray[np.intp]
    basis: Basis


def folds(
    learn_NLC: npt.NDArray[np.floating],
    held_NLC: npt.NDArray[np.floating],
    mirror: Sequence[int] | None,
    *,
    joins: bool,
) -> tuple[Fold, ...]:
    """The held-out samples [n, L, 2] in runs, each with a basis from the keyed frames [N, L, 2] and, where held-out
    samples join those in the end, from the other runs; none where the keyed frames alone are too few: the pack that is
    judged is made of no others.

    What ships knows the held-out poses too. A prior that is chosen by a basis without them believes too little in it.
    `mirror` as in `fit_basis`.
    """
    alone, whole = fit_basis(learn_NLC, mirror), np.arange(len(held_NLC))
    if alone is None:
        return ()
    if not joins:
        return (Fold(whole, alone),)
    found = []
    for rows in np.array_split(whole, min(_FOLDS, len(held_NLC))):
        basis = fit_basis(np.concatenate([learn_NLC, np.delete(held_NLC, rows, axis=0)]), mirror)
        if basis is None:
            return ()
        found.append(Fold(rows, basis))
    return tuple(found)


class Choice(NamedTuple):
    """A prior, and the parts on whose bases it was chosen."""

    prior: FacePrior
    parts: Sequence[Fold]


def choose_prior(
    candidates: Iterable[Sequence[Fold]],
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    slant: npt.NDArray[np.floating],
    truth: npt.NDArray[np.floating],
    visible: npt.NDArray[np.floating],
) -> Choice | None:
    """The prior that brings held-out landmarks [n, L, 2] closest to the truth, hidden ones counting half.

    `candidates`: the parts on one kind of bases, and on another (with mirrored faces, and without: those of a lopsided
    head are another's); of equals the first. `error` [n, L]: expected errors; `seen` [n, L]: probabilities; `slant`
    [n, L, 2]: of the errors; `visible` [n, L]: the truth about it. None where none does so by a worthwhile share.
    """
    weight = np.isfinite(truth).all(axis=2) * np.where(visible > 0.5, 1.0, _HIDDEN_WEIGHT)
    if not weight.any():
        return None
    size = np.sqrt(((points - points.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1))[:, None]
    usual = np.median(error / np.maximum(size, 1e-6), axis=0)
    best, least = None, WORTH * _mean_distance(points, truth, weight)
    for parts in filter(None, candidates):

        def distance(beliefs: dict[str, float], parts: Sequence[Fold] = parts) -> float:
            prior = FacePrior(parts[0].basis, usual, **beliefs)
            return _mean_distance(apply_in_parts(prior, parts, points, error, seen, slant)[0], truth, weight)

        beliefs, found = _descended({name: values[len(values) // 2] for name, values in _CHOICES.items()}, distance)
        if found < least:
            best, least = Choice(FacePrior(parts[0].basis, usual, **beliefs), parts), found
    return best


def _descended(
    start: dict[str, float], distance: Callable[[dict[str, float]], float]
) -> tuple[dict[str, float], float]:
    """The beliefs, of all _CHOICES, from which no single change brings the distance down, and that distance."""
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
    slant: npt.NDArray[np.floating],
) -> tuple[Array64, Array64]:
    """As `apply`, each part of the samples on its own basis."""
    found, left = np.empty(points.shape), np.empty(error.shape)
    for part in parts:
        rows = part.rows
        found[rows], left[rows] = apply(prior.on(part.basis), points[rows], error[rows], seen[rows], slant[rows])
    return found, left


def apply(
    prior: FacePrior,
    points: npt.NDArray[np.floating],
    error: npt.NDArray[np.floating],
    seen: npt.NDArray[np.floating],
    slant: npt.NDArray[np.floating],
) -> tuple[Array64, Array64]:
    """Landmarks [n, L, 2] and errors [n, L] through a prior."""
    given = (torch.tensor(np.asarray(part, np.float32)) for part in (points, error, seen, slant))
    with torch.no_grad():
        found, left = prior(*given)
    return cast(Array64, found.double().numpy()), cast(Array64, left.double().numpy())


def _mean_distance(points: npt.NDArray[np.floating], truth: npt.NDArray[np.floating], weight: Array64) -> float:
    distance = np.where(weight > 0, np.linalg.norm(points - truth, axis=2), 0.0)
    return float((distance * weight).sum() / weight.sum())
