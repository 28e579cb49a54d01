"""What the two banks say of the gap: the membrane that joins them across the ribbon.

Dimensions: T rows across, S columns along, C colour components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32


def join(light_TSC: Array, trust_TS: Array, *, stiffness: float) -> Array:
    """The smoothest light across each column that agrees with the samples one trusts.

    Minimises, for every column and colour, sum trust (u - light)^2 + stiffness sum (u[t+1] - u[t])^2: across a gap
    without trust this is the straight blend from one bank to the other, so a shade step between two printed pieces
    becomes a gradual one. Tridiagonal, solved by elimination (the Thomas algorithm) for all columns at once.
    """
    trust = trust_TS + np.float32(1e-4)
    n_rows = len(trust)
    below = np.full(n_rows, 2.0 * stiffness, np.float32)
    below[0] = below[-1] = stiffness
    ratio_TS = np.empty_like(trust)
    out = light_TSC * trust[:, :, None]
    diagonal = trust + below[:, None]
    ratio_TS[0] = stiffness / diagonal[0]
    out[0] /= diagonal[0][:, None]
    for t in range(1, n_rows):
        pivot = 1.0 / (diagonal[t] - stiffness * ratio_TS[t - 1])
        ratio_TS[t] = stiffness * pivot
        out[t] += stiffness * out[t - 1]
        out[t] *= pivot[:, None]
    for t in range(n_rows - 2, -1, -1):
        out[t] += ratio_TS[t][:, None] * out[t + 1]
    return out
