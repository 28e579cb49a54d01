"""What a character's landmarks can do together: found landmarks drawn towards it, by how sure each of them is.

The keyed frames alone tell the head and how its parts move (`deformable`). A found face is a turn of that head with
some of each motion: the Gaussian posterior of both, given the landmarks and their expected errors. A chin that nothing
on smooth skin marks is found by eyes and mouth, which are seen to within a pixel; one that is sure of itself stays
where it is. A landmark that contradicts all others counts less, and so does a hidden one: the far side of a turned head
is found by the near one.

Source: Torresani, Hertzmann & Bregler, "Nonrigid structure-from-motion" (2008), for one new frame: Gauss-Newton steps
on turn and motions at once (Tipping & Bishop 1999 for the posterior).

Letters: n samples, N batch, L landmarks, K motions, P = K + 6 numbers of a face (motions, turn about x, y and z, size,
place). Rows are in units of the face: the root mean square distance of its landmarks from their mean is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.shapes.deformable_head import DeformableModel

ERROR_SCALES = (0.3, 0.4, 0.6)  # how much of its expected error is a landmark's own, which the others can mend
NOISE_FLOORS = (0.001, 0.003, 0.008)  # what the head leaves unexplained of a new frame, in units of the face
ANISOTROPIES = (0.0, 1.0, 1.5, 2.2)  # share of the anisotropy seen in errors that is taken over
EXTRAPOLATIONS = (0.0, 0.01)  # share of a turn: networks underestimate turns that training did not include
OCCLUSION_FACTORS = (3.0, 8.0, 20.0)  # how many times its expected error more a surely hidden landmark may be off
OUTLYING = (3.0, 30.0)  # expected errors off the others at which a landmark counts half
_MOST_ANISOTROPY = 3.5  # logarithm of the ratio of the longer to the shorter deviation
_LEAST_NOISE = 1e-3
_LOOSE = 1e-3  # precision of turn, size and place, of which nothing is known beforehand
_LONGEST_STEP = 0.5  # radians, or of the size, in one step: wild landmarks do not throw the head over
_VIEW = 6  # numbers of a view: turn, size, place


class _Face(NamedTuple):
    """A face as the head has it: motions [N, K], a scaled rotation [N, 3, 3] as rotation and size [N], place [N, 2]."""

    moved: Tensor
    turn: Tensor
    size: Tensor
    place: Tensor


class FacePrior(nn.Module):
    """Draws landmarks [N, L, 2] with their expected errors [N, L], both in one unit, the probability [N, L] that each
    is seen, and the anisotropies [N, L, 2] of those errors (`net.anisotropy_of`) towards the head.

    Gives the landmarks, and the errors that are left [N, L] as deviations per axis of the posterior. A point on an edge
    errs along it more than across it, so it is drawn along the edge, which no picture tells, more than off it.
    """

    places: Tensor  # [L, 3]
    motions: Tensor  # [K * L, 3]
    base: Tensor  # [L] variance per axis of what the head does not explain
    prior_precision: Tensor  # [P] of a face's numbers, before anything is seen

    def __init__(
        self,
        head: DeformableModel,
        *,
        error_scale: float,
        noise_floor: float,
        occlusion_factor: float = OCCLUSION_FACTORS[0],
        anisotropy: float = ANISOTROPIES[0],
        extrapolation: float = EXTRAPOLATIONS[0],
        outlying: float = OUTLYING[0],
    ) -> None:
        """One each of ERROR_SCALES, NOISE_FLOORS, OCCLUSION_FACTORS, ANISOTROPIES, EXTRAPOLATIONS and OUTLYING."""
        super().__init__()
        self.error_scale, self.noise_floor, self.occlusion_factor = error_scale, noise_floor, occlusion_factor
        self.anisotropy, self.extrapolation, self.outlying = anisotropy, extrapolation, outlying
        self.mirrored, self.n_motions = head.mirrored, len(head.motions)
        for name, value in (
            ("places", head.places),
            ("motions", head.motions.reshape(-1, 3)),
            ("base", head.unexplained + noise_floor**2),
            ("prior_precision", [1.0] * self.n_motions + [_LOOSE] * _VIEW),
        ):
            self.register_buffer(name, torch.tensor(np.asarray(value, np.float64)))

    def on(self, head: DeformableModel) -> FacePrior:
        """The same settings on another head."""
        return FacePrior(
            head,
            error_scale=self.error_scale,
            noise_floor=self.noise_floor,
            occlusion_factor=self.occlusion_factor,
            anisotropy=self.anisotropy,
            extrapolation=self.extrapolation,
            outlying=self.outlying,
        )

    def forward(self, points: Tensor, error: Tensor, seen: Tensor, anisotropy: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2], [N, L], [N, L], [N, L, 2] -> [N, L, 2], [N, L]."""
        points, error, seen = points.double(), error.double(), seen.double()  # two machines' floats would drift apart
        error = error * (1 + self.occlusion_factor * (1 - seen))
        weight = 1 / (error * error)
        centre = (points * weight[..., None]).sum(1, keepdim=True) / weight.sum(1)[:, None, None]
        away = points - centre
        size = torch.sqrt((away * away).sum(2).mean(1)).clamp_min(1e-6)[:, None]
        rows = away / size[..., None]
        noise = (self.error_scale * error / size).clamp_min(_LEAST_NOISE) ** 2
        lean = self.anisotropy * anisotropy.double() if self.anisotropy else None
        drawn, left = self._drawn(rows, noise, lean)
        return (drawn * size[..., None] + centre).float(), (left * size).float()

    def _drawn(self, rows: Tensor, noise: Tensor, lean: Tensor | None) -> tuple[Tensor, Tensor]:
        """Posterior mean [N, L, 2] and deviation per axis [N, L] of rows [N, L, 2] whose noise has variances [N, L]
        that lean, after one step that shows which of them contradict the others."""
        first = self._stepped(rows, _spread(noise, lean).plus(self.base).inverse(), self._started(rows, noise))
        outlier_weight = (rows - self._shown(first.face)).square().sum(2) / (self.outlying**2 * noise)
        spread = _spread(noise * (1 + outlier_weight), lean)
        precision = spread.plus(self.base).inverse()
        last = self._stepped(rows, precision, first.face)
        modelled = self._shown(self._extrapolated(last.face))
        drawn = modelled + self.base[:, None] * precision.times(rows - modelled)
        covariance = _Symmetric(*(self._landmark_covariance(last, i, j) for i, j in ((0, 0), (0, 1), (1, 1))))
        left = self.base - self.base**2 * precision.trace / 2 + spread.within(precision, covariance) / 2
        return drawn, torch.sqrt(left.clamp_min(0))

    def _started(self, rows: Tensor, noise: Tensor) -> _Face:
        """The unmoved head as it is seen best: the scaled rotation nearest to the affine view of least squares."""
        weight = 1 / (noise + self.base)
        weight = (weight / weight.sum(1, keepdim=True))[..., None]
        middle = (weight * self.places).sum(1, keepdim=True)
        away, centre = self.places - middle, (weight * rows).sum(1, keepdim=True)
        inside = torch.matmul((away * weight).transpose(1, 2), away)
        trace = (inside * torch.eye(3, dtype=inside.dtype)).sum((1, 2))[:, None, None]
        inside = inside + 1e-6 * trace * torch.eye(3, dtype=inside.dtype)
        affine = torch.matmul(torch.matmul((rows - centre).transpose(1, 2), away * weight), _inverse_of(inside))
        turn, size = _nearest_turn(affine)
        place = centre - size[:, None, None] * torch.matmul(middle, turn[:, :2].transpose(1, 2))
        return _Face(rows.new_zeros(1, self.n_motions).expand(rows.shape[0], -1), turn, size, place[:, 0])

    def _turned(self, face: _Face) -> Tensor:
        """Landmarks [N, L, 3] of a face, turned, before size and place."""
        moved = torch.matmul(face.moved, self.motions.view(self.n_motions, -1)).view(-1, *self.places.shape)
        return torch.matmul(self.places + moved, face.turn.transpose(1, 2))

    def _shown(self, face: _Face) -> Tensor:
        """Landmarks [N, L, 2] of a face."""
        return self._turned(face)[..., :2] * face.size[:, None, None] + face.place[:, None]

    def _stepped(self, rows: Tensor, precision: _Symmetric, face: _Face) -> _Step:
        """One Gauss-Newton step from a face."""
        turned = self._turned(face)
        across, down = self._slopes(face, turned)
        before = torch.diag(self.prior_precision)
        inside = _product(across, precision.xx, across) + _product(down, precision.yy, down) + before
        mixed = _product(across, precision.xy, down)
        inverse = _inverse_of(inside + mixed + mixed.transpose(1, 2))
        off = precision.times(rows - turned[..., :2] * face.size[:, None, None] - face.place[:, None])
        asked = torch.matmul(across, off[..., :1]) + torch.matmul(down, off[..., 1:])
        pulled = F.pad(face.moved, (0, _VIEW))
        step = torch.matmul(inverse, asked - pulled[..., None])[..., 0]
        return _Step(_moved_on(face, step), inverse, across, down)

    def _extrapolated(self, face: _Face) -> _Face:
        """A face that has turned a little further from the front: its turn's axis, as long as the angle's sine."""
        if not self.extrapolation:
            return face
        t = face.turn
        axis = torch.stack((t[:, 2, 1] - t[:, 1, 2], t[:, 0, 2] - t[:, 2, 0], t[:, 1, 0] - t[:, 0, 1]), 1) / 2
        return _moved_on(face, F.pad(axis * self.extrapolation, (self.n_motions, _VIEW - 3)))

    def _slopes(self, face: _Face, turned: Tensor) -> tuple[Tensor, Tensor]:
        """How x and y of the landmarks change [N, P, L] with each number of the face."""
        n, n_landmarks = turned.shape[0], len(self.places)
        size = face.size[:, None, None]
        seen = torch.matmul(self.motions, face.turn[:, :2].transpose(1, 2)) * size
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
        """Entry [N, L] of the landmarks' covariances under the posterior of the face."""
        slopes = (step.across, step.down)
        return (torch.matmul(step.inverse, slopes[i]) * slopes[j]).sum(1)


class _Step(NamedTuple):
    """Where a step led, the covariance [N, P, P] there, and the slopes [N, P, L] of x and y that it was made by."""

    face: _Face
    inverse: Tensor
    across: Tensor
    down: Tensor


def _product(left: Tensor, weight: Tensor, right: Tensor) -> Tensor:
    """[N, P, L], [N, L], [N, P, L] -> [N, P, P]."""
    return torch.matmul(left * weight[:, None], right.transpose(1, 2))


def _moved_on(face: _Face, step: Tensor) -> _Face:
    """A face after a step [N, P]; the turn is Cayley's, which needs no angle functions."""
    n_motions = face.moved.shape[1]
    a, b, c = (step[:, n_motions + at].clamp(-_LONGEST_STEP, _LONGEST_STEP) / 2 for at in range(3))
    zero = torch.zeros_like(a)
    cross = torch.stack((zero, -c, b, c, zero, -a, -b, a, zero), 1).view(-1, 3, 3)
    over = 2 / (1 + a * a + b * b + c * c)
    turned = face.turn + over[:, None, None] * torch.matmul(cross + torch.matmul(cross, cross), face.turn)
    grown = face.size * torch.exp(step[:, n_motions + 3].clamp(-_LONGEST_STEP, _LONGEST_STEP))
    return _Face(face.moved + step[:, :n_motions], turned, grown, face.place + step[:, n_motions + 4 :])


def _nearest_turn(affine: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations [N, 3, 3] and sizes [N] nearest to affine views [N, 2, 3]: the polar factor, its root in closed form.

    Source: Franca, "An algorithm to compute the square root of 3 x 3 positive definite matrices" (1989), for 2 x 2.
    """
    square = torch.matmul(affine, affine.transpose(1, 2))
    xx, xy, yy = square[:, 0, 0] + 1e-9, square[:, 0, 1], square[:, 1, 1] + 1e-9
    det = torch.sqrt((xx * yy - xy * xy).clamp_min(1e-18))
    total = torch.sqrt(xx + yy + 2 * det)  # trace of the root
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
        """With variances [L] added to both axes."""
        return _Symmetric(self.xx + variance, self.xy, self.yy + variance)

    def inverse(self) -> _Symmetric:
        over = 1 / (self.xx * self.yy - self.xy * self.xy)
        return _Symmetric(self.yy * over, -self.xy * over, self.xx * over)

    def times(self, rows: Tensor) -> Tensor:
        """The products of the matrices with vectors [N, L, 2]."""
        x, y = rows[..., 0], rows[..., 1]
        return torch.stack((self.xx * x + self.xy * y, self.xy * x + self.yy * y), 2)

    def within(self, precision: _Symmetric, covariance: _Symmetric) -> Tensor:
        """Trace [N, L] of (N S) T (N S)^T, N being this, S `precision` and T `covariance`."""
        a, b = self.xx * precision.xx + self.xy * precision.xy, self.xx * precision.xy + self.xy * precision.yy
        c, d = self.xy * precision.xx + self.yy * precision.xy, self.xy * precision.xy + self.yy * precision.yy
        first = a * a * covariance.xx + 2 * a * b * covariance.xy + b * b * covariance.yy
        return first + c * c * covariance.xx + 2 * c * d * covariance.xy + d * d * covariance.yy


def _spread(variance: Tensor, anisotropy: Tensor | None) -> _Symmetric:
    """Variances [N, L] with anisotropies [N, L, 2]: variance times the exponential of [[a, b], [b, -a]].

    None is round; onnxruntime makes no number of an anisotropy of 0."""
    if anisotropy is None:
        return _Symmetric(variance, torch.zeros_like(variance), variance)
    length = torch.sqrt((anisotropy * anisotropy).sum(2) + 1e-9)
    capped = length.clamp(max=_MOST_ANISOTROPY)
    even = (torch.exp(capped) + torch.exp(-capped)) / 2
    along = (torch.exp(capped) - torch.exp(-capped)) / 2 / length
    a, b = anisotropy[..., 0] * along, anisotropy[..., 1] * along
    return _Symmetric(variance * (even + a), variance * b, variance * (even - a))


def _inverse_of(matrix: Tensor) -> Tensor:
    """Inverse of positive definite matrices [N, n, n]; without the check for others, which no graph has."""
    inverse: Tensor = torch.linalg.inv_ex(matrix).inverse
    return inverse
