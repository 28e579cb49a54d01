"""Curves through runs of points: a Bezier curve with a given number of control points, as close as it gets.

Convention: `points` are (M, 2), plate space, in order. Smooth control points get collinear tangents, corners free ones.
Source of the start: Schneider, "An Algorithm for Automatically Fitting Digitized Curves", Graphics Gems (1990), the
least-squares step for tangent lengths, with control points spread so that every cubic errs alike; `fit_refine` refines
over all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import FitError
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.fit_refine import refine, unit

CORNER_DEGREES = 50.0  # sharper turns within a few pixels are corners; found by trial on eye and mouth outlines
_SPREAD_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Fitted:
    """Control points (P, 6), and the distance of the given points from the curve in pixels: mean and largest."""

    points: Array
    mean_px: float
    max_px: float


def fit(
    points: NDArray[np.floating],
    n_points: int,
    closed: bool,
    *,
    pinned: Mapping[int, Sequence[float]] | None = None,
    tolerance_px: float | None = None,
) -> Fitted:
    """Fit a Bezier curve of `n_points` control points to an ordered run of points.

    The first control point lies on the first point, the last one of an open curve on the last. `pinned` puts control
    points of given index exactly on given positions (in order along the run). Raises FitError on fewer points than the
    curve needs, or where the largest distance stays above `tolerance_px`.
    """
    line = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    line = line[np.concatenate(([True], np.abs(np.diff(line, axis=0)).max(axis=1) > 1e-9))] if len(line) else line
    if closed and len(line) > 1 and np.abs(line[0] - line[-1]).max() <= 1e-9:
        line = line[:-1]
    least = 2 if not closed else 3
    if len(line) < least or n_points < 2 or not np.isfinite(line).all():
        raise FitError(f"curve fit: {len(line)} points for {n_points} control points; wanted at least {least} and 2")
    dense, corners = _dense(line, closed, n_points)
    knots = _knots(dense, closed, n_points, corners, pinned or {})
    best = _spread(dense, closed, knots, corners, pinned or {})
    best = refine(dense, closed, best, pinned or {}, corners, knots)
    gaps = bezier.distance_to_polyline(line, bezier.flatten(best, closed, 0.005), closed)
    fitted = Fitted(best, float(gaps.mean()), float(gaps.max()))
    if tolerance_px is not None and fitted.max_px > tolerance_px:
        raise FitError(
            f"curve fit: {fitted.max_px:.2f} px off; wanted {tolerance_px:g} px: give it more control points"
        )
    return fitted


def resample(points: NDArray[np.floating], n_points: int, closed: bool) -> Array:
    """A Bezier curve (P, 6) drawn again with `n_points` control points: (n_points, 6), ends and corners kept."""
    return fit(bezier.sample(points, closed, per_segment=24), n_points, closed).points


# --- where control points go ------------------------------------------------------------------------------------------


def _dense(line: Array, closed: bool, n_points: int) -> tuple[Array, NDArray[np.intp]]:
    """The run at equal spacing, closed ones with the start repeated at the end, and rows where it has corners."""
    total = float(bezier.arc_lengths(line, closed)[-1])
    n = int(np.clip(max(24 * n_points, 2 * len(line)), 64, 1500))
    at = np.linspace(0.0, total, n + 1)
    lengths = bezier.arc_lengths(line, closed)
    dense = bezier.along(line, closed, at)
    sharp = _sharp_vertices(line, closed, lengths, max(2.0, total / (10 * n_points)))
    corners = np.round(lengths[sharp] / max(total, 1e-12) * n).astype(np.intp)
    dense[corners] = line[sharp]
    return dense, np.unique(corners)


def _sharp_vertices(line: Array, closed: bool, lengths: Array, reach_px: float) -> NDArray[np.intp]:
    """Vertices at which the run turns sharply, looking `reach_px` back and ahead so that noise makes no corners.

    Of several within that reach the sharpest counts. The first point of a run is never among them.
    """
    total = float(lengths[-1])
    at = lengths[: len(line)]
    before, after = at - reach_px, at + reach_px
    if closed:
        before, after = before % max(total, 1e-12), after % max(total, 1e-12)
    a = line - bezier.along(line, closed, np.maximum(before, 0.0))
    b = bezier.along(line, closed, np.minimum(after, total)) - line
    turn = np.abs(np.arctan2(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], (a * b).sum(axis=1)))
    turn[0] = 0.0
    if not closed:
        turn[-1] = 0.0
    kept: list[int] = []
    for vertex in np.argsort(-turn, kind="stable").tolist():
        if turn[vertex] <= np.radians(CORNER_DEGREES):
            break
        gaps = [abs(at[vertex] - at[other]) for other in kept]
        if all(min(gap, total - gap if closed else gap) > 1.5 * reach_px for gap in gaps):
            kept.append(vertex)
    return np.array(sorted(kept), dtype=np.intp)


def _knots(
    dense: Array,
    closed: bool,
    n_points: int,
    corners: NDArray[np.intp],
    pinned: Mapping[int, Sequence[float]],
) -> NDArray[np.intp]:
    """Rows of the dense run on which control points start out, a closing row n included: denser where it bends."""
    n = len(dense) - 1
    n_spans = n_points if closed else n_points - 1
    fixed = {0: 0, n_spans: n}
    previous = 0
    for index in sorted(pinned):
        if 0 < index < n_spans:
            gaps = np.hypot(*(dense[previous + 1 : n] - np.asarray(pinned[index], dtype=float)).T)
            previous += 1 + int(np.argmin(gaps)) if len(gaps) else 0
            fixed[index] = previous
    density = _density(dense, np.arange(n))
    knots = np.zeros(n_spans + 1)
    places = sorted(fixed)
    for a, b in pairwise(places):
        knots[a : b + 1] = _equal_shares(density, fixed[a], fixed[b], b - a)
    return _with_corners(np.round(knots).astype(np.intp), corners, set(places))


def _density(dense: Array, rows: NDArray[np.intp]) -> Array:
    direction = np.unwrap(np.arctan2(*np.diff(dense, axis=0).T[::-1]))
    bend = np.abs(np.gradient(direction)) if len(direction) > 2 else np.zeros(len(direction))
    width = max(3, len(rows) // 60) | 1
    bend = np.convolve(np.pad(bend, width // 2, mode="edge"), np.ones(width) / width, mode="valid")
    return np.asarray(np.sqrt(bend) + 0.25 * float(np.sqrt(bend).mean()) + 1e-6)


def _equal_shares(density: Array, begin: int, end: int, count: int) -> Array:
    """`count` spans from row begin to row end that hold equal shares of the density: (count + 1,) rows."""
    total = np.concatenate(([0.0], np.cumsum(density[begin:end])))
    return np.asarray(begin + np.interp(np.linspace(0, total[-1], count + 1), total, np.arange(len(total))))


def _with_corners(knots: NDArray[np.intp], corners: NDArray[np.intp], taken: set[int]) -> NDArray[np.intp]:
    """The nearest free knot moved onto each corner, as long as knots stay in order."""
    knots = knots.copy()
    taken = set(taken)
    for corner in corners:
        if corner in knots:
            taken.add(int(np.flatnonzero(knots == corner)[0]))
            continue
        for index in np.argsort(np.abs(knots - corner))[:3].tolist():
            if index not in taken and knots[index - 1] < corner < knots[index + 1]:
                knots[index] = corner
                taken.add(index)
                break
    for i in range(1, len(knots) - 1):
        knots[i] = min(max(knots[i], knots[i - 1] + 1), knots[-1] - (len(knots) - 1 - i))
    return knots


# --- curves -----------------------------------------------------------------------------------------------------------


def _spread(
    dense: Array,
    closed: bool,
    knots: NDArray[np.intp],
    corners: NDArray[np.intp],
    pinned: Mapping[int, Sequence[float]],
) -> Array:
    """Move the knots until every cubic errs alike; give the best curve seen and leave its knots in `knots`."""
    fixed = {0, len(knots) - 1, *(i for i in pinned if i < len(knots))}
    fixed |= {i for i, row in enumerate(knots.tolist()) if row in set(corners.tolist())}
    best, best_error, best_knots = None, np.inf, knots.copy()
    trial = knots.copy()
    for _ in range(_SPREAD_ROUNDS):
        curve = _through(dense, closed, trial, corners)
        errors = _span_errors(dense, closed, curve, trial)
        if float((errors**2).sum()) < best_error:
            best, best_error, best_knots = curve, float((errors**2).sum()), trial.copy()
        trial = _rebalanced(trial, errors, fixed)
    assert best is not None  # the first round always gives one
    knots[:] = best_knots
    return best


def _rebalanced(knots: NDArray[np.intp], errors: Array, fixed: set[int]) -> NDArray[np.intp]:
    spans = np.diff(knots)
    density = np.repeat((errors + 0.02 * errors.mean() + 1e-9) ** 0.2 / spans, spans)
    out = knots.astype(float)
    places = sorted(fixed)
    for a, b in pairwise(places):
        if b - a > 1:
            out[a : b + 1] = _equal_shares(density, int(knots[a]), int(knots[b]), b - a)
    moved = np.round(out).astype(np.intp)
    for i in range(1, len(moved) - 1):
        moved[i] = min(max(moved[i], moved[i - 1] + 1), moved[-1] - (len(moved) - 1 - i))
    return moved


def _through(dense: Array, closed: bool, knots: NDArray[np.intp], corners: NDArray[np.intp]) -> Array:
    """Cubics from knot to knot with the run's own directions there and the tangent lengths of least squares."""
    n_points = len(knots) - 1 if closed else len(knots)
    points = np.zeros((n_points, 6))
    points[:, :2] = dense[knots[:n_points]]
    forward, backward = _tangents(dense, closed, knots, corners)
    for span in range(len(knots) - 1):
        a, b = span, (span + 1) % n_points
        run = dense[knots[span] : knots[span + 1] + 1]
        alpha, beta = _lengths(run, forward[span], backward[span + 1])
        points[a, 4:6] = alpha * forward[span]
        points[b, 2:4] = beta * backward[span + 1]
    return points


def _tangents(dense: Array, closed: bool, knots: NDArray[np.intp], corners: NDArray[np.intp]) -> tuple[Array, Array]:
    """Unit directions out of and back into every knot; equal and opposite except at corners and open ends."""
    n = len(dense) - 1
    reach = max(1, int(np.diff(knots).min()) // 6)
    sharp = set(corners.tolist())
    forward, backward = np.zeros((len(knots), 2)), np.zeros((len(knots), 2))
    for i, row in enumerate(knots.tolist()):
        ahead = dense[(row + reach) % n if closed else min(row + reach, n)]
        behind = dense[(row - reach) % n if closed else max(row - reach, 0)]
        here = dense[row]
        if row in sharp or (closed and row in (0, n) and _is_sharp(behind, here, ahead)):
            forward[i], backward[i] = unit(ahead - here), unit(behind - here)
        else:
            forward[i] = unit(ahead - behind)
            backward[i] = -forward[i]
    return forward, backward


def _is_sharp(behind: Array, here: Array, ahead: Array) -> bool:
    a, b = unit(here - behind), unit(ahead - here)
    return bool(a @ b < np.cos(np.radians(CORNER_DEGREES)))


def _lengths(run: Array, forward: Array, backward: Array) -> tuple[float, float]:
    """Tangent lengths that fit a cubic to a run of points by least squares, chord-length parameters."""
    chord = np.hypot(*np.diff(run, axis=0).T)
    t = np.concatenate(([0.0], np.cumsum(chord)))
    total = max(float(t[-1]), 1e-12)
    t = t / total
    u = 1.0 - t
    b1, b2 = 3 * u * u * t, 3 * u * t * t
    rest = run - (u**3 + b1)[:, None] * run[0] - (b2 + t**3)[:, None] * run[-1]
    columns = np.stack(((b1[:, None] * forward).ravel(), (b2[:, None] * backward).ravel()), axis=1)
    gram = columns.T @ columns + 1e-9 * total * np.eye(2)
    alpha, beta = np.linalg.solve(gram, columns.T @ rest.ravel())
    low, high = 0.02 * total, 0.9 * total
    return float(np.clip(alpha, low, high)), float(np.clip(beta, low, high))


def _span_errors(dense: Array, closed: bool, curve: Array, knots: NDArray[np.intp]) -> Array:
    gaps = bezier.distance_to_polyline(dense[:-1], bezier.flatten(curve, closed, 0.03), closed)
    return np.sqrt(np.add.reduceat(gaps**2, knots[:-1]) + 1e-12)


def fit_segments(segments: Array, *, closed: bool) -> Array:
    """Control points (P, 6) [x, y, in_dx, in_dy, out_dx, out_dy] through ordered samples (S, K, 2) of each segment.

    Ends of segments are kept exactly; the four tangent numbers of each segment are the least-squares solution at
    chord-length parameters. Neighbouring tangents are fitted one by one, so that a cusp stays a cusp.
    """
    n = len(segments)
    step = np.linalg.norm(np.diff(segments, axis=1), axis=2)
    length = np.cumsum(np.concatenate([np.zeros((n, 1)), step], axis=1), axis=1)
    u = np.where(length[:, -1:] > 1e-9, length / np.maximum(length[:, -1:], 1e-9), np.linspace(0, 1, segments.shape[1]))
    p0, p3 = segments[:, :1], segments[:, -1:]
    b1, b2 = 3 * u * (1 - u) ** 2, 3 * u**2 * (1 - u)
    rest = segments - p0 * ((1 - u) ** 3 + b1)[..., None] - p3 * (u**3 + b2)[..., None]
    a11, a12, a22 = (b1 * b1).sum(1), (b1 * b2).sum(1), (b2 * b2).sum(1)
    r1, r2 = (b1[..., None] * rest).sum(1), (b2[..., None] * rest).sum(1)
    det = (a11 * a22 - a12 * a12)[:, None]
    out = (a22[:, None] * r1 - a12[:, None] * r2) / det
    back = (a11[:, None] * r2 - a12[:, None] * r1) / det
    count = n if closed else n + 1
    points = np.zeros((count, 6))
    points[:n, :2] = segments[:, 0]
    points[:n, 4:] = out
    if closed:
        points[:, 2:4] = np.roll(back, 1, axis=0)
    else:
        points[-1, :2] = segments[-1, -1]
        points[1:, 2:4] = back
    return points
