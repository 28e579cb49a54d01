"""A fill that agrees with its neighbours in time: what they show at the same spot of the face, borrowed along flow.

A seam travels with the face, so a neighbour is seldom clean where this frame is not; but its own fill is another
guess at the same skin. Where it is clean, its pixels are borrowed whole; where it is filled, only its shading is, so
that grain stays each frame's own. Each loan is bent to fit this frame's banks, and counts for less the worse it fitted
before. A frame whose pixels are those of its neighbour gets that neighbour's answer.

Convention: crops of one plate; light is scene-linear RGB float32. H, W rows and columns of a crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import harmonic_fill

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

REACH = 2  # exposures on either side that are asked
_NOTHING = 1 / 1024  # as in `cleanplate`
_FLOOR = 0.02  # of the mean light, as in `cleanplate`
_SHADING = 1.5  # px: what is smoother than this is shading, the rest grain
_FITS = 0.06  # log light: a loan that is this far off at the banks counts for 1/e
_LENT = 0.5  # what a loan of the next exposure counts against the frame's own fill; farther ones half as much again
_WHOLE = 4.0  # what a loan from a clean spot counts
_RIM = np.ones((7, 7), np.uint8)


@dataclass(frozen=True, slots=True)
class Still:
    """One frame's crop before and after its own fill (H, W, 3), its matte (H, W), and its top-left plate pixel."""

    before: Array
    after: Array
    matte: Array
    x: int
    y: int

    def repeats(self, other: Still) -> bool:
        """Whether both are the same exposure to the last bit, with the same matte."""
        same = (self.x, self.y, self.before.shape) == (other.x, other.y, other.before.shape)
        return same and np.array_equal(self.matte, other.matte) and np.array_equal(self.before, other.before)


def distinct(stills: Sequence[Still]) -> list[Still]:
    """Neighbours walking away from a frame, each exposure once."""
    found: list[Still] = []
    for still in stills:
        if not any(still.repeats(other) for other in found):
            found.append(still)
    return found


def settle(now: Still, before: Sequence[Still], later: Sequence[Still]) -> Array:
    """A frame's crop filled in agreement with its neighbours: (H, W, 3), outside the matte as the plate.

    before, later: neighbours in the order of their distance; those that repeat this frame, or each other, count once,
    so that frames of a hold get the same answer to the last bit.
    """
    hole = now.matte > _NOTHING
    if not hole.any():
        return now.after.copy()
    floor = np.float32(_FLOOR * max(float(np.mean(now.after[~hole])) if (~hole).any() else 0.0, 1e-4))
    own = _log(now.after, floor)
    total, weight = np.zeros_like(own), np.zeros(hole.shape, np.float32)
    for side in (before, later):
        others = distinct([now, *side])[1 : REACH + 1]
        for distance, other in enumerate(others):
            loan = _borrow(now, other, own, hole, floor)
            count = loan.count * np.float32(0.5**distance)
            total += count[..., None] * loan.change
            weight += count
    changed = own + total / (1.0 + weight)[..., None]
    share = np.minimum(now.matte, 1.0)[..., None]
    light = np.exp(changed) - floor
    under = np.minimum(now.after, 0.0)
    out: Array = np.where(hole[..., None], now.after + share * (light + under - now.after), now.after)
    return out.astype(np.float32)


def _log(light: Array, floor: np.float32) -> Array:
    out: Array = np.log(np.maximum(np.nan_to_num(light, posinf=65504.0), 0.0) + floor)
    return out


@dataclass(frozen=True, slots=True)
class _Loan:
    change: Array  # what the neighbour would change, log light (H, W, 3); nought at the banks
    count: Array  # how much it counts (H, W)


def _borrow(now: Still, other: Still, own: Array, hole: Bools, floor: np.float32) -> _Loan:
    """What a neighbour says of this frame's hole."""
    after, matte = _placed(other, now)
    x, y = _flow(own, _log(after, floor))
    lent = cv2.remap(_log(after, floor), x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    shut = cv2.remap(matte, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=2.0)
    apart = lent - own
    known = (cv2.dilate(hole.view(np.uint8), _RIM) > 0) & ~hole & (shut <= _NOTHING)
    if not known.any():
        return _Loan(np.zeros_like(own), np.zeros(hole.shape, np.float32))
    change = apart - harmonic_fill.fill(apart, hole, known)
    misfit = harmonic_fill.fill(np.repeat(np.abs(apart).mean(2, keepdims=True), 3, 2), hole, known)[..., 0]
    clean = hole & (shut <= _NOTHING)
    held = np.where(hole[..., None], change, 0.0).astype(np.float32)
    change = np.where(clean[..., None], change, _smooth_change(held, hole))
    count = np.exp(-((misfit / _FITS) ** 2)) * np.where(clean, _WHOLE, np.where(shut < 1.5, _LENT, 0.0)) * hole
    return _Loan(np.where(hole[..., None], change, 0.0).astype(np.float32), count.astype(np.float32))


def _smooth_change(change: Array, hole: Bools) -> Array:
    """The smooth part of a change inside the hole."""
    inside = hole.astype(np.float32)
    weight = cv2.GaussianBlur(inside, (0, 0), _SHADING)
    out: Array = cv2.GaussianBlur(change, (0, 0), _SHADING) / np.maximum(weight, 1e-3)[..., None]
    return out


def _placed(other: Still, now: Still) -> tuple[Array, Array]:
    """A neighbour's filled crop and matte on this frame's place; off its crop the matte is 2."""
    height, width = now.matte.shape
    moved = np.array([[1, 0, other.x - now.x], [0, 1, other.y - now.y]], np.float32)
    flags = cv2.INTER_NEAREST
    after = cv2.warpAffine(other.after, moved, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    matte = cv2.warpAffine(other.matte, moved, (width, height), flags=flags, borderValue=2.0)
    return np.asarray(after), np.asarray(matte)


def _flow(own: Array, other: Array) -> tuple[Array, Array]:
    """Where each pixel of this frame lies in the other: columns and rows (H, W), by dense inverse search (OpenCV)."""
    tone = [light.mean(2) for light in (own, other)]
    low, high = np.percentile(tone[0], (1, 99))
    coded = [np.clip((t - low) * (255.0 / max(float(high - low), 1e-3)), 0, 255).astype(np.uint8) for t in tone]
    rows, columns = np.mgrid[: own.shape[0], : own.shape[1]].astype(np.float32)
    if min(own.shape[:2]) < 16:
        return columns, rows
    make: Any = getattr(cv2, "DISOpticalFlow_create")  # noqa: B009 - the stubs of some wheels lack it
    found = make(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(coded[0], coded[1], None)
    return columns + found[..., 0], rows + found[..., 1]
