"""The same place on a shape in every frame: curves registered to their mean.

Every curve of a shape (and of its mirror image, turned over) is laid on a running mean in a space where its middle and
its size are taken out. Where landmarks lie on the shape they are met exactly; between them, and where there are none, a
dynamic program slides the places along the curve until position and direction agree, held back by a price for uneven
speed. A place is named by its share of the mean curve.

Letters: F curves, M fine samples, N places on the mean, A anchors, C components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.training.mining.outline import Array, Bools, Outlines, at_shares, reversed_where

Rows = npt.NDArray[np.intp]

N_PLACES = 96
_FINE = 4  # slides are multiples of 1 / (N_PLACES * _FINE)
_REACH = 36  # largest slide, in those steps
_TURN = 0.5  # weight of a difference in direction against one of position
_UNEVEN = 2e-3  # price of a change of slide between neighbours
_FAR = 2e-5  # price of a slide as such
_ROUNDS = 3
_NEAR = 0.025  # a frame's own anchor is believed within this share of its group's
_WINDOW = 0.10  # an anchor is looked for within this share of the length around where it should be
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Registration:
    """Curves of one family brought into step.

    `curves`: oriented alike. `shares_FN`: [F, N + 1] place of each share 0..1 of the mean on each curve, ascending; a
    closed curve's last is its first plus 1. `mean_NC`: the mean curve in normal space. `backwards`: curves that had to
    be turned round. `anchor_shares`: [A] where anchors lie on the mean. `misfit`: [F] root mean square distance to the
    mean.
    """

    curves: Outlines
    shares_FN: Array
    mean_NC: Array
    backwards: Bools
    anchor_shares: Array
    misfit: Array

    def at(self, shares: Array) -> Array:
        """Where shares [P] of the mean lie on each curve: [F, P], ascending with the shares."""
        return shares_at(self.shares_FN, shares)

    def part(self, rows: slice | Rows) -> Registration:
        """The registration of some curves."""
        return replace(
            self,
            curves=self.curves.rows(rows),
            shares_FN=self.shares_FN[rows],
            backwards=self.backwards[rows],
            misfit=self.misfit[rows],
        )

    def started_at(self, share: float) -> Registration:
        """The same with the mean's own start moved to `share` of a closed curve; anchors and mean are left behind."""
        grid = np.arange(N_PLACES + 1) / N_PLACES
        return replace(self, shares_FN=self.at(grid + share), mean_NC=self.mean_NC[:0], anchor_shares=np.zeros(0))


def shares_at(shares_FN: Array, shares: Array) -> Array:
    """Interpolate [F, N + 1] places at shares [P] of the mean; whole turns carry over."""
    n = shares_FN.shape[1] - 1
    whole = np.floor(shares)
    place = (shares - whole) * n
    below = np.minimum(place.astype(np.intp), n - 1)
    part = place - below
    turn = shares_FN[:, -1:] - shares_FN[:, :1]
    return np.asarray(shares_FN[:, below] * (1 - part) + shares_FN[:, below + 1] * part + whole * turn)


def register(
    curves: Outlines, face_FMC: Array, anchors_FAC: Array, *, groups: Rows, reach: float = 0.03
) -> Registration:
    """Bring F curves into step.

    `face_FMC`: the same samples in face space, mirror images already turned over. `anchors_FAC`: landmarks that lie on
    the shape, face space, NaN where unknown. `groups`: [F] curves whose samples follow the same places already (see
    `tracks`) share a number: they are moved as one, except that each meets its own anchors. `reach`: face units beyond
    which an anchor is not believed to be on the curve.
    """
    normal = _Normal.of(face_FMC, curves.closed)
    start = _reference(face_FMC, anchors_FAC, curves.closed, reach)
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
    face = np.where(flipped[:, None, None], _back(face_FMC, curves.closed), face_FMC)
    for _ in range(_ROUNDS):
        found = _anchor_places(face, anchors, first, pins / N_PLACES, curves.closed, reach)
        found = _agreed(found, pins / N_PLACES, groups)
        rough = _through(found, first, pins / N_PLACES, curves.closed)
        shares = _slide(samples, rough, mean, pins, np.isfinite(found), groups, curves.closed)
        mean = _mean(samples, shares, curves.closed)
        first = shares[:, 0] if not len(pins) else first
    off = at_shares(samples, shares, curves.closed) - mean
    misfit = np.sqrt((off**2).sum(axis=2).mean(axis=1))
    everything = np.full(len(usable), np.nan)
    everything[usable] = pins / N_PLACES
    return Registration(reversed_where(curves, flipped), shares, mean, flipped, everything, misfit)


def _back(samples: Array, closed: bool) -> Array:
    back = samples[:, ::-1]
    return np.roll(back, 1, axis=1) if closed else back


@dataclass(frozen=True, slots=True)
class _Normal:
    """Curves without their middle and size: each axis of face space divided by the curve's own spread along it."""

    samples: Array
    middle: Array
    spread: Array

    @classmethod
    def of(cls, face_FMC: Array, closed: bool) -> _Normal:
        middle = face_FMC.mean(axis=1, keepdims=True)
        spread = face_FMC.std(axis=1, keepdims=True)
        # A closed eye is a line: its thickness says nothing and must not be blown up. Nor must a straight seam's.
        typical = np.median(spread, axis=0, keepdims=True)
        spread = np.maximum(spread, np.maximum(0.4 * typical, 0.15 * typical.max()))
        return cls((face_FMC - middle) / spread, middle, spread)

    def put(self, points_FAC: Array) -> Array:
        return (points_FAC - self.middle) / self.spread


def _reference(face: Array, anchors: Array, closed: bool, reach: float) -> int:
    """The curve to begin with: most anchors known; then, closed, the most open one, or, open, the most usual length."""
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
    """Where the reference curve passes each anchor: [A], NaN where it does not."""
    if not len(anchors):
        return np.zeros(0)
    away = np.linalg.norm(samples[None] - np.nan_to_num(anchors, nan=1e9)[:, None], axis=2)
    share = away.argmin(axis=1) / (len(samples) if closed else len(samples) - 1)
    return np.where(away.min(axis=1) <= reach, share, np.nan)


def _in_order(shares: Array, closed: bool) -> Bools:
    """Anchors that have a place of their own on the mean: of two that nearly coincide the later one goes."""
    usable = np.isfinite(shares)
    for one in range(len(shares)):
        for other in range(one):
            near = abs(shares[one] - shares[other])
            near = min(near, 1 - near) if closed else near
            if usable[one] and usable[other] and near < 1.5 / N_PLACES:
                usable[one] = False
    return usable


def _pins(shares: Array, closed: bool) -> Rows:
    """Anchors on the grid of places, all different."""
    pins = np.rint(shares * N_PLACES).astype(np.intp)
    return np.mod(pins, N_PLACES) if closed else np.clip(pins, 0, N_PLACES)


def _orient(
    samples: Array, anchors: Array, mean: Array, pins: Rows, groups: Rows, closed: bool
) -> tuple[Array, Bools, Array]:
    """Turn curves round that run against the mean, and find where on each the mean begins; a group is of one mind."""
    names, of_row = np.unique(groups, return_inverse=True)
    ways = [samples, _back(samples, closed)]
    costs = np.stack([_group_mean(_shift_costs(way, anchors, mean, pins, closed), of_row) for way in ways])
    flips = costs[1].min(axis=1) < costs[0].min(axis=1)
    shift = costs[flips.astype(np.intp), np.arange(len(names))].argmin(axis=1) / N_PLACES
    flips, shift = flips[of_row], shift[of_row]
    return np.where(flips[:, None, None], ways[1], ways[0]), flips, shift


def _group_mean(values: Array, of_row: Rows) -> Array:
    """Mean over the rows of each group: [F, ...] -> [G, ...]."""
    total = np.zeros((int(of_row.max()) + 1, *values.shape[1:]))
    np.add.at(total, of_row, values)
    counts = np.bincount(of_row).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(total / counts)


def _shift_costs(samples: Array, anchors: Array, mean: Array, pins: Rows, closed: bool) -> Array:
    """Cost of each start (in places of the grid) of each curve on the mean: [F, S]; an open curve has one."""
    grid = np.arange(N_PLACES) / (N_PLACES if closed else N_PLACES - 1)
    coarse = at_shares(samples, np.broadcast_to(grid, (len(samples), N_PLACES)), closed)
    model = at_shares(mean[None, :-1] if closed else mean[None], grid[None], closed)[0]
    shifts = np.arange(N_PLACES) if closed else np.zeros(1, dtype=np.intp)
    cost = (
        _apart(coarse, model, shifts) + _TURN * _apart(_ways(coarse, closed), _ways(model[None], closed)[0], shifts) / 2
    )
    if len(pins):
        place = np.mod(pins[:, None] + shifts, N_PLACES) if closed else np.minimum(pins, N_PLACES - 1)[:, None]
        off = ((coarse[:, place] - anchors[:, :, None]) ** 2).sum(axis=-1)
        # Anchors that are far from the curve in every position tell nothing; NaN are not known.
        cost = cost + 2.0 * np.nan_to_num(np.where(np.isfinite(off), np.minimum(off, 4.0), np.nan)).mean(axis=1)
    return np.asarray(cost)


def _apart(curves_FNC: Array, model_NC: Array, shifts: Rows) -> Array:
    """Mean squared distance of each curve to the model for each cyclic shift: [F, S]."""
    own = (curves_FNC**2).sum(axis=2).mean(axis=1)[:, None] + (model_NC**2).sum(axis=1).mean()
    z, m = curves_FNC[..., 0] + 1j * curves_FNC[..., 1], model_NC[:, 0] + 1j * model_NC[:, 1]
    together = np.fft.ifft(np.fft.fft(z, axis=1) * np.fft.fft(m).conj(), axis=1).real / len(m)
    return np.asarray(own - 2 * together[:, shifts])


def _ways(curves: Array, closed: bool) -> Array:
    """Unit directions at each sample."""
    if closed:
        step = np.roll(curves, -1, axis=1) - np.roll(curves, 1, axis=1)
    else:
        step = np.gradient(curves, axis=1)
    return np.asarray(step / np.maximum(np.linalg.norm(step, axis=2, keepdims=True), 1e-9))


def _anchor_places(face: Array, anchors: Array, first: Array, shares: Array, closed: bool, reach: float) -> Array:
    """Where each curve passes its anchors: [F, A] shares near `first + shares`, NaN where unknown, far or out of
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
    """How many samples beyond `at` the foot of each anchor on the curve lies, within one sample to either side."""
    m = face.shape[1]
    row = np.arange(len(face))[:, None]
    before, on, after = (np.mod(i, m) if closed else np.clip(i, 0, m - 1) for i in (at - 1, at, at + 1))
    here = face[row, on]
    step = (face[row, after] - face[row, before]) / 2
    size = np.maximum((step**2).sum(axis=-1), 1e-18)
    foot = np.clip(((np.nan_to_num(anchors, nan=0.0) - here) * step).sum(axis=-1) / size, -1.0, 1.0)
    return np.asarray(foot if closed else np.clip(at + foot, 0, m - 1) - at)


def _agreed(found: Array, shares: Array, groups: Rows) -> Array:
    """Anchors' places as their group sees them: a frame's own where it is near the group's median, else the median.

    Anchors whose medians stand out of the order of the mean are dropped from the group.
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
        middle = _ordered(middle, shares)
        near = np.abs(own - middle) <= _NEAR
        mixed = np.where(near, own, middle)
        ascends = np.array([_is_same(_ordered(row, shares), row) for row in mixed])
        out[rows] = np.where(ascends[:, None], mixed, middle)
    return out


def _is_same(a: Array, b: Array) -> bool:
    return bool(np.array_equal(np.isfinite(a), np.isfinite(b)))


def _ordered(found: Array, shares: Array) -> Array:
    """Places [A] without those that stand out of the order of the mean or almost on another."""
    order = [column for column in np.argsort(shares) if np.isfinite(found[column])]
    out = np.full_like(found, np.nan)
    last = -np.inf
    for column in order:
        if found[column] >= last + 0.25 / N_PLACES:
            out[column] = last = found[column]
    if len(order) > 1 and out[order[-1]] - out[order[0]] >= 1.0:
        out[order[-1]] = np.nan
    return out


def _through(found: Array, first: Array, shares: Array, closed: bool) -> Array:
    """Places of the grid on each curve, in straight runs through its anchors: [F, N + 1]. Open ends stay ends."""
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


def _slide(samples: Array, rough: Array, mean: Array, pins: Rows, pinned: Bools, groups: Rows, closed: bool) -> Array:
    """The dynamic program: places [F, N + 1] near `rough` that agree best with the mean, one slide for each group."""
    of_row = np.unique(groups, return_inverse=True)[1]
    parts = [
        _costs(samples[at : at + _CHUNK], rough[at : at + _CHUNK], mean, closed)
        for at in range(0, len(samples), _CHUNK)
    ]
    cost = _group_mean(np.concatenate(parts), of_row)
    held = _group_mean(pinned.astype(np.float64), of_row) > 0
    smooth = _cheapest(cost, pins, held, closed)[of_row]
    return np.maximum.accumulate(_moved(rough, smooth, closed), axis=1)


def _costs(samples: Array, rough: Array, mean: Array, closed: bool) -> Array:
    """What it costs to slide each place: [F, places, slides]."""
    f, n = len(samples), N_PLACES
    slides = np.arange(-_REACH, _REACH + 1)
    ways_mean = _ways(mean[None, :-1], True)[0] if closed else _ways(mean[None], False)[0]
    count = n if closed else n + 1
    cost = np.empty((f, count, len(slides)))
    for i in range(count):
        shares = shares_at(rough, i / n + slides / (n * _FINE)) if closed else _clamped(rough, i, slides)
        here = at_shares(samples, shares, closed)
        ahead = at_shares(samples, shares + 0.6 / n, closed) - at_shares(samples, shares - 0.6 / n, closed)
        ahead = ahead / np.maximum(np.linalg.norm(ahead, axis=2, keepdims=True), 1e-9)
        cost[:, i] = ((here - mean[i]) ** 2).sum(axis=2) + _TURN * (1 - (ahead * ways_mean[i]).sum(axis=2))
    return np.asarray(cost + _FAR * slides**2)


def _cheapest(cost: Array, pins: Rows, pinned: Bools, closed: bool) -> Array:
    """The cheapest even way through costs [G, places, slides]: slides [G, places] in units of the grid."""
    f, count = cost.shape[:2]
    n = N_PLACES
    slides = np.arange(-_REACH, _REACH + 1)
    loops = 2 if closed else 1  # once round to find the way, once more to close it
    for column, pin in enumerate(pins):
        cost[np.ix_(pinned[:, column], [min(pin, count - 1)], slides != 0)] = 1e6
    if not closed:
        cost[:, 0, slides != 0] = 1e6
        cost[:, -1, slides != 0] = 1e6
    total = np.tile(cost, (1, loops, 1))
    back = np.zeros(total.shape, dtype=np.int8)
    best = total[:, 0]
    for i in range(1, total.shape[1]):
        choices = np.stack([_shifted(best, step) + _UNEVEN * step**2 for step in (-2, -1, 0, 1, 2)])
        pick = choices.argmin(axis=0)
        back[:, i] = pick - 2
        best = np.take_along_axis(choices, pick[None], axis=0)[0] + total[:, i]
    way = np.empty((f, total.shape[1]), dtype=np.intp)
    way[:, -1] = best.argmin(axis=1)
    frame = np.arange(f)
    for i in range(total.shape[1] - 1, 0, -1):
        way[:, i - 1] = way[:, i] - back[frame, i, way[:, i]]
    if closed:  # the middle of two turns has no ends
        half = n // 2
        way = np.concatenate((way[:, n : n + half], way[:, half:n]), axis=1)
    return _smoothed((way - _REACH) / float(_FINE), pins, pinned, closed)


def _clamped(rough: Array, i: int, slides: npt.NDArray[np.signedinteger]) -> Array:
    return shares_at(rough, np.clip(i / N_PLACES + slides / (N_PLACES * _FINE), 0.0, 1.0 - 1e-9))


def _shifted(costs: Array, step: int) -> Array:
    """Costs [F, S] such that column s holds the cost of having come from s - step."""
    if step == 0:
        return costs
    out = np.full_like(costs, np.inf)
    if step > 0:
        out[:, step:] = costs[:, :-step]
    else:
        out[:, :step] = costs[:, -step:]
    return out


def _smoothed(slide_FN: Array, pins: Rows, pinned: Bools, closed: bool) -> Array:
    """Slides in grid units without the program's steps; pinned places stay pinned."""
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    kernel /= kernel.sum()
    wide = np.pad(slide_FN, ((0, 0), (6, 6)), mode="wrap" if closed else "edge")
    smooth = np.stack([np.convolve(row, kernel, mode="valid") for row in wide])
    fixed = np.zeros(slide_FN.shape, dtype=bool)
    for column, pin in enumerate(pins):
        fixed[pinned[:, column], min(pin, slide_FN.shape[1] - 1)] = True
    if not closed:
        fixed[:, [0, -1]] = True
    return smooth - _bridged(np.where(fixed, smooth, 0.0), fixed, closed)


def _bridged(values: Array, fixed: Bools, closed: bool) -> Array:
    """What has to be taken off so that fixed places become 0: their values, fading out over a few places."""
    n = values.shape[1]
    take = np.zeros_like(values)
    for row, column in zip(*np.nonzero(fixed)):
        away = np.abs(np.arange(n) - column)
        away = np.minimum(away, n - away) if closed else away
        fade = np.clip(1 - away / 4.0, 0.0, 1.0)
        take[row] += values[row, column] * fade
    take[fixed] = values[fixed]
    return take


def _moved(rough: Array, slide_FN: Array, closed: bool) -> Array:
    """Rough places moved by slides of the grid."""
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


def _mean(samples: Array, shares: Array, closed: bool) -> Array:
    """The mean of the curves in step; closed, its last point is its first."""
    mean = np.asarray(at_shares(samples, shares, closed).mean(axis=0))
    if closed:
        mean[-1] = mean[0]
    return mean
