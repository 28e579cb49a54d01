"""Interpolate the gap between the two banks of a seam: a membrane across the ribbon.

Dimensions: T rows across, C colour components, S columns along (last, because all columns are solved at once).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32

_FAINT = np.float32(1e-4)  # least weight of any sample


def join(light_TCS: Array, trust_TS: Array) -> Array:
    """The smoothest light across each column that agrees with the trusted samples; T must be odd, as in every ribbon.

    Minimises, for every column and colour, sum trust (u - light)^2 + sum (u[t+1] - u[t])^2. Across a gap without trust
    this is linear from one bank to the other, so a step in shade between two printed pieces becomes gradual. The
    tridiagonal system is eliminated from both ends to the middle row ("burn at both ends", LINPACK Users' Guide 1979,
    chapter 7), in half as many steps as from one end.
    """
    n_rows = len(trust_TS)
    if n_rows < 3 or n_rows % 2 == 0:
        raise ValueError(f"banks.join: {n_rows} rows; wanted an odd number of 3 or more")
    half = n_rows // 2
    ends = slice(0, half), slice(None, half, -1)  # the rows from both ends, without the middle one
    trust = np.stack([trust_TS[end] for end in ends], 1) + _FAINT
    pivot = trust + np.float32(2.0)
    pivot[0] -= 1.0
    out = np.empty((half, 2, *light_TCS.shape[1:]), np.float32)
    for side, end in enumerate(ends):
        np.multiply(light_TCS[end], trust[:, side, None], out=out[:, side])
    share = _eliminated(pivot, out)
    middle_trust = trust_TS[half] + _FAINT
    middle = light_TCS[half] * middle_trust + out[-1].sum(0)
    middle /= middle_trust + np.float32(2.0) - share[-1, :, 0].sum(0)
    _substituted(out, share, middle)
    return np.concatenate([out[:, 0], middle[None], out[::-1, 1]])


def _eliminated(pivot: Array, out: Array) -> Array:
    """Forward elimination of the right-hand sides (half, 2, C, S) in place; returns the factors (half, 2, 1, S)."""
    shares: Array = np.empty((*pivot.shape[:2], 1, pivot.shape[2]), np.float32)
    for k, (diagonal, share, row) in enumerate(zip(pivot, shares, out)):
        if k:
            diagonal -= shares[k - 1, :, 0]
            row += out[k - 1]
        np.divide(1.0, diagonal, out=share[:, 0])
        row *= share
    return shares


def _substituted(out: Array, shares: Array, middle: Array) -> None:
    """Back substitution in place, from the middle row (C, S) to both ends."""
    inner, step = middle[None], np.empty_like(out[0])
    for row, share in zip(out[::-1], shares[::-1]):
        np.multiply(share, inner, out=step)
        row += step
        inner = row
