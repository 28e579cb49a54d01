"""The learned fill: a small network reads the straightened seam and predicts base and keep of every sample.

`relight` sees one profile at a time; the network sees the whole ribbon and corrects the paint of `relight`'s tables.
Its output is the weights of four sources (the tables' paint, the plate, the face interpolated across the groove, the
two banks interpolated) and an offset per colour. All inputs are log light relative to the banks', so exposure and HDR
drop out.

    fill.onnx   `strip` float32 [N, T, S, 12], T and S multiples of 4 -> `answer` [N, T, S, 7]

Older model files use the first 11 channels of a strip.

N batch, T rows across, S columns along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.relight import BankLight

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
LearnedFill = Callable[[Array], Array]  # strips to answers

N_CHANNELS = 12
N_ANSWERS = 7
MULTIPLE = 4
ROWS = 32  # least number of rows of the network's input, as in training
BESIDE = 5  # least number of rows on either side of the matte in the network's input
_LIMIT = 3.0
_DISTANCE_UNIT = 8  # rows from the curve that count as 1
TRACE = 0.05  # a weight of the plate up to this leaves a hairline visible on smooth skin
_ALL = slice(None)


def strip_of(known: BankLight, relit_TSC: Array, hole_TS: Bools, floor: float, rows: slice = _ALL) -> Array:
    """The network's input for some rows of a ribbon: (t, S, 12).

    Relative to the banks' light: plate, interpolated face, and the tables' paint (3 + 3 + 3); then the matte, the
    banks' light above the floor, and each row's distance from the curve. relit_TSC: (T, S, 4), base and keep, as in
    `relight.relight_in_turn`.
    """
    own, face, banks = (field[rows].transpose(1, 0, 2) for field in (known.own, known.face, known.banks))
    relit = np.ascontiguousarray(relit_TSC[rows])
    table = cv2.transpose(relit.reshape(-1, 4)).reshape(4, *relit.shape[:2])
    planes: Array = np.empty((N_CHANNELS, *relit.shape[:2]), np.float32)
    np.subtract(own, banks, out=planes[0:3])
    np.subtract(face, banks, out=planes[3:6])
    np.multiply(table[3], own, out=planes[6:9])
    planes[6:9] += table[:3]
    planes[6:9] -= banks
    planes[9] = hole_TS[rows]
    planes[10] = banks[0] + banks[1] + banks[2]
    planes[10] *= np.float32(0.25 / 3)
    planes[10] -= np.float32(0.25 * np.log(floor))
    planes[11] = np.abs(np.arange(len(hole_TS)) - len(hole_TS) // 2)[rows, None] * np.float32(1 / _DISTANCE_UNIT)
    np.clip(planes, -_LIMIT, _LIMIT, out=planes)
    return np.asarray(cv2.transpose(planes.reshape(N_CHANNELS, -1)).reshape(*relit.shape[:2], N_CHANNELS))


def pad_strip(strip_TSC: Array, before: int, n_rows: int) -> Array:
    """Pad a strip by repeating its edges: `before` rows above, rows below up to `n_rows`, columns up to a multiple of
    4."""
    more = -strip_TSC.shape[1] % MULTIPLE
    around = (before, n_rows - before - len(strip_TSC)), (0, more), (0, 0)
    return np.pad(strip_TSC, around, "edge") if before or more or n_rows > len(strip_TSC) else strip_TSC


def rows_of(own_TS: Bools) -> tuple[slice, int, int]:
    """The rows of a ribbon for the network, the number of padded rows before them, and the total number of rows.

    The curve lies in the middle row, as in training.
    """
    n_ribbon = len(own_TS)
    centre, used = n_ribbon // 2, np.flatnonzero(own_TS.any(1))
    reach = max(int(np.abs(used - centre).max()), 0) + BESIDE if len(used) else 0
    n_rows = max(ROWS, -(-(2 * reach + 1) // MULTIPLE) * MULTIPLE)
    first = centre - n_rows // 2
    shown = slice(max(0, first), min(n_ribbon, first + n_rows))
    return shown, shown.start - first, n_rows


def mend(relit_TSC: Array, known: BankLight, hole_TS: Bools, own_TS: Bools, floor: float, model: LearnedFill) -> Array:
    """Base and keep (T, S, 4) of every sample, as in `relight.relight_in_turn`, corrected by the network."""
    rows, before, n_rows = rows_of(own_TS)
    strip = pad_strip(strip_of(known, relit_TSC, hole_TS, floor, rows), before, n_rows)
    at = np.flatnonzero(own_TS)
    row, column = np.divmod(at, own_TS.shape[1])
    place = (row - rows.start + before) * strip.shape[1] + column
    answer = cv2.transpose(model(strip[None])[0].reshape(-1, N_ANSWERS).take(place, axis=0))
    of_colour = row * (3 * own_TS.shape[1]) + column + own_TS.shape[1] * np.arange(3)[:, None]
    face, banks = (field.reshape(-1).take(of_colour) for field in (known.face, known.banks))
    return mix_answer(answer, relit_TSC, face, banks, own_TS)


def mix_answer(answer: Array, relit_TSC: Array, face: Array, banks_light: Array, own_TS: Bools) -> Array:
    """Base and keep (T, S, 4) from the network's answers (7, N), the tables' base and keep, and the two fills (C, N).

    Samples outside `own_TS` keep the tables' values. A small weight of the plate (up to `TRACE`) moves to the
    interpolated face; a larger one loses less.
    """
    shares = np.exp(np.clip(answer[:4] - answer[:4].max(0), -30.0, 0.0))
    shares /= shares.sum(0)
    traces = np.minimum(shares[1], TRACE * (1.0 - shares[1]))
    shares[1] -= traces
    shares[2] += traces
    out: Array = np.array(relit_TSC, np.float32)
    at = np.flatnonzero(own_TS)
    table = cv2.transpose(out.reshape(-1, 4).take(at, axis=0))
    table *= shares[0]
    table[:3] += answer[4:]
    table[:3] += shares[2] * face
    table[:3] += shares[3] * banks_light
    table[3] += shares[1]
    out.reshape(-1, 4)[at] = cv2.transpose(table)
    return out
