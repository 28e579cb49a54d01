"""Mattes from shapes: float coverage by exact area, each shape in its own region.

Plate space; pixel (column j, row i) covers the square [j, j + 1] x [i, i + 1], and its coverage is the share of that
square inside the shape. Nothing is quantised; coverage below DUST becomes 0. Curves are first flattened to within 0.001
px.

The area sums use signed-area accumulation, as font rasterisers do (R. Levien, font-rs), for all edges at once: cut the
edges at pixel lines, sum each piece's height and the area to its right, and integrate along the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import bezier, feather_line
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.feather import feather_gap, soft_places, soften
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, Points, RotoShape, Widths

Matte = NDArray[np.float32]

FLATNESS_PX = 0.001
DUST = 1e-4  # smaller coverage is flattening or rounding error and becomes 0
_SMALL_PX, _AT_ONCE = 256, 32  # pieces of a stroke drawn together: size and number, 16 MB at most
_LINE_FLATNESS_PX = 0.05  # flatness of the ribbon of a feather line
_LEAST_FEATHER_PX = 0.5  # smallest feather at points of a stroke that has a feather elsewhere
LOW_PX = 1e-9  # lower edges cover less than float precision


@dataclass(frozen=True, slots=True)
class Region:
    """Coverage of a part of the plate: `coverage` is (h, w) float32; its top-left pixel is column `x`, row `y`."""

    x: int
    y: int
    coverage: Matte

    @property
    def is_empty(self) -> bool:
        """Whether it has no pixel."""
        return self.coverage.size == 0

    def paste(self, width: int, height: int) -> Matte:
        """The region on an empty plate: (height, width) float32."""
        out = np.zeros((height, width), dtype=np.float32)
        x0, y0 = max(self.x, 0), max(self.y, 0)
        x1, y1 = min(self.x + self.coverage.shape[1], width), min(self.y + self.coverage.shape[0], height)
        if x0 < x1 and y0 < y1:
            out[y0:y1, x0:x1] = self.coverage[y0 - self.y : y1 - self.y, x0 - self.x : x1 - self.x]
        return out


EMPTY = Region(0, 0, np.zeros((0, 0), dtype=np.float32))


def union(regions: Iterable[Region]) -> Region:
    """The maximum of several mattes at every pixel, in their common bounding region."""
    parts = [region for region in regions if not region.is_empty]
    if len(parts) < 2:
        return parts[0] if parts else EMPTY
    x0, y0 = min(r.x for r in parts), min(r.y for r in parts)
    x1 = max(r.x + r.coverage.shape[1] for r in parts)
    y1 = max(r.y + r.coverage.shape[0] for r in parts)
    out = np.zeros((y1 - y0, x1 - x0), dtype=np.float32)
    for r in parts:
        h, w = r.coverage.shape
        into = out[r.y - y0 : r.y - y0 + h, r.x - x0 : r.x - x0 + w]
        np.maximum(into, r.coverage, out=into)
    return Region(x0, y0, out)


# --- exact area of polygons -------------------------------------------------------------------------------------------


def _pixel_frame(polylines: Sequence[Array], width: int, height: int, grow: float) -> tuple[int, int, int, int] | None:
    """Whole pixels that contain the polylines and a margin, clipped to the plate: x0, y0, x1, y1."""
    lows = np.min([line.min(axis=0) for line in polylines], axis=0) - grow
    highs = np.max([line.max(axis=0) for line in polylines], axis=0) + grow
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        return None
    x0, y0 = (math.floor(min(max(v, 0.0), 1e9)) for v in lows)
    x1, y1 = math.ceil(min(highs[0], width)), math.ceil(min(highs[1], height))
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _edges(polylines: Sequence[Array]) -> tuple[Array, Array]:
    """Start and end of every edge of closed polylines: (E, 2) each."""
    return np.vstack(polylines), np.vstack([np.roll(line, -1, axis=0) for line in polylines])


def _cuts(low: Array, high: Array, limit: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array]:
    """Cut spans [low, high] at integers 0..limit: for each piece its span, index in the span, begin and end."""
    first = np.clip(np.floor(low) + 1, 0, limit + 1).astype(np.intp)
    last = np.clip(np.ceil(high) - 1, -1, limit).astype(np.intp)
    counts = np.maximum(last - first + 1, 0) + 1
    owner = np.repeat(np.arange(len(low)), counts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    line = first[owner] + place
    begin = np.where(place == 0, low[owner], line - 1)
    end = np.where(place == counts[owner] - 1, high[owner], line)
    return owner, place, begin, end


def _area(polylines: Sequence[Array], x0: int, y0: int, w: int, h: int) -> Array:
    """Winding number integrated over every pixel of a w x h window at (x0, y0): (h, w)."""
    a, b = _edges(polylines)
    every = np.zeros(len(a))
    return _area_of_edges(a - (x0, y0), b - (x0, y0), every, every + h, w, h)


def _area_of_edges(a: Array, b: Array, first: Array, last: Array, w: int, h: int) -> Array:
    """Winding number integrated over the pixels of a w x h window, for edges from `a` to `b` (E, 2) in its pixels.

    Each edge counts only between rows `first` and `last` (E,), so that several pictures can share one window.
    """
    down = b[:, 1] > a[:, 1]
    top, bottom = np.where(down[:, None], a, b), np.where(down[:, None], b, a)
    keep = (bottom[:, 1] - top[:, 1] > LOW_PX) & (bottom[:, 1] > first) & (top[:, 1] < last)
    top, bottom, sign, first, last = top[keep], bottom[keep], np.where(down[keep], 1.0, -1.0), first[keep], last[keep]
    slope = (bottom[:, 0] - top[:, 0]) / (bottom[:, 1] - top[:, 1])

    owner, _, ya, yb = _cuts(np.maximum(top[:, 1], first), np.minimum(bottom[:, 1], last), h)
    xa = top[owner, 0] + (ya - top[owner, 1]) * slope[owner]
    xb = top[owner, 0] + (yb - top[owner, 1]) * slope[owner]
    rise = (yb - ya) * sign[owner]
    row = np.minimum(np.floor((ya + yb) / 2), last[owner] - 1).astype(np.intp)

    left, right = np.minimum(xa, xb), np.maximum(xa, xb)
    piece, _, begin, end = _cuts(left, right, w)
    span = (right - left)[piece]
    share = np.divide(end - begin, span, out=np.ones_like(span), where=span > 0)
    middle = np.clip((begin + end) / 2, 0.0, w)
    column = np.minimum(np.floor(middle), w - 1).astype(np.intp)
    height = rise[piece] * share
    beyond = height * (middle - column)  # the part of the pixel to the left of the piece
    cell = row[piece] * (w + 1) + column
    sums = np.bincount(cell, height - beyond, minlength=h * (w + 1)).astype(np.float64, copy=False)  # int where empty
    sums[1:] += np.bincount(cell, beyond, minlength=h * (w + 1))[:-1]
    return np.cumsum(sums.reshape(h, w + 1)[:, :w], axis=1)


def _polygon_window(polylines: Sequence[Array], x0: int, y0: int, x1: int, y1: int) -> Array:
    covered = np.abs(_area(polylines, x0, y0, x1 - x0, y1 - y0))
    return np.minimum(covered, 1.0, out=covered)


def _region_of(frame: tuple[int, int, int, int], covered: Array) -> Region:
    """A matte from coverage; values below DUST become 0, because pixels above 0 may be painted."""
    return Region(frame[0], frame[1], np.where(covered < DUST, 0.0, covered).astype(np.float32))


def rasterise_closed(
    points: Points | NDArray[np.floating],
    width: int,
    height: int,
    *,
    feather_px: float = 0.0,
) -> Region:
    """Coverage of a closed Bezier shape (P, 6); `feather_px` adds a ramp outside its edge that ends at that distance.

    Without feather the only error is that of flattening (below 1e-4 on average along the edge). With feather, the ramp
    is exact in distance from the edge and averaged over each pixel.
    """
    line = bezier.flatten(bezier.as_array(points), True, FLATNESS_PX, centred=True)
    frame = _pixel_frame([line], width, height, max(feather_px, 0.0)) if len(line) > 2 else None
    if frame is None:
        return EMPTY
    covered = _polygon_window([line], *frame)
    if feather_px > 0.0:
        soft = _thin(bezier.flatten(bezier.as_array(points), True, _band_flatness(feather_px)), True)
        chain = np.vstack((soft, soft[:1]))
        zero, reach = np.zeros(len(chain)), np.full(len(chain), feather_px)
        gap = feather_gap(chain, zero, reach, frame, soft_places(covered, feather_px))
        gap[covered > 0.5] *= -1.0
        soften(covered, gap, feather_px)
    return _region_of(frame, covered)


def rasterise_feathered(
    points: Points | NDArray[np.floating],
    feather: Points | NDArray[np.floating],
    width: int,
    height: int,
    *,
    feather_px: float = 0.0,
) -> Region:
    """Coverage of a closed Bezier shape (P, 6) with a feather line.

    `feather` (P, 6): the line's points as offsets from the control points, then its tangents. `feather_px` moves the
    line outwards. Where it lies inside the shape, so does the ramp: 1 at the line, 0 at the edge.
    """
    shape, rows = bezier.as_array(points), bezier.as_array(feather)
    ends = np.hstack((shape[:, :2] + rows[:, :2], rows[:, 2:]))
    edge, end = feather_line.ribbon(shape, ends, feather_px, _LINE_FLATNESS_PX)
    line = bezier.flatten(shape, True, FLATNESS_PX, centred=True)
    frame = _pixel_frame([line, end], width, height, 1.0) if len(line) > 2 else None
    if frame is None:
        return EMPTY
    return _region_of(frame, feather_line.soften_edge(_polygon_window([line], *frame), edge, end, frame))


def _band_flatness(feather_px: float) -> float:
    return max(FLATNESS_PX, 0.002 * feather_px)  # 0.2 % of the ramp


def _thin(polyline: Array, closed: bool) -> Array:
    """The polyline without repeated vertices."""
    if len(polyline) < 2:
        return polyline
    step = np.abs(np.diff(polyline, axis=0, append=polyline[:1] if closed else polyline[-1:] + 1.0)).max(axis=1)
    return polyline[step > 1e-12] if (step > 1e-12).any() else polyline[:1]


# --- strokes ----------------------------------------------------------------------------------------------------------


def rasterise_open(
    points: Points | NDArray[np.floating],
    width: int,
    height: int,
    *,
    width_px: float,
    taper: tuple[float, float] = (0.0, 0.0),
    feather_px: float = 0.0,
) -> Region:
    """Coverage of a stroke along an open Bezier curve (P, 6).

    `width_px`: full width. `taper`: share of the length over which each end narrows linearly to zero, feather included.
    Ends without taper are round (half a width beyond the end point). Overlaps count once. The area is exact where
    the curve's radius exceeds half the width; elsewhere the union of pieces is their maximum per pixel.
    """
    line = _tapered_centre_line(bezier.as_array(points), taper, FLATNESS_PX)
    if line is None or width_px <= 0.0:
        return EMPTY
    chain, share = line
    half = share * (width_px / 2.0)
    frame = _pixel_frame([chain], width, height, width_px / 2.0 + feather_px)
    if frame is None:
        return EMPTY
    covered = _stroke_area(chain, half, frame)
    if feather_px > 0.0:
        flatness_px = max(FLATNESS_PX, 0.01 * feather_px)  # 1 % of the ramp: strokes are many and their chains long
        chain, share = _tapered_centre_line(bezier.as_array(points), taper, flatness_px) or line
        wanted = soft_places(covered, feather_px)
        gap = feather_gap(chain, share * (width_px / 2.0), share * feather_px, frame, wanted)
        soften(covered, gap, feather_px)
    return _region_of(frame, covered)


def rasterise_profile(
    points: Points | NDArray[np.floating],
    widths: Widths | NDArray[np.floating],
    width: int,
    height: int,
    *,
    taper: tuple[float, float] = (0.0, 0.0),
) -> Region:
    """Coverage of a stroke along an open Bezier curve (P, 6) with a width at each control point.

    `widths` (P, 3): distances of the edges to the left and right of its direction (y down), and its feather, in pixels;
    interpolated evenly along the curve. Otherwise as `rasterise_open`. If a stroke has a feather anywhere, it has at
    least half a pixel everywhere.
    """
    shape, rows = bezier.as_array(points), np.asarray(widths, dtype=np.float64).reshape(-1, 3)
    line = _tapered_centre_line(shape, taper, FLATNESS_PX)
    if line is None or not rows[:, :2].any():
        return EMPTY
    chain, half, feather = _profile_line(*line, shape, rows)
    frame = _pixel_frame([chain], width, height, float((half + feather).max()))
    if frame is None:
        return EMPTY
    covered = _stroke_area(chain, half, frame)
    widest = float(feather.max())
    if widest > 0.0:
        gap = feather_gap(chain, half, np.maximum(feather, _LEAST_FEATHER_PX), frame, soft_places(covered, widest))
        soften(covered, gap, widest)
    return _region_of(frame, covered)


def _profile_line(chain: Array, share: Array, points: Array, rows: Array) -> tuple[Array, Array, Array]:
    """The centre line (N, 2) of a stroke with two sides, its half width and its feather (N,), from a curve's chain."""
    at = bezier.arc_lengths(chain, False)
    lengths = [bezier.length(points[i : i + 2], False) for i in range(len(points) - 1)]
    stops = np.concatenate(([0.0], np.cumsum(lengths)))
    stops *= at[-1] / max(float(stops[-1]), 1e-12)
    left, right, feather = (np.interp(at, stops, column) * share for column in rows.T)
    direction = np.gradient(chain, axis=0)
    direction /= np.maximum(np.hypot(direction[:, 0], direction[:, 1]), 1e-300)[:, None]
    leftwards = np.stack((direction[:, 1], -direction[:, 0]), axis=1)
    return chain + leftwards * ((left - right) / 2)[:, None], (left + right) / 2, feather


def _tapered_centre_line(points: Array, taper: tuple[float, float], flatness_px: float) -> tuple[Array, Array] | None:
    """The flattened curve (N, 2), with vertices where tapers end, and the share of full width at each vertex."""
    line = _thin(bezier.flatten(points, False, flatness_px, centred=True), False)
    if not len(line):
        return None
    if len(line) == 1:
        line = np.vstack((line, line + (1e-6, 0.0)))  # a dot
    at = bezier.arc_lengths(line, False)
    total = at[-1]
    extra = [x for x in (taper[0] * total, (1.0 - taper[1]) * total) if 0.0 < x < total]
    if taper[0] + taper[1] > 1.0:
        extra.append(taper[0] * total / (taper[0] + taper[1]))  # where both tapers meet
    every = np.unique(np.concatenate((at, extra)))
    every = every[np.concatenate(([True], np.diff(every) > 1e-9))]
    line = bezier.points_along(line, False, every)
    share = np.ones(len(every))
    if taper[0] > 0.0:
        share = np.minimum(share, every / (taper[0] * total))
    if taper[1] > 0.0:
        share = np.minimum(share, (total - every) / (taper[1] * total))
    return line, np.clip(share, 0.0, 1.0)


def _stroke_area(chain: Array, half: Array, frame: tuple[int, int, int, int]) -> Array:
    """Exact area of the outlines of the stroke's simple pieces, combined by maximum."""
    pieces = _simple_pieces(chain, half)
    outlines = [_stroke_outline(chain[begin : end + 1], half[begin : end + 1]) for begin, end in pieces]
    if len(outlines) == 1:
        return _polygon_window(outlines, *frame)
    covered = np.zeros((frame[3] - frame[1], frame[2] - frame[0]))
    for rows, columns, part in _winding_pieces(outlines, frame):
        into = covered[rows, columns]
        np.maximum(into, np.minimum(np.abs(part), 1.0), out=into)
    return covered


def _winding_pieces(
    outlines: Sequence[Array], frame: tuple[int, int, int, int]
) -> Iterator[tuple[slice, slice, Array]]:
    """The rows and columns of each outline in the frame, and its winding numbers there.

    Small outlines are drawn one below another in one window: a bend has dozens, and a call for each would cost more.
    """
    corner = np.array(frame[:2])
    lows = [np.maximum(np.floor(line.min(axis=0)), frame[:2]).astype(int) for line in outlines]
    sizes = [np.minimum(np.ceil(line.max(axis=0)), frame[2:]).astype(int) - low for line, low in zip(outlines, lows)]
    shown = [k for k, size in enumerate(sizes) if size.min() > 0]
    small = [k for k in shown if sizes[k].max() <= _SMALL_PX]
    for k in shown:
        if sizes[k].max() > _SMALL_PX:
            yield *_slices(lows[k] - corner, sizes[k]), _area([outlines[k]], *lows[k], *sizes[k])
    for first in range(0, len(small), _AT_ONCE):
        some = small[first : first + _AT_ONCE]
        tops = np.concatenate(([0], np.cumsum([sizes[k][1] for k in some])))
        width = max(int(sizes[k][0]) for k in some)
        moved = [outlines[k] - lows[k] + (0, top) for k, top in zip(some, tops)]
        counts = [len(line) for line in moved]
        covered = _area_of_edges(
            *_edges(moved), np.repeat(tops[:-1], counts), np.repeat(tops[1:], counts), width, int(tops[-1])
        )
        for k, top in zip(some, tops):
            yield *_slices(lows[k] - corner, sizes[k]), covered[top : top + sizes[k][1], : sizes[k][0]]


def _slices(at: NDArray[np.intp], size: NDArray[np.intp]) -> tuple[slice, slice]:
    return slice(at[1], at[1] + size[1]), slice(at[0], at[0] + size[0])


def _directions(chain: Array) -> Array:
    step = np.diff(chain, axis=0)
    return np.asarray(step / np.maximum(np.hypot(step[:, 0], step[:, 1]), 1e-300)[:, None])


def _simple_pieces(chain: Array, half: Array) -> list[tuple[int, int]]:
    """Runs of vertices (first, last) along which the offset outline does not fold over itself.

    Runs end where the curve turns by more than 20 degrees, or more tightly than its half width allows; in a tight bend
    every edge is its own run.
    """
    n = len(chain)
    direction = _directions(chain)
    lengths = np.hypot(*np.diff(chain, axis=0).T)
    a, b = direction[:-1], direction[1:]
    turn = np.abs(np.arctan2(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], (a * b).sum(axis=1)))
    shortest = np.minimum(lengths[:-1], lengths[1:])
    broken = (turn > np.radians(20.0)) | (np.tan(np.minimum(turn, 3.0) / 2.0) * half[1:-1] > 0.45 * shortest)
    breaks = [0, *(np.flatnonzero(broken) + 1).tolist(), n - 1]
    return list(pairwise(breaks))


def _stroke_outline(chain: Array, half: Array) -> Array:
    """Outline (M, 2) of a stroke along a polyline: one side forwards, the other backwards, half circles at the ends."""
    direction = _directions(chain)
    joint = np.vstack((direction[:1], direction[:-1] + direction[1:], direction[-1:]))
    joint /= np.maximum(np.hypot(joint[:, 0], joint[:, 1]), 1e-300)[:, None]
    cosine = np.concatenate(([1.0], (joint[1:-1] * direction[1:]).sum(axis=1), [1.0]))
    side = np.stack((-joint[:, 1], joint[:, 0]), axis=1) * (half / np.maximum(cosine, 0.5))[:, None]
    return np.vstack(
        (
            chain + side,
            _half_circle(chain[-1], side[-1]),
            (chain - side)[::-1],
            _half_circle(chain[0], -side[0]),
        )
    )


def _half_circle(centre: Array, side: Array) -> Array:
    """Vertices of the half circle from centre + side to centre - side, without its ends; none for a pointed end."""
    radius = float(np.hypot(*side))
    if radius < 1e-3:
        return np.zeros((0, 2))
    n = max(4, math.ceil(math.pi / math.sqrt(8.0 * FLATNESS_PX / radius)))
    angle = -np.pi * np.arange(1, n) / n
    c, s = np.cos(angle), np.sin(angle)
    return np.asarray(centre + np.stack((c * side[0] - s * side[1], s * side[0] + c * side[1]), axis=1))


def subtract_mattes(region: Region, away: Iterable[Region]) -> Region:
    """A matte minus others: its coverage times (1 - coverage) of each of them."""
    over = [other for other in away if _do_overlap(region, other)]
    if not over:
        return region
    h, w = region.coverage.shape
    left = region.coverage.copy()
    for other in over:
        there = Region(other.x - region.x, other.y - region.y, other.coverage).paste(w, h)
        left *= 1.0 - there
    return Region(region.x, region.y, left)


def _do_overlap(a: Region, b: Region) -> bool:
    (ah, aw), (bh, bw) = a.coverage.shape, b.coverage.shape
    is_apart = a.x + aw <= b.x or b.x + bw <= a.x or a.y + ah <= b.y or b.y + bh <= a.y
    return not (a.is_empty or b.is_empty or is_apart)


# --- shapes of a document ---------------------------------------------------------------------------------------------


def matte(shape: RotoShape, frame: float, width: int, height: int) -> Region:
    """A shape's matte at a frame; empty for hidden shapes and shapes without keys.

    An open shape without a width is drawn DEFAULT_WIDTH_PX wide.
    """
    if not shape.keys or not shape.is_visible(math.floor(frame)):
        return EMPTY
    points = shape.at(frame)
    feather, widths = (shape.feather_at(frame), ()) if shape.closed else ((), shape.widths_at(frame))
    if feather:
        return rasterise_feathered(points, feather, width, height, feather_px=shape.feather_px)
    if widths:
        return rasterise_profile(points, widths, width, height, taper=shape.taper)
    if shape.closed:
        return rasterise_closed(points, width, height, feather_px=shape.feather_px)
    return rasterise_open(
        points,
        width,
        height,
        width_px=DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px,
        taper=shape.taper,
        feather_px=shape.feather_px,
    )


def mattes_of(shapes: Iterable[RotoShape], frame: float, width: int, height: int) -> dict[str, Region]:
    """The mattes of all shapes at a frame by name; hold-outs are subtracted from the other shapes."""
    shapes = tuple(shapes)
    drawn = {shape.name: matte(shape, frame, width, height) for shape in shapes}
    away = [drawn[shape.name] for shape in shapes if shape.subtract]
    return {
        shape.name: drawn[shape.name] if shape.subtract else subtract_mattes(drawn[shape.name], away)
        for shape in shapes
    }
