"""Raw curves of many frames as equal numbers of samples, and the dynamic program that aligns them to a mean.

Letters: F frames, M samples along a curve, N positions on the mean, C components x then y. A position on a curve is its
share of arc length, 0..1; a closed curve continues beyond 1 from its start.
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
_FLAT_PX = 0.004  # flatness of the polyline for sampling
Rows = npt.NDArray[np.intp]
N_PLACES = 96
_FINE = 4  # shifts are multiples of 1 / (N_PLACES * _FINE)
_REACH = 36  # largest shift, in those steps
TURN_WEIGHT = 0.5  # weight of a difference in direction relative to one in position
_UNEVEN = 2e-3  # penalty on a change of shift between neighbours
_FAR = 2e-5  # penalty on the size of a shift
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class RawCurves:
    """Curves of F frames, each as M samples at equal steps.

    `samples_FMC`: plate space; a closed curve does not repeat its first point, an open one includes both ends.
    `lengths`: [F] in pixels.
    """

    samples_FMC: Array
    lengths: Array
    closed: bool

    def __len__(self) -> int:
        return len(self.samples_FMC)

    def rows(self, rows: npt.NDArray[np.intp] | Sequence[int] | slice) -> RawCurves:
        """The curves of some frames."""
        return RawCurves(self.samples_FMC[rows], self.lengths[rows], self.closed)

    def at(self, shares_FN: Array) -> Array:
        """Points [F, N, 2] at shares of arc length [F, N]; outside 0..1 a closed curve wraps, an open one ends."""
        return at_shares(self.samples_FMC, shares_FN, self.closed)


def sample_curves(
    raw: Sequence[npt.NDArray[np.floating]],
    closed: bool,
    *,
    groups: npt.NDArray[np.intp] | None = None,
    n_samples: int = N_SAMPLES,
) -> RawCurves:
    """Sample raw control points (P, 6), one array per frame with any number of points.

    Frames of one group, whose points follow the same features, share their steps: each point gets the median of its
    shares of arc length, with even steps in between. Without groups every frame's steps are even.
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
            samples[row], lengths[row] = bezier.points_along(lines[row], closed, own * total), total
    return RawCurves(samples, lengths, closed)


def _marks(points: npt.NDArray[np.floating], closed: bool) -> Array:
    """Share of arc length at each control point; a closed curve ends with 1."""
    cubics = bezier.segments(points, closed)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    lengths = np.linalg.norm(bezier.derivative(cubics, (nodes + 1) / 2), axis=2) @ weights
    along = np.concatenate(([0.0], np.cumsum(lengths)))
    return np.asarray(along / max(float(along[-1]), 1e-12))


def reverse_where(samples_FMC: Array, backwards: Bools, closed: bool) -> Array:
    """Samples, reversed where marked; a closed curve keeps its first one."""
    back = samples_FMC[:, ::-1]
    back = np.roll(back, 1, axis=1) if closed else back
    return np.where(backwards[:, None, None], back, samples_FMC)


def share_distance(one: Array | float, other: Array | float, closed: bool) -> Array:
    """Distance between shares of arc length; on a closed curve the shorter way round."""
    away = np.abs(np.asarray(one) - other)
    return np.minimum(away, 1 - away) if closed else away


def share_gaps(shares: Array, closed: bool) -> Array:
    """Gaps between consecutive positions; on a closed curve including the last gap to the first."""
    return np.diff(np.append(shares, shares[0] + 1)) if closed else np.diff(shares)


def at_shares(samples_FMC: Array, shares_FN: Array, closed: bool) -> Array:
    """Linear interpolation between samples at equal steps: [F, M, C] at [F, N] -> [F, N, C]."""
    m = samples_FMC.shape[1]
    place = np.mod(shares_FN, 1.0) * m if closed else np.clip(shares_FN, 0.0, 1.0) * (m - 1)
    below = np.floor(place).astype(np.intp)
    below = np.mod(below, m) if closed else np.clip(below, 0, m - 2)
    share = (place - np.floor(place) if closed else place - below)[..., None]
    frame = np.arange(len(samples_FMC))[:, None]
    after = np.mod(below + 1, m) if closed else below + 1
    mixed: Array = samples_FMC[frame, below] * (1 - share) + samples_FMC[frame, after] * share
    return mixed


def turning_deg(curves: RawCurves, shares_FN: Array, *, reach: float = 0.012) -> Array:
    """Absolute turning angle of the curve at positions [F, N], in degrees: 0 straight, 90 a square corner.

    Measured by chords of `reach` of the length on either side; 0 near the end of an open curve.
    """
    before, here, after = (curves.at(shares_FN + step) for step in (-reach, 0.0, reach))
    arriving, leaving = here - before, after - here
    cross = arriving[..., 0] * leaving[..., 1] - arriving[..., 1] * leaving[..., 0]
    dot = (arriving * leaving).sum(axis=-1)
    turn = np.degrees(np.abs(np.arctan2(cross, dot)))
    if curves.closed:
        return np.asarray(turn)
    return np.where((shares_FN < reach) | (shares_FN > 1 - reach), 0.0, turn)


def shares_at(shares_FN: Array, shares: Array) -> Array:
    """Interpolate [F, N + 1] positions at shares [P] of the mean; whole turns carry over."""
    n = shares_FN.shape[1] - 1
    whole = np.floor(shares)
    place = (shares - whole) * n
    below = np.minimum(place.astype(np.intp), n - 1)
    part = place - below
    turn = shares_FN[:, -1:] - shares_FN[:, :1]
    return np.asarray(shares_FN[:, below] * (1 - part) + shares_FN[:, below + 1] * part + whole * turn)


def group_mean(values: Array, of_row: Rows) -> Array:
    """Mean over the rows of each group: [F, ...] -> [G, ...]."""
    total = np.zeros((int(of_row.max()) + 1, *values.shape[1:]))
    np.add.at(total, of_row, values)
    counts = np.bincount(of_row).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(total / counts)


def directions(curves: Array, closed: bool) -> Array:
    """Unit directions at each sample."""
    if closed:
        step = np.roll(curves, -1, axis=1) - np.roll(curves, 1, axis=1)
    else:
        step = np.gradient(curves, axis=1)
    return np.asarray(step / np.maximum(np.linalg.norm(step, axis=2, keepdims=True), 1e-9))


def slide_places(
    samples: Array, rough: Array, mean: Array, pins: Rows, pinned: Bools, groups: Rows, closed: bool
) -> Array:
    """Dynamic program: positions [F, N + 1] near `rough` that agree best with the mean, one shift per group."""
    of_row = np.unique(groups, return_inverse=True)[1]
    parts = [
        _costs(samples[at : at + _CHUNK], rough[at : at + _CHUNK], mean, closed)
        for at in range(0, len(samples), _CHUNK)
    ]
    cost = group_mean(np.concatenate(parts), of_row)
    held = group_mean(pinned.astype(np.float64), of_row) > 0
    smooth = _cheapest(cost, pins, held, closed)[of_row]
    return np.maximum.accumulate(_slide_rough_places(rough, smooth, closed), axis=1)


def _costs(samples: Array, rough: Array, mean: Array, closed: bool) -> Array:
    """Cost of shifting each position: [F, positions, shifts]."""
    f, n = len(samples), N_PLACES
    slides = np.arange(-_REACH, _REACH + 1)
    ways_mean = directions(mean[None, :-1], True)[0] if closed else directions(mean[None], False)[0]
    count = n if closed else n + 1
    cost = np.empty((f, count, len(slides)))
    for i in range(count):
        at = i / n + slides / (n * _FINE)
        shares = shares_at(rough, at if closed else np.clip(at, 0.0, 1.0 - 1e-9))
        here = at_shares(samples, shares, closed)
        ahead = at_shares(samples, shares + 0.6 / n, closed) - at_shares(samples, shares - 0.6 / n, closed)
        ahead = ahead / np.maximum(np.linalg.norm(ahead, axis=2, keepdims=True), 1e-9)
        cost[:, i] = ((here - mean[i]) ** 2).sum(axis=2) + TURN_WEIGHT * (1 - (ahead * ways_mean[i]).sum(axis=2))
    return np.asarray(cost + _FAR * slides**2)


def _cheapest(cost: Array, pins: Rows, pinned: Bools, closed: bool) -> Array:
    """The cheapest smooth path through costs [G, positions, shifts]: shifts [G, positions] in grid units."""
    f, count = cost.shape[:2]
    n = N_PLACES
    slides = np.arange(-_REACH, _REACH + 1)
    loops = 2 if closed else 1  # a closed curve needs a second round to close the path
    for column, pin in enumerate(pins):
        cost[np.ix_(pinned[:, column], [min(pin, count - 1)], slides != 0)] = 1e6
    if not closed:
        cost[:, 0, slides != 0] = 1e6
        cost[:, -1, slides != 0] = 1e6
    total = np.tile(cost, (1, loops, 1))
    back = np.zeros(total.shape, dtype=np.int8)
    best = total[:, 0]
    for i in range(1, total.shape[1]):
        choices = np.stack([_shift(best, step) + _UNEVEN * step**2 for step in (-2, -1, 0, 1, 2)])
        pick = choices.argmin(axis=0)
        back[:, i] = pick - 2
        best = np.take_along_axis(choices, pick[None], axis=0)[0] + total[:, i]
    way = np.empty((f, total.shape[1]), dtype=np.intp)
    way[:, -1] = best.argmin(axis=1)
    frame = np.arange(f)
    for i in range(total.shape[1] - 1, 0, -1):
        way[:, i - 1] = way[:, i] - back[frame, i, way[:, i]]
    if closed:  # the middle of two rounds has no ends
        half = n // 2
        way = np.concatenate((way[:, n : n + half], way[:, half:n]), axis=1)
    return _smooth_slides((way - _REACH) / float(_FINE), pins, pinned, closed)


def _shift(costs: Array, step: int) -> Array:
    """Costs [F, S] shifted so that column s contains the cost of arriving from s - step."""
    if step == 0:
        return costs
    out = np.full_like(costs, np.inf)
    if step > 0:
        out[:, step:] = costs[:, :-step]
    else:
        out[:, :step] = costs[:, -step:]
    return out


def _smooth_slides(slide_FN: Array, pins: Rows, pinned: Bools, closed: bool) -> Array:
    """Shifts in grid units, smoothed; pinned positions stay pinned."""
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    kernel /= kernel.sum()
    wide = np.pad(slide_FN, ((0, 0), (6, 6)), mode="wrap" if closed else "edge")
    smooth = np.stack([np.convolve(row, kernel, mode="valid") for row in wide])
    fixed = np.zeros(slide_FN.shape, dtype=bool)
    for column, pin in enumerate(pins):
        fixed[pinned[:, column], min(pin, slide_FN.shape[1] - 1)] = True
    if not closed:
        fixed[:, [0, -1]] = True
    return smooth - _bridge_offsets(np.where(fixed, smooth, 0.0), fixed, closed)


def _bridge_offsets(values: Array, fixed: Bools, closed: bool) -> Array:
    """Corrections that make fixed positions 0, fading out over a few neighbours."""
    n = values.shape[1]
    take = np.zeros_like(values)
    for row, column in zip(*np.nonzero(fixed)):
        away = np.abs(np.arange(n) - column)
        away = np.minimum(away, n - away) if closed else away
        fade = np.clip(1 - away / 4.0, 0.0, 1.0)
        take[row] += values[row, column] * fade
    take[fixed] = values[fixed]
    return take


def _slide_rough_places(rough: Array, slide_FN: Array, closed: bool) -> Array:
    """Rough positions moved by shifts of the grid."""
    n = N_PLACES
    grid = np.arange(slide_FN.shape[1]) + slide_FN
    if closed:
        whole = np.floor(grid / n)
        place = grid - whole * n
    else:
        place, whole = np.clip(grid, 0, n), np.zeros_like(grid)
    below = np.minimum(place.astype(np.intp), n - 1)
    frame = np.arange(len(rough))[:, None]
    turn = rough[:, -1:] - rough[:, :1]
    part = place - below
    shares = rough[frame, below] * (1 - part) + rough[frame, below + 1] * part + whole * turn
    return np.concatenate((shares, shares[:, :1] + turn), axis=1) if closed else shares
