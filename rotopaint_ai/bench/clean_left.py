"""How much of a seam remains on a filled frame, measured in windows along the seam (goal G4b)."""

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
LEAST_RMS = 8.0  # display values of 255: in a window where the seam is fainter nothing is measured
SEEN, PLAIN = 0.25, 0.5  # remaining shares above which a supervisor notices something, and sees the seam
_FEWEST = 12  # pixels


@dataclass(frozen=True, slots=True)
class LeftWindow:
    """A piece of a seam: its middle (x, y, pixels of the crop), and the share of the seam that remains there.

    left: <made - clean, plate - clean> / <plate - clean, plate - clean> over the region's pixels nearest to the piece.
    1 is the untouched plate, 0 means no trace, below 0 is an overcorrection.
    """

    frame: int
    x: float
    y: float
    left: float


def seam_windows(sight: Sight, made: Array, plate: Array, clean: Array) -> Iterator[LeftWindow]:
    """The windows in which the seam is visible on the plate; `made`, `plate`, `clean` are (H, W, 3) display values."""
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
    """The region's pixels, and the index of the nearest piece for each: arrays of (N,)."""

    rows: Array
    columns: Array
    of_pixel: Array


def pieces_of(sight: Sight) -> Pieces:
    """Divide a seam's region into pieces of about WINDOW_PX; the pieces of a curve have equal length."""
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
    """Share of the windows in which more than `limit` of the seam remains; 0 without windows."""
    return sum(window.left > limit for window in found) / len(found) if found else 0.0
