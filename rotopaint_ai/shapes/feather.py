"""Feathers of mattes: the distance of pixels outside an edge, and the coverage of the ramp there."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import Array

Bools = NDArray[np.bool_]

FAR = 1e6  # "no edge nearby", in units of a feather


def soft_places(covered: Array, feather_px: float) -> Bools:
    """Pixels that a feather may change: not fully covered, and within its reach of coverage or of the rim."""
    reach = math.ceil(feather_px) + 2
    near = covered > 0.0
    for axis in (0, 1):
        room = [(0, 0), (0, 0)]
        room[axis] = (reach + 1, reach)
        sums = np.cumsum(np.pad(near, room, constant_values=True), axis=axis, dtype=np.int32)
        size = near.shape[axis]
        near = sums.take(range(2 * reach + 1, 2 * reach + 1 + size), axis) > sums.take(range(size), axis)
    return near & (covered < 1.0 - 1e-9)


def feather_gap(chain: Array, half: Array, feather: Array, frame: tuple[int, int, int, int], wanted: Bools) -> Array:
    """Distance of each pixel centre from the edge, outwards, in units of the local feather: 0 at the edge, 1 at its
    end.

    `chain` (N, 2): a polyline. `half`: distance of the edge from it; `feather`: softness; both per vertex. Pixels far
    beyond the feather and those not `wanted` (h, w) are FAR; those closer to the chain than `half` are negative.
    """
    x0, y0, x1, y1 = frame
    w, h = x1 - x0, y1 - y0
    out = np.full(h * w, FAR)
    a, b = chain[:-1] - (x0, y0), chain[1:] - (x0, y0)
    reach = np.maximum(half[:-1] + feather[:-1], half[1:] + feather[1:]) + 1.0
    low = np.clip(np.floor(np.minimum(a, b) - reach[:, None] - 0.5), 0, (w, h)).astype(np.intp)
    high = np.clip(np.ceil(np.maximum(a, b) + reach[:, None] + 0.5), 0, (w, h)).astype(np.intp)
    spans = np.maximum(high - low, 0)
    for part in split_by_budget(spans[:, 0] * spans[:, 1], 400_000):
        _band_part(out, wanted, a[part], b[part], half[part], half[part + 1], feather[part], feather[part + 1],
                   low[part], spans[part])  # fmt: skip
    return out.reshape(h, w)


def split_by_budget(counts: NDArray[np.intp], budget: int) -> Iterable[NDArray[np.intp]]:
    """Split the indices with a count into runs whose counts add up to about a budget, to limit memory."""
    index = np.flatnonzero(counts)
    if not len(index):
        return []
    group = np.cumsum(counts[index]) // budget
    return np.split(index, np.flatnonzero(np.diff(group)) + 1)


def _band_part(
    out: Array,
    wanted: Bools,
    a: Array,
    b: Array,
    half_a: Array,
    half_b: Array,
    feather_a: Array,
    feather_b: Array,
    low: NDArray[np.intp],
    spans: NDArray[np.intp],
) -> None:
    counts = spans[:, 0] * spans[:, 1]
    owner = np.repeat(np.arange(len(a), dtype=np.int32), counts)
    place = np.arange(len(owner), dtype=np.int32) - np.repeat((np.cumsum(counts) - counts).astype(np.int32), counts)
    row, column = np.divmod(place, spans.astype(np.int32)[owner, 0])
    at = (row + low.astype(np.int32)[owner, 1]) * np.int32(wanted.shape[1]) + column + low.astype(np.int32)[owner, 0]
    some = wanted.reshape(-1)[at]
    owner, at = owner[some], at[some]
    row, column = np.divmod(at, np.int32(wanted.shape[1]))
    along = b - a
    squared = np.maximum((along * along).sum(axis=1), 1e-30)
    px, py = column + 0.5 - a[owner, 0], row + 0.5 - a[owner, 1]
    ux, uy = along[owner, 0], along[owner, 1]
    t = np.clip((px * ux + py * uy) / squared[owner], 0.0, 1.0)
    distance = np.sqrt((px - t * ux) ** 2 + (py - t * uy) ** 2)
    edge = half_a[owner] + t * (half_b - half_a)[owner]
    soft = np.maximum(feather_a[owner] + t * (feather_b - feather_a)[owner], 1e-6)
    np.minimum.at(out, at, (distance - edge) / soft)


def soften(covered: Array, gap: Array, feather_px: float) -> None:
    """Raise coverage to the feather's ramp, in place."""
    near = np.abs(gap) < FAR
    covered[near] = np.maximum(covered[near], ramp(gap[near], 0.5 / max(feather_px, 1e-6)))


def ramp(gap: Array, half_pixel: float | Array) -> Array:
    """Matte value by distance outside the edge (1 = end of the feather), averaged over a pixel across the edge.

    `half_pixel` is half a pixel in the units of `gap`.
    """
    return (_ramp_sum(gap + half_pixel) - _ramp_sum(gap - half_pixel)) / (2 * half_pixel)


def _ramp_sum(u: Array) -> Array:
    """Integral from 0 to u of the ramp: 1 below 0, 1 - u between 0 and 1, 0 above."""
    inside = np.clip(u, 0.0, 1.0)
    return np.minimum(u, 0.0) + (inside - inside * inside / 2)
