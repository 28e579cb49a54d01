"""Apply clone strokes to a painted region. H, W rows and columns of the region, whose corner is `origin` (x, y)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.strokes import Stroke, StrokeSource

Array = NDArray[Any]  # float32


def apply(
    rgb_HWC: Array,
    origin: tuple[int, int],
    strokes: Iterable[Stroke],
    sources: Mapping[StrokeSource, Array] | None = None,
) -> tuple[Array, Array]:
    """A region with strokes applied in order, and their coverage (H, W), 0..1.

    rgb_HWC: scene-linear float32. `sources`: pictures of the same region (H, W, 3) for strokes that copy another
    picture, NaN where it has no pixels. Other strokes copy the result of those before them. Where a source lies outside
    the region, or has no pixel, the stroke changes nothing. Pixels with coverage 0 stay, and with coverage 1 equal the
    source, bit for bit.
    """
    out = np.array(rgb_HWC, np.float32)
    covered: Array = np.zeros(out.shape[:2], np.float32)
    for stroke in strokes:
        cover = brush(stroke, out.shape[:2], origin)
        source, is_there = _shift(out if stroke.source is None else (sources or {})[stroke.source], stroke)
        cover[~is_there] = 0.0
        at = cover > 0
        share = cover[at][:, None]
        out[at] = np.where(share < 1.0, out[at] + share * (source[at] - out[at]), source[at])
        covered = 1.0 - (1.0 - covered) * (1.0 - cover)
    return out, covered.astype(np.float32)


def windows(stroke: Stroke) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """The boxes that a stroke paints and copies from: left, top, right, bottom in plate pixels."""
    low = np.floor(np.min(stroke.points, axis=0) - stroke.radius_px).astype(int)
    high = np.ceil(np.max(stroke.points, axis=0) + stroke.radius_px).astype(int) + 1
    x0, y0, x1, y1 = (int(value) for value in (*low, *high))
    return (x0, y0, x1, y1), (x0 + stroke.dx, y0 + stroke.dy, x1 + stroke.dx, y1 + stroke.dy)


def brush(stroke: Stroke, size: tuple[int, int], origin: tuple[int, int]) -> Array:
    """A stroke's coverage of each pixel (H, W), by the distance of the pixel's centre from its path."""
    rows, columns = size
    x = np.arange(columns, dtype=np.float32) + np.float32(origin[0] + 0.5)
    y = np.arange(rows, dtype=np.float32) + np.float32(origin[1] + 0.5)
    nearest = np.full(size, np.inf, np.float32)
    points = np.asarray(stroke.points, np.float32)
    for a, b in zip(points, points[1:] if len(points) > 1 else points, strict=False):
        inside_x = (x >= min(a[0], b[0]) - stroke.radius_px) & (x <= max(a[0], b[0]) + stroke.radius_px)
        inside_y = (y >= min(a[1], b[1]) - stroke.radius_px) & (y <= max(a[1], b[1]) + stroke.radius_px)
        if inside_x.any() and inside_y.any():
            window = np.ix_(inside_y, inside_x)
            nearest[window] = np.minimum(nearest[window], _distance(x[inside_x], y[inside_y], a, b))
    core = stroke.hardness * stroke.radius_px
    fade = np.clip((nearest - core) / max(stroke.radius_px - core, 1e-6), 0.0, 1.0)
    cover = np.where(nearest < stroke.radius_px, 0.5 + 0.5 * np.cos(np.pi * fade), 0.0)
    return np.asarray(stroke.opacity * cover, np.float32)


def _distance(x: Array, y: Array, a: Array, b: Array) -> Array:
    """Distance of pixel centres (len y, len x) from the segment a to b."""
    dx, dy = float(b[0] - a[0]), float(b[1] - a[1])
    length = dx * dx + dy * dy
    along = ((x - a[0])[None, :] * dx + (y - a[1])[:, None] * dy) / (length or 1.0)
    t = np.clip(along, 0.0, 1.0)
    return np.asarray(np.hypot(x[None, :] - a[0] - t * dx, y[:, None] - a[1] - t * dy))


def _shift(rgb: Array, stroke: Stroke) -> tuple[Array, NDArray[np.bool_]]:
    """The pixels that a stroke copies to a region, and which are valid: inside the region, and not NaN in a picture of
    another frame."""
    rows, columns = rgb.shape[:2]
    y, x = np.arange(rows) + stroke.dy, np.arange(columns) + stroke.dx
    inside = ((y >= 0) & (y < rows))[:, None] & ((x >= 0) & (x < columns))[None, :]
    source = rgb[np.ix_(np.clip(y, 0, rows - 1), np.clip(x, 0, columns - 1))]
    return source, inside if type(stroke.source) is not int else inside & ~np.isnan(source).any(axis=2)
