"""Junctions of seams: the groove of a crossing seam must not count as texture of the face.

In one seam's ribbon, the groove of a crossing seam looks like a dark stroke on the face. Without this step the stroke
would be kept, and a dot would remain at every junction. The curves give the other groove's position; the light that
paint adds along it gives its width. Its samples are interpolated from the ribbon's paint on both sides of the groove. A
curve that turns back behind a head can cross itself in the same way.

T rows across, S columns along, K pairs of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import relight
from rotopaint_ai.seams.ribbon import CentreLine, Ribbon

Array = NDArray[Any]  # float32
Index = NDArray[Any]  # intp
Bools = NDArray[Any]  # bool

_PARALLEL = 0.7  # cosine above which two pieces of curve are parallel and do not cross
_APART = 12, 4  # columns, and half widths, whichever is more: closer parts of a run are the same piece of curve
_AROUND = 1.0  # px beyond the reach of the other groove
_SHOWS = 0.05  # log light: least mean brightening of a groove by paint
_ROUNDING = 1e-2  # px: rounding error of a sample's distance from its column's line
_EVERY, _OTHERS = 8, 2  # spacing of the columns tested for crossings, and of the columns that may cross them


def grooves(added_TS: Array, ribbon: Ribbon) -> Array:
    """Mean log light that paint adds to each run of the seam, by the row's distance from the curve: (runs, rows).

    added_TS: log light that paint adds to each sample. Texture and local marks average out.
    """
    total, count = (rows[:, ribbon.centre :] + rows[:, ribbon.centre :: -1] for rows in ribbon.row_sums(added_TS))
    return np.asarray(total / np.maximum(count, 1))


def find_crossings(ribbon: Ribbon, reach_S: Array) -> Bools:
    """Samples (T, S) in the groove of another piece of curve; reach_S (S,): how far each column's groove reaches."""
    out: Bools = np.zeros(ribbon.map_x_TS.shape, bool)
    line = ribbon.line
    column_K, other_K = _crossings(line, reach_S, ribbon.centre)
    ahead = ((line.points_S[other_K] - line.points_S[column_K]) * line.tangents_S[column_K]).sum(1)
    near = np.abs(ahead) < reach_S[other_K] + np.float32(_ROUNDING)
    column_K, other_K = column_K[near], other_K[near]
    if not len(column_K):
        return out
    x, y = line.points_S[other_K].T
    wide = reach_S[other_K]
    dx, dy = ribbon.map_x_TS[:, column_K] + np.float32(0.5) - x, ribbon.map_y_TS[:, column_K] + np.float32(0.5) - y
    columns, starts = np.unique(column_K, return_index=True)
    out[:, columns] = np.logical_or.reduceat(dx * dx + dy * dy < wide * wide, starts, axis=1)
    return out


def _crossings(line: CentreLine, reach_S: Array, rows: int) -> tuple[Index, Index]:
    """Pairs (K,) of columns, ascending, and columns of another piece of curve within this many rows of them."""
    some = np.arange(0, len(line.run_S), _EVERY)
    others = np.flatnonzero(reach_S > 0)[::_OTHERS]
    dx, dy = (line.points_S[some, None, axis] - line.points_S[others, axis] for axis in (0, 1))
    near = dx * dx + dy * dy < (rows + reach_S[others]) ** 2
    near &= np.abs(line.tangents_S[some] @ line.tangents_S[others].T) < _PARALLEL
    apart = np.maximum(_APART[0], _APART[1] * line.half_S[others])
    near &= (line.run_S[some, None] != line.run_S[others]) | (np.abs(some[:, None] - others) > apart)
    at, of = np.nonzero(near)
    column = (some[at, None] + np.arange(_EVERY)).reshape(-1)
    other = np.repeat(others[of], _EVERY)
    inside = column < len(line.run_S)
    order = np.argsort(column[inside], kind="stable")
    return column[inside][order], other[inside][order]


def bridge_crossings(relit_TSC: Array, light_TSC: Array, ribbon: Ribbon) -> Array:
    """Base and keep (T, S, 4), as in `relight.relight_in_turn`, interpolated along the seam where grooves cross.

    Values come from the nearest samples of the same row and run on both sides, or on one side where only one exists.
    They are used only where they change the light in the same direction as the paint does on average.
    """
    added = grooves(relight.light_added(relit_TSC, relight.mean_of(light_TSC)), ribbon)
    crossed_TS = find_crossings(ribbon, _reach(added, ribbon.line))
    if not crossed_TS.any():
        return relit_TSC
    light: Array = relit_TSC[..., :3] + relit_TSC[..., 3:] * light_TSC
    row, column = np.nonzero(crossed_TS & ribbon.own_TS)
    made, able = interpolate_light(light, ribbon.own_TS & ~crossed_TS, ribbon.line.run_S, row, column)
    able &= (made - light[row, column]).mean(1) * np.sign(added.sum()) > 0
    out: Array = relit_TSC.copy()
    out[row[able], column[able], :3] = made[able]
    out[row[able], column[able], 3] = 0.0
    return out


def _reach(added: Array, line: CentreLine) -> Array:
    """Reach (S,) of the groove at each column: as far as paint brightens its run; 0 beyond the ends of the curve."""
    rows = np.arange(added.shape[1], dtype=np.float32) + np.float32(_AROUND)
    of_run = np.max((np.abs(added) > _SHOWS) * rows, axis=1)
    return np.asarray(np.minimum(of_run[line.run_S], line.half_S + np.float32(_AROUND)) * (line.half_S > 0))


def interpolate_light(light: Array, good_TS: Bools, run_S: Index, row: Index, column: Index) -> tuple[Array, Bools]:
    """Light (K, 3) of some samples, interpolated between the nearest good samples of their row; and which have such a
    sample."""
    before, after = _good_neighbours(good_TS, row, column)
    has_before, has_after = before >= 0, after < len(run_S)
    before, after = np.maximum(before, 0), np.minimum(after, len(run_S) - 1)
    has_before &= run_S[before] == run_S[column]
    has_after &= run_S[after] == run_S[column]
    before, after = np.where(has_before, before, after), np.where(has_after, after, before)
    share = ((column - before) / np.maximum(after - before, 1)).astype(np.float32)[:, None]
    made = light[row, before] + share * (light[row, after] - light[row, before])
    return made, has_before | has_after


def _good_neighbours(good_TS: Bools, row: Index, column: Index) -> tuple[Index, Index]:
    """The nearest good column before each sample (-1 if none) and after it (S if none)."""
    n_columns = good_TS.shape[1]
    columns = np.arange(n_columns)
    before = np.maximum.accumulate(np.where(good_TS, columns, -1), axis=1)
    after = np.minimum.accumulate(np.where(good_TS, columns, n_columns)[:, ::-1], axis=1)[:, ::-1]
    return before[row, column], after[row, column]
