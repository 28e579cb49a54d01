"""What stands in front of a face (a hand, a prop, hair, a hat), as coverage of the plate.

A network sees the face's crop, S x S pixels; its answer is brought back to the plate. Where S pixels cover a much
larger crop, the plate's own edges sharpen those of the mask: a guided filter as in He and Sun, "Fast Guided Filter"
(2015), with slopes from the crop and detail from the plate. Unlike theirs it leaves the mask as it is where the plate
is flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.landmarks.detect import Display
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.shapes.rasterise import EMPTY, Region

Array = NDArray[Any]  # float32
Window = tuple[int, int, int, int]  # x0, y0, x1, y1

# What a matte covers is the seam's until the network is sure: its answers from the first to the second value become
# coverage 0 to 1. Lower values keep more of hands and hair, and stretches of seam beside them, too
# (docs/research/clean-plates.md).
DOUBT, SURE = 0.6, 0.99
FAINT = 0.02  # coverage below it counts as nothing, above 1 - FAINT as full: there the plate stays bit for bit
# Share of the crop below which a connected area is a false alarm: a square of a thirtieth of the crop's side. A finger
# or a twig before a seam is connected to its hand or to the crop's edge.
LEAST_SHARE = 0.001
SHARPENED = 1.5  # plate pixels for each pixel of the network above which edges are sharpened
# Variance of display values below which the plate counts as flat. In a sweep over synthetic hands on skin (contrast 0
# to 0.2, grain 0.01 and 0.02, four plate pixels for each of the network's) sharp edges came 1.4 to 2 times closer at a
# contrast of 0.2, and soft ones were no worse. A radius of 2 or 3 pixels sharpens no better and follows the grain.
_FLAT = 1e-3
NEAR_PX = 12  # plate pixels beside a seam at which something in front still matters: to its paint, and to its measure
_RADIUS = 1  # in the network's pixels


class FrontFinder(Protocol):
    """A network: display-referred crops (N, S, S, 3), S is `size`, to coverage 0..1 (N, S, S)."""

    @property
    def size(self) -> int:
        """Side of the crops."""

    def __call__(self, crops: Array, /) -> Array:
        """Coverage by what stands in front of the face."""


def find_front(
    rgb: Array,
    origin: tuple[int, int],
    crop: Crop,
    seams: Sequence[WideCurve],
    find: FrontFinder,
    display: Display,
) -> Region:
    """Coverage 0..1 by what stands in front of a face where that is near its seams, in plate space; else empty.

    rgb: scene-linear (H, W, 3) with its top-left pixel at `origin`, around the face's crop. seams: in plate space. The
    region is cut to these pixels and to the surroundings of what covers a seam; coverage below FAINT is 0, above
    1 - FAINT it is 1.
    """
    picture = np.ascontiguousarray(display(cut(rgb, origin, crop, find.size)), np.float32)
    answer = np.nan_to_num(np.asarray(find(picture[None])[0], np.float32))
    mask = without_specks(np.clip((answer - DOUBT) / (SURE - DOUBT), 0, 1))
    window = covered_window(mask, crop, seams)
    if window is None:
        return EMPTY
    if crop.side > SHARPENED * find.size:
        front = _sharpen(mask, picture, crop, window, rgb, origin, display)
    else:
        front = cut_region(crop_on_plate(mask, crop, window), origin, rgb.shape)
    return _trim(Region(front.x, front.y, _snap(front.coverage)))


def covered_window(mask: Array, crop: Crop, seams: Sequence[WideCurve]) -> Window | None:
    """The plate pixels x0, y0, x1, y1 around what a crop's mask (S, S) shows near seams; None where it shows nothing
    there. With most frames nothing does, and bringing a mask to the plate costs more than the network."""
    side, near = len(mask), np.zeros(mask.shape, np.uint8)
    scale = side / crop.side
    for line, half in seams:
        points = np.round((crop.to_crop(line, side) - 0.5) * 16).astype(np.int32)
        cv2.polylines(near, [points], False, 1, max(1, ceil(2 * (half + NEAR_PX) * scale)), shift=4)
    rows, columns = np.nonzero(near * (mask > 0))
    if not len(rows):
        return None
    low, high = (np.array([f(columns), f(rows)]) for f in (np.min, np.max))
    x0, y0 = np.floor(crop.to_plate(low - 1, side)).astype(int)
    x1, y1 = np.ceil(crop.to_plate(high + 2, side)).astype(int)
    return int(x0), int(y0), int(x1), int(y1)


def without_specks(mask: Array) -> Array:
    """A mask (S, S) without connected areas that cover less than LEAST_SHARE of it, and without faint coverage."""
    kept = _snap(mask)
    n_areas, labels = cv2.connectedComponents((kept > 0).astype(np.uint8), connectivity=8)
    covered = np.bincount(labels.ravel(), kept.ravel(), n_areas)
    return np.asarray(np.where(covered[labels] >= LEAST_SHARE * mask.size, kept, np.float32(0)), np.float32)


def crop_on_plate(mask: Array, crop: Crop, window: Window) -> Region:
    """A window of a crop's mask (S, S) or planes (S, S, C) on the plate, averaged where the plate is coarser.

    The crop is the picture here, and a square of plate pixels is cut from it.
    """
    x, y, right, bottom = window
    side = max(right - x, bottom - y)
    centre = crop.to_crop((x + side / 2, y + side / 2), len(mask))
    square = Crop(float(centre[0]), float(centre[1]), side * len(mask) / crop.side)
    return Region(x, y, cut(mask, (0, 0), square, side)[: bottom - y, : right - x])


def _sharpen(
    mask: Array,
    picture: Array,
    crop: Crop,
    window: Window,
    rgb: Array,
    origin: tuple[int, int],
    display: Display,
) -> Region:
    """A window of a mask on the plate, with the plate's detail added at its edges."""
    guide = picture.mean(axis=2)
    planes = np.dstack((mask, guide, edge_slopes(mask, guide)))
    found = cut_region(crop_on_plate(planes, crop, window), origin, rgb.shape)
    rows, columns = found.coverage.shape[:2]
    x, y = found.x - origin[0], found.y - origin[1]
    detail = display(rgb[y : y + rows, x : x + columns]).mean(axis=2) - found.coverage[..., 1]
    sharp = found.coverage[..., 0] + found.coverage[..., 2] * detail
    return Region(found.x, found.y, np.asarray(np.clip(sharp, 0, 1), np.float32))


def edge_slopes(mask: Array, guide: Array) -> Array:
    """The change of a mask (S, S) with its guide's brightness around each pixel: equations 5 and 7 of the paper."""

    def mean(plane: Array) -> Array:
        return np.asarray(cv2.blur(plane, (2 * _RADIUS + 1, 2 * _RADIUS + 1), borderType=cv2.BORDER_REFLECT))

    shared = mean(guide * mask) - mean(guide) * mean(mask)
    return mean(shared / (mean(guide * guide) - mean(guide) ** 2 + np.float32(_FLAT)))


def _snap(mask: Array) -> Array:
    kept = cv2.threshold(np.ascontiguousarray(mask), FAINT, 1.0, cv2.THRESH_TOZERO)[1]
    kept[kept > 1 - FAINT] = 1.0
    return np.asarray(kept, np.float32)


def cut_region(front: Region, origin: tuple[int, int], shape: tuple[int, ...]) -> Region:
    """The part of a region inside a picture of some shape, (H, W, ...), whose top-left pixel lies at `origin`."""
    height, width = front.coverage.shape[:2]
    x0, x1 = max(front.x, origin[0]), min(front.x + width, origin[0] + shape[1])
    y0, y1 = max(front.y, origin[1]), min(front.y + height, origin[1] + shape[0])
    part = front.coverage[y0 - front.y : max(y0, y1) - front.y, x0 - front.x : max(x0, x1) - front.x]
    return Region(x0, y0, part)


def _trim(region: Region) -> Region:
    """A region without the empty rows and columns around it."""
    rows, columns = (np.flatnonzero(region.coverage.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return EMPTY
    top, left = int(rows[0]), int(columns[0])
    part = region.coverage[top : int(rows[-1]) + 1, left : int(columns[-1]) + 1]
    return Region(region.x + left, region.y + top, np.ascontiguousarray(part))
