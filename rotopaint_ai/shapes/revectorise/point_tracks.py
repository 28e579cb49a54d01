"""Point tracks: frames whose control points follow the same features.

Where an artist animated one set of points, point 7 follows the same feature in all frames; this is the best evidence
for correspondence. For example, the upper and lower edge of a lid never swap when the eye closes. Frames of a shot with
equal numbers of points form one track if their points agree; single frames with shifted or reversed points are
corrected and reported.
Letters: F frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.raw_curves import Array, Rows

_CLEARLY = 0.35  # another point order must reduce the distance to this share
_CLOSE = 0.6  # in steps between points: a typical distance to the track's median that only animation explains
# share of the shape's size: at larger distances points are not one track, even if no other order is closer
_LOOSE = 0.5


@dataclass(frozen=True, slots=True)
class Twist:
    """A frame whose points started elsewhere (`shift` points later) or ran backwards, before correction."""

    row: int
    shift: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class PointTracks:
    """Raw curves with consistent points within their tracks.

    `raw`: control points (P, 6) of each row, in the track's order. `groups`: [F] track of each row. `twists`:
    corrections.
    """

    raw: tuple[Array, ...]
    groups: Rows
    twists: tuple[Twist, ...]


def find_tracks(raw: Sequence[Array], closed: bool, shots: Rows, turn: npt.NDArray[np.complex128]) -> PointTracks:
    """Find the tracks among raw curves of many shots.

    `shots`: [F] shot of each row. `turn`: [F] rotation from plate to face direction, so that a tilting head does not
    look like moving points.
    """
    out, groups, twists = list(raw), np.full(len(raw), -1, dtype=np.intp), []
    keys = [(int(shot), len(points)) for shot, points in zip(shots, raw)]
    count = 0
    for key in dict.fromkeys(keys):
        rows = [row for row, own in enumerate(keys) if own == key]
        polygons = np.stack([_normal(raw[row][:, :2], turn[row]) for row in rows])
        shifts, flips, off, step = _agree(polygons, closed)
        tracked = len(rows) == 1 or _is_tracked(off, step, shifts, flips)
        for row, shift, flip in zip(rows, shifts, flips):
            if tracked and (shift or flip):
                out[row] = _reorder(raw[row], int(shift), bool(flip), closed)
                twists.append(Twist(row, int(shift), bool(flip)))
            groups[row] = count
            count += 0 if tracked else 1
        count += 1 if tracked else 0
    return PointTracks(tuple(out), groups, tuple(twists))


def _is_tracked(off: Array, step: float, shifts: Rows, flips: npt.NDArray[np.bool_]) -> bool:
    typical = float(np.median(off))
    steady = float(((shifts == 0) & ~flips).mean()) >= 0.7
    return typical < _CLOSE * step or (steady and typical < _LOOSE)


def _normal(points: Array, turn: complex) -> Array:
    z = (points[:, 0] + 1j * points[:, 1]) * turn
    z = z - z.mean()
    z = z / max(float(np.sqrt((np.abs(z) ** 2).mean())), 1e-9)
    return np.stack((z.real, z.imag), axis=1)


def point_orders(n: int, closed: bool) -> tuple[list[tuple[int, bool]], Rows]:
    """All possible orders of n points, the present one first: (shift, backwards), and row indices."""
    shifts = range(n) if closed else range(1)
    names = [(shift, flip) for flip in (False, True) for shift in shifts]
    index = [np.roll(np.arange(n)[::-1] if flip else np.arange(n), -shift) for shift, flip in names]
    return names, np.array(index)


def _agree(polygons: Array, closed: bool) -> tuple[Rows, npt.NDArray[np.bool_], Array, float]:
    """The order that brings each polygon closest to the median, the remaining distances, and the typical point
    spacing."""
    names, index = point_orders(polygons.shape[1], closed)
    current = polygons
    chosen = np.zeros(len(polygons), dtype=np.intp)
    for _ in range(3):
        middle = np.median(current, axis=0)
        off = np.sqrt(((polygons[:, index] - middle) ** 2).sum(axis=-1).mean(axis=-1))
        best = off.argmin(axis=1)
        plain = off[:, 0]
        better = np.take_along_axis(off, best[:, None], axis=1)[:, 0]
        chosen = np.where(better < _CLEARLY * plain, best, 0)
        current = polygons[np.arange(len(polygons))[:, None], index[chosen]]
    middle = np.median(current, axis=0)
    left = np.sqrt(((current - middle) ** 2).sum(axis=-1).mean(axis=-1))
    step = float(np.linalg.norm(np.diff(middle, axis=0), axis=1).mean()) if len(middle) > 1 else 1.0
    shifts = np.array([names[row][0] for row in chosen], dtype=np.intp)
    flips = np.array([names[row][1] for row in chosen])
    return shifts, flips, left, step


def _reorder(points: Array, shift: int, flip: bool, closed: bool) -> Array:
    """Reorder control points; when reversed, tangents swap."""
    turned = points[::-1][:, [0, 1, 4, 5, 2, 3]] if flip else points
    if not closed:
        return bezier.as_array(turned).copy()
    return np.roll(bezier.as_array(turned), -shift, axis=0)
