"""What stands in front of a face (a hand, a prop, hair, a hat), as coverage of the plate.

A network sees the face's crop, S x S pixels; its answer is brought back to the plate. Where S pixels cover a much
larger crop, the plate's own edges sharpen those of the mask: a guided filter as in He and Sun, "Fast Guided Filter"
(2015), with slopes from the crop and detail from the plate. Unlike theirs it leaves the mask as it is where the plate
is flat.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.landmarks.detect import Display
from rotopaint_ai.shapes.rasterise import EMPTY, Region

Array = NDArray[Any]  # float32

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
_RADIUS = 1  # in the network's pixels


class FrontFinder(Protocol):
    """A network: display-referred crops (N, S, S, 3), S is `size`, to coverage 0..1 (N, S, S)."""

    @property
    def size(self) -> int:
        """Side of the crops."""

    def __call__(self, crops: Array, /) -> Array:
        """Coverage by what stands in front of the face."""


def find_front(rgb: Array, origin: tuple[int, int], crop: Crop, find: FrontFinder, display: Display) -> Region:
    """Coverage 0..1 by what stands in front of a face, in plate space; empty where nothing does.

    rgb: scene-linear (H, W, 3) with its top-left pixel at `origin`, around the face's crop. The region is cut to these
    pixels; coverage below FAINT is 0, above 1 - FAINT it is 1.
    """
    picture = np.ascontiguousarray(display(cut(rgb, origin, crop, find.size)), np.float32)
    answer = np.nan_to_num(np.asarray(find(picture[None])[0], np.float32))
    mask = without_specks(np.clip((answer - DOUBT) / (SURE - DOUBT), 0, 1))
    if not mask.any():
        return EMPTY
    if crop.side > SHARPENED * find.size:
        front = _sharpen(mask, picture, crop, rgb, origin, display)
    else:
        front = cut_region(crop_on_plate(mask, crop), origin, rgb.shape)
    return _trimmed(Region(front.x, front.y, _snapped(front.coverage)))


def without_specks(mask: Array) -> Array:
    """A mask (S, S) without connected areas that cover less than LEAST_SHARE of it, and without faint coverage."""
    kept = _snapped(mask)
    n_areas, labels = cv2.connectedComponents((kept > 0).astype(np.uint8), connectivity=8)
    covered = np.bincount(labels.ravel(), kept.ravel(), n_areas)
    return np.asarray(np.where(covered[labels] >= LEAST_SHARE * mask.size, kept, np.float32(0)), np.float32)


def crop_on_plate(mask: Array, crop: Crop) -> Region:
    """A crop's mask (S, S) or planes (S, S, C) on whole plate pixels, averaged where the plate is coarser.

    The crop is the picture here, and a square of plate pixels is cut from it.
    """
    x, y = floor(crop.x - crop.side / 2), floor(crop.y - crop.side / 2)
    side = ceil(crop.side) + 1
    centre = crop.to_crop((x + side / 2, y + side / 2), len(mask))
    square = Crop(float(centre[0]), float(centre[1]), side * len(mask) / crop.side)
    return Region(x, y, cut(mask, (0, 0), square, side))


def _sharpen(mask: Array, picture: Array, crop: Crop, rgb: Array, origin: tuple[int, int], display: Display) -> Region:
    """A mask on the plate, with the plate's detail added at its edges."""
    guide = _grey(picture)
    planes = cut_region(crop_on_plate(np.dstack((mask, guide, edge_slopes(mask, guide))), crop), origin, rgb.shape)
    rows, columns = planes.coverage.shape[:2]
    x, y = planes.x - origin[0], planes.y - origin[1]
    coarse, smooth, slopes = cv2.split(planes.coverage)
    detail = _grey(display(rgb[y : y + rows, x : x + columns])) - smooth
    return Region(planes.x, planes.y, np.asarray(cv2.multiply(detail, slopes) + coarse, np.float32))


def _grey(picture: Array) -> Array:
    """The mean of a picture's colours (H, W)."""
    return np.asarray(cv2.transform(np.ascontiguousarray(picture), np.full((1, 3), 1 / 3)))


def edge_slopes(mask: Array, guide: Array) -> Array:
    """The change of a mask (S, S) with its guide's brightness around each pixel: equations 5 and 7 of the paper."""

    def mean(plane: Array) -> Array:
        return np.asarray(cv2.blur(plane, (2 * _RADIUS + 1, 2 * _RADIUS + 1), borderType=cv2.BORDER_REFLECT))

    shared = mean(guide * mask) - mean(guide) * mean(mask)
    return mean(shared / (mean(guide * guide) - mean(guide) ** 2 + np.float32(_FLAT)))


def _snapped(mask: Array) -> Array:
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


def _trimmed(region: Region) -> Region:
    """A region without the empty rows and columns around it."""
    rows, columns = (np.flatnonzero(region.coverage.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return EMPTY
    top, left = int(rows[0]), int(columns[0])
    part = region.coverage[top : int(rows[-1]) + 1, left : int(columns[-1]) + 1]
    return Region(region.x + left, region.y + top, np.ascontiguousarray(part))
