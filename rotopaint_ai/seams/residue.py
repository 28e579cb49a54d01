"""Correct the tables' paint where it changes a seam much less than it changes the whole seam on average.

Where a seam runs along a shadow's edge or into a fold, paint may keep the groove as part of the face: a dark stroke
that begins and ends within the matte. The mean light that paint adds to the whole seam gives the rows and the depth of
its groove. A valley that remains in those rows, not much deeper than that mean, belongs to the seam.

T rows across, S columns along.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import relight
from rotopaint_ai.seams.ribbon import Ribbon

Array = NDArray[Any]  # float32

# Columns, sigma and width of a blur: shorter structures along the seam count as grain.
_NEAR, _WIDE = 2.0, 13
_ROWS = 4  # half-width of the valleys searched
_SHOWS = 0.08  # least log light that paint adds to a row of the groove
_GROOVE = 0.6  # rows with more than this share of the largest mean belong to the groove
_FAINT, _CLEAR = 0.03, 0.08  # log light: no valley below the first, a certain valley above the second
_MOST = 0.6  # largest share of the mean added light that the correction adds
_DEEPER = 2.0  # a valley this many times as deep as the mean added light belongs to the face
_VALLEY = np.ones((2 * _ROWS + 1, 1), np.uint8)


def fill_valleys(relit_TSC: Array, light_TSC: Array, ribbon: Ribbon) -> Array:
    """Base and keep (T, S, 4), as in `relight.relight_in_turn`, with the remaining valleys of the groove filled."""
    own = relight.mean_of(light_TSC)
    added = relight.light_added(relit_TSC, own)
    usual = mean_added(added, ribbon)
    groove = usual > np.maximum(_SHOWS, _GROOVE * usual.max(0))
    groove_rows = np.flatnonzero(groove.any(1))
    if not len(groove_rows):
        return relit_TSC
    rows = slice(max(0, groove_rows[0] - 2 * _ROWS), groove_rows[-1] + 2 * _ROWS + 1)  # the reach of a valley there
    light: Array = own[rows] + added[rows]
    smooth = cv2.GaussianBlur(light, (_WIDE, 1), _NEAR, borderType=cv2.BORDER_REPLICATE)
    depth = cv2.morphologyEx(smooth, cv2.MORPH_BLACKHAT, _VALLEY)
    share = _remainder(depth, usual[rows], groove[rows] & ribbon.own_TS[rows]) * ribbon.own_TS[rows]
    lift = share * np.minimum(depth, _MOST * np.maximum(usual[rows], 0.0))
    out: Array = relit_TSC.copy()
    # up to the rims, no higher
    out[rows, :, :3] += np.minimum(lift, np.maximum(smooth + depth - light, 0.0))[..., None]
    return out


def mean_added(added_TS: Array, ribbon: Ribbon) -> Array:
    """Mean log light (T, S) that paint adds to a row of a column's run."""
    total, count = ribbon.row_sums(added_TS)
    return np.asarray((total / np.maximum(count, 1))[ribbon.line.run_S].T)


def _remainder(depth: Array, usual: Array, groove: NDArray[np.bool_]) -> Array:
    """Probability, 0 to 1, that a sample is a remainder of the groove."""
    sure = np.clip((depth - _FAINT) / (_CLEAR - _FAINT), 0.0, 1.0)
    sure *= np.clip(_DEEPER - depth / np.maximum(usual, np.float32(1e-3)), 0.0, 1.0)
    return np.asarray(cv2.GaussianBlur((sure * groove).astype(np.float32), (5, 1), 1.0))
