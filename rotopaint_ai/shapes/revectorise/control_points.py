"""Places control points on a shape: landmarks and corners first, then one by one where the fit is worst.

Letters: F frames, P control points, G segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.shapes.revectorise.correspondence import Correspondence
from rotopaint_ai.shapes.revectorise.raw_curves import (
    N_PLACES,
    Array,
    Bools,
    RawCurves,
    Rows,
    share_distance,
    share_gaps,
    turning_deg,
)
from rotopaint_ai.shapes.revectorise.spline_fit import PointLayout, fit_curves

CORNER_DEG = 35.0
_SHARP = 0.7  # share of a corner's angle that must lie within a third of the reach
_NEAR = 2.0 / N_PLACES  # closer control points, as a share of the mean curve, are merged
_FRAMES = 20  # frames that are fitted while control points are added
_MUST_HELP = 0.85  # largest share of a segment's error that may remain after it is halved
_AT_ONCE, _SAMPLES = 64, 24  # frames per batch; samples of a segment
_HARD = 8  # additional frames, on which the first attempt is worst
_TARGET = 0.6  # goal for the mean error, as a share of the tolerance
_SEGMENT = 1.2  # goal for the worst segment, as a share of the tolerance
_PEAK, _WORST = 3.0, 6.0  # factors on the tolerance for the largest error in 9 of 10 frames, and in all frames but two
_FEW_OUTLIERS = 2  # frames that may be outliers: no control point is added for them


@dataclass(frozen=True, slots=True)
class Placement:
    """Control points of a shape on its mean curve: ascending shares from the first point, and which are corners."""

    shares: Array
    corners: Bools


def find_corners(correspondence: Correspondence) -> Array:
    """Shares of the mean where the shape has a corner in most frames."""
    closed = correspondence.curves.closed
    n = N_PLACES * 4
    grid = np.arange(n) / n
    at = correspondence.at(grid)
    wide = np.median(turning_deg(correspondence.curves, at), axis=0)
    narrow = np.median(turning_deg(correspondence.curves, at, reach=0.004), axis=0)
    found: list[float] = []
    for place in np.argsort(-wide):
        if wide[place] < CORNER_DEG:
            break
        around = (
            narrow[np.mod(np.arange(place - 4, place + 5), n)].max()
            if closed
            else narrow[max(0, place - 4) : place + 5].max()
        )
        if around > _SHARP * wide[place] and all(share_distance(grid[place], other, closed) > _NEAR for other in found):
            found.append(float(grid[place]))
    return np.sort(np.array(found))


def mark_corners(corners: Array, shares: Array, closed: bool) -> Bools:
    """Which control points are on one of the corners, both given as shares of the mean."""
    return np.array([any(share_distance(s, c, closed) < _NEAR for c in corners) for s in shares], dtype=bool)


def find_extremes(face_NC: Array) -> Array:
    """Shares of a closed mean curve at its leftmost, top, rightmost and bottom point: [4]."""
    n = len(face_NC) - 1
    x, y = face_NC[:n].T
    return np.array([x.argmin(), y.argmin(), x.argmax(), y.argmax()], dtype=np.float64) / n


def set_point_count(shares: Array, n_points: int, kept: Sequence[float], closed: bool) -> Array:
    """Change the number of shares to a sheet's: remove the closest neighbours, halve the widest gaps."""
    shares = np.sort(shares)
    while len(shares) > n_points:
        gaps = np.diff(np.append(shares, shares[0] + 1)) if closed else np.append(np.diff(shares), np.inf)
        before = np.roll(gaps, 1)
        free = np.array([all(share_distance(s, k, closed) > 1e-6 for k in kept) for s in shares])
        free[0] = False
        if not closed:
            free[-1] = False
        if not free.any():
            free[1:] = True
        shares = np.delete(shares, np.where(free, gaps + before, np.inf).argmin())
    while len(shares) < n_points:
        gaps = share_gaps(shares, closed)
        g = int(gaps.argmax())
        shares = np.sort(np.append(shares, np.mod(shares[g] + gaps[g] / 2, 1.0)))
    return shares


def merge_places(wanted: list[tuple[float, float]], closed: bool) -> Array:
    """Ascending shares from (importance, share); of two close ones the less important is dropped."""
    kept: list[float] = []
    for _, share in sorted(wanted, key=lambda item: -item[0]):
        if all(share_distance(share, other, closed) > _NEAR for other in kept):
            kept.append(share)
    return np.sort(np.array(kept))


def add_points(
    correspondence: Correspondence, knots: Array, *, tolerance_px: float, most: int, mirrored: bool
) -> Placement:
    """Add control points to `knots` until the spline follows the raw curves, at most `most` in all.

    `mirrored`: the shape is symmetric (share s mirrors 1 - s), and its control points must be too. `tolerance_px`: an
    invisible mean distance, in plate pixels.
    """
    by_length = np.argsort(correspondence.curves.lengths)  # the smallest and largest are the hardest to fit
    rows = np.linspace(0, len(by_length) - 1, _FRAMES).astype(np.intp)
    rows = np.unique(np.concatenate((rows, by_length[:3], by_length[-3:])))
    closed, corners = correspondence.curves.closed, find_corners(correspondence)
    shares = _with_fewest(np.sort(knots), closed)
    for is_last in (False, True):
        shares = _add_where_worst(correspondence, rows, shares, tolerance_px=tolerance_px, most=most, mirrored=mirrored)
        if not is_last:  # repeat with the frames that fit worst
            peak_F = segment_errors(correspondence, shares, mark_corners(corners, shares, closed))[1].max(axis=1)
            rows = np.unique(np.concatenate((rows, np.argsort(peak_F)[-_HARD:])))
    return Placement(shares, mark_corners(corners, shares, closed))


def _add_where_worst(
    correspondence: Correspondence, rows: Rows, shares: Array, *, tolerance_px: float, most: int, mirrored: bool
) -> Array:
    """Halve the worst segment until all are good enough; a segment stays whole if halving does not help."""
    closed = correspondence.curves.closed
    small, corners = correspondence.part(rows), find_corners(correspondence)
    hopeless: set[float] = set()
    excess_G, mean = _excess(small, shares, mark_corners(corners, shares, closed))
    while len(shares) < most:
        lengths = share_gaps(shares, closed)
        usable = (lengths > 2.2 * _NEAR) & ~np.isin(shares[: len(lengths)], list(hopeless))
        open_G = np.where(usable, excess_G, 0.0)
        if (mean <= _TARGET * tolerance_px and open_G.max() <= tolerance_px) or open_G.max() <= 0:
            break
        worst = int(open_G.argmax())
        more = np.sort(np.concatenate((shares, _split_segment(shares, worst, closed, mirrored))))
        if len(more) > most:
            break
        new_G, new_mean = _excess(small, more, mark_corners(corners, more, closed))
        halves = new_G[np.searchsorted(more, shares[worst]) :][:2]
        if halves.max() > _MUST_HELP * open_G[worst]:
            hopeless.add(float(shares[worst]))
            continue
        shares, excess_G, mean = more, new_G, new_mean
    return shares


def _excess(correspondence: Correspondence, shares: Array, corners: Bools) -> tuple[Array, float]:
    """Error of each segment [G], where 1 is the tolerance, and the mean distance in pixels."""
    error_FG, peak_FG = segment_errors(correspondence, shares, corners)
    worst_G = np.sqrt((error_FG**2).mean(axis=0))
    odd = np.sort(peak_FG, axis=0)[-min(_FEW_OUTLIERS + 1, len(peak_FG))]
    peak_G = np.maximum(np.quantile(peak_FG, 0.9, axis=0) / _PEAK, odd / _WORST)
    lengths = share_gaps(shares, correspondence.curves.closed)
    mean = float((error_FG * lengths).sum(axis=1).mean() / lengths.sum())
    return np.maximum(worst_G / _SEGMENT, peak_G), mean


def segment_errors(correspondence: Correspondence, shares: Array, corners: Bools) -> tuple[Array, Array]:
    """Mean and largest distance in pixels between the raw curve and a spline with these control points: [F, G] each.

    The mean is from raw curve to spline; the largest is in both directions, so that a loop between two points counts.
    """
    curves, at = correspondence.curves, correspondence.at(shares)
    points = fit_curves(curves, at, PointLayout(correspondence.curves.closed, corners))
    parts = [
        _segment_errors(
            correspondence.curves.rows(slice(row, row + _AT_ONCE)),
            at[row : row + _AT_ONCE],
            points[row : row + _AT_ONCE],
        )
        for row in range(0, len(at), _AT_ONCE)
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _segment_errors(curves: RawCurves, at: Array, points: Array) -> tuple[Array, Array]:
    closed = curves.closed
    ends = np.concatenate((at[:, 1:], at[:, :1] + 1), axis=1) if closed else at[:, 1:]
    begins = at if closed else at[:, :-1]
    inside = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    f, g = begins.shape
    raw = curves.at((begins[..., None] + (ends - begins)[..., None] * inside).reshape(f, -1)).reshape(f, g, -1, 2)
    after = np.roll(points, -1, axis=1) if closed else points[:, 1:]
    own = points if closed else points[:, :-1]
    t = np.linspace(0, 1, 49)[:, None]
    p = (own[..., :2], own[..., :2] + own[..., 4:6], after[..., :2] + after[..., 2:4], after[..., :2])
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    curve = np.asarray(sum(w * q[:, :, None] for w, q in zip(weights, p)))
    away = np.linalg.norm(raw[:, :, :, None] - curve[:, :, None], axis=-1)
    there, back = away.min(axis=3), away.min(axis=2)
    gap = np.linalg.norm(np.diff(raw, axis=2), axis=-1).max(axis=2) / 2  # the raw curve is known only at its samples
    return np.asarray(there.mean(axis=2)), np.maximum(there.max(axis=2), back.max(axis=2) - gap)


def _split_segment(shares: Array, segment: int, closed: bool, mirrored: bool) -> Array:
    """The middle of a segment, and that of its mirror image."""
    after = shares[segment + 1] if segment + 1 < len(shares) else shares[0] + 1
    middle = float(np.mod((shares[segment] + after) / 2, 1.0)) if closed else float((shares[segment] + after) / 2)
    new = [middle]
    if mirrored:
        other = float(np.mod(1.0 - middle, 1.0))
        if all(share_distance(other, one, closed) > _NEAR for one in (middle, *shares)):
            new.append(other)
    return np.array(new)


def _with_fewest(shares: Array, closed: bool) -> Array:
    """At least the ends of an open shape, or three points of a closed one."""
    if not closed:
        return merge_places([(1.0, 0.0), (1.0, 1.0), *((0.0, float(s)) for s in shares)], closed)
    while len(shares) < 3:
        gaps = share_gaps(shares, closed) if len(shares) else np.array([1.0])
        g = int(gaps.argmax())
        shares = np.sort(np.append(shares, np.mod((shares[g] if len(shares) else 0.0) + gaps[g] / 2, 1.0)))
    return shares
