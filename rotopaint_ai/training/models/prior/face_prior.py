"""What a character's landmarks can do together: found landmarks drawn towards it, by how sure each of them is.

The keyed frames alone tell the head and how its parts move (`headmodel`). A found face is a turn of that head with some
of each motion: the Gaussian posterior of both, given the landmarks and their expected errors. A chin that nothing on
smooth skin marks is so told by eyes and mouth, which are seen to within a pixel; one that is sure of itself stays where
it is. A landmark that contradicts all others counts less, and so does a hidden one: the far side of a turned head is
told by the near one.

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

from rotopaint_ai.training.models.prior.deformable import DeformableModel

BELIEFS = (0.3, 0.4, 0.6)  # how much of its expected error is a landmark's own, which the others can mend
RESIDUALS = (0.001, 0.003, 0.008)  # what the head leaves unexplained of a new frame, in units of the face
SLANTS = (0.0, 1.0, 1.5, 2.2)  # how much of the slant that errors were seen to have is believed
STRETCHES = (0.0, 0.01)  # of a turn: networks see turns too small that they were not shown
HIDDEN = (3.0, 8.0, 20.0)  # how much more than its expected error a landmark that is surely hidden may be off
_DOUBTED = 3.0  # deviations from the others at which a landmark counts half
_MOST_SLANT = 3.5  # logarithm of the ratio of the longer to the shorter deviation
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
    is seen, and the slants [N, L, 2] of those errors (`nets.slant_of`) towards the head.

    Gives the landmarks, and the errors that are left [N, L] as deviations per axis of the posterior. A point on an edge
    errs along it more than across it, so it is drawn along the edge, which no picture tells, more than off it.
    """

    places: Tensor  # [L, 3]
    motions: Tensor  # [K * L, 3]
    base: Tensor  # [L] variance per axis of what the head does not explain
    precision: Tensor  # [P] of a face's numbers, before anything is seen

    def __init__(
        self,
        head: DeformableModel,
        *,
        belief: float,
        residual: float,
        hidden: float = HIDDEN[0],
        slant: float = SLANTS[0],
        stretch: float = STRETCHES[0],
    ) -> None:
        """`belief`, `residual`, `hidden`, `slant`, `stretch`: one each of BELIEFS, RESIDUALS, HIDDEN, SLANTS and
        STRETCHES."""
        super().__init__()
        self.belief, self.residual, self.hidden, self.slant, self.stretch = belief, residual, hidden, slant, stretch
        self.mirrored, self.n_motions = head.mirrored, len(head.motions)
        for name, value in (
            ("places", head.places),
            ("motions", head.motions.reshape(-1, 3)),
            ("base", head.unexplained + residual**2),
            ("precision", [1.0] * self.n_motions + [_LOOSE] * _VIEW),
        ):
            self.register_buffer(name, torch.tensor(np.asarray(value, np.float64)))

    def on(self, head: DeformableModel) -> FacePrior:
        """The same beliefs on another head."""
        return FacePrior(
            head,
            belief=self.belief,
            residual=self.residual,
            hidden=self.hidden,
            slant=self.slant,
            stretch=self.stretch,
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
        noise = (self.belief * error / size).clamp_min(_LEAST_NOISE) ** 2
        lean = self.slant * slant.double() if self.slant else None
        drawn, left = self._drawn(rows, noise, lean)
        return (drawn * size[..., None] + centre).float(), (left * size).float()

    def _drawn(self, rows: Tensor, noise: Tensor, lean: Tensor | None) -> tuple[Tensor, Tensor]:
        """Posterior mean [N, L, 2] and deviation per axis [N, L] of rows [N, L, 2] whose noise has variances [N, L]
        that lean, after one step that told which of them contradict the others."""
        first = self._stepped(rows, _spread(noise, lean).plus(self.base).inverse(), self._started(rows, noise))
        doubt = (rows - self._shown(first.face)).square().sum(2) / (_DOUBTED**2 * noise)
        spread = _spread(noise * (1 + doubt), lean)
        sure = spread.plus(self.base).inverse()
        last = self._stepped(rows, sure, first.face)
        modelled = self._shown(self._stretched(last.face))
        drawn = modelled + self.base[:, None] * sure.times(rows - modelled)
        told = _Symmetric(*(self._told(last, i, j) for i, j in ((0, 0), (0, 1), (1, 1))))
        left = self.base - self.base**2 * sure.trace / 2 + spread.within(sure, told) / 2
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

    def _stepped(self, rows: Tensor, sure: _Symmetric, face: _Face) -> _Step:
        """One Gauss-Newton step from a face."""
        turned = self._turned(face)
        across, down = self._slopes(face, turned)
        before = torch.diag(self.precision)
        inside = _product(across, sure.xx, across) + _product(down, sure.yy, down) + before
        mixed = _product(across, sure.xy, down)
        inverse = _inverse_of(inside + mixed + mixed.transpose(1, 2))
        off = sure.times(rows - turned[..., :2] * face.size[:, None, None] - face.place[:, None])
        asked = torch.matmul(across, off[..., :1]) + torch.matmul(down, off[..., 1:])
        pulled = F.pad(face.moved, (0, _VIEW))
        step = torch.matmul(inverse, asked - pulled[..., None])[..., 0]
        return _Step(_moved_on(face, step), inverse, across, down)

    def _stretched(self, face: _Face) -> _Face:
        """A face that has turned a little further from the front: its turn's axis, as long as the angle's sine."""
        if not self.stretch:
            return face
        t = face.turn
        axis = torch.stack((t[:, 2, 1] - t[:, 1, 2], t[:, 0, 2] - t[:, 2, 0], t[:, 1, 0] - t[:, 0, 1]), 1) / 2
        return _moved_on(face, F.pad(axis * self.stretch, (self.n_motions, _VIEW - 3)))

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
    def _told(step: _Step, i: int, j: int) -> Tensor:
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
        """Products with vectors [N, L, 2]."""
        x, y = rows[..., 0], rows[..., 1]
        return torch.stack((self.xx * x + self.xy * y, self.xy * x + self.yy * y), 2)

    def within(self, sure: _Symmetric, told: _Symmetric) -> Tensor:
        """Trace [N, L] of (N S) T (N S)^T, N being this, S `sure` and T `told`."""
        a, b = self.xx * sure.xx + self.xy * sure.xy, self.xx * sure.xy + self.xy * sure.yy
        c, d = self.xy * sure.xx + self.yy * sure.xy, self.xy * sure.xy + self.yy * sure.yy
        first = a * a * told.xx + 2 * a * b * told.xy + b * b * told.yy
        return first + c * c * told.xx + 2 * c * d * told.xy + d * d * told.yy


def _spread(variance: Tensor, slant: Tensor | None) -> _Symmetric:
    """Variances [N, L] made to lean as slants [N, L, 2] say: variance times the exponential of [[a, b], [b, -a]].

    None leans nowhere; onnxruntime makes no number of a slant that is nought."""
    if slant is None:
        return _Symmetric(variance, torch.zeros_like(variance), variance)
    length = torch.sqrt((slant * slant).sum(2) + 1e-9)
    capped = length.clamp(max=_MOST_SLANT)
    even = (torch.exp(capped) + torch.exp(-capped)) / 2
    along = (torch.exp(capped) - torch.exp(-capped)) / 2 / length
    a, b = slant[..., 0] * along, slant[..., 1] * along
    return _Symmetric(variance * (even + a), variance * b, variance * (even - a))


def _inverse_of(matrix: Tensor) -> Tensor:
    """Inverse of positive definite matrices [N, n, n]; without the check for others, which no graph has."""
    inverse: Tensor = torch.linalg.inv_ex(matrix).inverse
    return inverse
