"""Seam mattes and seam curves of a document at a frame."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.shapes import bezier, rasterise
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, RotoShape

FLATNESS_PX = 0.05
_STATIONS = 64  # points of the middle line of a closed band


def seam_mattes(shapes: Iterable[RotoShape], frame: int, width: int, height: int) -> dict[str, Region]:
    """Matte of every visible seam shape at a frame, by name; `width` and `height` are the plate's.

    Hold-out shapes are subtracted. Left out are shapes of other roles, without keys, hidden at the frame or wholly
    outside the plate.
    """
    shown = [each for each in shapes if (each.role == "seam" or each.subtract) and _shows(each, frame)]
    regions = rasterise.mattes_of(shown, frame, width, height)
    away = {shape.name for shape in shown if shape.subtract}
    return {name: region for name, region in regions.items() if not region.is_empty and name not in away}


def seam_matte(shapes: Iterable[RotoShape], frame: int, width: int, height: int) -> Region:
    """Union of the seam mattes at a frame: the larger coverage where they overlap."""
    return rasterise.union(seam_mattes(shapes, frame, width, height).values())


def seam_curves(shapes: Iterable[RotoShape], frame: int, *, origin: tuple[int, int] = (0, 0)) -> list[WideCurve]:
    """Middle line (N, 2) and half width, in pixels, of every visible seam at a frame, for `cleanplate.fill`.

    origin: the plate pixel at the crop's top left. A closed seam counts as a band: its middle line connects its two
    most distant points.
    """
    curves: list[WideCurve] = []
    for shape in shapes:
        if shape.role == "seam" and _shows(shape, frame):
            line = bezier.flatten(bezier.as_array(shape.at(frame)), shape.closed, FLATNESS_PX)
            if len(line) < 2:
                continue
            half = _half_width(shape, frame)
            curve = middle_line(line) if shape.closed else (line, half)
            curves.append((curve[0] - np.asarray(origin, float), curve[1] + shape.feather_px))
    return curves


def _half_width(shape: RotoShape, frame: int) -> float:
    """Half width of a stroke, pixels; the largest reach where the width varies along it."""
    rows = shape.widths_at(frame)
    if rows:
        return max(max(row.left_px, row.right_px) for row in rows)
    return 0.5 * (DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px)


def middle_line(outline: Array) -> WideCurve:
    """Middle line (N, 2) and mean half width of a long thin band, from its outline (M, 2)."""
    ring = _evenly(np.vstack([outline, outline[:1]]), 2 * _STATIONS + 1)[:-1]
    apart = np.hypot(*(ring[:, None] - ring[None]).transpose(2, 0, 1))
    first, last = sorted(np.unravel_index(int(apart.argmax()), apart.shape))
    there = _evenly(ring[first : last + 1], _STATIONS)
    back = _evenly(np.vstack([ring[last:], ring[: first + 1]])[::-1], _STATIONS)
    middle = 0.5 * (there + back)
    x, y = ring.T
    area = 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
    return middle, 0.5 * area / max(float(np.hypot(*np.diff(middle, axis=0).T).sum()), 1e-6)


def _evenly(line: Array, n: int) -> Array:
    return bezier.points_along(line, False, np.linspace(0.0, bezier.arc_lengths(line, False)[-1], n))


def _shows(shape: RotoShape, frame: int) -> bool:
    return bool(shape.keys) and shape.is_visible(frame)
