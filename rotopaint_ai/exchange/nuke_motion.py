"""The transforms of Nuke's layers and shapes, as matrices that map points of Nuke's format.

Standard library only. Nuke's space: pixels, origin bottom left, y up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rotopaint_ai.exchange.nuke_tree import NukeTransform, values_of
from rotopaint_ai.shapes.layers import Matrix, product

_DEFAULTS = (*[0.0] * 9, 1.0, 1.0, 1.0, *[0.0] * 7, *[1.0 if i % 5 == 0 else 0.0 for i in range(16)])


class Motion:
    """Transforms from a shape up to the root layer, without identity transforms."""

    def __init__(self, transforms: Sequence[NukeTransform]) -> None:
        self._transforms = [each for each in transforms if _moves(each)]
        self.times = sorted({key.time for each in self._transforms for curve in each.values for key in curve.keys})
        self.is_identity = not self._transforms
        self.is_animated = len(self.times) > 1
        self.is_projective = any(abs(m[i]) > 1e-9 for m in map(self.at, self.times or [0.0]) for i in (6, 7))

    def at(self, time: float) -> Matrix:
        """The matrix from the shape's own space to the format's at a frame."""
        matrix: Matrix = (1, 0, 0, 0, 1, 0, 0, 0, 1)
        for each in self._transforms:
            matrix = product(_transform_matrix([curve.at(time) for curve in each.values]), matrix)
        return matrix


def _moves(transform: NukeTransform) -> bool:
    return any(
        abs(value - _DEFAULTS[i]) > 1e-9
        for i, curve in enumerate(transform.values)
        if i > 2
        for value in values_of(curve)
    )


def _transform_matrix(values: Sequence[float]) -> Matrix:
    """A transform list as a 3 x 3 matrix: about the pivot scale, skew and rotate, translate, then the extra matrix.

    Rotation is counter-clockwise in degrees (y up). The 4 x 4 extra matrix holds element (row i, column j) at 4 i + j.
    """
    v = [*values, *_DEFAULTS[len(values) :]]
    px, py, turn = v[0], v[1], math.radians(v[8])
    c, s = math.cos(turn), math.sin(turn)
    rotate: Matrix = (c, -s, 0, s, c, 0, 0, 0, 1)
    skew: Matrix = (1, v[12], 0, v[13], 1, 0, 0, 0, 1)
    scale: Matrix = (v[9], 0, 0, 0, v[10], 0, 0, 0, 1)
    inner = product(rotate, product(skew, scale))
    centred = product((1, 0, px + v[3], 0, 1, py + v[4], 0, 0, 1), product(inner, (1, 0, -px, 0, 1, -py, 0, 0, 1)))
    e = v[19:35]
    return product((e[0], e[1], e[3], e[4], e[5], e[7], e[12], e[13], e[15]), centred)


def apply_motion(m: Matrix, x: float, y: float) -> tuple[float, float]:
    """A point under a matrix, perspective included."""
    w = m[6] * x + m[7] * y + m[8]
    w = w if abs(w) > 1e-12 else 1e-12
    return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w
