"""What paint takes off a whole seam says where it took too little, and where too much.

Where a seam runs along a shadow's edge or into a fold, paint may take the groove for the face's own and keep it: a dark
stroke that begins and ends within the matte. What paint takes off the whole seam on average says in which rows its
groove lies and how deep it is. A valley that is left in those rows, not much deeper than that, is the seam's. Where
paint brings far more light than that, it has painted over a dark gap or the edge of something else, and the tables'
paint, which keep more, takes its place.

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

_NEAR, _WIDE = 2.0, 13  # columns, sigma and width of a blur: what runs on along the seam for no longer is grain
_ROWS = 4  # half-width of the valleys looked for
_SHOWS = 0.08  # log light: a groove that paint takes off at least
_GROOVE = 0.6  # of what it takes off at most: rows with more are the groove's
_FAINT, _CLEAR = 0.03, 0.08  # log light: a valley is none below, and one for certain above
_MOST = 0.6  # of what paint takes off on average, that is taken off more at most
_DEEPER = 2.0  # times what paint takes off on average: a valley as deep is the face's
_FAR_MORE = 3.0  # times what paint takes off a seam on average, in the frame's row that loses most: no seam is so dark
_ANYWHERE = 0.3  # log light that may be taken off any seam
_SAMPLES = 20  # of a row that tell what is usual
_AROUND = np.ones((3, 3), np.uint8)
_VALLEY = np.ones((2 * _ROWS + 1, 1), np.uint8)


def lifted(relit_TSC: Array, light_TSC: Array, ribbon: Ribbon) -> Array:
    """What to make of every sample, as `relight.relight` gives it, with valleys left in the groove lifted."""
    own = relight.mean_of(light_TSC)
    added = relight.light_added(relit_TSC, own)
    usual = usually_taken(added, ribbon)
    groove = usual > np.maximum(_SHOWS, _GROOVE * usual.max(0))
    held = np.flatnonzero(groove.any(1))
    if not len(held):
        return relit_TSC
    rows = slice(max(0, held[0] - 2 * _ROWS), held[-1] + 2 * _ROWS + 1)  # as far as a valley there can reach
    light: Array = own[rows] + added[rows]
    smooth = cv2.GaussianBlur(light, (_WIDE, 1), _NEAR, borderType=cv2.BORDER_REPLICATE)
    depth = cv2.morphologyEx(smooth, cv2.MORPH_BLACKHAT, _VALLEY)
    share = _left(depth, usual[rows], groove[rows] & ribbon.own_TS[rows]) * ribbon.own_TS[rows]
    lift = share * np.minimum(depth, _MOST * np.maximum(usual[rows], 0.0))
    out: Array = relit_TSC.copy()
    out[rows, :, :3] += np.minimum(lift, np.maximum(smooth + depth - light, 0.0))[..., None]  # to the rims, no higher
    return out


def spared(relit_TSC: Array, by_tables_TSC: Array, light_TSC: Array, ribbon: Ribbon) -> Array:
    """What to make of every sample, as `relight.relight` gives it, by tables where paint brings far more than usual."""
    added = relight.light_added(relit_TSC, relight.mean_of(light_TSC))
    total, count = ribbon.row_sums(added)
    usual = (total / np.maximum(count, 1))[count > _SAMPLES]
    most = max(_ANYWHERE, _FAR_MORE * float(usual.max(initial=0.0)))
    if added.max() <= most:
        return relit_TSC
    smooth = np.maximum(added, cv2.GaussianBlur(added, (0, 0), 0.8))
    sure = cv2.dilate(np.clip(2.0 * (smooth / np.float32(most) - 1.0), 0.0, 1.0), _AROUND)
    share = cv2.GaussianBlur(sure, (0, 0), 0.7)[..., None] * ribbon.own_TS[..., None]
    return np.asarray(relit_TSC + share * (by_tables_TSC - relit_TSC))


def usually_taken(taken_TS: Array, ribbon: Ribbon) -> Array:
    """Log light (T, S) that paint adds in a row of a column's run, on average."""
    total, count = ribbon.row_sums(taken_TS)
    return np.asarray((total / np.maximum(count, 1))[ribbon.line.run_S].T)


def _left(depth: Array, usual: Array, groove: NDArray[np.bool_]) -> Array:
    """How sure it is that a sample is left of the groove, 0 to 1."""
    sure = np.clip((depth - _FAINT) / (_CLEAR - _FAINT), 0.0, 1.0)
    sure *= np.clip(_DEEPER - depth / np.maximum(usual, np.float32(1e-3)), 0.0, 1.0)
    return np.asarray(cv2.GaussianBlur((sure * groove).astype(np.float32), (5, 1), 1.0))
