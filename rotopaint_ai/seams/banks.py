"""Interpolate the gap between the two banks of a seam: a membrane across the ribbon.

All light here is log light, ln(max(rgb, 0) + floor), where a shadow is an offset and exposure drops out.

Dimensions: T rows across, C colour components, S columns along (last, because all columns are solved at once).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

_FAINT = np.float32(1e-4)  # least weight of any sample
_GROOVE = 3  # rows: valleys of this half-width lower the weight of samples
_VALLEY_LIMIT = 0.1  # depth of valley, log light, that halves the weight
_NEAR = 1.5  # columns: sigma of the smoothing along the seam, before valleys are looked for
_FACE, _BANKS = 1.0, 2.0  # columns: sigmas of the smoothing of both fills along the seam


@dataclass(frozen=True, slots=True)
class BankLight:
    """A ribbon's log light and its two fills: (T, C, S) each.

    own: the plate. face: interpolated across apparent valleys. banks: interpolated from outside the matte.
    """

    own: Array
    face: Array
    banks: Array


def sources(light_TSC: Array, hole_TS: Bools) -> BankLight:
    """The three sources of light; `hole_TS`: samples in the matte or outside the crop, which get no weight."""
    light_TCS = np.ascontiguousarray(light_TSC.transpose(0, 2, 1))
    n_columns = light_TCS.shape[2]
    near = _blur_along(mean_of_colours(light_TCS), _NEAR)
    groove = cv2.morphologyEx(near, cv2.MORPH_BLACKHAT, np.ones((2 * _GROOVE + 1, 1), np.uint8))
    trust = np.concatenate([_trust(groove, hole_TS), (~hole_TS).astype(np.float32)], 1)
    joined = join(np.concatenate([light_TCS, light_TCS], 2), trust)
    face, banks = _blur_along(joined[..., :n_columns], _FACE), _blur_along(joined[..., n_columns:], _BANKS)
    return BankLight(light_TCS, face, banks)


def mean_of_colours(field_TCS: Array) -> Array:
    """The mean over the three colours (T, S)."""
    out: Array = field_TCS[:, 0] + field_TCS[:, 1]
    out += field_TCS[:, 2]
    out *= np.float32(1 / 3)
    return out


def _trust(valley_TS: Array, hole_TS: Bools) -> Array:
    """The weight of each sample: 1 outside the matte; inside, smaller the deeper it lies in a valley."""
    trust = cv2.erode(1.0 / (1.0 + (valley_TS / np.float32(_VALLEY_LIMIT)) ** 2), np.ones((3, 1), np.uint8))
    return np.where(hole_TS, trust * trust, np.float32(1.0))


def _blur_along(field: Array, sigma: float) -> Array:
    """A field (T, S) or (T, C, S), smoothed along the seam."""
    flat = np.ascontiguousarray(field).reshape(-1, field.shape[-1])
    out: Array = cv2.GaussianBlur(flat, (2 * round(3 * sigma) + 1, 1), sigma, borderType=cv2.BORDER_REPLICATE)
    return out.reshape(field.shape)


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
    share = _eliminate(pivot, out)
    middle_trust = trust_TS[half] + _FAINT
    middle = light_TCS[half] * middle_trust + out[-1].sum(0)
    middle /= middle_trust + np.float32(2.0) - share[-1, :, 0].sum(0)
    _substitute(out, share, middle)
    return np.concatenate([out[:, 0], middle[None], out[::-1, 1]])


def _eliminate(pivot: Array, out: Array) -> Array:
    """Forward elimination of the right-hand sides (half, 2, C, S) in place; returns the factors (half, 2, 1, S)."""
    shares: Array = np.empty((*pivot.shape[:2], 1, pivot.shape[2]), np.float32)
    for k, (diagonal, share, row) in enumerate(zip(pivot, shares, out)):
        if k:
            diagonal -= shares[k - 1, :, 0]
            row += out[k - 1]
        np.divide(1.0, diagonal, out=share[:, 0])
        row *= share
    return shares


def _substitute(out: Array, shares: Array, middle: Array) -> None:
    """Back substitution in place, from the middle row (C, S) to both ends."""
    inner, step = middle[None], np.empty_like(out[0])
    for row, share in zip(out[::-1], shares[::-1]):
        np.multiply(share, inner, out=step)
        row += step
        inner = row
