"""Curves by other means than the product's: the area inside, and one point more by de Casteljau's algorithm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import Array, as_array, derivative, evaluate, segments


def area(points: NDArray[np.floating]) -> float:
    """Signed area inside a closed curve in square pixels, exact; positive where it runs clockwise on screen."""
    cubics = segments(points, True)
    nodes, weights = np.polynomial.legendre.leggauss(3)  # the integrand has degree 5
    t = (nodes + 1) / 2
    p, d = evaluate(cubics, t), derivative(cubics, t)
    return float(((p[..., 0] * d[..., 1] - p[..., 1] * d[..., 0]) @ weights).sum() / 4)


def _split_cubic(cubic: Array, t: float) -> tuple[Array, Array]:
    """Split a cubic (4, 2) at t by de Casteljau's algorithm."""
    ab, bc, cd = (cubic[i] + (cubic[i + 1] - cubic[i]) * t for i in range(3))
    abc, bcd = ab + (bc - ab) * t, bc + (cd - bc) * t
    middle = abc + (bcd - abc) * t
    return np.stack((cubic[0], ab, abc, middle)), np.stack((middle, bcd, cd, cubic[3]))


def insert(points: NDArray[np.floating], closed: bool, segment: int, t: float) -> Array:
    """The same curve with one more control point, at parameter t of a segment. The first point stays first."""
    p = as_array(points)
    left, right = _split_cubic(segments(p, closed)[segment], t)
    after = (segment + 1) % len(p)
    out = p.copy()
    out[segment, 4:6] = left[1] - left[0]
    out[after, 2:4] = right[2] - right[3]
    new = np.concatenate((left[3], left[2] - left[3], right[1] - right[0]))
    return np.insert(out, segment + 1, new, axis=0)
