"""Middle lines of seams known only by a matte.

H, W rows and columns of a crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.ribbon import WideCurve

Array = NDArray[Any]
Bools = NDArray[Any]  # bool
Pixel = tuple[int, int]

_SHORTEST = 6  # px: a shorter branch is a bump of the rim
_SLIM = 2.0  # a middle line this many times as long as the matte is wide belongs to a seam
_SMOOTH = 3.0  # px: sigma along the line


def middle_lines(hole: Bools) -> list[WideCurve]:
    """One (polyline (N, 2), half width) for every seam-like stretch of a matte (H, W), longest first; corner origin.

    Blobs about as long as wide give none.
    """
    if not hole.any():
        return []
    depth = cv2.distanceTransform(np.pad(hole.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    pixels = [(int(y), int(x)) for y, x in np.argwhere(thin_matte(hole))]
    left, curves = set(pixels), []
    for start in pixels:
        while start in left:
            path = _take_longest(left, start)
            if len(path) < _SHORTEST:
                continue
            half = float(np.median([depth[p] for p in path]))
            if len(path) >= _SLIM * 2 * half:
                curves.append((_smooth_line(path), half))
    return sorted(curves, key=lambda curve: -len(curve[0]))


def thin_matte(hole: Bools) -> Bools:
    """The matte thinned to connected lines one pixel wide.

    Source: Zhang and Suen, "A fast parallel algorithm for thinning digital patterns" (1984), conditions (a) to (d').
    """
    image = np.pad(hole.astype(np.uint8), 1)
    while True:
        n_removed = 0
        for first in (True, False):
            p = [np.roll(image, shift, (0, 1)) for shift in _ROUND]
            count = sum(p)
            turns = sum((a == 0) & (b == 1) for a, b in zip(p, [*p[1:], p[0]]))
            north, east, south, west = p[0], p[2], p[4], p[6]
            ends = (north * east * south, east * south * west) if first else (north * east * west, north * south * west)
            removed = (image == 1) & (count >= 2) & (count <= 6) & (turns == 1) & (ends[0] == 0) & (ends[1] == 0)
            image = image * ~removed
            n_removed += int(removed.sum())
        if not n_removed:
            return np.asarray(image[1:-1, 1:-1] > 0)


# shifts that move the north, north-east, ... north-west neighbour onto a pixel
_ROUND = ((1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1))


def _take_longest(pixels: set[Pixel], start: Pixel) -> list[Pixel]:
    """Remove the longest path through the component of `start`, and return it.

    Two breadth-first searches find it, the second from the end of the first. A component too small for a line is
    removed whole.
    """
    order, _ = _walk(pixels, start)
    if len(order) < _SHORTEST:
        pixels.difference_update(order)
        return order
    order, before = _walk(pixels, order[-1])
    path = [order[-1]]
    while before[path[-1]] is not None:
        path.append(before[path[-1]])  # type: ignore[arg-type]
    pixels.difference_update(path)
    return path


def _walk(pixels: set[Pixel], start: Pixel) -> tuple[list[Pixel], dict[Pixel, Pixel | None]]:
    """The pixels in the order of a breadth-first search, and the one before each."""
    before: dict[Pixel, Pixel | None] = {start: None}
    order = [start]
    for y, x in order:
        for dy, dx in _ROUND:
            near = (y + dy, x + dx)
            if near in pixels and near not in before:
                before[near] = (y, x)
                order.append(near)
    return order, before


def _smooth_line(path: Sequence[Pixel]) -> Array:
    line = np.array([(x + 0.5, y + 0.5) for y, x in path], np.float32)
    size = (1, 2 * int(3 * _SMOOTH) + 1)
    smooth: Array = cv2.GaussianBlur(line, size, _SMOOTH, borderType=cv2.BORDER_REPLICATE)
    return smooth
