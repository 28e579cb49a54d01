"""Cubic Bezier arithmetic on control points.

Convention: control points are (P, 6) `[x, y, in_dx, in_dy, out_dx, out_dy]`, plate space, pixels; tangents are offsets
from their point. A segment is (4, 2): start, two handles (absolute), end. P points make P - 1 segments open, P closed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.roto import ControlPoint, Points

Array = NDArray[np.float64]

_BERNSTEIN = np.array([[1.0, 0, 0, 0], [-3, 3, 0, 0], [3, -6, 3, 0], [-1, 3, -3, 1]])  # coefficients of the powers of t


def as_array(points: Points | Sequence[Sequence[float]] | NDArray[np.floating]) -> Array:
    """Control points as (P, 6) float64; (0, 6) for an empty sequence."""
    return np.asarray(points, dtype=np.float64).reshape(-1, 6)


def as_points(points: NDArray[np.floating]) -> Points:
    """(P, 6) numbers as control points of a document."""
    return tuple(ControlPoint(*row) for row in np.asarray(points, dtype=np.float64).reshape(-1, 6).tolist())


def segments(points: NDArray[np.floating], closed: bool) -> Array:
    """The cubics between control points: (S, 4, 2), absolute handles."""
    p = as_array(points)
    start, end = (p, np.roll(p, -1, axis=0)) if closed and len(p) > 1 else (p[:-1], p[1:])
    return np.stack(
        (start[:, :2], start[:, :2] + start[:, 4:6], end[:, :2] + end[:, 2:4], end[:, :2]),
        axis=1,
    )


def from_segments(cubics: Array, closed: bool) -> Array:
    """Control points (P, 6) of consecutive cubics (S, 4, 2): the inverse of `segments`.

    The first incoming and the last outgoing tangent of an open curve are zero.
    """
    n = len(cubics)
    points = np.zeros((n if closed else n + 1, 6))
    points[:n, :2] = cubics[:, 0]
    points[:n, 4:6] = cubics[:, 1] - cubics[:, 0]
    arriving = cubics[:, 2] - cubics[:, 3]
    if closed:
        points[:, 2:4] = np.roll(arriving, 1, axis=0)
    else:
        points[n, :2] = cubics[-1, 3]
        points[1:, 2:4] = arriving
    return points


def evaluate(cubics: Array, t: NDArray[np.floating]) -> Array:
    """Points of each cubic: cubics (S, 4, 2), t (S, T) or (T,) -> (S, T, 2)."""
    t = np.broadcast_to(t, (len(cubics), np.shape(t)[-1]))
    a, b, c, d = np.einsum("ij,sjc->isc", _BERNSTEIN, cubics)[:, :, None, :]
    t = t[..., None]
    return np.asarray(((d * t + c) * t + b) * t + a)


def derivative(cubics: Array, t: NDArray[np.floating]) -> Array:
    """First derivative by t of each cubic: cubics (S, 4, 2), t (S, T) or (T,) -> (S, T, 2)."""
    t = np.broadcast_to(t, (len(cubics), np.shape(t)[-1]))
    _, b, c, d = np.einsum("ij,sjc->isc", _BERNSTEIN, cubics)[:, :, None, :]
    t = t[..., None]
    return np.asarray((3 * d * t + 2 * c) * t + b)


def flat_counts(cubics: Array, tolerance_px: float) -> NDArray[np.intp]:
    """Number of equal steps of t that keep each cubic's chords within `tolerance_px` of it: (S,), at least 1.

    Source: |deviation| <= max|B''| / (8 n^2), and max|B''| = 6 max of the two second differences (Filip et al. 1986).
    """
    bend = np.abs(np.diff(cubics, n=2, axis=1))
    reach = 6.0 * np.sqrt((bend**2).sum(axis=2)).max(axis=1) if len(cubics) else np.zeros(0)
    steps = np.ceil(np.sqrt(reach / (8.0 * tolerance_px)))
    counts: NDArray[np.intp] = np.clip(np.nan_to_num(steps, nan=1.0), 1, 4096).astype(np.intp)
    return counts


def flatten(points: NDArray[np.floating], closed: bool, tolerance_px: float = 0.002, *, centred: bool = False) -> Array:
    """A polyline (N, 2) within `tolerance_px` of the curve; a closed one does not repeat its first point.

    `centred` moves the vertices inside each cubic by -B'' dt^2 / 12, so that the polyline's area equals the curve's;
    plain vertices lie on the curve.
    """
    cubics = segments(points, closed)
    if not len(cubics):
        return as_array(points)[:, :2].copy()
    counts = flat_counts(cubics, tolerance_px)
    owner = np.repeat(np.arange(len(cubics)), counts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    t = (step / counts[owner])[:, None]
    a, b, c, d = np.einsum("ij,sjc->isc", _BERNSTEIN, cubics)[:, owner]
    line: Array = ((d * t + c) * t + b) * t + a
    if centred:
        line -= np.where(step > 0, 1.0, 0.0)[:, None] * (6 * d * t + 2 * c) / (12.0 * counts[owner] ** 2)[:, None]
    return line if closed else np.vstack((line, cubics[-1:, 3]))


def sample(
    points: NDArray[np.floating], closed: bool, *, per_segment: int | None = None, spacing: float | None = None
) -> Array:
    """Points along the curve: (N, 2), in order; a closed curve does not repeat its first point.

    `per_segment`: samples of each cubic at equal steps of t (default 16). `spacing`: points about that many pixels
    apart along the arc instead, including the ends of an open curve.
    """
    if spacing is not None:
        return _resample_evenly(flatten(points, closed, min(0.001, spacing / 10.0)), closed, spacing)
    cubics = segments(points, closed)
    if not len(cubics):
        return as_array(points)[:, :2].copy()
    n = per_segment or 16
    line = evaluate(cubics, np.arange(n) / n).reshape(-1, 2)
    return line if closed else np.vstack((line, cubics[-1:, 3]))


def arc_lengths(polyline: Array, closed: bool) -> Array:
    """Length along a polyline up to each vertex, and back to the first for a closed one: (N,) or (N + 1,)."""
    line = np.vstack((polyline, polyline[:1])) if closed else polyline
    return np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))))


def points_along(polyline: Array, closed: bool, at: NDArray[np.floating]) -> Array:
    """Points of a polyline at the given arc lengths: (len(at), 2)."""
    lengths = arc_lengths(polyline, closed)
    line = np.vstack((polyline, polyline[:1])) if closed else polyline
    return np.stack((np.interp(at, lengths, line[:, 0]), np.interp(at, lengths, line[:, 1])), axis=1)


def _resample_evenly(polyline: Array, closed: bool, spacing: float) -> Array:
    if len(polyline) < 2:
        return polyline
    total = float(arc_lengths(polyline, closed)[-1])
    n = max(1, round(total / spacing))
    at = np.linspace(0.0, total, n + 1)
    return points_along(polyline, closed, at[:-1] if closed else at)


def length(points: NDArray[np.floating], closed: bool) -> float:
    """Arc length in pixels of a curve of control points (P, 6) (Gauss-Legendre, 16 nodes per cubic)."""
    cubics = segments(points, closed)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    speed = np.linalg.norm(derivative(cubics, (nodes + 1) / 2), axis=2)
    return float((speed @ weights).sum() / 2)


def reverse(points: NDArray[np.floating], closed: bool) -> Array:
    """The reversed curve: control points (P, 6), with tangents exchanged. A closed one keeps its first point."""
    p = as_array(points)[::-1][:, [0, 1, 4, 5, 2, 3]]
    return np.roll(p, 1, axis=0) if closed else p.copy()


def distance_to_polyline(queries: NDArray[np.floating], polyline: Array, closed: bool) -> Array:
    """Distance in pixels from each query (Q, 2) to the nearest point of a polyline: (Q,)."""
    q = np.asarray(queries, dtype=np.float64).reshape(-1, 2)
    line = np.vstack((polyline, polyline[:1])) if closed else polyline
    if len(line) < 2:
        return np.asarray(np.hypot(*(q - line[:1]).T))
    a, ab = line[:-1], np.diff(line, axis=0)
    squared = np.maximum((ab * ab).sum(axis=1), 1e-30)
    out: Array = np.empty(len(q))
    rows = max(1, 2_000_000 // len(a))  # limits the distance table to some tens of MB
    for begin in range(0, len(q), rows):
        ap_x = q[begin : begin + rows, 0, None] - a[None, :, 0]
        ap_y = q[begin : begin + rows, 1, None] - a[None, :, 1]
        share = np.clip((ap_x * ab[:, 0] + ap_y * ab[:, 1]) / squared, 0.0, 1.0)
        gap = (ap_x - share * ab[:, 0]) ** 2 + (ap_y - share * ab[:, 1]) ** 2
        out[begin : begin + rows] = np.sqrt(gap.min(axis=1))
    return out


def curve_distance(
    a: NDArray[np.floating], b: NDArray[np.floating], closed: bool, *, spacing: float = 1.0
) -> tuple[float, float]:
    """Symmetric distance between two curves of control points (P, 6) and (Q, 6): mean and maximum in pixels.

    Each curve is sampled every `spacing` pixels and compared with the nearest point of the other. The mean weighs both
    directions equally; the maximum is the Hausdorff distance of the samples.
    """
    line_a, line_b = sample(a, closed, spacing=spacing), sample(b, closed, spacing=spacing)
    fine_a, fine_b = flatten(a, closed, 0.001), flatten(b, closed, 0.001)
    there = distance_to_polyline(line_a, fine_b, closed)
    back = distance_to_polyline(line_b, fine_a, closed)
    return float((there.mean() + back.mean()) / 2), float(max(there.max(), back.max()))
