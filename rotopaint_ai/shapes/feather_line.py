"""Feathers of varying width: the ramp between a closed curve and its feather line.

Convention: plate space, pixels. Both curves are sampled at the same parameters. The ramp falls linearly from each
sample of one to its counterpart: outwards where the line lies outside the curve, inwards where it lies inside.
"""

from __future__ import annotations

import math

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.feather import FAR, Bools, ramp, split_by_budget

Window = tuple[int, int, int, int]

_BEYOND_PX = 0.75  # the ramp is sampled this far beyond both ends, because pixels there are touched by it
_MOST_PLACES = 400_000  # most pixels of triangles per batch


def ribbon(points: Array, line: Array, grow_px: float, flatness_px: float) -> tuple[Array, Array]:
    """Samples (N, 2) of a closed curve and of its feather line, both (P, 6), at equal parameters.

    `grow_px` moves the line outwards from the curve.
    """
    cubics, ends = bezier.segments(points, True), bezier.segments(line, True)
    counts = np.maximum(bezier.flat_counts(cubics, flatness_px), bezier.flat_counts(ends, flatness_px))
    edge = np.vstack([bezier.evaluate(cubics[i : i + 1], np.arange(n) / n)[0] for i, n in enumerate(counts)])
    end = np.vstack([bezier.evaluate(ends[i : i + 1], np.arange(n) / n)[0] for i, n in enumerate(counts)])
    return edge, end + _normals(edge) * grow_px if grow_px else end


def soften_edge(covered: Array, edge: Array, end: Array, window: Window) -> Array:
    """Coverage (h, w) of a closed curve with the ramp to its feather line, from its coverage without feather.

    `edge`, `end`: (N, 2) samples of a `ribbon`; the window is x0, y0, x1, y1.
    """
    outside = _cross(_normals(edge), end - edge) > 0.0
    pairs = [_gaps(edge, end, chosen, window) for chosen in (outside, ~outside)]
    out_gap, out_half, in_gap, in_half = (plane for pair in pairs for plane in pair)
    rising, falling = out_gap < FAR, in_gap < FAR
    covered = covered.copy()
    covered[rising] = np.maximum(covered[rising], ramp(out_gap[rising], out_half[rising]))
    covered[falling] = np.minimum(covered[falling], 1.0 - ramp(in_gap[falling], in_half[falling]))
    return covered


def _normals(edge: Array) -> Array:
    """Outward unit normals (N, 2) of a closed polyline."""
    along = np.roll(edge, -1, axis=0) - np.roll(edge, 1, axis=0)
    length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-12)[:, None]
    x, y = edge.T
    area = float(x @ np.roll(y, -1) - y @ np.roll(x, -1))
    return np.asarray(np.stack((along[:, 1], -along[:, 0]), axis=1) / length * math.copysign(1.0, area))


def _cross(normal: Array, offset: Array) -> Array:
    return np.asarray((normal * offset).sum(axis=1))


def _gaps(edge: Array, end: Array, chosen: Bools, window: Window) -> tuple[Array, Array]:
    """For each pixel the position on the way to the feather line, 0 to 1 (FAR outside), and half a pixel in these
    units.

    Only quads with a `chosen` sample count. Where several cover a pixel, the value nearest to the edge wins.
    """
    x0, y0, x1, y1 = window
    w, h = x1 - x0, y1 - y0
    gap, half = np.full(h * w, FAR), np.ones(h * w)
    reach = np.hypot(*(end - edge).T)
    wide = chosen & (reach > 1e-6)
    extra = np.where(wide, _BEYOND_PX / np.maximum(reach, 1e-6), 0.0)
    way = np.where(wide[:, None], end - edge, 0.0)
    near, far = edge - way * extra[:, None], edge + way * (1.0 + extra)[:, None]
    u_near, u_far = -extra, np.where(wide, 1.0 + extra, 0.0)
    here = np.flatnonzero(wide | np.roll(wide, -1))
    then = (here + 1) % len(edge)
    half_px = 0.5 / np.maximum((reach[here] + reach[then]) / 2, 1e-6)
    places = np.stack((near[here], near[then], far[then], far[here]), axis=1) - (x0, y0)
    shares = np.stack((u_near[here], u_near[then], u_far[then], u_far[here]), axis=1)
    corners, values = (np.concatenate((each[:, [0, 1, 2]], each[:, [0, 2, 3]])) for each in (places, shares))
    _fill(gap, half, corners, values, np.concatenate((half_px, half_px)), w, h)
    return gap.reshape(h, w), half.reshape(h, w)


def _fill(gap: Array, half: Array, corners: Array, values: Array, half_px: Array, w: int, h: int) -> None:
    """Write the smallest value of the triangles (T, 3, 2) at each pixel centre, and its `half_px`, in place."""
    low = np.clip(np.floor(corners.min(axis=1) - 0.5), 0, (w, h)).astype(np.intp)
    high = np.clip(np.ceil(corners.max(axis=1) + 0.5), 0, (w, h)).astype(np.intp)
    spans = np.maximum(high - low, 0)
    for part in split_by_budget(spans[:, 0] * spans[:, 1], _MOST_PLACES):
        counts = spans[part, 0] * spans[part, 1]
        owner = np.repeat(part, counts)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        row, column = np.divmod(place, spans[owner, 0])
        row, column = row + low[owner, 1], column + low[owner, 0]
        value, is_in = _values(corners[owner], values[owner], column + 0.5, row + 0.5)
        at, value, owner = (row * w + column)[is_in], value[is_in], owner[is_in]
        order = np.argsort(-value, kind="stable")  # the smallest is written last
        at, value, owner = at[order], value[order], owner[order]
        nearer = value < gap[at]
        gap[at[nearer]] = value[nearer]
        half[at[nearer]] = half_px[owner[nearer]]


def _values(corners: Array, values: Array, x: Array, y: Array) -> tuple[Array, Bools]:
    """The value of each triangle at a point, and whether the point lies in it (rim included)."""
    a, ab, ac = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
    px, py = x - a[:, 0], y - a[:, 1]
    safe = np.where(np.abs(area) > 1e-12, area, 1.0)
    s, t = (px * ac[:, 1] - py * ac[:, 0]) / safe, (py * ab[:, 0] - px * ab[:, 1]) / safe
    is_in = (np.abs(area) > 1e-12) & (s >= -1e-9) & (t >= -1e-9) & (s + t <= 1.0 + 1e-9)
    return values[:, 0] * (1.0 - s - t) + values[:, 1] * s + values[:, 2] * t, is_in
