"""Raw curves of many frames as equal runs of points, so that frames can be compared and fitted together.

Letters: F frames, M samples along a curve, C components x then y. A place on a curve is its share of the way, 0..1; a
closed curve goes on past 1 where it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes import bezier

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

N_SAMPLES = 1024
_FLAT_PX = 0.004  # the polyline under the samples stays this close to the curve


@dataclass(frozen=True, slots=True)
class Outlines:
    """Curves of F frames, each as M points at equal steps of the way.

    `samples_FMC`: plate space; a closed curve does not repeat its first point, an open one holds both ends.
    `lengths`: [F] in pixels.
    """

    samples_FMC: Array
    lengths: Array
    closed: bool

    def __len__(self) -> int:
        return len(self.samples_FMC)

    def rows(self, rows: npt.NDArray[np.intp] | Sequence[int] | slice) -> Outlines:
        """The curves of some frames."""
        return Outlines(self.samples_FMC[rows], self.lengths[rows], self.closed)

    def at(self, shares_FN: Array) -> Array:
        """Points [F, N, 2] at shares of arc length [F, N]; outside 0..1 a closed curve wraps, an open one ends."""
        return at_shares(self.samples_FMC, shares_FN, self.closed)


def outlines(
    raw: Sequence[npt.NDArray[np.floating]],
    closed: bool,
    *,
    groups: npt.NDArray[np.intp] | None = None,
    n_samples: int = N_SAMPLES,
) -> Outlines:
    """Sample raw control points (P, 6), one array per frame and any number of points in each.

    Frames of one group, whose points follow the same places, share their steps: each point stands at the median of its
    shares of arc length, and the steps between two points are even. Without groups every frame's steps are even.
    """
    lines = [bezier.flatten(points, closed, _FLAT_PX) for points in raw]
    marks = [_marks(points, closed) for points in raw]
    steps = np.arange(n_samples) / (n_samples if closed else n_samples - 1)
    samples, lengths = np.empty((len(raw), n_samples, 2)), np.empty(len(raw))
    groups = np.arange(len(raw)) if groups is None else groups
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        common = np.median([marks[row] for row in rows], axis=0)
        for row in rows:
            total = float(bezier.arc_lengths(lines[row], closed)[-1])
            own = np.interp(steps, common, marks[row])
            samples[row], lengths[row] = bezier.along(lines[row], closed, own * total), total
    return Outlines(samples, lengths, closed)


def _marks(points: npt.NDArray[np.floating], closed: bool) -> Array:
    """Share of arc length at each control point, and 1 for a closed curve's return."""
    cubics = bezier.segments(points, closed)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    lengths = np.linalg.norm(bezier.derivative(cubics, (nodes + 1) / 2), axis=2) @ weights
    along = np.concatenate(([0.0], np.cumsum(lengths)))
    return np.asarray(along / max(float(along[-1]), 1e-12))


def reversed_where(curves: Outlines, backwards: Bools) -> Outlines:
    """The same curves, those marked run the other way; a closed one keeps its first point."""
    back = curves.samples_FMC[:, ::-1]
    back = np.roll(back, 1, axis=1) if curves.closed else back
    return Outlines(np.where(backwards[:, None, None], back, curves.samples_FMC), curves.lengths, curves.closed)


def at_shares(samples_FMC: Array, shares_FN: Array, closed: bool) -> Array:
    """Linear interpolation in runs of equal steps: [F, M, C] at [F, N] -> [F, N, C]."""
    m = samples_FMC.shape[1]
    place = np.mod(shares_FN, 1.0) * m if closed else np.clip(shares_FN, 0.0, 1.0) * (m - 1)
    below = np.floor(place).astype(np.intp)
    below = np.mod(below, m) if closed else np.clip(below, 0, m - 2)
    share = (place - np.floor(place) if closed else place - below)[..., None]
    frame = np.arange(len(samples_FMC))[:, None]
    after = np.mod(below + 1, m) if closed else below + 1
    mixed: Array = samples_FMC[frame, below] * (1 - share) + samples_FMC[frame, after] * share
    return mixed


def turning_deg(curves: Outlines, shares_FN: Array, *, reach: float = 0.012) -> Array:
    """How far the curve turns around places [F, N], in degrees without sign: 0 straight, 90 a square corner.

    Looks at chords that reach `reach` of the length to either side; near the end of an open curve the answer is 0.
    """
    before, here, after = (curves.at(shares_FN + step) for step in (-reach, 0.0, reach))
    arriving, leaving = here - before, after - here
    cross = arriving[..., 0] * leaving[..., 1] - arriving[..., 1] * leaving[..., 0]
    dot = (arriving * leaving).sum(axis=-1)
    turn = np.degrees(np.abs(np.arctan2(cross, dot)))
    if curves.closed:
        return np.asarray(turn)
    return np.where((shares_FN < reach) | (shares_FN > 1 - reach), 0.0, turn)
