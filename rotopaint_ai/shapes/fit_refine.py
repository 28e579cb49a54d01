"""All control points of a fitted curve at once: damped Gauss-Newton on the distance along the curve's normals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.bezier import Array

_ROUNDS = 12


def unit(vector: Array) -> Array:
    """A vector (2,) of length 1 in its direction."""
    return np.asarray(vector / max(float(np.hypot(*vector)), 1e-12))


def refine(
    dense: Array,
    closed: bool,
    curve: Array,
    pinned: Mapping[int, Sequence[float]],
    corners: NDArray[np.intp],
    knots: NDArray[np.intp],
) -> Array:
    """Damped Gauss-Newton over positions, tangent angles and tangent lengths of all control points.

    Smooth points keep one angle for both tangents. The first point, the last of an open curve and pinned ones stay.
    """
    n = len(curve)
    sharp = {i for i, row in enumerate(knots[:n].tolist()) if row in set(corners.tolist())}
    for index, position in pinned.items():
        curve[index, :2] = position
    stay = {0, *pinned, *(() if closed else (n - 1,))}
    data = (dense[:-1] if closed else dense)[:: max(1, len(dense) // (14 * n))]
    state = _State(curve, closed, sharp, stay)
    damping, error = 1e-3, state.error(data)
    for _ in range(_ROUNDS):
        trial = state.stepped(data, damping)
        new = trial.error(data)
        if new < error:
            gain = error - new
            state, error, damping = trial, new, damping / 3
            if gain < 1e-3 * error:
                break
        else:
            damping *= 10
            if damping > 1e3:
                break
    return state.curve


@dataclass(frozen=True)
class _State:
    """A curve and which of its control points are corners, and which stay in place."""

    curve: Array
    closed: bool
    sharp: set[int]
    stay: set[int]

    def _closest(self, data: Array) -> tuple[NDArray[np.intp], Array, Array, Array]:
        """Cubic, parameter, offset and normal of the curve point nearest to each given point."""
        cubics = bezier.segments(self.curve, self.closed)
        segment, t, _ = bezier.nearest(self.curve, self.closed, data)
        own = cubics[segment]
        offset = bezier.evaluate(own, t[:, None])[:, 0] - data
        d = bezier.derivative(own, t[:, None])[:, 0]
        normal = np.stack((-d[:, 1], d[:, 0]), axis=1) / np.maximum(np.hypot(d[:, 0], d[:, 1]), 1e-9)[:, None]
        return segment, t, offset, normal

    def error(self, data: Array) -> float:
        """Sum of squared distances of the data from the curve, and of the curve from the data, which sees loops."""
        there = bezier.nearest(self.curve, self.closed, data)[2]
        line = bezier.sample(self.curve, self.closed, per_segment=max(4, len(data) // len(self.curve)))
        back = bezier.distance_to_polyline(line, data, self.closed)
        return float((there**2).sum() + (back**2).mean() * len(data))

    def stepped(self, data: Array, damping: float) -> _State:
        """The curve after one damped Gauss-Newton step."""
        n = len(self.curve)
        segment, t, offset, normal = self._closest(data)
        after = (segment + 1) % n
        u = 1.0 - t
        rows = np.arange(len(data))
        absolute = np.zeros((len(data), 6 * n))  # derivative of normal . B by the six numbers of every control point
        for c in range(2):
            np.add.at(absolute, (rows, 6 * segment + c), (u**3 + 3 * u * u * t) * normal[:, c])
            np.add.at(absolute, (rows, 6 * segment + 4 + c), 3 * u * u * t * normal[:, c])
            np.add.at(absolute, (rows, 6 * after + c), (t**3 + 3 * u * t * t) * normal[:, c])
            np.add.at(absolute, (rows, 6 * after + 2 + c), 3 * u * t * t * normal[:, c])
        jacobian = absolute @ self._free_directions()
        residual = (normal * offset).sum(axis=1)
        gram = jacobian.T @ jacobian
        scale = np.maximum(gram.diagonal(), 1e-6)
        step = np.linalg.solve(gram + damping * np.diag(scale), -jacobian.T @ residual)
        return _State(self._moved(step), self.closed, self.sharp, self.stay)

    def _free_directions(self) -> Array:
        """Columns (6 P, N), one a free number: x, y, then tangents (an angle and two lengths, or all four)."""
        columns: list[Array] = []
        for i, point in enumerate(self.curve):
            for c in () if i in self.stay else (0, 1):
                columns.append(self._column(i, {c: 1.0}))
            if i in self.sharp or self._is_end(i):
                columns += [self._column(i, {c: 1.0}) for c in (2, 3, 4, 5)]
            else:
                turn = {2: -point[3], 3: point[2], 4: -point[5], 5: point[4]}
                back, out = unit(point[2:4]), unit(point[4:6])
                columns.append(self._column(i, turn))
                columns.append(self._column(i, {2: back[0], 3: back[1]}))
                columns.append(self._column(i, {4: out[0], 5: out[1]}))
        return np.stack(columns, axis=1)

    def _column(self, i: int, parts: Mapping[int, float]) -> Array:
        column = np.zeros(6 * len(self.curve))
        for c, value in parts.items():
            column[6 * i + c] = value
        return column

    def _is_end(self, i: int) -> bool:
        return not self.closed and i in (0, len(self.curve) - 1)

    def _moved(self, step: Array) -> Array:
        """The control points after a step, turned tangents kept collinear."""
        curve = self.curve.copy()
        at = 0
        for i in range(len(curve)):
            if i not in self.stay:
                curve[i, :2] += step[at : at + 2]
                at += 2
            if i in self.sharp or self._is_end(i):
                curve[i, 2:6] += step[at : at + 4]
                at += 4
                continue
            angle = float(np.clip(step[at], -0.5, 0.5))
            c, s = np.cos(angle), np.sin(angle)
            for k, begin in ((1, 2), (2, 4)):
                x, y = curve[i, begin : begin + 2]
                length = float(np.hypot(x, y))
                factor = max(length + float(step[at + k]), 0.05 * length) / max(length, 1e-12)
                curve[i, begin : begin + 2] = (factor * (c * x - s * y), factor * (s * x + c * y))
            at += 3
        return curve
