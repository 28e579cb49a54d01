"""Which method paints which stretch of a seam, and the ways to make it so.

T rows across, S columns along; a stretch is STRETCH columns of the ribbon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import learned, relight
from rotopaint_ai.seams.learned import FillModel
from rotopaint_ai.seams.relight import BankLight
from rotopaint_ai.seams.relight_table import TABLE
from rotopaint_ai.seams.relight_table_narrow import TABLE as NARROW

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
Relight = Callable[[Array, Bools, Bools, float, FillModel | None], tuple[Array, Mapping[str, float]]]

TABLES = (NARROW, TABLE)  # hairlines first: the table fitted on every width leaves them faintly visible
STRETCH = 32
EASY, HARD = 0.03, 0.05  # doubt, log light, at which the network begins to take a share, and from which it has MOST
MOST = 1 / 2  # a mean of both errs less than either alone, because they err in different places


def two_bank(
    light_TSC: Array, hole_TS: Bools, own_TS: Bools, floor: float, model: FillModel | None
) -> tuple[Array, Mapping[str, float]]:
    """Everything by the fitted tables."""
    del floor, model
    return relight.relight_in_turn(light_TSC, hole_TS, own_TS, TABLES), {"two-bank": 1.0}


def by_network(
    light_TSC: Array, hole_TS: Bools, own_TS: Bools, floor: float, model: FillModel | None
) -> tuple[Array, Mapping[str, float]]:
    """Everything by the network."""
    assert model is not None
    known = relight.sources(light_TSC, hole_TS)
    relit = relight.relight_in_turn(light_TSC, hole_TS, own_TS, TABLES, known)
    whole = slice(0, own_TS.shape[1])
    return learned.mend(relit, known, hole_TS, own_TS, floor, model, whole), {"learned": 1.0}


def automatic(
    light_TSC: Array, hole_TS: Bools, own_TS: Bools, floor: float, model: FillModel | None
) -> tuple[Array, Mapping[str, float]]:
    """Stretches that look easy by the tables, the others by a mean of theirs and the network's paint.

    From EASY to HARD doubt the network's share grows, so that a stretch near the border does not hop over it from frame
    to frame. What is told as `learned` is that share, over the whole length.
    """
    if model is None:
        return two_bank(light_TSC, hole_TS, own_TS, floor, model)
    known = relight.sources(light_TSC, hole_TS)
    relit = relight.relight_in_turn(light_TSC, hole_TS, own_TS, TABLES, known)
    share_S = shares(doubt(relit, known, hole_TS, own_TS), own_TS.shape[1])
    used = own_TS.any(0)
    share = float(share_S[used].mean()) if used.any() else 0.0
    mended = relit.copy()
    for part in _parts(share_S > 0):
        there = learned.mend(relit, known, hole_TS, own_TS, floor, model, part)
        mended[:, part] += share_S[part, None] * (there - relit[:, part])
    return mended, {"two-bank": round(1.0 - share, 4), "learned": round(share, 4)}


def doubt(relit_TSC: Array, known: BankLight, hole_TS: Bools, own_TS: Bools) -> Array:
    """How far the tables' paint is from the face joined across the groove, of each stretch (n stretches).

    Root mean square of log light in the matte. The two agree where banks are smooth; they part where texture, an edge
    or a fold runs under the matte, where one profile does not tell a groove from a face. Of what is known before the
    network is asked this foretells best what it mends (docs/research/clean-plates.md).
    """
    n_columns = own_TS.shape[1]
    row, column = np.divmod(np.flatnonzero(own_TS & hole_TS), n_columns)
    base = relit_TSC.reshape(-1, 4).take(row * n_columns + column, axis=0)
    at = row * (3 * n_columns) + column + n_columns * np.arange(3)[:, None]
    plate, face = (field.reshape(-1).take(at).sum(0) for field in (known.own, known.face))
    gap = (base[:, :3].sum(1) + base[:, 3] * plate - face) * np.float32(1 / 3)
    return np.asarray(np.sqrt(_means(gap * gap, column, n_columns)))


def _means(values_N: Array, column_N: Array, n_columns: int) -> Array:
    """Mean of some samples' values over each stretch; nought where it has none."""
    stretch, n = column_N // STRETCH, -(-n_columns // STRETCH)
    counts = np.bincount(stretch, minlength=n)
    return np.asarray(np.bincount(stretch, values_N, n) / np.maximum(counts, 1))


def per_stretch(field_TS: Array, wanted_TS: Bools, *, total: bool = False) -> Array:
    """Mean of a field over the wanted samples of each stretch (n stretches), or their sum."""
    n = -(-field_TS.shape[1] // STRETCH)
    wide = ((0, 0), (0, n * STRETCH - field_TS.shape[1]))
    sums, counts = (
        np.pad(values, wide).reshape(len(field_TS), n, STRETCH).sum((0, 2))
        for values in (field_TS * wanted_TS, wanted_TS)
    )
    return np.asarray(sums if total else sums / np.maximum(counts, 1))


def shares(doubts: Array, n_columns: int) -> Array:
    """The network's share (S,) of each column: 0 up to EASY doubt, MOST from HARD, straight lines between stretches."""
    ramp = MOST * np.clip((doubts - EASY) / (HARD - EASY), 0.0, 1.0)
    middles = STRETCH * (np.arange(len(doubts)) + 0.5) - 0.5
    return np.interp(np.arange(n_columns), middles, ramp).astype(np.float32)


def _parts(wanted_S: Bools) -> list[slice]:
    """Runs of columns; those that stand nearer to each other than what each would be shown beside it are one."""
    around = np.ones((2 * learned.CONTEXT + 1, 1), np.uint8)
    runs = cv2.morphologyEx(np.pad(wanted_S.astype(np.uint8), learned.CONTEXT)[:, None], cv2.MORPH_CLOSE, around)[:, 0]
    edges = np.flatnonzero(np.diff(np.r_[0, runs[learned.CONTEXT : -learned.CONTEXT].astype(np.int8), 0]))
    return [slice(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


METHODS: Mapping[str, Relight] = MappingProxyType({"auto": automatic, "two-bank": two_bank, "learned": by_network})
