"""How much of a seam is left on a filled frame, piece by piece along it (goal G4b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.bench.clean_cases import Sight
from rotopaint_ai.seams.ribbon import resample

Array = NDArray[Any]

WINDOW_PX = 24  # along the seam
LEAST_RMS = 8.0  # display values of 255: a window whose seam shows less has nothing to leave
SEEN, PLAIN = 0.25, 0.5  # shares left from which a supervisor sees something, and sees the seam
_FEWEST = 12  # pixels


@dataclass(frozen=True, slots=True)
class LeftWindow:
    """A piece of a seam on a sight: where its middle lies (x, y, the crop's pixels), and the share that is left.

    left: <made - clean, plate - clean> / <plate - clean, plate - clean> over the region's pixels nearest to the piece.
    1 is the untouched plate, 0 no trace, below 0 an overcorrection.
    """

    frame: int
    x: float
    y: float
    left: float


def seam_windows(sight: Sight, made: Array, plate: Array, clean: Array) -> Iterator[LeftWindow]:
    """The windows of a sight whose seam shows; `made`, `plate` and `clean` (H, W, 3) are display values."""
    pieces = pieces_of(sight)
    damage, rest = (plate - clean).astype(np.float64), (made - clean).astype(np.float64)
    energy = np.bincount(pieces.of_pixel, (damage * damage).sum(2)[pieces.rows, pieces.columns])
    shared = np.bincount(pieces.of_pixel, (damage * rest).sum(2)[pieces.rows, pieces.columns])
    counts = np.bincount(pieces.of_pixel)
    shows = (counts >= _FEWEST) & (energy >= 3 * LEAST_RMS**2 * counts)
    for piece in np.flatnonzero(shows):
        here = pieces.of_pixel == piece
        middle = pieces.columns[here].mean() + 0.5, pieces.rows[here].mean() + 0.5
        yield LeftWindow(sight.frame, float(middle[0]), float(middle[1]), float(shared[piece] / energy[piece]))


@dataclass(frozen=True, slots=True)
class Pieces:
    """The region's pixels, and which piece of the seams each is nearest to: (N,) each."""

    rows: Array
    columns: Array
    of_pixel: Array


def pieces_of(sight: Sight) -> Pieces:
    """Cut a sight's region into pieces of WINDOW_PX along its curves, each curve evenly."""
    rows, columns = np.nonzero(sight.hole)
    seeds, piece_of_seed, n = np.ones_like(sight.hole), np.zeros(sight.hole.shape, np.intp), 0
    for line, _ in sight.curves:
        points = resample(np.asarray(line), 0.5) if len(line) > 1 else np.asarray(line)
        x, y = np.floor(points).astype(np.intp).T
        here = (x >= 0) & (y >= 0) & (x < seeds.shape[1]) & (y < seeds.shape[0])
        count = max(1, round(0.5 * len(points) / WINDOW_PX))
        piece = n + np.arange(len(points)) * count // len(points)
        seeds[y[here], x[here]] = 0
        piece_of_seed[y[here], x[here]] = piece[here]
        n += count
    if seeds.all():
        return Pieces(rows[:0], columns[:0], rows[:0])
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    of_label = np.zeros(int(labels.max()) + 1, np.intp)
    of_label[labels[seeds == 0]] = piece_of_seed[seeds == 0]
    return Pieces(rows, columns, of_label[labels[rows, columns]])


def share_above(found: Sequence[LeftWindow], limit: float) -> float:
    """Share of windows of which more than `limit` is left; 0 without any."""
    return sum(window.left > limit for window in found) / len(found) if found else 0.0
