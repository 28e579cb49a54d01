"""Point tracks: which frames' control points follow the same places.

What point 7 follows in one frame it follows in the next, where an artist moved one set of points: the best witness of
where a place of a shape went. A lid's upper and lower edge change places in no artist's hand when the eye shuts. Frames
of a shot with equal numbers of points are taken for one track where their points agree; single frames whose points were
shifted round or run backwards are put right and reported.

Letters: F frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.raw_curves import Array, Rows

_CLEARLY = 0.35  # another order of points has to bring the points this much closer to be believed
_CLOSE = 0.6  # steps between points: a typical distance to the track's middle that only tracking brings about
_LOOSE = 0.5  # share of the shape's size: at larger distances points were not tracked, even if no other order is closer


@dataclass(frozen=True, slots=True)
class Twist:
    """A frame whose points started elsewhere (`shift` points on) or ran backwards, before it was put right."""

    row: int
    shift: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class PointTracks:
    """Raw curves in step within their tracks.

    `raw`: control points (P, 6) of each row, in the track's order. `groups`: [F] the track of each row. `twists`: what
    was put right.
    """

    raw: tuple[Array, ...]
    groups: Rows
    twists: tuple[Twist, ...]


def find_tracks(raw: Sequence[Array], closed: bool, shots: Rows, turn: npt.NDArray[np.complex128]) -> PointTracks:
    """Find the tracks among raw curves of many shots.

    `shots`: [F] the shot of each row; `turn`: [F] factor that turns a plate's direction into the face's, so that a head
    that tilts does not look like points that moved.
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
    """Every order in which n points may stand, first as they are: (shift, backwards), and the rows in that order."""
    shifts = range(n) if closed else range(1)
    names = [(shift, flip) for flip in (False, True) for shift in shifts]
    index = [np.roll(np.arange(n)[::-1] if flip else np.arange(n), -shift) for shift, flip in names]
    return names, np.array(index)


def _agree(polygons: Array, closed: bool) -> tuple[Rows, npt.NDArray[np.bool_], Array, float]:
    """Orders that bring each polygon closest to the middle one, how far they stay off, and the usual step of points."""
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
    """Control points in another order, tangents changing sides where they run backwards."""
    turned = points[::-1][:, [0, 1, 4, 5, 2, 3]] if flip else points
    if not closed:
        return bezier.as_array(turned).copy()
    return np.roll(bezier.as_array(turned), -shift, axis=0)
