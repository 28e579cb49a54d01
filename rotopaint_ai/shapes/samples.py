"""A shape at many frames at once, as arrays.

Convention: F frames, P control points, D = 6 P numbers of a key, M curve samples; plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.roto import RotoShape

_PER_CUBIC = 12  # samples per cubic for curve distances
_MOST_WEIGHED = 256  # largest number of control points for which all samples are one matrix product


def rows(shape: RotoShape, frames: Iterable[float] | NDArray[np.intp]) -> Array:
    """Key numbers (F, D) at every frame, as `RotoShape.at` gives them. The shape has a key."""
    at = np.asarray(list(frames) if not isinstance(frames, np.ndarray) else frames, dtype=np.float64)
    keyed = np.array(shape.frames)
    points = (point for frame in shape.frames for point in shape.keys[frame].points)  # a generator saves memory
    numbers = np.fromiter(chain.from_iterable(points), dtype=np.float64).reshape(len(keyed), -1)
    kinds = np.array([shape.keys[frame].interpolation for frame in shape.frames])
    left = np.clip(np.searchsorted(keyed, at, side="right") - 1, 0, len(keyed) - 1)
    right = np.minimum(left + 1, len(keyed) - 1)
    span = np.maximum(keyed[right] - keyed[left], 1)
    weight = np.where(kinds[left] == "hold", 0.0, np.clip((at - keyed[left]) / span, 0.0, 1.0))
    weight = np.where(kinds[left] == "ease", weight * weight * (3.0 - 2.0 * weight), weight)[:, None]
    found = np.asarray(numbers[left] + (numbers[right] - numbers[left]) * weight)
    is_own = (kinds[left] == "smooth") & (at > keyed[left]) & (at < keyed[right])
    for place in np.flatnonzero(is_own if shape.layer is None else ~np.isin(at, keyed)):
        found[place] = np.asarray(shape.at(float(at[place]))).reshape(-1)
    return found


def curve_samples(rows_FD: Array, closed: bool, per_segment: int) -> Array:
    """Curve points (F, M, 2) of key numbers (F, D) at equal parameters."""
    n = rows_FD.shape[1] // 6
    if n > _MOST_WEIGHED:
        return _segment_samples(rows_FD, closed, per_segment)
    p = rows_FD.reshape(len(rows_FD), n, 6)
    absolute = np.concatenate((p[..., :2], p[..., :2] + p[..., 2:4], p[..., :2] + p[..., 4:6]), axis=1)
    return np.asarray(np.einsum("mk,fkc->fmc", basis(n, closed, per_segment), absolute, optimize=True))


def _segment_samples(rows_FD: Array, closed: bool, per_segment: int) -> Array:
    """As `curve_samples`, segment by segment: memory grows linearly with the points, not quadratically."""
    p = rows_FD.reshape(len(rows_FD), -1, 6)
    q = np.roll(p, -1, axis=1) if closed else p[:, 1:]
    p = p if closed else p[:, :-1]
    t = np.arange(per_segment) / per_segment
    weights = np.stack(((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t**3))
    corners = np.stack((p[..., :2], p[..., :2] + p[..., 4:6], q[..., :2] + q[..., 2:4], q[..., :2]))
    found = np.einsum("kt,kfnc->fntc", weights, corners).reshape(len(p), -1, 2)
    return np.asarray(found if closed else np.concatenate((found, q[:, -1:, :2]), axis=1))


def basis(n: int, closed: bool, per_segment: int) -> Array:
    """Weights (M, 3 n) of points, incoming and outgoing handles (absolute) for each sample."""
    if n == 1:
        return np.array([[1.0, 0.0, 0.0]])
    a = np.arange(n if closed else n - 1)
    t = np.arange(per_segment) / per_segment
    u = 1.0 - t
    weights = np.zeros((len(a), per_segment, 3 * n))
    for column, values in zip(
        (a, 2 * n + a, n + (a + 1) % n, (a + 1) % n), (u**3, 3 * u * u * t, 3 * u * t * t, t**3), strict=True
    ):
        weights[a, :, column] = values
    last = np.zeros((0 if closed else 1, 3 * n))
    last[:, n - 1] = 1.0
    return np.concatenate((weights.reshape(-1, 3 * n), last))


def pick_farthest(offsets_FMC: Array) -> Array:
    """The longest of each frame's offsets (F, M, 2): (F,) pixels."""
    return np.asarray(np.sqrt(np.einsum("fmc,fmc->fm", offsets_FMC, offsets_FMC).max(axis=1, initial=0.0)))


def distances(a: RotoShape, b: RotoShape, frames: Iterable[float], *, per_segment: int = 16) -> Array:
    """Largest distance in pixels at each frame between curve points of equal parameter: (F,).

    It is an upper bound of the distance of the curves. Both shapes have keys, and equally many control points.
    """
    at = np.asarray(list(frames), dtype=np.float64)
    step = max(1, 400_000 // (max(a.n_points, 1) * per_segment * 4))  # frames per batch, to limit memory
    left, right = rows(a, at), rows(b, at)
    parts = [
        pick_farthest(
            curve_samples(left[i : i + step], a.closed, per_segment)
            - curve_samples(right[i : i + step], a.closed, per_segment)
        )
        for i in range(0, len(at), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def open_curve_distance(a: NDArray[np.complex128], b: NDArray[np.complex128]) -> float:
    """Symmetric mean distance in pixels of two open splines: points, ends of incoming and outgoing tangents (D,)."""
    weights = _distance_basis(len(a) // 3)
    distance = abs((weights @ a)[:, None] - weights @ b)
    return float((distance.min(axis=1).mean() + distance.min(axis=0).mean()) / 2)


@cache
def _distance_basis(n: int) -> Array:
    return basis(n, False, _PER_CUBIC)


def spline_points(points_PK: Array) -> NDArray[np.complex128]:
    """Points, ends of incoming and of outgoing tangents (3 P,) of control points (P, 6)."""
    at, back, out = (points_PK[:, k] + 1j * points_PK[:, k + 1] for k in (0, 2, 4))
    return np.asarray(np.concatenate([at, at + back, at + out]))


def point_numbers(spline: NDArray[np.complex128]) -> Array:
    """Control points (P, 6) of a spline (3 P,)."""
    at, back, out = spline.reshape(3, -1)
    back, out = back - at, out - at
    return np.stack([at.real, at.imag, back.real, back.imag, out.real, out.imag], axis=1)
