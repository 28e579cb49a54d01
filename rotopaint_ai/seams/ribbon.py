"""Seam curves straightened into one ribbon: columns run along the curves, rows across them.

Dimensions: T rows across (offset along the normal), S columns along, P matte pixels, C colour components.

Curves are in the crop's own pixels (corner origin, centres at +0.5). The ribbon samples a copy of the crop shrunk by
`step`, so that a seam has about as many rows at 4K as at video size. Every curve is extended straight at both ends, as
far as the matte continues (`RUN_OUT`). The columns of all curves are concatenated.
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
WideCurve = tuple[NDArray[np.floating], float]

RUN_OUT = 8, 20  # least and most columns that extend a curve beyond its ends: as far as the matte continues, plus SPARE
SPARE = 6
GAP = 12  # px: a run continues across gaps in the matte up to this length, also before an end
ROWS_WIDE = 10.0  # a matte wider than this many pixels, on average, is processed in a copy shrunk to this width
_LARGE = 1.35  # beyond this factor a crop is shrunk more than in proportion: large plates have less detail per pixel
BANK_ROWS = 7  # rows of untouched plate beyond the matte on each side
_TANGENT_SIGMA = 2.0  # columns
_STROKE = 1.25  # reach of a seam's stroke, half widths; mattes are grown by about as much and two pixels
_OWN_SHARE = 0.15  # least share of the matte in a seam's stroke that lies in no larger seam's
_EVERY = 4  # points of a run, from one that is drawn to the next
_BEYOND = 6.0  # distance in columns from the nearest column, beyond which a pixel no longer belongs to the run
_WIDER = 2.5  # a matte pixel more half widths than this from its curve belongs to none
_CHUNK = 8192  # cv2.remap refuses rows longer than 32767


@dataclass(frozen=True, slots=True)
class CentreLine:
    """The columns of all curves, in shrunk pixels: points and unit tangents (S, 2); the following are (S,) each.

    reach: largest distance of a column's pixels; half: half the seam's width, 0 where a run extends beyond its curve;
    run: the number of the column's run.
    """

    points_S: Array
    tangents_S: Array
    reach_S: Array
    half_S: Array
    run_S: Index


@dataclass(frozen=True, slots=True)
class Ribbon:
    """The positions of the ribbon's samples in the shrunk crop, and of the crop's matte pixels in the ribbon."""

    step: float
    size: tuple[int, int]  # height and width of the shrunk crop
    cover: Array  # coverage of each pixel of the shrunk crop by the matte, 0 to 255 (uint8)
    line: CentreLine
    map_x_TS: Array
    map_y_TS: Array
    at_P: Index  # flat indices of the shrunk crop's matte pixels that belong to a curve
    left_P: Index  # flat indices of its other matte pixels
    along_P: Array  # column and row of the pixels at_P in the ribbon, fractional
    across_P: Array
    inside_TS: Bools  # samples inside the crop
    own_TS: Bools  # samples that matte pixels of the same curve interpolate

    @property
    def centre(self) -> int:
        """Row of the curve itself."""
        return (len(self.map_x_TS) - 1) // 2

    def shrink(self, image: Array) -> Array:
        """A crop, (H, W) or (H, W, C), `step` times smaller."""
        if image.shape[:2] == self.size:
            return image
        out: Array = cv2.resize(image, self.size[::-1], interpolation=_how(self.step))
        return out

    def sample(self, small: Array) -> Array:
        """A shrunk crop, (h, w) or (h, w, C), sampled on the ribbon: (T, S) or (T, S, C)."""
        out: Array = cv2.remap(small, self.map_x_TS, self.map_y_TS, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return out

    def row_sums(self, field_TS: Array) -> tuple[Array, Array]:
        """Sums of `field_TS` over the seam's own matte samples, per run of the curve and row, and their number: (runs,
        T) each."""
        seam_TS = self.own_TS & (self.line.half_S > 0)
        starts = np.flatnonzero(np.diff(self.line.run_S, prepend=-1))
        total, count = (
            np.add.reduceat(each, starts, axis=1).T for each in (seam_TS * field_TS, seam_TS.astype(np.int32))
        )
        return total, count

    def read(self, field_TSC: Array) -> Array:
        """A ribbon field, (T, S, C), interpolated at the matte pixels: (P, C)."""
        return interpolate(field_TSC, self.along_P, self.across_P)


def interpolate(field_TSC: Array, along: Array, across: Array) -> Array:
    """Bilinear samples (P, C) of a field at fractional columns and rows."""
    n = len(along)
    if not n:
        return np.zeros((0, field_TSC.shape[2]), np.float32)
    maps = np.zeros((2, -(-n // _CHUNK), min(n, _CHUNK)), np.float32)
    maps.reshape(2, -1)[:, :n] = along, across
    out: Array = cv2.remap(field_TSC, maps[0], maps[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return out.reshape(-1, field_TSC.shape[2])[:n]


def resample(polyline: NDArray[np.floating], spacing: float = 1.0) -> Array:
    """Points at an even spacing of about `spacing` pixels along a polyline (N, 2), both ends included."""
    points = np.asarray(polyline, np.float64)
    apart = points[1:] - points[:-1]
    lengths = np.zeros(len(points))
    np.cumsum(np.sqrt((apart * apart).sum(1)), out=lengths[1:])
    n = max(2, round(lengths[-1] / spacing) + 1)
    at = np.arange(n) * (lengths[-1] / (n - 1))
    out = np.empty((n, 2), np.float32)
    for axis in (0, 1):
        out[:, axis] = np.interp(at, lengths, points[:, axis])
    return out


def sample_normals(points: Array, offsets: Array) -> tuple[Array, Array]:
    """Sample positions on the normals of a curve's points (S, 2) at offsets (T,): x and y (T, S), as in `cv2.remap`.

    Points are a pixel apart; normals are smoothed along the curve. A positive offset is to the right of its direction.
    """
    tangents = np.gradient(cv2.GaussianBlur(points, (1, 13), _TANGENT_SIGMA, borderType=cv2.BORDER_REPLICATE), axis=0)
    tangents /= np.maximum(np.hypot(tangents[:, 0], tangents[:, 1]), 1e-6)[:, None]
    x = points[:, 0] - offsets[:, None] * tangents[:, 1] - 0.5
    y = points[:, 1] + offsets[:, None] * tangents[:, 0] - 0.5
    return x.astype(np.float32), y.astype(np.float32)


def shrinkage(wide: float) -> float:
    """The shrink factor of a crop whose matte is `wide` pixels wide."""
    times = max(1.0, wide / ROWS_WIDE)
    return float(times * max(1.0, times / _LARGE) ** 0.5)


def _thin(points: Array, spacing: float) -> Array:
    """Points at an even spacing of about `spacing` pixels, both ends included, from points one pixel apart."""
    last = len(points) - 1
    n = max(2, round(last / spacing) + 1)
    at = np.arange(n, dtype=np.float32) * np.float32(last / (n - 1))
    first = np.minimum(at.astype(np.intp), last - 1)
    out: Array = points[first] + (at - first.astype(np.float32))[:, None] * (points[first + 1] - points[first])
    return out


def build_ribbon(hole: Bools, curves: Sequence[WideCurve]) -> Ribbon | None:
    """Build a ribbon along the curves, wide enough for the matte pixels nearest to them.

    hole: (H, W) where the matte is above 0. Returns None where no matte pixel belongs to a curve. A pixel belongs to
    its nearest curve, unless it lies beyond that curve's extension.
    """
    runs = _runs(hole, curves)
    if not runs:
        return None
    step = shrinkage(cv2.countNonZero(hole.view(np.uint8)) / sum(len(run) for run, _ in runs))
    size = max(1, round(hole.shape[0] / step)), max(1, round(hole.shape[1] / step))
    line = _centre_line(runs, hole, step)
    centres_S, tangents_S = line.points_S, line.tangents_S
    cover = _cover(hole, size, step)
    at_P = np.flatnonzero(hole if size == hole.shape else cv2.dilate(cover, np.ones((3, 3), np.uint8)) > 0)
    y, x = np.divmod(at_P.astype(np.int32), np.int32(size[1]))
    nearest = _nearest_column(centres_S, x, y)
    along, across, gap = _ribbon_place(x + np.float32(0.5), y + np.float32(0.5), nearest, centres_S, tangents_S)
    column = np.rint(along).astype(np.intp)
    owned = (gap < _BEYOND) & (np.abs(across) < np.take(line.reach_S, column))
    if not owned.any():
        return None
    left = at_P[~owned]
    if len(left):
        at_P, along, across = at_P[owned], along[owned], across[owned]
    half = int(np.ceil(np.abs(across).max())) + BANK_ROWS
    offsets = np.arange(-half, half + 1, dtype=np.float32)[:, None]
    map_x = centres_S[:, 0] - np.float32(0.5) - offsets * tangents_S[:, 1]
    map_y = centres_S[:, 1] - np.float32(0.5) + offsets * tangents_S[:, 0]
    inside = (map_x >= -0.5) & (map_y >= -0.5) & (map_x <= size[1] - 0.5) & (map_y <= size[0] - 0.5)
    across += half
    own: Bools = np.zeros(map_x.shape, np.uint8)
    own[across.astype(np.intp), along.astype(np.intp)] = 1
    own = cv2.dilate(own, np.ones((2, 2), np.uint8), anchor=(1, 1))
    return Ribbon(step, size, cover, line, map_x, map_y, at_P, left, along, across, inside, own > 0)


def _cover(hole: Bools, size: tuple[int, int], step: float) -> Array:
    """Coverage of each pixel of the shrunk crop by the matte, 0 to 255, by the same interpolation as
    `Ribbon.shrink`."""
    full: Array = hole.view(np.uint8) * np.uint8(255)
    if size == hole.shape:
        return full
    if step > 2.0:
        full = cv2.dilate(full, np.ones((3, 3), np.uint8))  # two taps per pixel miss every other pixel
    return np.asarray(cv2.resize(full, size[::-1], interpolation=_how(step)))


def _how(step: float) -> int:
    return cv2.INTER_LINEAR if step <= 4.0 else cv2.INTER_AREA


def _runs(hole: Bools, curves: Sequence[WideCurve]) -> list[WideCurve]:
    """The parts of the curves inside the matte, a point per pixel, without those inside another seam's matte."""
    height, width = hole.shape
    lines = [(resample(polyline), half) for polyline, half in curves if len(polyline) > 1]
    if not lines:
        return []
    x, y = np.floor(np.concatenate([line for line, _ in lines])).astype(np.int32).T
    on = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    on &= hole.reshape(-1).take(np.where(on, y * np.intp(width) + x, 0))
    found: list[WideCurve] = []
    start, wide = 0, np.ones((1, 2 * GAP + 1), np.uint8)
    for line, half in lines:
        row = np.zeros(len(line) + 2, np.int8)
        row[1:-1] = cv2.morphologyEx(on[None, start : start + len(line)].view(np.uint8), cv2.MORPH_CLOSE, wide)[0]
        for first, end in np.flatnonzero(row[1:] != row[:-1]).reshape(-1, 2):
            run = line[max(0, first - 2) : end + 2]
            if len(run) > 1:
                found.append((run, half))
        start += len(line)
    return [run for run, is_seam in zip(found, _are_seams(found, hole)) if is_seam]


def _are_seams(runs: Sequence[WideCurve], hole: Bools) -> list[bool]:
    """Which runs are seams, and not crossing or hidden curves inside another seam's matte.

    The run whose stroke covers most of the matte comes first. A run is a seam if enough of the matte in its stroke lies
    in no earlier seam's stroke.
    """
    if len(runs) < 2:
        return [True] * len(runs)
    wide = cv2.countNonZero(hole.view(np.uint8)) / sum(len(line) for line, _ in runs)
    stride = max(1, round(wide / ROWS_WIDE))  # fewer pixels decide as well
    free = hole[::stride, ::stride].copy()
    strokes = [_stroke(line / np.float32(stride), half / stride, free) for line, half in runs]
    covered = [np.count_nonzero(stroke) for _, stroke in strokes]
    are_seams = [False] * len(runs)
    for k in sorted(range(len(runs)), key=lambda k: -covered[k]):
        window, stroke = strokes[k]
        are_seams[k] = bool(np.count_nonzero(free[window] & stroke) >= _OWN_SHARE * covered[k])
        if are_seams[k]:
            free[window] &= ~stroke
    return are_seams


def _stroke(line: Array, half: float, hole: Bools) -> tuple[tuple[slice, slice], Bools]:
    """The matte's pixels in a run's stroke: a window of `hole`, and a mask of it."""
    reach = _STROKE * half + 2.0
    left, top = np.maximum(np.floor(line.min(0) - reach), 0).astype(int)
    right, end = np.ceil(line.max(0) + reach).astype(int)
    window = slice(top, end), slice(left, right)
    stroke = np.zeros(hole[window].shape, np.uint8)
    some = np.concatenate([line[:-1:_EVERY], line[-1:]]) - (left, top)
    cv2.polylines(stroke, [np.rint(8 * some - 4).astype(np.int32)], False, 1, max(1, round(2 * reach)), shift=3)
    return window, (stroke > 0) & hole[window]


def _centre_line(runs: Sequence[WideCurve], hole: Bools, step: float) -> CentreLine:
    lines = [_thin(run, step) for run, _ in runs]
    reach = [min(4, len(line) - 1) for line in lines]
    ends = np.concatenate([line[[0, -1]] for line in lines])
    out = _unit_vectors(np.concatenate([[line[0] - line[k], line[-1] - line[-1 - k]] for line, k in zip(lines, reach)]))
    steps = np.arange(1, RUN_OUT[1] + 1, dtype=np.float32)[:, None] * np.float32(step)
    more = _run_out(ends, out, hole, steps)
    beyond = [end + steps[:n] * way for end, way, n in zip(ends, out, more)]
    whole = [np.concatenate([beyond[2 * k][::-1], line, beyond[2 * k + 1]]) for k, line in enumerate(lines)]
    centres: Array = np.concatenate(whole) / np.float32(step)
    smooth = [cv2.GaussianBlur(line, (1, 13), _TANGENT_SIGMA, borderType=cv2.BORDER_REPLICATE) for line in whole]
    row: Array = np.concatenate(smooth)
    tangents: Array = np.empty_like(row)
    np.subtract(row[2:], row[:-2], out=tangents[1:-1])
    last = np.cumsum([len(line) for line in whole]) - 1
    first = np.r_[0, last[:-1] + 1]
    tangents[first], tangents[last] = tangents[first + 1], tangents[last - 1]
    lengths, halves = [len(line) for line in whole], np.array([half / step for _, half in runs], np.float32)
    reach_S = np.repeat(np.maximum(_WIDER * halves, np.float32(ROWS_WIDE)), lengths)
    parts = np.stack([more[::2], [len(line) for line in lines], more[1::2]], 1).reshape(-1)
    half_S = np.repeat(np.stack([0 * halves, halves, 0 * halves], 1).reshape(-1), parts)
    return CentreLine(centres, _unit_vectors(tangents), reach_S, half_S, np.repeat(np.arange(len(runs)), lengths))


def _run_out(ends: Array, ways: Array, hole: Bools, steps: Array) -> Index:
    """The number of columns that extend each end (N, 2) in its direction (N, 2)."""
    height, width = hole.shape
    x, y = np.moveaxis(np.floor(ends[:, None] + steps * ways[:, None]).astype(np.intp), 2, 0)
    on = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    on &= hole.reshape(-1).take(np.where(on, y * width + x, 0))
    inside = np.minimum.accumulate(on, axis=1).sum(1)
    return np.asarray(np.clip(inside + SPARE, *RUN_OUT))


def _unit_vectors(vectors: NDArray[np.floating]) -> Array:
    length = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
    out: Array = (vectors / np.maximum(length, 1e-6)).astype(np.float32)
    return out


def _nearest_column(centres_S: Array, x_P: Index, y_P: Index) -> Index:
    """The column nearest to each pixel of the shrunk crop, to the precision of the distance transform."""
    left, top = int(x_P.min()), int(y_P.min())
    width, height = int(x_P.max()) + 1 - left, int(y_P.max()) + 1 - top
    x, y = np.floor(centres_S - (left, top)).astype(np.intp).T
    on = np.flatnonzero((x >= 0) & (y >= 0) & (x < width) & (y < height))
    if not len(on):
        return np.zeros(len(x_P), np.intp)
    seeds = np.full((height, width), 255, np.uint8)
    seeds[y[on], x[on]] = 0
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    of_label = np.zeros(len(on) + 1, np.intp)
    of_label[labels[y[on], x[on]]] = on
    out: Index = of_label.take(labels.reshape(-1).take((y_P - top) * np.intp(width) + (x_P - left)))
    return out


def _ribbon_place(
    x_P: Array, y_P: Array, column_P: Index, centres_S: Array, tangents_S: Array
) -> tuple[Array, Array, Array]:
    """Fractional column, signed offset along the normal, and how far a point lies from that column along the curve."""
    last = len(centres_S) - 1
    line = np.concatenate([centres_S, tangents_S], 1).reshape(-1).view(np.complex128)  # 16 bytes, moved as one item

    def ahead_of(column: Index) -> tuple[Array, Array]:
        x, y, tx, ty = cv2.transpose(line.take(column).view(np.float32).reshape(-1, 4))
        dx, dy = x_P - x, y_P - y
        return dx * tx + dy * ty, dy * tx - dx * ty

    for _ in range(2):
        ahead, across = ahead_of(column_P)
        column_P = np.clip(column_P + np.rint(np.clip(ahead, -2.0, 2.0)).astype(np.intp), 0, last)
    ahead, across = ahead_of(column_P)
    along = np.clip(column_P + np.clip(ahead, -0.5, 0.5), 0, last)
    return along.astype(np.float32), across, np.abs(ahead)
