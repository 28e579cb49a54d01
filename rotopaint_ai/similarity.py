"""Fitting the similarity transform (shift, rotation, scale) between two sets of points, given as complex x + iy.

There is one function for arrays, and one for the few points of the panel, whose process never loads numpy.
Source: Umeyama, "Least-squares estimation of transformation parameters between two point patterns" (1991), in the
plane, where rotation and scale are one complex factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Complex = npt.NDArray[np.complex128]

_LEAST = 1e-12  # below this spread (square pixels) or this factor, rotation and scale cannot be determined


def fit_similarity(
    source: Complex, target: Complex, weight: npt.NDArray[np.generic] | None = None
) -> tuple[Complex, Complex]:
    """Factor (...) and shift (...) with `target` near `factor * source + shift`, by weighted least squares.

    Convention: points (..., N). `weight` (..., N) is 0 for an unknown point, whose coordinates must still be finite.
    With one known point, or all points in one place, rotation and scale are undetermined and the factor is 1.
    """
    import numpy as np

    share = np.ones(source.shape) if weight is None else weight / np.maximum(weight.sum(-1, keepdims=True), _LEAST)
    share = share / source.shape[-1] if weight is None else share
    mean_p, mean_q = (share * source).sum(-1, keepdims=True), (share * target).sum(-1, keepdims=True)
    p, q = source - mean_p, target - mean_q
    spread = (share * np.abs(p) ** 2).sum(-1)
    factor = (share * np.conj(p) * q).sum(-1) / np.maximum(spread, _LEAST)
    factor = np.where((spread > _LEAST) & (np.abs(factor) > _LEAST), factor, 1.0 + 0j)
    return factor, mean_q[..., 0] - factor * mean_p[..., 0]


def similarity_of(pairs: Sequence[tuple[complex, complex]]) -> tuple[complex, complex]:
    """Factor and shift that map the first point of each pair to the second; 1 and 0 without pairs.

    Standard library only.
    """
    if not pairs:
        return 1, 0
    mean_p, mean_q = (sum(z) / len(pairs) for z in zip(*pairs))
    spread = sum(abs(p - mean_p) ** 2 for p, _ in pairs)
    turned = sum((p - mean_p).conjugate() * (q - mean_q) for p, q in pairs)
    factor = turned / spread if spread else 1
    return factor, mean_q - factor * mean_p
