"""The fewest linear keys for a stretch of motion: their rows, and fitted values, which need not equal those of any row.

F frames (rows), M curve samples, C numbers per row (key numbers, then samples), K keys. All numbers of a row are linear
in those of the keys, so one table (F, C) contains both.

The rows come from the longest runs that a line follows within a tolerance (Imai and Iri 1988, but with free lines
instead of chords; weights 1 / sqrt(1 - x^2) make a least-squares line nearly minimax). The values come from least
squares on hat functions, reweighted towards the largest error (Lawson 1961).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.samples import pick_farthest

_ROUNDS = 24  # rounds of reweighting
_LEAST = 1.7  # times the tolerance: with runs of larger error no fit of as few keys was ever within it
_HALVINGS = 6  # bisections of the tolerance to reach the wanted number of runs
_MOVES = 8  # most moves of single keys by one row


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows to approximate: `table` (F, C) has `n_numbers` key numbers and then 2 M sample coordinates per row.

    `is_pinned`: whether the first and the last row keep their values.
    """

    table: Array
    n_numbers: int
    is_pinned: tuple[bool, bool]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.table)

    def errors(self, guess: Array) -> Array:
        """Largest distance in pixels between the samples of `guess` (F, C) and of the table, in each row: (F,)."""
        off = (guess - self.table)[:, self.n_numbers :]
        return pick_farthest(off.reshape(len(off), -1, 2))


@dataclass(frozen=True, slots=True)
class Fit:
    """Kept rows, their values (K, C), and the largest error in pixels of each move between them (K - 1,)."""

    rows: tuple[int, ...]
    values: Array
    errors: Array

    @property
    def worst(self) -> float:
        """The largest error in pixels."""
        return float(self.errors.max(initial=0.0))


def fit_fewest_keys(stretch: Stretch, tolerance_px: float) -> Fit:
    """The fewest keys within the tolerance, from first to last row, with fitted values."""
    last = stretch.n_rows - 1
    if last < 2:
        return Fit(tuple(range(last + 1)), stretch.table, np.zeros(last))
    least = len(_longest_runs(stretch, _LEAST * tolerance_px))
    for count in range(max(2, least), last + 1):
        found = _best_of(stretch, count, tolerance_px)
        if found.worst <= tolerance_px:
            return found
    return Fit(tuple(range(last + 1)), stretch.table, np.zeros(last))


def _best_of(stretch: Stretch, count: int, tolerance_px: float) -> Fit:
    """The best fit found with at most `count` keys: even runs, then single keys moved."""
    found = fit(stretch, _even_runs(stretch, count, tolerance_px), tolerance_px)
    for _ in range(_MOVES):
        if found.worst <= tolerance_px or found.worst > 1.6 * tolerance_px:
            break
        tried = [fit(stretch, rows, tolerance_px) for rows in _neighbouring_knots(found)]
        better = min(tried, key=lambda each: each.worst, default=found)
        if better.worst >= found.worst:
            break
        found = better
    return found


def _neighbouring_knots(found: Fit) -> list[tuple[int, ...]]:
    """The same keys with either end of the worst segment moved one row towards the other."""
    worst, rows = int(found.errors.argmax()), found.rows
    out = []
    for place, step in ((worst, 1), (worst + 1, -1)):
        if 0 < place < len(rows) - 1 and rows[worst + 1] - rows[worst] > 1:
            out.append((*rows[:place], rows[place] + step, *rows[place + 1 :]))
    return out


# --- rows -------------------------------------------------------------------------------------------------------------


def _even_runs(stretch: Stretch, count: int, tolerance_px: float) -> tuple[int, ...]:
    """At most `count` rows whose runs are about equally difficult: those of the smallest sufficient tolerance."""
    low, high = 0.25 * tolerance_px, 2.0 * tolerance_px
    best: tuple[int, ...] = (0, stretch.n_rows - 1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rows = _longest_runs(stretch, middle)
        if len(rows) <= count:
            best, high = rows, middle
        else:
            low = middle
    return best


def _longest_runs(stretch: Stretch, tolerance_px: float) -> tuple[int, ...]:
    """Ends of consecutive longest runs that a separate line follows within the tolerance."""
    samples, last = stretch.table[:, stretch.n_numbers :], stretch.n_rows - 1
    rows = [0]
    length = 1
    while rows[-1] < last:
        length = _longest_reach(samples[rows[-1] :], tolerance_px, length)
        rows.append(rows[-1] + length)
    return tuple(rows)


def _longest_reach(samples: Array, tolerance_px: float, guess: int) -> int:
    """The number of rows that a line can follow: doubled from a guess until it fails, then bisected."""
    most = len(samples) - 1
    low, high = 1, min(max(2 * guess, 2), most)
    while high < most and _strays(samples[: high + 1]) <= tolerance_px:
        low, high = high, min(2 * high, most)
    if _strays(samples[: high + 1]) <= tolerance_px:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _strays(samples[: middle + 1]) <= tolerance_px else (low, middle)
    return low


def _strays(samples: Array) -> float:
    """Largest distance in pixels of rows from their nearly minimax line."""
    n = len(samples)
    if n < 3:
        return 0.0
    off = samples - _line_basis(n) @ (_projection(n) @ samples)
    return float(pick_farthest(off.reshape(n, -1, 2)).max())


@lru_cache(maxsize=512)
def _projection(n: int) -> Array:
    """Weights (2, n) that give offset and slope of the line through n rows at x from -1 to 1."""
    x = np.linspace(-1.0, 1.0, n)
    weight = 1.0 / np.sqrt(1.0 - x * x + 1.0 / (n * n))
    return np.stack((weight / weight.sum(), weight * x / (weight * x * x).sum()))


@lru_cache(maxsize=512)
def _line_basis(n: int) -> Array:
    return np.stack((np.ones(n), np.linspace(-1.0, 1.0, n)), axis=1)


# --- values -----------------------------------------------------------------------------------------------------------


def fit(stretch: Stretch, rows: Sequence[int], tolerance_px: float) -> Fit:
    """Values of keys at the given rows with the smallest largest error found; stops where the tolerance is met.

    The rows' own values are taken where they do.
    """
    keyed = np.asarray(rows, dtype=np.intp)
    weights = hats(keyed)
    free = np.ones(len(keyed), dtype=bool)
    free[0], free[-1] = not stretch.is_pinned[0], not stretch.is_pinned[1]
    values = stretch.table[keyed].copy()
    target = stretch.table - weights[:, ~free] @ values[~free]
    error = stretch.errors(weights @ values)
    best, best_values, importance = error, values.copy(), np.ones(len(weights))
    for _ in range(_ROUNDS if free.any() else 0):
        if best.max() <= tolerance_px:
            break
        values[free] = _solve_rows(weights[:, free], importance, target)
        error = stretch.errors(weights @ values)
        worst = float(error.max())
        if worst < best.max():
            best, best_values = error, values.copy()
        if worst > 3.0 * tolerance_px:
            break
        importance *= 0.03 + error / worst
        importance /= importance.mean()
    return Fit(tuple(int(row) for row in keyed), best_values, np.maximum.reduceat(best, keyed[:-1]))


def _solve_rows(weights: Array, importance: Array, target: Array) -> Array:
    weighted = weights * importance[:, None]
    gram = weighted.T @ weights
    gram[np.diag_indices_from(gram)] += 1e-9
    return np.asarray(np.linalg.solve(gram, weighted.T @ target))


def hats(rows: NDArray[np.intp]) -> Array:
    """Weight (R, K) of each key row at each row from the first to the last."""
    every = np.arange(rows[0], rows[-1] + 1)
    left = np.clip(np.searchsorted(rows, every, side="right") - 1, 0, len(rows) - 2)
    share = (every - rows[left]) / (rows[left + 1] - rows[left])
    found = np.zeros((len(every), len(rows)))
    found[np.arange(len(every)), left] = 1.0 - share
    found[np.arange(len(every)), left + 1] = share
    return found
