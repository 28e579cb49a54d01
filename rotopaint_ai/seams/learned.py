"""The learned fill: a small network looks at the straightened seam and says what to make of every sample.

It sees whole stretches of the ribbon where `light` sees one profile at a time, and mends what the tables of `light`
made of them: it answers with shares of their paint, of the plate itself, of the face joined across the groove and of
the two banks, and an offset per colour. Everything it sees is log light against the banks', so exposure and HDR drop
out.

    fill.onnx   `strip` float32 [N, T, S, 11], T and S multiples of 4 -> `answer` [N, T, S, 7]

N batch, T rows across, S columns along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import light
from rotopaint_ai.seams.light import Sources

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
FillModel = Callable[[Array], Array]  # strips to answers

N_CHANNELS = 11
N_ANSWERS = 7
MULTIPLE = 4
CONTEXT = 16  # columns that a stretch is shown beside its own
_LIMIT = 3.0


def strip_of(known: Sources, relit_TSC: Array, hole_TS: Bools, floor: float, columns: slice = slice(None)) -> Array:
    """What the network sees of some columns of a ribbon: (T, s, 11).

    Plate, joined face and the tables' paint against the banks' light (3 + 3 + 3), the matte, and how far the banks'
    light is above the floor. relit_TSC: (T, S, 4), base and keep, as `light.relight` gives them.
    """
    own, face, banks = (field[..., columns].transpose(0, 2, 1) for field in (known.own, known.face, known.banks))
    relit = relit_TSC[:, columns]
    strip = np.empty((*own.shape[:2], N_CHANNELS), np.float32)
    np.subtract(own, banks, out=strip[..., 0:3])
    np.subtract(face, banks, out=strip[..., 3:6])
    np.subtract(relit[..., :3] + relit[..., 3:] * own, banks, out=strip[..., 6:9])
    strip[..., 9] = hole_TS[:, columns]
    strip[..., 10] = np.float32(0.25) * (banks.mean(2) - np.float32(np.log(floor)))
    return np.clip(strip, -_LIMIT, _LIMIT, out=strip)


def padded(strip_TSC: Array) -> Array:
    """A strip with its edges repeated until both sides are multiples of 4."""
    n_rows, n_columns = strip_TSC.shape[:2]
    return np.pad(strip_TSC, ((0, -n_rows % MULTIPLE), (0, -n_columns % MULTIPLE), (0, 0)), "edge")


def mend(
    relit_TSC: Array, known: Sources, hole_TS: Bools, own_TS: Bools, floor: float, model: FillModel, columns: slice
) -> Array:
    """What to make of a stretch of columns, (T, s, 4) as `light.relight` gives it, by the network.

    It is shown CONTEXT columns on either side, on the same grid of MULTIPLE columns wherever the stretch begins.
    """
    first = max(0, columns.start - CONTEXT) // MULTIPLE * MULTIPLE
    last = min(own_TS.shape[1], columns.stop + CONTEXT)
    strip = strip_of(known, relit_TSC, hole_TS, floor, slice(first, last))
    answer = model(padded(strip)[None])[0][: len(own_TS), columns.start - first : columns.stop - first]
    own = own_TS[:, columns]
    at = np.flatnonzero(own)
    face, banks = (light.colours(np.ascontiguousarray(field[..., columns]), at) for field in (known.face, known.banks))
    return mixed(answer.reshape(-1, N_ANSWERS)[at].T.copy(), relit_TSC[:, columns], face, banks, own)


def mixed(answer: Array, relit_TSC: Array, face: Array, banks_light: Array, own_TS: Bools) -> Array:
    """Base and keep (T, S, 4) from answers (7, N), the tables' base and keep and the two fills (C, N) in `own_TS`."""
    shares = np.exp(np.clip(answer[:4] - answer[:4].max(0), -30.0, 0.0))
    shares /= shares.sum(0)
    out = relit_TSC.reshape(-1, 4).copy()
    at = np.flatnonzero(own_TS)
    table = out[at].T
    base = np.empty_like(table)
    base[:3] = answer[4:] + shares[0] * table[:3] + shares[2] * face + shares[3] * banks_light
    base[3] = shares[0] * table[3] + shares[1]
    out[at] = base.T
    return out.reshape(relit_TSC.shape)
