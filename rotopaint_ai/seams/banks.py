"""What the two banks say of the gap: the membrane that joins them across the ribbon.

Dimensions: T rows across, C colour components, S columns along (last, because all columns are solved at once).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32


def join(light_TCS: Array, trust_TS: Array) -> Array:
    """The smoothest light across each column that agrees with the samples one trusts.

    Minimises, for every column and colour, sum trust (u - light)^2 + sum (u[t+1] - u[t])^2: across a gap without
    trust this is the straight blend from one bank to the other, so a shade step between two printed pieces becomes a
    gradual one. Tridiagonal, solved by elimination (the Thomas algorithm).
    """
    trust = trust_TS + np.float32(1e-4)
    n_rows = len(trust)
    diagonal = trust + np.float32(2.0)
    diagonal[0] -= 1.0
    diagonal[-1] -= 1.0
    out = light_TCS * trust[:, None]
    ratio_TS = np.empty_like(trust)
    np.divide(1.0, diagonal[0], out=ratio_TS[0])
    out[0] *= ratio_TS[0]
    for t in range(1, n_rows):
        pivot = diagonal[t]
        pivot -= ratio_TS[t - 1]
        np.divide(1.0, pivot, out=ratio_TS[t])
        row = out[t]
        row += out[t - 1]
        row *= ratio_TS[t]
    for t in range(n_rows - 2, -1, -1):
        out[t] += ratio_TS[t] * out[t + 1]
    return out
