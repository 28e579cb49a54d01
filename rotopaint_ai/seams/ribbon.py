"""Seam curves straightened into one ribbon: columns run along the curves, rows across them.

Dimensions: T rows across (offset along the normal), S columns along, P matte pixels, C colour components.
Convention: curves are in the crop's own pixels, corner origin, centres at +0.5. The ribbon is sampled on a copy of
the crop shrunk by `step`, so that a seam is about as many rows wide at 4K as at video size. Every curve is continued
straight by `RUN_OUT` columns at both ends; the columns of one curve follow those of another without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Index = NDArray[Any]  # intp
Bools = NDArray[Any]  # bool
Curve = tuple[NDArray[np.floating], float]

RUN_OUT = 12  # columns that continue a curve beyond its ends: the reach of the widest filter along the seam
BANK_ROWS = 8  # rows of untouched plate kept beyond the matte on each side
_TANGENT_SIGMA = 2.0  # columns
_CHUNK = 8192  # cv2.remap refuses rows longer than 32767


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Where the ribbon's samples lie in the shrunk crop, and where the crop's matte pixels lie in the ribbon."""

    map_x_TS: Array
    map_y_TS: Array
    rows_P: Index  # matte pixels that belong to a curve, in the full crop
    columns_P: Index
    along_P: Array  # their place in the ribbon: column and row, fractional
    across_P: Array
    inside_TS: Bools  # samples that lie on the crop
    own_TS: Bools  # samples that a matte pixel of the same curve reads

    @property
    def centre(self) -> int:
        """Row of the curve itself."""
        return (len(self.map_x_TS) - 1) // 2

    def sample(self, image: NDArray[np.float32]) -> Array:
        """A shrunk-crop image, (h, w) or (h, w, C), on the ribbon."""
        out: Array = cv2.remap(image, self.map_x_TS, self.map_y_TS, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return out

    def read(self, field_TSC: Array) -> Array:
        """A ribbon field, (T, S, C), at the matte pixels: (P, C)."""
        n = len(self.along_P)
        size = (-(-n // _CHUNK), _CHUNK)
        along, across = np.resize(self.along_P, size), np.resize(self.across_P, size)
        out: Array = cv2.remap(field_TSC, along, across, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return out.reshape(size[0] * size[1], -1)[:n]


def resample(polyline: NDArray[np.floating], spacing: float = 1.0) -> Array:
    """Points at an even spacing (about `spacing` pixels) along a polyline (N, 2); both ends are kept."""
    points = np.asarray(polyline, np.float64)
    lengths = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    n = max(2, round(lengths[-1] / spacing) + 1)
    at = np.linspace(0.0, lengths[-1], n)
    return np.stack([np.interp(at, lengths, points[:, 0]), np.interp(at, lengths, points[:, 1])], 1).astype(np.float32)


def straighten(hole: Bools, curves: Sequence[Curve], *, step: float, small_size: tuple[int, int]) -> Ribbon | None:
    """Lay a ribbon along the curves, wide enough for the matte pixels that lie nearest to them.

    hole: (H, W) where the matte is above 0. small_size: (height, width) of the shrunk crop, `step` times smaller.
    Returns None where no matte pixel belongs to a curve. A pixel belongs to its nearest curve, unless it lies beyond
    the run-out of that curve's end.
    """
    centres_S, tangents_S = _centre_line(curves, step)
    if not len(centres_S):
        return None
    rows, columns = np.nonzero(hole)
    points_P = np.stack([columns + 0.5, rows + 0.5], 1).astype(np.float32) / np.float32(step)
    nearest = _nearest_column(points_P, centres_S, small_size)
    along, across, gap = _place(points_P, nearest, centres_S, tangents_S)
    owned = gap < 1.5
    if not owned.any():
        return None
    rows, columns, along, across = rows[owned], columns[owned], along[owned], across[owned]
    half = int(np.ceil(np.abs(across).max())) + BANK_ROWS
    normals_S = np.stack([-tangents_S[:, 1], tangents_S[:, 0]], 1)
    offsets = np.arange(-half, half + 1, dtype=np.float32)[:, None, None]
    maps = centres_S[None] + offsets * normals_S[None] - np.float32(0.5)
    map_x, map_y = np.ascontiguousarray(maps[..., 0]), np.ascontiguousarray(maps[..., 1])
    inside = (map_x >= -0.5) & (map_y >= -0.5) & (map_x <= small_size[1] - 0.5) & (map_y <= small_size[0] - 0.5)
    across += half
    own: Bools = np.zeros(map_x.shape, np.uint8)
    own[across.astype(np.intp), along.astype(np.intp)] = 1
    own = cv2.dilate(own, np.ones((3, 3), np.uint8))
    return Ribbon(map_x, map_y, rows, columns, along, across, inside, own > 0)


def _centre_line(curves: Sequence[Curve], step: float) -> tuple[Array, Array]:
    """Points and unit tangents (S, 2) of all curves, one after another, in shrunk-crop pixels."""
    centres, tangents = [np.zeros((0, 2), np.float32)], [np.zeros((0, 2), np.float32)]
    for polyline, _ in curves:
        if len(polyline) < 2:
            continue
        points = resample(np.asarray(polyline, np.float64) / step)
        reach = min(4, len(points) - 1)
        run = np.arange(1, RUN_OUT + 1, dtype=np.float32)[:, None]
        before = points[0] + _unit(points[0] - points[reach]) * run[::-1]
        after = points[-1] + _unit(points[-1] - points[-1 - reach]) * run
        line = np.concatenate([before, points, after])
        smooth = cv2.GaussianBlur(line, (1, 13), _TANGENT_SIGMA, borderType=cv2.BORDER_REPLICATE)
        centres.append(line)
        tangents.append(_unit(np.gradient(smooth, axis=0)))
    return np.concatenate(centres).astype(np.float32), np.concatenate(tangents).astype(np.float32)


def _unit(vectors: NDArray[np.floating]) -> Array:
    length = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
    out: Array = (vectors / np.maximum(length, 1e-6)).astype(np.float32)
    return out


def _nearest_column(points_P: Array, centres_S: Array, size: tuple[int, int]) -> Index:
    """Column whose centre is nearest to each point, up to the pixel grid of the distance transform."""
    height, width = size
    x, y = np.floor(centres_S).astype(np.intp).T
    on = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    if not on.any():
        return np.zeros(len(points_P), np.intp)
    owner = np.full((height, width), -1, np.intp)
    owner[y[on], x[on]] = np.nonzero(on)[0]
    seeds = np.where(owner >= 0, 0, 255).astype(np.uint8)
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    of_label = np.zeros(int(labels.max()) + 1, np.intp)
    seeded = owner >= 0
    of_label[labels[seeded]] = owner[seeded]
    px = np.clip(points_P.astype(np.intp), 0, [width - 1, height - 1])
    out: Index = of_label[labels[px[:, 1], px[:, 0]]]
    return out


def _place(points_P: Array, column_P: Index, centres_S: Array, tangents_S: Array) -> tuple[Array, Array, Array]:
    """Fractional column, signed offset along the normal, and how far a point lies beyond the reach of the ribbon."""
    last = len(centres_S) - 1
    for _ in range(2):
        ahead = ((points_P - centres_S[column_P]) * tangents_S[column_P]).sum(1)
        column_P = np.clip(column_P + np.rint(np.clip(ahead, -2.0, 2.0)).astype(np.intp), 0, last)
    tangents, offset = tangents_S[column_P], points_P - centres_S[column_P]
    ahead = (offset * tangents).sum(1)
    across = offset[:, 1] * tangents[:, 0] - offset[:, 0] * tangents[:, 1]
    along = np.clip(column_P + np.clip(ahead, -0.5, 0.5), 0, last).astype(np.float32)
    return along, across.astype(np.float32), np.abs(ahead)
