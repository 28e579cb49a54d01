"""Crops: squares that follow a face, and pictures cut from them.

Convention: plate space is pixels, x right, y down, origin at the outer corner of the top-left pixel of the display
window. Crop space is pixels of the cut picture, 0..size, with the same kind of origin. A half is added or subtracted
only inside `cut`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, floor, isfinite, log, log2
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import CropError

Array = npt.NDArray[np.float64]
Picture = npt.NDArray[np.float32]

CROP_MARGIN = 1.3  # crop side / longest side of the landmarks' bounding box
AUTO: Literal["auto"] = "auto"

_NUMBER = r"\s*([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*"
_BOX = re.compile(rf"^(?:\s*(-?\d+)\s*:)?{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}$")
_HINT = "~"
_EASE = 0.5  # share of a change in size by which a crop follows from one frame to the next
_JUMP = 0.15  # a change in size above this share is motion, not jitter, and the crop follows it fully
_TAP = 2  # pixels outside a crop that its outermost samples read


@dataclass(frozen=True, slots=True)
class Crop:
    """A square in plate space: centre and side in pixels."""

    x: float
    y: float
    side: float

    def to_crop(self, points: npt.ArrayLike, size_px: float) -> Array:
        """Points (..., 2) converted from plate space to the crop's picture of `size_px` pixels."""
        offset = np.array([self.x - self.side / 2, self.y - self.side / 2])
        placed: Array = (np.asarray(points, dtype=np.float64) - offset) * (size_px / self.side)
        return placed

    def spline_to_crop(self, points_P6: Array, size_px: float) -> Array:
        """Control points (P, 6) of a spline converted from plate space to the crop's picture of `size_px` pixels."""
        tangents = points_P6[:, 2:] * (size_px / self.side)
        return np.concatenate([self.to_crop(points_P6[:, :2], size_px), tangents], axis=1)

    def to_plate(self, points: npt.ArrayLike, size_px: float) -> Array:
        """Points (..., 2) converted from the crop's picture of `size_px` pixels to plate space."""
        offset = np.array([self.x - self.side / 2, self.y - self.side / 2])
        placed: Array = np.asarray(points, dtype=np.float64) * (self.side / size_px) + offset
        return placed

    def word(self, frame: int) -> str:
        """The crop at a frame as an argument of the command line: `FRAME:X,Y,W,H`."""
        x, y = self.x - self.side / 2, self.y - self.side / 2
        return f"{frame}:{x!r},{y!r},{self.side!r},{self.side!r}"


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that a person dragged around a face: top-left corner and size in plate pixels."""

    x: float
    y: float
    width: float
    height: float

    def __post_init__(self) -> None:
        numbers = (self.x, self.y, self.width, self.height)
        if not all(isfinite(number) for number in numbers) or min(self.width, self.height) < 2:
            text = ",".join(f"{number:g}" for number in numbers)
            raise CropError(f"crop {text}: wanted X,Y,W,H with a width and height of 2 pixels or more")

    def crop(self) -> Crop:
        """The smallest square with the same centre that contains the box."""
        return Crop(self.x + self.width / 2, self.y + self.height / 2, max(self.width, self.height))


@dataclass(frozen=True, slots=True)
class CropKeys:
    """Boxes drawn by hand at some frames, as crops. Between them the centre moves linearly, the size geometrically.

    `hints` are frames with boxes that nobody drew: the search for the face starts there, but following the face goes on
    as if they were not keyed.
    """

    keys: Mapping[int, Crop] = field(default_factory=dict)
    hints: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, texts: Sequence[str], *, first_frame: int) -> CropKeys | Literal["auto"]:
        """Parse crops of a command line; a crop without a frame is keyed at `first_frame`. Raises CropError.

        `~FRAME:X,Y,W,H` is a hint, a box that nobody drew; `words` writes hints so for another process.
        """
        parsed = [parse_crop(text.removeprefix(_HINT)) for text in texts]
        keys: dict[int, Crop] = {}
        hints: set[int] = set()
        for text, item in zip(texts, parsed):
            if item == AUTO:
                if len(parsed) > 1:
                    raise CropError(f"crop '{text}': cannot be combined with boxes; give either 'auto' or boxes")
                return AUTO
            frame, box = item
            frame = first_frame if frame is None else frame
            if frame in keys:
                raise CropError(f"crop '{text}': frame {frame} has two boxes; wanted one for each frame")
            keys[frame] = box.crop()
            if text.startswith(_HINT):
                hints.add(frame)
        if not keys:
            raise CropError("no crop given; wanted X,Y,W,H around the face, FRAME:X,Y,W,H, or 'auto'")
        return cls(keys, frozenset(hints))

    def words(self) -> tuple[str, ...]:
        """The crops as arguments of the command line; `parse` reads them back to equal crops."""
        return tuple(_HINT * (frame in self.hints) + crop.word(frame) for frame, crop in self.keys.items())

    def at(self, frame: int) -> Crop:
        """The crop at a frame: its key, else interpolated between the neighbouring keys, else the nearest key."""
        frames = sorted(self.keys)
        if not frames:
            raise CropError(f"frame {frame}: no crop is keyed anywhere; drag one box around the face")
        after = bisect_left(frames, frame)
        if after == len(frames) or frames[after] == frame or after == 0:
            return self.keys[frames[min(after, len(frames) - 1)]]
        left, right = self.keys[frames[after - 1]], self.keys[frames[after]]
        share = (frame - frames[after - 1]) / (frames[after] - frames[after - 1])
        side = exp(log(left.side) * (1 - share) + log(right.side) * share)
        return Crop(left.x + (right.x - left.x) * share, left.y + (right.y - left.y) * share, side)

    def is_key(self, frame: int) -> bool:
        """Whether a person drew a box at this frame."""
        return frame in self.keys and frame not in self.hints


def parse_crop(text: str) -> tuple[int | None, Box] | Literal["auto"]:
    """Read `X,Y,W,H`, `FRAME:X,Y,W,H` or `auto`. Raises CropError on anything else."""
    if text.strip().lower() == AUTO:
        return AUTO
    match = _BOX.match(text)
    if match is None:
        raise CropError(f"crop '{text}': wanted X,Y,W,H in plate pixels, FRAME:X,Y,W,H, or 'auto'")
    return (None if match[1] is None else int(match[1])), Box(*(float(match[index]) for index in range(2, 6)))


def crop_around(points: Array, *, margin: float = CROP_MARGIN) -> Crop:
    """The crop of a face from its landmarks (L, 2) in plate space: centred on their bounding box."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre = (low + high) / 2
    return Crop(float(centre[0]), float(centre[1]), max(float((high - low).max()) * margin, 4.0))


def follow(previous: Crop, points: Array, *, margin: float = CROP_MARGIN) -> Crop:
    """The next frame's crop, around this frame's landmarks; its size is smoothed so that jitter does not change it."""
    target = crop_around(points, margin=margin)
    change = log(target.side / previous.side)
    return target if abs(change) > _JUMP else replace(target, side=previous.side * exp(change * _EASE))


def is_settled(crop: Crop, wanted: Crop) -> bool:
    """Whether a crop is close enough to the crop around its own landmarks that cutting again would change nothing."""
    moved = max(abs(crop.x - wanted.x), abs(crop.y - wanted.y)) / wanted.side
    return moved < 0.02 and abs(log(crop.side / wanted.side)) < 0.04


def cut(rgb: Picture, origin: tuple[int, int], crop: Crop, size_px: int) -> Picture:
    """Cut a crop from a data window (H, W, 3) whose top-left corner lies at `origin` in plate space.

    Returns (size_px, size_px, 3) float32. When it shrinks the picture it first averages blocks of pixels, so that fine
    detail does not alias. Outside the data window the edge pixels are repeated.
    """
    scale = crop.side / size_px
    step = 2 ** max(0, round(log2(scale)))  # the remaining scale is 0.71 to 1.41, which bilinear sampling handles well
    left = crop.x - crop.side / 2 - origin[0]
    top = crop.y - crop.side / 2 - origin[1]
    region, x, y = _block_region(rgb, left, top, crop.side, step)
    for _ in range(step.bit_length() - 1):
        region = _halved(region)
    # Centre of picture pixel j lies at left + (j + 0.5) * scale; centre of region pixel i at x + (i + 0.5) * step.
    ratio = scale / step
    matrix = np.array(
        [
            [ratio, 0.0, (left - x) / step + ratio * 0.5 - 0.5],
            [0.0, ratio, (top - y) / step + ratio * 0.5 - 0.5],
        ]
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    picture = cv2.warpAffine(region, matrix, (size_px, size_px), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(picture, dtype=np.float32)


def _halved(picture: Picture) -> Picture:
    """Means of 2 x 2 pixels. Bilinear resizing to exactly half the size gives the same, and OpenCV has a fast path."""
    size = (picture.shape[1] // 2, picture.shape[0] // 2)
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), dtype=np.float32)


def _block_region(rgb: Picture, left: float, top: float, side: float, step: int) -> tuple[Picture, int, int]:
    """The part of a picture that a crop needs, in whole blocks of `step` pixels, and its top-left position."""
    height, width = rgb.shape[:2]
    x0, x1 = _block_span(left, side, width, step)
    y0, y1 = _block_span(top, side, height, step)
    region = np.asarray(rgb[y0 : min(y1, height), x0 : min(x1, width)], dtype=np.float32)
    more_x, more_y = x1 - min(x1, width), y1 - min(y1, height)
    if more_x or more_y:
        filled = cv2.copyMakeBorder(region, 0, more_y, 0, more_x, cv2.BORDER_REPLICATE)
        region = np.asarray(filled, dtype=np.float32)
    return region, x0, y0


def _block_span(start: float, side: float, limit: int, step: int) -> tuple[int, int]:
    first = min(max(floor(start) - _TAP * step, 0), limit - 1)
    last = max(min(ceil(start + side) + _TAP * step, limit), first + 1)
    return first, first + ceil((last - first) / step) * step
