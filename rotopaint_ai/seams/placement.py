"""Seam splines moved onto the crease that can be seen: evidence along the normals, one smooth path through it.

A landmark model knows where a seam should be to within a few pixels; the plate knows where it is. The predicted curve
is straightened into a strip, the strip is searched for a thin dark (or thin bright) line, and the best path through it
(dynamic programming: near the prediction, without jumps) says how far each place of the curve has to move.

Dimensions: S places along the curve, D offsets across it, P control points. Plate space, pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import evaluate, segments
from rotopaint_ai.shapes.fit import fit_segments

Array = NDArray[Any]

PER_SEGMENT = 24  # places of the curve in each of its cubics, before they are spaced evenly
CLEAR = 2.5  # evidence, in deviations of the strip's own noise, from which on a place counts as seen
STIFFNESS = 2.0  # cost of a path that steps sideways by as much as it goes forward
PULL = 0.5  # cost of one expected error away from the prediction
_NOISE = 1.4826  # median absolute deviation to standard deviation of a normal distribution


@dataclass(frozen=True, slots=True)
class Look:
    """A grey picture of a part of the plate in perceptual values: `grey` (h, w) float32, its top-left pixel at `x`, `y`."""

    grey: Array
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A seam after the search: control points (P, 6), share of the curve that was seen, and how far it moved on average."""

    points: Array
    seen: float
    moved_px: float
    expected_error_px: float


def look(rgb: Array, x: int, y: int) -> Look:
    """A look at scene-linear pixels (h, w, 3): the square root of their luminance, near enough to what eyes see."""
    luminance = rgb @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    return Look(np.sqrt(np.maximum(luminance, 0.0)).astype(np.float32), x, y)


def place(points: Array, seen: Look, *, width_px: float, expected_error_px: float) -> Placed:
    """Move an open seam (P, 6) onto the crease near it.

    `width_px`: full width of the seam with its bevels. `expected_error_px`: how far off the prediction is likely to be;
    the search goes three times as far. Where nothing is seen the curve follows its neighbours, and where too little is
    seen altogether it stays as it is.
    """
    reach = float(np.clip(3.0 * expected_error_px, width_px, 6.0 * width_px + 4.0))
    step = max(0.5, width_px / 14)
    curve, at = _spaced(points, 2 * step)
    if len(curve) < 8:
        return Placed(points, 0.0, 0.0, expected_error_px)
    offsets = np.arange(-np.ceil(reach / step), np.ceil(reach / step) + 1) * step
    strip = _strip(seen, curve, offsets)
    evidence = np.maximum(*(_evidence(sign * strip, width_px / step) * gain for sign, gain in ((1, 1.0), (-1, 0.6))))
    path = _best_path(evidence, offsets, step, expected_error_px)
    rows = np.arange(len(path))
    strength = evidence[rows, path]
    clear = strength > CLEAR
    share = float(clear.mean())
    if share < 0.3:
        return Placed(points, share, 0.0, expected_error_px)
    moves = _steady(_between(evidence, path, offsets, step), np.clip(strength - 1.0, 0.02, 4.0), width_px / step)
    moved = _moved(points, at, moves)
    near = max(0.35, 0.08 * width_px)
    return Placed(moved, share, float(np.abs(moves).mean()), share * near + (1 - share) * 0.6 * expected_error_px)


def _spaced(points: Array, spacing: float) -> tuple[Array, Array]:
    """Places (S, 4) x, y and unit normal along the curve, about `spacing` px apart, and their parameter (S,) in segments."""
    cubics = segments(points, False)
    t = np.linspace(0, 1, PER_SEGMENT, endpoint=False)
    line = np.concatenate([evaluate(cubics, t).reshape(-1, 2), points[-1:, :2]])
    u = np.append((np.arange(len(cubics))[:, None] + t).reshape(-1), len(cubics))
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    n = int(length[-1] / spacing) + 1
    where = np.linspace(0, length[-1], n)
    x, y, at = (np.interp(where, length, values) for values in (line[:, 0], line[:, 1], u))
    if n < 3:
        return np.zeros((0, 4)), at
    dx, dy = (cv2.GaussianBlur(np.gradient(v)[None], (0, 0), 2.0, borderType=cv2.BORDER_REPLICATE)[0] for v in (x, y))
    norm = np.maximum(np.hypot(dx, dy), 1e-9)
    return np.stack([x, y, -dy / norm, dx / norm], 1), at


def _strip(seen: Look, curve: Array, offsets: Array) -> Array:
    """The picture along the curve's normals: (S, D)."""
    x = curve[:, :1] + curve[:, 2:3] * offsets - seen.x - 0.5
    y = curve[:, 1:2] + curve[:, 3:4] * offsets - seen.y - 0.5
    maps = x.astype(np.float32), y.astype(np.float32)
    return cast(Array, cv2.remap(seen.grey, *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def _evidence(strip: Array, width: float) -> Array:
    """How much each place looks like the middle of a thin dark line, in deviations of the strip: (S, D).

    The second derivative across the strip at two widths (Lindeberg 1998, ridge detection with scale-normalised
    derivatives), averaged along it.
    """
    best = np.full(strip.shape, -np.inf)
    for sigma in (max(1.2, 0.10 * width), max(2.0, 0.2 * width)):
        smooth = cv2.GaussianBlur(strip, (0, 0), sigmaX=sigma, sigmaY=2.0, borderType=cv2.BORDER_REPLICATE)
        bend = np.zeros_like(smooth)
        bend[:, 1:-1] = smooth[:, 2:] + smooth[:, :-2] - 2 * smooth[:, 1:-1]
        bend *= sigma**1.5
        spread = float(np.median(np.abs(bend - np.median(bend)))) * _NOISE
        best = np.maximum(best, bend / max(spread, 1e-6))
    return np.clip(best, -2.0, 8.0)


def _best_path(evidence: Array, offsets: Array, step: float, expected_error_px: float) -> NDArray[np.intp]:
    """Index of the offset (S,) at each place: most evidence, near the prediction, no jumps (Viterbi 1967)."""
    worth = evidence - PULL * np.abs(offsets / max(expected_error_px, step))
    total, back = worth[0].copy(), np.zeros(evidence.shape, np.int8)
    for row in range(1, len(worth)):
        sideways = np.stack(
            [np.append(-np.inf, total[:-1]) - STIFFNESS, total, np.append(total[1:], -np.inf) - STIFFNESS]
        )
        choice = sideways.argmax(axis=0)
        back[row] = choice - 1
        total = np.take_along_axis(sideways, choice[None], 0)[0] + worth[row]
    path = np.zeros(len(worth), np.intp)
    path[-1] = total.argmax()
    for row in range(len(worth) - 1, 0, -1):
        path[row - 1] = path[row] + back[row, path[row]]
    return path


def _between(evidence: Array, path: NDArray[np.intp], offsets: Array, step: float) -> Array:
    """The path's offsets (S,) in pixels, refined by the parabola through each peak and its neighbours."""
    rows = np.arange(len(path))
    inner = np.clip(path, 1, evidence.shape[1] - 2)
    low, mid, high = (evidence[rows, inner + k] for k in (-1, 0, 1))
    bend = low + high - 2 * mid
    peak = (bend < -1e-6) & (inner == path)
    shift = np.where(peak, 0.5 * (low - high) / np.where(peak, bend, 1.0), 0.0)
    return np.asarray(offsets[path] + np.clip(shift, -0.5, 0.5) * step)


def _steady(moves: Array, weight: Array, width: float) -> Array:
    """The offsets smoothed along the curve, each weighing as much as was seen there."""
    sigma = max(2.0, 0.5 * width)
    num, den = (
        cv2.GaussianBlur(v[None].astype(np.float64), (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)[0]
        for v in (moves * weight, weight)
    )
    return cast(Array, num / den)


def _moved(points: Array, at: Array, moves: Array) -> Array:
    """The spline with every place moved along its normal; control points stay where they were along the curve."""
    n = len(points) - 1
    u = np.linspace(0, n, n * PER_SEGMENT + 1)
    line = evaluate(segments(points, False), np.linspace(0, 1, PER_SEGMENT, endpoint=False)).reshape(-1, 2)
    line = np.concatenate([line, points[-1:, :2]])
    slope = np.gradient(line, axis=0)
    slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-9)
    shifted = line + np.stack([-slope[:, 1], slope[:, 0]], 1) * np.interp(u, at, moves)[:, None]
    pieces = np.stack([shifted[k * PER_SEGMENT : (k + 1) * PER_SEGMENT + 1] for k in range(n)])
    return fit_segments(pieces, closed=False)
