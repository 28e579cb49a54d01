"""Which samples of two curves lie beside each other, in the order of both.

H holds, N and M samples, complex x + iy in pixels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.facespace import Array, Complex

_STEPS = np.array([(1, 1), (1, 0), (0, 1)])  # back along both curves, the first, the second


def align_samples(one_HN: Complex, other_HM: Complex) -> NDArray[np.intp]:
    """For each sample of a curve, the index (H, N) of the sample of another curve beside it.

    Where a curve folds, as a bridge's does over a nose in profile, the nearest sample may lie on the other side of the
    fold, and a tip that reaches further is nearest to nothing. The ends of the other curve are free. Where several of
    its samples lie beside one, the middle one counts.
    Source: dynamic time warping, Sakoe and Chiba (1978), of squared distances, without slope weights.
    """
    first, last = _spans_on_path(_path_costs(one_HN, other_HM))
    return np.asarray((first + last) // 2)


def _path_costs(one_HN: Complex, other_HM: Complex) -> Array:
    """Least cost (H, N, M) of a path to each pair of samples."""
    apart = abs(one_HN[:, :, None] - other_HM[:, None]) ** 2
    total, along, wall = apart.copy(), apart.cumsum(axis=2), np.full((len(apart), 1), np.inf)
    for k in range(1, apart.shape[1]):
        reached = np.minimum(total[:, k - 1], np.concatenate([wall, total[:, k - 1, :-1]], axis=1))
        total[:, k] = along[:, k] + np.minimum.accumulate(reached + apart[:, k] - along[:, k], axis=1)
    return np.asarray(total)


def _spans_on_path(total: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the last sample (H, N) of the other curve on the cheapest path beside each sample."""
    n_holds, n, m = total.shape
    hold, padded = np.arange(n_holds), np.pad(total, ((0, 0), (1, 0), (1, 0)), constant_values=np.inf)
    first, last = np.full((n_holds, n), m), np.zeros((n_holds, n), np.intp)
    at, beside = np.full(n_holds, n - 1), total[:, -1].argmin(axis=1)
    while True:
        first[hold, at] = np.minimum(first[hold, at], beside)
        last[hold, at] = np.maximum(last[hold, at], beside)
        if not at.any():
            return first, last
        before = [padded[hold, at + 1 - a, beside + 1 - b] for a, b in _STEPS]
        back, along = (_STEPS[np.argmin(before, axis=0)] * (at > 0)[:, None]).T
        at, beside = at - back, beside - along
