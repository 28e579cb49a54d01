"""Landmarks as they lie on a face that looks straight ahead.

A head that looks to one side most of the time has a lopsided mean face: its far half is squeezed, and no landmark lies
where the mirror image of another one would. So the head's relief is taken from the keyed frames and turned until
landmarks whose names are a pair mirror each other.

Letters: F frames, L landmarks. Face space as in `faces`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rotopaint_ai.training.data.rigid_structure import fit_relief
from rotopaint_ai.training.mining import symmetry
from rotopaint_ai.training.mining.outline import Array

_FEWEST_PAIRS = 3


def frontal_places(places_FLC: Array, mean_LC: Array, names: Sequence[str]) -> Array:
    """Places [L, 2] of landmarks seen from the front, the axis at x = 0; NaN where `mean_LC` is.

    `places_FLC`: [F, L, 2] the landmarks of every frame in face space; `mean_LC`: [L, 2] their usual places, which are
    the answer where too few names are a pair or too few frames are keyed.
    """
    known = np.flatnonzero(np.isfinite(mean_LC).all(axis=1))
    rows = [names[int(column)] for column in known]
    pairs = [(rows.index(one), rows.index(two)) for one, two in symmetry.name_pairs(rows)]
    relief = fit_relief(places_FLC[:, known], None) if len(pairs) >= _FEWEST_PAIRS else None
    if relief is None:
        return mean_LC
    left, right = (relief.places[[pair[side] for pair in pairs]] for side in (0, 1))
    turned = _facing(relief.places, left, right)
    over = mean_LC[known]
    out = mean_LC.copy()
    out[known] = turned * (float(over.std()) / max(float(turned.std()), 1e-9)) + (0.0, float(over[:, 1].mean()))
    return out


def _facing(places: Array, left: Array, right: Array) -> Array:
    """Places [L, 2] of a head [L, 3] turned so that pairs mirror each other at x = 0; its up stays where it is.

    The axis from one side to the other is the main direction of the pairs' differences.
    """
    apart = right - left
    across = np.linalg.svd(apart)[2][0]
    across = across * (1.0 if across[0] >= 0 else -1.0)
    up = np.array([0.0, 1.0, 0.0]) - across[1] * across
    up = up / max(float(np.linalg.norm(up)), 1e-9)
    middle = ((left + right) / 2 @ across).mean()
    height = places @ up
    return np.stack([places @ across - middle, height - height.mean()], axis=1)
