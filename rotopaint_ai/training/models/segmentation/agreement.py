"""How far the probability of a seam, pixel by pixel, and a seam's matte agree.

S side of a crop in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


NEAR = 0.012  # of the crop's side: so close the two count as one
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
