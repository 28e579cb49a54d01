"""A second opinion on the seam matte: how far a network that sees seams agrees with the splines.

It changes no matte. `matte.onnx` of a pack says of every pixel of a face crop how likely it shows a seam; where that
and the matte of the splines part, somebody should look.

S side of a crop in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.shapes.rasterise import Region

Array = npt.NDArray[Any]


class Opine(Protocol):
    """Display-referred crops (N, S, S, 3) to the probability of a seam (N, S, S)."""

    @property
    def size_px(self) -> int:
        """Side of the crops that it takes."""

    def __call__(self, crops: Array) -> Array: ...


NEAR = 0.012  # of the crop's side: so close the two count as one
DOUBTFUL = 0.5  # agreement below this is told
SURE = 0.5  # probability and coverage from which a pixel belongs to the seam
_FEWEST = 12  # pixels of a crop that make a seam


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares from 0 to 1: of the matte that the network sees too, of the network's seam that the matte covers."""

    seen: float
    covered: float

    @property
    def score(self) -> float:
        """Their harmonic mean; 1 is full agreement."""
        both = self.seen + self.covered
        return 2 * self.seen * self.covered / both if both else 0.0


def agreement(probability: Array, matte: Array) -> Agreement | None:
    """How far a seam's probability (S, S) and its matte (S, S) in the same crop agree; None where neither shows one."""
    found, drawn = probability >= SURE, matte >= SURE
    if found.sum() < _FEWEST and drawn.sum() < _FEWEST:
        return None
    limit = NEAR * len(matte)
    return Agreement(_share_near(drawn, found, limit), _share_near(found, drawn, limit))


def _share_near(own: Array, other: Array, limit: float) -> float:
    """Share of some pixels that lie within `limit` of others."""
    if not own.any() or not other.any():
        return 0.0
    away = cv2.distanceTransform((~other).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return float((away[own] <= limit).mean())


def in_crop(matte: Region, crop: Crop, size_px: int) -> Array:
    """A matte's coverage (S, S) as a crop's picture shows it; nothing beyond its own region."""
    if matte.is_empty:
        return np.zeros((size_px, size_px), np.float32)
    around = np.pad(matte.coverage, 1)  # a crop repeats the rim of what it is cut from
    three = np.repeat(around[..., None], 3, 2).astype(np.float32)
    return cut(three, (matte.x - 1, matte.y - 1), crop, size_px)[..., 0]
