"""Fewer keys for the same motion: jointly over a shape's points, by the deviation of its curve in pixels.

Convention: F frames (rows, first to last key), M curve samples, K kept keys, D = 6 P numbers of a key.
A held run (frames with exactly equal points) stays exactly equal; keys that a person set stay exactly as they are.
Source of the shortest-path step: optimal polygonal approximation as in Imai and Iri (1988), with a curve's samples as
the coordinates; of the refit: least squares on hat functions, reweighted towards the largest error (Lawson 1961).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import bezier, poses
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.roto import Interpolation, Key, RotoDocument, RotoShape, Source

KEPT: tuple[Source, ...] = ("human",)
_PER_SEGMENT = 4  # samples a cubic while searching; the deviation of linear moves is smooth along it
_LENGTHS = np.unique(np.concatenate((np.arange(1, 25), np.round(25 * 1.15 ** np.arange(40)))).astype(int))
_PATIENCE = 4  # longer moves tried after one that fails
_REACH = 3  # keys on either side that move when one goes
_ROUNDS = 5  # of reweighting


@dataclass(frozen=True, slots=True)
class _Motion:
    """A shape at every frame: key numbers, curve samples, which rows are tied to the row before, which must stay."""

    frames: NDArray[np.intp]
    rows_FD: Array
    samples_FMC: Array
    is_tied: NDArray[np.bool_]  # equal to the row before
    is_fixed: NDArray[np.bool_]  # keyed by a person


@dataclass(frozen=True, slots=True)
class _Plan:
    """Kept rows in order, and whether each holds until the next."""

    rows: tuple[int, ...]
    holds: tuple[bool, ...]


def reduce_document(
    document: RotoDocument, tolerance_px: float = 0.5, *, keep: Collection[Source] = KEPT
) -> RotoDocument:
    """Every shape of a document with fewer keys; see `reduce_keys`."""
    shapes = tuple(reduce_keys(shape, tolerance_px, keep=keep) for shape in document.shapes)
    return replace(document, shapes=shapes)


def reduce_keys(shape: RotoShape, tolerance_px: float = 0.5, *, keep: Collection[Source] = KEPT) -> RotoShape:
    """The shape with as few keys as keep its curve within `tolerance_px` of where it was, at every frame.

    Keys whose source is in `keep` stay as they are. Held runs stay held: no point moves inside one. The other keys keep
    their frames' place and may move within the tolerance. Deviation is taken between points of equal parameter, which
    bounds the distance of the curves.
    """
    if len(shape.keys) < 2 or tolerance_px <= 0:
        return shape
    motion = _motion(shape, keep)
    aim = tolerance_px
    while True:
        reduced = _reduced(shape, motion, aim)
        strays = deviation(shape, reduced)
        if strays <= tolerance_px:
            return reduced
        aim *= 0.98 * tolerance_px / strays  # the search looks at fewer samples than the check


def _reduced(shape: RotoShape, motion: _Motion, tolerance_px: float) -> RotoShape:
    """The better of two searches: from the fewest keys of unchanged value, and from all keys downwards."""
    starts = (_shortest(motion, tolerance_px), _everything(motion))
    found = [_Refit(motion, start, tolerance_px).run() for start in starts]
    plan, rows_KD = min(found, key=lambda each: len(each[0].rows))
    keys: dict[int, Key] = {}
    for row, hold, numbers in zip(plan.rows, plan.holds, rows_KD, strict=True):
        frame = int(motion.frames[row])
        old = shape.keys.get(frame)
        points = bezier.as_points(numbers)
        if old is not None and np.array_equal(motion.rows_FD[row], numbers):
            points = old.points
        kind: Interpolation = "hold" if hold else "linear"
        keys[frame] = Key(points, "model" if old is None else old.source, kind)
    return shape.with_keys(keys)


def deviation(a: RotoShape, b: RotoShape) -> float:
    """Largest distance in pixels between two shapes' curve points of equal parameter over all frames of both."""
    frames = sorted({*a.frames, *b.frames})
    return float(poses.distances(a, b, range(frames[0], frames[-1] + 1)).max())


# --- the shape at every frame -----------------------------------------------------------------------------------------


def _motion(shape: RotoShape, keep: Collection[Source]) -> _Motion:
    first, last = shape.frames[0], shape.frames[-1]
    frames = np.arange(first, last + 1)
    rows = poses.rows(shape, frames)
    tied = np.concatenate(([False], (rows[1:] == rows[:-1]).all(axis=1)))
    fixed = np.zeros(len(frames), dtype=bool)
    for frame, key in shape.keys.items():
        fixed[frame - first] = key.source in keep
    return _Motion(frames, rows, poses.samples(rows, shape.closed, _PER_SEGMENT), tied, fixed)


# --- which keys -------------------------------------------------------------------------------------------------------


def _shortest(motion: _Motion, tolerance_px: float) -> _Plan:
    """The fewest rows from first to last whose moves and holds stay within the tolerance, values unchanged."""
    n = len(motion.frames)
    cost = np.full(n, np.iinfo(np.int64).max // 2)
    came, held = np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    cost[0] = 0
    for i in range(n - 1):
        limit = _next_fixed(motion, i)
        for j in _held_ends(motion, i, limit, tolerance_px):
            if cost[i] + 1 < cost[j]:
                cost[j], came[j], held[j] = cost[i] + 1, i, True
        for j in _linear_ends(motion, i, limit, tolerance_px):
            if cost[i] + 1 < cost[j]:
                cost[j], came[j], held[j] = cost[i] + 1, i, False
    rows, holds = [n - 1], [False]
    while rows[-1] > 0:
        holds.append(bool(held[rows[-1]]))
        rows.append(int(came[rows[-1]]))
    return _Plan(tuple(rows[::-1]), tuple(holds[::-1]))


def _next_fixed(motion: _Motion, row: int) -> int:
    """The next row that must be a key."""
    later = np.flatnonzero(motion.is_fixed[row + 1 :])
    return int(row + 1 + later[0]) if len(later) else len(motion.frames) - 1


def _held_ends(motion: _Motion, i: int, limit: int, tolerance_px: float) -> range:
    """Rows up to which row i may simply be held: only where a run begins, for nothing else stands still."""
    if i + 1 > limit or not motion.is_tied[i + 1]:
        return range(0)
    away = poses.farthest(motion.samples_FMC[i + 1 : limit + 1] - motion.samples_FMC[i])
    beyond = np.flatnonzero(away > tolerance_px)
    return range(i + 1, int(i + 1 + beyond[0] if len(beyond) else limit) + 1)


def _linear_ends(motion: _Motion, i: int, limit: int, tolerance_px: float) -> list[int]:
    """Rows to which row i may move in a straight line."""
    ends = [i + 1]
    failed = 0
    for length in _LENGTHS[1:]:
        j = i + int(length)
        if j > limit or failed >= _PATIENCE:
            break
        if _may_move(motion, i, j) and _strays(motion.samples_FMC, i, j) <= tolerance_px:
            ends.append(j)
            failed = 0
        else:
            failed += 1
    return ends


def _may_move(motion: _Motion, i: int, j: int) -> bool:
    """Whether a straight line from row i to row j leaves held runs still: it crosses none, or stands still itself."""
    tied = motion.is_tied[i + 1 : j + 1]
    return not tied.any() or bool(tied.all())


def _strays(samples: Array, i: int, j: int) -> float:
    """How far the rows between i and j lie from the straight line."""
    weight = (np.arange(1, j - i) / (j - i))[:, None, None]
    return float(poses.farthest(samples[i + 1 : j] - samples[i] - weight * (samples[j] - samples[i])).max(initial=0.0))


# --- better values for fewer keys -------------------------------------------------------------------------------------


class _Refit:
    """Drops keys one by one, cheapest first, as long as moving the keys around each gap keeps the curve in tolerance.

    All numbers of a frame, key numbers and curve samples alike, are linear in those of the keys, so one table
    (F, D + 2 M) carries both.
    """

    def __init__(self, motion: _Motion, plan: _Plan, tolerance_px: float) -> None:
        self._motion = motion
        self._tolerance_px = tolerance_px
        self._d = motion.rows_FD.shape[1]
        self._table = np.concatenate((motion.rows_FD, motion.samples_FMC.reshape(len(motion.frames), -1)), axis=1)
        self._rows = list(plan.rows)
        self._holds = dict(zip(plan.rows, plan.holds, strict=True))
        self._values = {row: self._table[row] for row in plan.rows}
        tied = np.append(motion.is_tied, False)
        self._pinned = motion.is_fixed | tied[:-1] | tied[1:]  # a held run keeps the pose that was found

    def run(self) -> tuple[_Plan, Array]:
        """The plan that is left and its key numbers (K, D)."""
        heap = [(self._loss(row), row) for row in self._rows[1:-1] if self._may_go(row)]
        heapq.heapify(heap)
        stale: set[int] = set()
        while heap:
            _, row = heapq.heappop(heap)
            fitted = self._without(row)
            if fitted is None:
                continue
            worst, values = fitted
            if row in stale and heap and worst > heap[0][0]:
                stale.discard(row)
                heapq.heappush(heap, (worst, row))
                continue
            place = bisect_left(self._rows, row)
            stale.update(self._rows[max(0, place - _REACH) : place + _REACH + 1])
            self._values.update(values)
            self._rows.pop(place)
        plan = _Plan(tuple(self._rows), tuple(self._holds[row] for row in self._rows))
        return plan, np.array([self._values[row][: self._d] for row in self._rows])

    def _may_go(self, row: int) -> bool:
        before = self._rows[bisect_left(self._rows, row) - 1]
        return not (self._pinned[row] or self._holds[row] or self._holds[before])

    def _loss(self, row: int) -> float:
        place = bisect_left(self._rows, row)
        before, after = self._rows[place - 1], self._rows[place + 1]
        return _strays(self._motion.samples_FMC, before, after)

    def _window(self, row: int) -> list[int]:
        """Keys around a row that may move with it, and the keys beyond that stay; no hold lies between."""
        place = bisect_left(self._rows, row)
        low = place
        while low > 0 and place - low <= _REACH and not self._holds[self._rows[low - 1]]:
            low -= 1
        high = place
        while high + 1 < len(self._rows) and high - place <= _REACH and not self._holds[self._rows[high]]:
            high += 1
        return self._rows[low : high + 1]

    def _without(self, row: int) -> tuple[float, dict[int, Array]] | None:
        """Largest error and new values of the keys around when a key goes; None where the tolerance breaks."""
        rows = np.array([each for each in self._window(row) if each != row])
        hats = _hats(rows)
        free = ~self._pinned[rows]
        free[0] &= rows[0] == 0
        free[-1] &= rows[-1] == len(self._table) - 1
        values = np.array([self._values[each] for each in rows])
        wanted = self._table[rows[0] : rows[-1] + 1]
        target = wanted - hats[:, ~free] @ values[~free]
        weight = np.ones(len(hats))
        for _ in range(_ROUNDS):
            if free.any():
                weighted = hats[:, free] * weight[:, None]
                gram = weighted.T @ hats[:, free]
                gram[np.diag_indices_from(gram)] += 1e-9
                values[free] = np.linalg.solve(gram, weighted.T @ target)
            off = (hats @ values - wanted)[:, self._d :]
            error = poses.farthest(off.reshape(len(off), -1, 2))
            worst = float(error.max())
            if worst <= self._tolerance_px:
                return worst, dict(zip(rows[free].tolist(), values[free], strict=True))
            if worst > 2.0 * self._tolerance_px or not free.any():
                return None
            weight *= 0.05 + error / worst
            weight /= weight.mean()
        return None


def _hats(rows: NDArray[np.intp]) -> Array:
    """Weight (R, K) of each key row at each row from the first to the last."""
    every = np.arange(rows[0], rows[-1] + 1)
    left = np.clip(np.searchsorted(rows, every, side="right") - 1, 0, len(rows) - 2)
    share = (every - rows[left]) / (rows[left + 1] - rows[left])
    hats = np.zeros((len(every), len(rows)))
    hats[np.arange(len(every)), left] = 1.0 - share
    hats[np.arange(len(every)), left + 1] = share
    return hats


def _everything(motion: _Motion) -> _Plan:
    """A key at every row, held runs as one holding key."""
    rows = np.flatnonzero(~motion.is_tied | motion.is_fixed)
    if rows[-1] != len(motion.frames) - 1:
        rows = np.append(rows, len(motion.frames) - 1)
    holds = np.append(motion.is_tied[rows[:-1] + 1], False)
    return _Plan(tuple(rows.tolist()), tuple(holds.tolist()))
