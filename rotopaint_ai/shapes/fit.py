"""A Bezier curve through samples of each of its segments.

`revectorise/spline_fit.py` fits curves to an artist's raw ones, where the samples do not lie on the curve.
"""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes.bezier import Array


def fit_segments(segments: Array, *, closed: bool) -> Array:
    """Control points (P, 6) [x, y, in_dx, in_dy, out_dx, out_dy] through ordered samples (S, K, 2) of each segment.

    Segment ends are exact; the four tangent numbers of each segment are the least-squares solution at chord-length
    parameters. Neighbouring tangents are fitted separately, so that a cusp stays a cusp.
    Directions are free here; `edit_points` solves for lengths along given ones, without numpy.
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
