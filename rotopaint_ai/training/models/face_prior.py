"""A Gaussian prior of a character's face: detected landmarks are moved towards it according to their expected errors.

The prior is a deformable 3D model (mean shape and modes) estimated from the keyed frames alone (`deformable_head`). A
detected face is the posterior of pose and mode coefficients, given the landmarks and their expected errors. A chin on
smooth skin, where no picture edge marks it, is thus located by eyes and mouth; a landmark with a small expected error
barely moves. Landmarks that contradict the others get less weight, and so do occluded ones: the far side of a turned
head follows from the near side.
Source: Torresani, Hertzmann & Bregler, "Nonrigid structure-from-motion" (2008), for one new frame: Gauss-Newton steps
on pose and coefficients together (Tipping & Bishop 1999 for the posterior).
Letters: n samples, N batch, L landmarks, K modes, P = K + 6 parameters of a face (coefficients, rotation about x, y and
z, log scale, translation). Coordinates are in units of the face: the root mean square distance of its landmarks from
their mean is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.shapes.deformable_head import DeformableModel

_MOST_ANISOTROPY = 3.5  # logarithm of the ratio of the longer to the shorter standard deviation
_LEAST_NOISE = 1e-3
_LOOSE = 1e-3  # prior precision of rotation, scale and translation: almost uninformative
_LONGEST_STEP = 0.5  # radians, or logarithm of scale, per step: wild landmarks must not overturn the head
_VIEW = 6  # parameters of a pose: rotation, scale, translation


class PriorSettings(NamedTuple):
    """How a prior weighs landmarks against the model; selected on validation samples."""

    error_scale: float  # share of the expected error that is independent noise, which other landmarks can correct
    noise_floor: float  # residual of the model on new frames, in units of the face
    occlusion_factor: float = 3.0  # expected error of an occluded landmark grows by this many times itself
    anisotropy: float = 0.0  # factor applied to the anisotropy measured in the errors
    extrapolation: float = 0.0  # share of the rotation added to it: networks underestimate unusual rotations
    outlying: float = 3.0  # deviation from the model, in expected errors, at which a landmark's weight is halved


class _Face(NamedTuple):
    """Parameters of a face: coefficients [N, K], rotation [N, 3, 3], scale [N], translation [N, 2]."""

    coefficients: Tensor
    rotation: Tensor
    size: Tensor
    translation: Tensor


class FacePrior(nn.Module):
    """Moves landmarks towards the deformable model.

    Takes landmarks [N, L, 2], their expected errors [N, L] in the same unit, the probability [N, L] that each is
    visible, and the anisotropy [N, L, 2] of those errors (`net.anisotropy_of`). Returns landmarks [N, L, 2] and their
    posterior standard deviation per axis [N, L]. A point on an edge is uncertain along it, so it moves along the edge
    more than across it.
    """

    places: Tensor  # [L, 3] mean shape
    motions: Tensor  # [K * L, 3]
    base: Tensor  # [L] residual variance per axis
    prior_precision: Tensor  # [P] prior precision of the parameters

    def __init__(self, head: DeformableModel, settings: PriorSettings) -> None:
        super().__init__()
        self.settings = settings
        self.mirrored, self.n_motions = head.mirrored, len(head.modes)
        for name, value in (
            ("places", head.places),
            ("motions", head.modes.reshape(-1, 3)),
            ("base", head.unexplained + settings.noise_floor**2),
            ("prior_precision", [1.0] * self.n_motions + [_LOOSE] * _VIEW),
        ):
            self.register_buffer(name, torch.tensor(np.asarray(value, np.float64)))

    def on(self, head: DeformableModel) -> FacePrior:
        """The same settings with another model."""
        return FacePrior(head, self.settings)

    def forward(self, points: Tensor, error: Tensor, seen: Tensor, anisotropy: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2], [N, L], [N, L], [N, L, 2] -> [N, L, 2], [N, L]."""
        # float32 results would differ between machines
        points, error, seen = points.double(), error.double(), seen.double()
        error = error * (1 + self.settings.occlusion_factor * (1 - seen))
        weight = 1 / (error * error)
        centre = (points * weight[..., None]).sum(1, keepdim=True) / weight.sum(1)[:, None, None]
        away = points - centre
        size = torch.sqrt((away * away).sum(2).mean(1)).clamp_min(1e-6)[:, None]
        rows = away / size[..., None]
        noise = (self.settings.error_scale * error / size).clamp_min(_LEAST_NOISE) ** 2
        scaled_anisotropy = self.settings.anisotropy * anisotropy.double() if self.settings.anisotropy else None
        mean, deviation = self._posterior(rows, noise, scaled_anisotropy)
        return (mean * size[..., None] + centre).float(), (deviation * size).float()

    def _posterior(self, rows: Tensor, noise: Tensor, anisotropy: Tensor | None) -> tuple[Tensor, Tensor]:
        """Posterior mean [N, L, 2] and standard deviation per axis [N, L].

        `rows` [N, L, 2] have noise variances [N, L]. A first step finds the landmarks that contradict the others; a
        second step gives them less weight.
        """
        first = self._gauss_newton_step(
            rows, _covariance_of(noise, anisotropy).plus(self.base).inverse(), self._initial_face(rows, noise)
        )
        outlier_weight = (rows - self._project(first.face)).square().sum(2) / (self.settings.outlying**2 * noise)
        spread = _covariance_of(noise * (1 + outlier_weight), anisotropy)
        precision = spread.plus(self.base).inverse()
        last = self._gauss_newton_step(rows, precision, first.face)
        modelled = self._project(self._extrapolate(last.face))
        mean = modelled + self.base[:, None] * precision.times(rows - modelled)
        covariance = _Symmetric(*(self._landmark_covariance(last, i, j) for i, j in ((0, 0), (0, 1), (1, 1))))
        variance = self.base - self.base**2 * precision.trace / 2 + spread.within(precision, covariance) / 2
        return mean, torch.sqrt(variance.clamp_min(0))

    def _initial_face(self, rows: Tensor, noise: Tensor) -> _Face:
        """The mean shape in the best view: the scaled rotation nearest to the least-squares affine view."""
        weight = 1 / (noise + self.base)
        weight = (weight / weight.sum(1, keepdim=True))[..., None]
        middle = (weight * self.places).sum(1, keepdim=True)
        away, centre = self.places - middle, (weight * rows).sum(1, keepdim=True)
        inside = torch.matmul((away * weight).transpose(1, 2), away)
        trace = (inside * torch.eye(3, dtype=inside.dtype)).sum((1, 2))[:, None, None]
        inside = inside + 1e-6 * trace * torch.eye(3, dtype=inside.dtype)
        affine = torch.matmul(torch.matmul((rows - centre).transpose(1, 2), away * weight), _inverse_of(inside))
        turn, size = _nearest_rotation(affine)
        place = centre - size[:, None, None] * torch.matmul(middle, turn[:, :2].transpose(1, 2))
        return _Face(rows.new_zeros(1, self.n_motions).expand(rows.shape[0], -1), turn, size, place[:, 0])

    def _rotate_face(self, face: _Face) -> Tensor:
        """Landmarks [N, L, 3] of a face, deformed and rotated, without scale and translation."""
        moved = torch.matmul(face.coefficients, self.motions.view(self.n_motions, -1)).view(-1, *self.places.shape)
        return torch.matmul(self.places + moved, face.rotation.transpose(1, 2))

    def _project(self, face: _Face) -> Tensor:
        """Landmarks [N, L, 2] of a face, projected."""
        return self._rotate_face(face)[..., :2] * face.size[:, None, None] + face.translation[:, None]

    def _gauss_newton_step(self, rows: Tensor, precision: _Symmetric, face: _Face) -> _Step:
        """One Gauss-Newton step from a face."""
        turned = self._rotate_face(face)
        across, down = self._jacobian(face, turned)
        prior = torch.diag(self.prior_precision)
        inside = _product(across, precision.xx, across) + _product(down, precision.yy, down) + prior
        mixed = _product(across, precision.xy, down)
        inverse = _inverse_of(inside + mixed + mixed.transpose(1, 2))
        weighted_residual = precision.times(
            rows - turned[..., :2] * face.size[:, None, None] - face.translation[:, None]
        )
        gradient = torch.matmul(across, weighted_residual[..., :1]) + torch.matmul(down, weighted_residual[..., 1:])
        prior_pull = F.pad(face.coefficients, (0, _VIEW))
        step = torch.matmul(inverse, gradient - prior_pull[..., None])[..., 0]
        return _Step(_apply_step(face, step), inverse, across, down)

    def _extrapolate(self, face: _Face) -> _Face:
        """The face rotated slightly further about its rotation axis; the step is proportional to the angle's sine."""
        if not self.settings.extrapolation:
            return face
        t = face.rotation
        axis = torch.stack((t[:, 2, 1] - t[:, 1, 2], t[:, 0, 2] - t[:, 2, 0], t[:, 1, 0] - t[:, 0, 1]), 1) / 2
        return _apply_step(face, F.pad(axis * self.settings.extrapolation, (self.n_motions, _VIEW - 3)))

    def _jacobian(self, face: _Face, turned: Tensor) -> tuple[Tensor, Tensor]:
        """Jacobian [N, P, L] of the landmarks' x and y with respect to the parameters."""
        n, n_landmarks = turned.shape[0], len(self.places)
        size = face.size[:, None, None]
        seen = torch.matmul(self.motions, face.rotation[:, :2].transpose(1, 2)) * size
        x, y, z = (turned * size).transpose(1, 2).unbind(1)
        zero, one = torch.zeros_like(x), torch.ones_like(x)
        views = ((zero, z, -y, x, one, zero), (-z, zero, x, y, zero, one))
        across, down = (
            torch.cat((seen[..., axis].reshape(n, self.n_motions, n_landmarks), torch.stack(view, 1)), 1)
            for axis, view in enumerate(views)
        )
        return across, down

    @staticmethod
    def _landmark_covariance(step: _Step, i: int, j: int) -> Tensor:
        """Entry [N, L] of the landmarks' covariances under the posterior of the parameters."""
        slopes = (step.across, step.down)
        return (torch.matmul(step.inverse, slopes[i]) * slopes[j]).sum(1)


class _Step(NamedTuple):
    """The face after a step, the posterior covariance [N, P, P], and the Jacobians [N, P, L] of x and y before the
    step."""

    face: _Face
    inverse: Tensor
    across: Tensor
    down: Tensor


def _product(left: Tensor, weight: Tensor, right: Tensor) -> Tensor:
    """[N, P, L], [N, L], [N, P, L] -> [N, P, P]."""
    return torch.matmul(left * weight[:, None], right.transpose(1, 2))


def _apply_step(face: _Face, step: Tensor) -> _Face:
    """The face after a step [N, P]. The rotation uses Cayley's formula, which needs no trigonometric functions."""
    n_motions = face.coefficients.shape[1]
    a, b, c = (step[:, n_motions + at].clamp(-_LONGEST_STEP, _LONGEST_STEP) / 2 for at in range(3))
    zero = torch.zeros_like(a)
    cross = torch.stack((zero, -c, b, c, zero, -a, -b, a, zero), 1).view(-1, 3, 3)
    over = 2 / (1 + a * a + b * b + c * c)
    turned = face.rotation + over[:, None, None] * torch.matmul(cross + torch.matmul(cross, cross), face.rotation)
    grown = face.size * torch.exp(step[:, n_motions + 3].clamp(-_LONGEST_STEP, _LONGEST_STEP))
    return _Face(face.coefficients + step[:, :n_motions], turned, grown, face.translation + step[:, n_motions + 4 :])


def _nearest_rotation(affine: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations [N, 3, 3] and scales [N] nearest to affine views [N, 2, 3]: the polar factor, in closed form.

    Source: Franca, "An algorithm to compute the square root of 3 x 3 positive definite matrices" (1989), for 2 x 2.
    """
    square = torch.matmul(affine, affine.transpose(1, 2))
    xx, xy, yy = square[:, 0, 0] + 1e-9, square[:, 0, 1], square[:, 1, 1] + 1e-9
    det = torch.sqrt((xx * yy - xy * xy).clamp_min(1e-18))
    total = torch.sqrt(xx + yy + 2 * det)  # trace of the square root
    inverse = torch.stack((yy + det, -xy, -xy, xx + det), 1).view(-1, 2, 2) / (total * det)[:, None, None]
    first = torch.matmul(inverse, affine)
    (a, b, c), (d, e, f) = first[:, 0].unbind(1), first[:, 1].unbind(1)
    third = torch.stack((b * f - c * e, c * d - a * f, a * e - b * d), 1)
    return torch.cat((first, third[:, None]), 1), total / 2


class _Symmetric(NamedTuple):
    """Symmetric 2 x 2 matrices, each entry [N, L]."""

    xx: Tensor
    xy: Tensor
    yy: Tensor

    @property
    def trace(self) -> Tensor:
        return self.xx + self.yy

    def plus(self, variance: Tensor) -> _Symmetric:
        """The matrices with variances [L] added on both axes."""
        return _Symmetric(self.xx + variance, self.xy, self.yy + variance)

    def inverse(self) -> _Symmetric:
        over = 1 / (self.xx * self.yy - self.xy * self.xy)
        return _Symmetric(self.yy * over, -self.xy * over, self.xx * over)

    def times(self, rows: Tensor) -> Tensor:
        """The matrices applied to vectors `rows` [N, L, 2]."""
        x, y = rows[..., 0], rows[..., 1]
        return torch.stack((self.xx * x + self.xy * y, self.xy * x + self.yy * y), 2)

    def within(self, precision: _Symmetric, covariance: _Symmetric) -> Tensor:
        """Trace [N, L] of (N S) T (N S)^T, where N is this, S `precision` and T `covariance`."""
        a, b = self.xx * precision.xx + self.xy * precision.xy, self.xx * precision.xy + self.xy * precision.yy
        c, d = self.xy * precision.xx + self.yy * precision.xy, self.xy * precision.xy + self.yy * precision.yy
        first = a * a * covariance.xx + 2 * a * b * covariance.xy + b * b * covariance.yy
        return first + c * c * covariance.xx + 2 * c * d * covariance.xy + d * d * covariance.yy


def _covariance_of(variance: Tensor, anisotropy: Tensor | None) -> _Symmetric:
    """Covariances from variances [N, L] and anisotropies [N, L, 2]: variance times the exponential of [[a, b], [b,
    -a]].

    None means isotropic; an explicit case, because an anisotropy of exactly 0 gives NaN in onnxruntime.
    """
    if anisotropy is None:
        return _Symmetric(variance, torch.zeros_like(variance), variance)
    length = torch.sqrt((anisotropy * anisotropy).sum(2) + 1e-9)
    capped = length.clamp(max=_MOST_ANISOTROPY)
    even = (torch.exp(capped) + torch.exp(-capped)) / 2
    along = (torch.exp(capped) - torch.exp(-capped)) / 2 / length
    a, b = anisotropy[..., 0] * along, anisotropy[..., 1] * along
    return _Symmetric(variance * (even + a), variance * b, variance * (even - a))


def _inverse_of(matrix: Tensor) -> Tensor:
    """Inverse of positive definite matrices [N, n, n], without torch's check, which cannot be exported."""
    inverse: Tensor = torch.linalg.inv_ex(matrix).inverse
    return inverse
