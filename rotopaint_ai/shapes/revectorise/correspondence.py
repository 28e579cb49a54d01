"""The same feature of a shape in every frame: curves brought into correspondence with their mean.

Every curve of a shape (and of its mirror image, mirrored) is aligned to a running mean after removing its centre and
size. Landmarks on the shape are matched exactly. Elsewhere a dynamic program (`raw_curves.slide_places`) shifts samples
along the curve until position and direction agree, with a penalty on uneven shifts. A feature is identified by its
share of the mean curve.
Letters: F curves, M fine samples, N samples of the mean, A anchors, C components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rotopaint_ai.shapes.revectorise.raw_curves import (
    N_PLACES,
    TURN_WEIGHT,
    Array,
    Bools,
    RawCurves,
    Rows,
    at_shares,
    directions,
    group_mean,
    reverse_where,
    share_distance,
    shares_at,
    slide_places,
)

_ROUNDS = 3
_NEAR = 0.025  # a frame's own anchor is used within this share of its group's median
_WINDOW = 0.10  # search range for an anchor, as a share of the length


@dataclass(frozen=True, slots=True)
class Correspondence:
    """Curves of one symmetric group in correspondence.

    `curves`: equally oriented. `shares_FN`: [F, N + 1] position on each curve of each share 0..1 of the mean,
    ascending; on a closed curve the last is the first plus 1. `mean_NC`: the mean curve in normalised space.
    `backwards`: curves that were reversed. `anchor_shares`: [A] anchors on the mean. `misfit`: [F] root mean square
    distance to the mean.
    """

    curves: RawCurves
    shares_FN: Array
    mean_NC: Array
    backwards: Bools
    anchor_shares: Array
    misfit: Array

    def at(self, shares: Array) -> Array:
        """Positions on each curve of shares [P] of the mean: [F, P], ascending with the shares."""
        return shares_at(self.shares_FN, shares)

    def part(self, rows: slice | Rows) -> Correspondence:
        """The correspondence of some curves."""
        return replace(
            self,
            curves=self.curves.rows(rows),
            shares_FN=self.shares_FN[rows],
            backwards=self.backwards[rows],
            misfit=self.misfit[rows],
        )

    def started_at(self, share: float) -> Correspondence:
        """The same with the mean starting at `share` of a closed curve; without anchors and mean."""
        grid = np.arange(N_PLACES + 1) / N_PLACES
        return replace(self, shares_FN=self.at(grid + share), mean_NC=self.mean_NC[:0], anchor_shares=np.zeros(0))


def find_correspondence(
    curves: RawCurves, face_FMC: Array, anchors_FAC: Array, *, groups: Rows, reach: float = 0.03
) -> Correspondence:
    """Bring F curves into correspondence with their mean.

    `face_FMC`: the same samples in face space, mirror images already mirrored. `anchors_FAC`: landmarks on the shape,
    face space, NaN where unknown. `groups`: [F] equal numbers for curves whose samples already follow the same features
    (see `point_tracks`): they share one alignment, but each matches its own anchors. `reach`: largest distance in face
    units of an anchor from the curve.
    """
    normal = _Normal.of(face_FMC)
    start = _first_curve(face_FMC, anchors_FAC, curves.closed, reach)
    anchor_shares = _first_anchor_shares(face_FMC[start], anchors_FAC[start], curves.closed, reach)
    found = anchor_shares[np.isfinite(anchor_shares)]
    offset = float(found[0]) if curves.closed and len(found) else 0.0
    grid = np.arange(N_PLACES + 1) / N_PLACES
    shares = np.broadcast_to(grid + offset, (len(curves), N_PLACES + 1)).copy()
    mean = at_shares(normal.samples[start : start + 1], grid[None] + offset, curves.closed)[0]
    anchor_shares = np.mod(anchor_shares - offset, 1.0) if curves.closed else anchor_shares
    usable = _in_order(anchor_shares, curves.closed)
    anchor_shares, anchors = anchor_shares[usable], anchors_FAC[:, usable]
    pins = _pins(anchor_shares, curves.closed)
    samples, flipped, first = _orient(normal.samples, normal.put(anchors), mean, pins, groups, curves.closed)
    face = reverse_where(face_FMC, flipped, curves.closed)
    for _ in range(_ROUNDS):
        found = _anchor_places(face, anchors, first, pins / N_PLACES, curves.closed, reach)
        found = _agree_in_groups(found, pins / N_PLACES, groups)
        rough = _grid_places(found, first, pins / N_PLACES, curves.closed)
        shares = slide_places(samples, rough, mean, pins, np.isfinite(found), groups, curves.closed)
        mean = _mean_curve(samples, shares, curves.closed)
        first = shares[:, 0] if not len(pins) else first
    off = at_shares(samples, shares, curves.closed) - mean
    misfit = np.sqrt((off**2).sum(axis=2).mean(axis=1))
    everything = np.full(len(usable), np.nan)
    everything[usable] = pins / N_PLACES
    oriented = replace(curves, samples_FMC=reverse_where(curves.samples_FMC, flipped, curves.closed))
    return Correspondence(oriented, shares, mean, flipped, everything, misfit)


@dataclass(frozen=True, slots=True)
class _Normal:
    """Curves without centre and size: each axis of face space is divided by the curve's standard deviation along it."""

    samples: Array
    middle: Array
    spread: Array

    @classmethod
    def of(cls, face_FMC: Array) -> _Normal:
        middle = face_FMC.mean(axis=1, keepdims=True)
        spread = face_FMC.std(axis=1, keepdims=True)
        # A closed eye or a straight seam is a line: its thickness is noise and must not be scaled up.
        typical = np.median(spread, axis=0, keepdims=True)
        spread = np.maximum(spread, np.maximum(0.4 * typical, 0.15 * typical.max()))
        return cls((face_FMC - middle) / spread, middle, spread)

    def put(self, points_FAC: Array) -> Array:
        return (points_FAC - self.middle) / self.spread


def _first_curve(face: Array, anchors: Array, closed: bool, reach: float) -> int:
    """The first reference curve: most known anchors; then a typical open shape of a closed curve, or a typical
    length."""
    known = np.zeros(len(face))
    for column in range(anchors.shape[1]):
        known += np.linalg.norm(face - anchors[:, column, None], axis=2).min(axis=1) <= reach
    steps = np.linalg.norm(np.diff(face, axis=1), axis=2).sum(axis=1)
    if closed:
        x, y = face[..., 0], face[..., 1]
        area = np.abs((x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)) / 2
        rank = area / np.maximum(steps, 1e-9) ** 2
        rank = -np.abs(rank - np.quantile(rank, 0.8))
    else:
        rank = -np.abs(np.log(np.maximum(steps, 1e-9) / np.median(steps)))
    return int(np.lexsort((rank, known))[-1])


def _first_anchor_shares(samples: Array, anchors: Array, closed: bool, reach: float) -> Array:
    """Position of each anchor on the reference curve: [A], NaN if it is too far away."""
    if not len(anchors):
        return np.zeros(0)
    away = np.linalg.norm(samples[None] - np.nan_to_num(anchors, nan=1e9)[:, None], axis=2)
    share = away.argmin(axis=1) / (len(samples) if closed else len(samples) - 1)
    return np.where(away.min(axis=1) <= reach, share, np.nan)


def _in_order(shares: Array, closed: bool) -> Bools:
    """Anchors with distinct positions on the mean: of two that nearly coincide the later one is dropped."""
    usable = np.isfinite(shares)
    for one in range(len(shares)):
        for other in range(one):
            near = share_distance(shares[one], shares[other], closed) < 1.5 / N_PLACES
            if usable[one] and usable[other] and near:
                usable[one] = False
    return usable


def _pins(shares: Array, closed: bool) -> Rows:
    """Anchors on the sample grid, all different."""
    pins = np.rint(shares * N_PLACES).astype(np.intp)
    return np.mod(pins, N_PLACES) if closed else np.clip(pins, 0, N_PLACES)


def _orient(
    samples: Array, anchors: Array, mean: Array, pins: Rows, groups: Rows, closed: bool
) -> tuple[Array, Bools, Array]:
    """Reverse curves that run against the mean, and find the mean's start on each; groups decide together."""
    names, of_row = np.unique(groups, return_inverse=True)
    ways = [samples, reverse_where(samples, np.ones(len(samples), dtype=bool), closed)]
    costs = np.stack([group_mean(_shift_costs(way, anchors, mean, pins, closed), of_row) for way in ways])
    flips = costs[1].min(axis=1) < costs[0].min(axis=1)
    shift = costs[flips.astype(np.intp), np.arange(len(names))].argmin(axis=1) / N_PLACES
    flips, shift = flips[of_row], shift[of_row]
    return np.where(flips[:, None, None], ways[1], ways[0]), flips, shift


def _shift_costs(samples: Array, anchors: Array, mean: Array, pins: Rows, closed: bool) -> Array:
    """Cost of each start (in grid steps) of each curve on the mean: [F, S]; an open curve has one start."""
    grid = np.arange(N_PLACES) / (N_PLACES if closed else N_PLACES - 1)
    coarse = at_shares(samples, np.broadcast_to(grid, (len(samples), N_PLACES)), closed)
    model = at_shares(mean[None, :-1] if closed else mean[None], grid[None], closed)[0]
    shifts = np.arange(N_PLACES) if closed else np.zeros(1, dtype=np.intp)
    cost = (
        _shift_distances(coarse, model, shifts)
        + TURN_WEIGHT * _shift_distances(directions(coarse, closed), directions(model[None], closed)[0], shifts) / 2
    )
    if len(pins):
        place = np.mod(pins[:, None] + shifts, N_PLACES) if closed else np.minimum(pins, N_PLACES - 1)[:, None]
        off = ((coarse[:, place] - anchors[:, :, None]) ** 2).sum(axis=-1)
        # Anchors far from the curve everywhere carry no information; NaN are unknown.
        cost = cost + 2.0 * np.nan_to_num(np.where(np.isfinite(off), np.minimum(off, 4.0), np.nan)).mean(axis=1)
    return np.asarray(cost)


def _shift_distances(curves_FNC: Array, model_NC: Array, shifts: Rows) -> Array:
    """Mean squared distance of each curve to the model for each cyclic shift: [F, S]."""
    own = (curves_FNC**2).sum(axis=2).mean(axis=1)[:, None] + (model_NC**2).sum(axis=1).mean()
    z, m = curves_FNC[..., 0] + 1j * curves_FNC[..., 1], model_NC[:, 0] + 1j * model_NC[:, 1]
    together = np.fft.ifft(np.fft.fft(z, axis=1) * np.fft.fft(m).conj(), axis=1).real / len(m)
    return np.asarray(own - 2 * together[:, shifts])


def _anchor_places(face: Array, anchors: Array, first: Array, shares: Array, closed: bool, reach: float) -> Array:
    """Position of each anchor on each curve: [F, A] shares near `first + shares`; NaN where unknown, far or out of
    order."""
    f, m = face.shape[:2]
    if not len(shares):
        return np.zeros((f, 0))
    units = m if closed else m - 1
    window = np.arange(-round(_WINDOW * m), round(_WINDOW * m) + 1)
    middle = np.rint((first[:, None] + shares) * units).astype(np.intp)
    place = middle[:, :, None] + window
    inside = np.ones_like(place, dtype=bool) if closed else (place >= 0) & (place <= m - 1)
    row = np.arange(f)[:, None, None]
    away = np.linalg.norm(face[row, np.mod(place, m)] - anchors[:, :, None], axis=-1)
    away = np.where(inside & np.isfinite(away), away, np.inf)
    best = np.argmin(away**2 + (0.2 * reach * window / window[-1]) ** 2, axis=2)
    nearest = np.take_along_axis(away, best[..., None], axis=2)[..., 0]
    at = np.take_along_axis(place, best[..., None], axis=2)[..., 0]
    found = (at + _foot(face, anchors, at, closed)) / units
    return np.where(nearest <= reach, found, np.nan)


def _foot(face: Array, anchors: Array, at: Rows, closed: bool) -> Array:
    """Offset from `at` to the nearest point of the curve to each anchor, in samples, at most one."""
    m = face.shape[1]
    row = np.arange(len(face))[:, None]
    before, on, after = (np.mod(i, m) if closed else np.clip(i, 0, m - 1) for i in (at - 1, at, at + 1))
    here = face[row, on]
    step = (face[row, after] - face[row, before]) / 2
    size = np.maximum((step**2).sum(axis=-1), 1e-18)
    foot = np.clip(((np.nan_to_num(anchors, nan=0.0) - here) * step).sum(axis=-1) / size, -1.0, 1.0)
    return np.asarray(foot if closed else np.clip(at + foot, 0, m - 1) - at)


def _agree_in_groups(found: Array, shares: Array, groups: Rows) -> Array:
    """Anchor positions per group: a frame's own if close to the group's median, else the median.

    Anchors whose medians are out of order are dropped from the group.
    """
    out = np.full_like(found, np.nan)
    if not found.shape[1]:
        return out
    for group in np.unique(groups):
        rows = groups == group
        own = found[rows]
        known = np.isfinite(own).any(axis=0)
        middle = np.full(len(shares), np.nan)
        middle[known] = np.nanmedian(own[:, known], axis=0)
        middle = _drop_out_of_order(middle, shares)
        near = np.abs(own - middle) <= _NEAR
        mixed = np.where(near, own, middle)
        kept = np.array([_drop_out_of_order(row, shares) for row in mixed])
        ascends = (np.isfinite(kept) == np.isfinite(mixed)).all(axis=1)
        out[rows] = np.where(ascends[:, None], mixed, middle)
    return out


def _drop_out_of_order(found: Array, shares: Array) -> Array:
    """Positions [A] without those that are out of order or nearly coincide with another."""
    order = [column for column in np.argsort(shares) if np.isfinite(found[column])]
    out = np.full_like(found, np.nan)
    last = -np.inf
    for column in order:
        if found[column] >= last + 0.25 / N_PLACES:
            out[column] = last = found[column]
    if len(order) > 1 and out[order[-1]] - out[order[0]] >= 1.0:
        out[order[-1]] = np.nan
    return out


def _grid_places(found: Array, first: Array, shares: Array, closed: bool) -> Array:
    """Grid positions on each curve, linear between anchors: [F, N + 1]. Open ends stay ends."""
    grid = np.arange(N_PLACES + 1) / N_PLACES
    rough = np.empty((len(first), N_PLACES + 1))
    for row in range(len(first)):
        known = np.isfinite(found[row])
        if not closed:
            known &= (shares > 0) & (shares < 1) & (found[row] > 0.002) & (found[row] < 0.998)
        order = np.argsort(shares[known])
        at, place = shares[known][order], found[row][known][order]
        if not closed:
            at, place = np.concatenate(([0.0], at, [1.0])), np.concatenate(([0.0], place, [1.0]))
        elif len(at):
            at = np.concatenate((at[-1:] - 1, at, at[:1] + 1))
            place = np.concatenate((place[-1:] - 1, place, place[:1] + 1))
        else:
            at, place = np.array([0.0, 1.0]), first[row] + np.array([0.0, 1.0])
        rough[row] = np.interp(grid, at, place)
    return rough


def _mean_curve(samples: Array, shares: Array, closed: bool) -> Array:
    """The mean of aligned curves; on a closed one the last point equals the first."""
    mean = np.asarray(at_shares(samples, shares, closed).mean(axis=0))
    if closed:
        mean[-1] = mean[0]
    return mean
